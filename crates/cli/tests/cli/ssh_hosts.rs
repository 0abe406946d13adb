//! Experiments whose services run over ssh, on a server that acts as another machine.
//!
//! The tests need the client and server of OpenSSH, python3, and the servers of the studies.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::running::{Running, TEST_TIMEOUT, Workdir};
use crate::sshd::{Sshd, sessions_of};

const PLAN: &str = r#"
baseline = { size = "small" }
[trials]
blocks = 2
warmup = "0s"
duration = "300ms"
[factors]
size = [{ name = "small", bytes = 10 }, { name = "large", bytes = 5000 }]
[host.far]
ssh = SSH
dir = "DIR"
[service.web]
host = "far"
command = ["python3", "{{ web.files['server.py'] }}", "{{ web.host }}", "{{ web.port }}", "{{ size.bytes }}"]
ready = { get = "/" }
[service.web.files]
"server.py" = { copy = "server.py" }
[load]
target = "web"
connections = 2
bodies = "may-differ"
"#;

const SERVER: &str = "import http.server,sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version='HTTP/1.1'
    def do_GET(self):
        body=b'x'*int(sys.argv[3])
        self.send_response(200)
        self.send_header('Content-Length',str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self,*_): pass
print('ready',flush=True)
http.server.ThreadingHTTPServer((sys.argv[1],int(sys.argv[2])),Handler).serve_forever()
";

/// An ssh server, a folder of temporary files at its end, and a plan that uses both.
struct Far {
    workdir: Workdir,
    sshd: Sshd,
}

impl Far {
    fn start() -> Far {
        let far = Far {
            workdir: Workdir::new(),
            sshd: Sshd::start(),
        };
        std::fs::create_dir(far.workdir.path("tmp")).unwrap();
        far.workdir.write("server.py", SERVER);
        let dir = far.workdir.path("tmp").display().to_string();
        let plan = PLAN.replace("SSH", &far.ssh()).replace("DIR", &dir);
        far.workdir.write("plan.toml", &plan);
        far
    }

    /// Returns the arguments of ssh as a value of a plan.
    fn ssh(&self) -> String {
        format!("{:?}", self.sshd.arguments())
    }

    fn change(&self, from: &str, to: &str) {
        let plan = self.workdir.read("plan.toml");
        assert!(plan.contains(from), "{from}");
        self.workdir.write("plan.toml", &plan.replace(from, to));
    }

    /// Waits until the sessions have ended and the folder of temporary files is empty.
    fn assert_is_clean(&self) {
        let began = Instant::now();
        loop {
            let sessions = sessions_of(self.sshd.process.0.id());
            let files = crate::running::names(&self.workdir.path("tmp"));
            let servers = servers_in(&self.workdir.path("tmp"));
            if sessions.is_empty() && files.is_empty() && servers.is_empty() {
                return;
            }
            assert!(
                began.elapsed() < TEST_TIMEOUT,
                "left: {sessions:?} {files:?} {servers:?}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns the processes whose command line names a folder.
fn servers_in(folder: &Path) -> Vec<String> {
    let folder = folder.display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap();
    let commands = processes.filter_map(|process| {
        let command = std::fs::read(process.ok()?.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        (command.contains("server.py") && command.contains(&folder)).then_some(command)
    });
    commands.collect()
}

#[test]
fn an_experiment_measures_a_service_on_another_machine() {
    let far = Far::start();
    let workdir = &far.workdir;
    let dry = workdir
        .run(&["compare", "plan.toml", "--dry-run"])
        .expect(0);
    assert!(
        dry.out.contains("machines over ssh:\n  far: ssh ssh://"),
        "{}",
        dry.out
    );
    assert!(dry.out.contains("(on host far)"), "{}", dry.out);
    far.assert_is_clean();

    let output = workdir.run(&["compare", "plan.toml", "--out", "out"]);
    assert!(
        matches!(output.status, 0 | 1),
        "{}{}",
        output.out,
        output.err
    );
    for trial in crate::running::names(&workdir.path("out/trials")) {
        let log = workdir.read(&format!("out/trials/{trial}/web.log"));
        assert!(log.starts_with("ready\n"), "{trial}: {log}");
        let telemetry = workdir.read(&format!("out/trials/{trial}/telemetry.csv"));
        assert!(telemetry.contains("service:web"), "{telemetry}");
    }
    assert_eq!(crate::running::names(&workdir.path("out/trials")).len(), 4);
    let environment = workdir.json("out/environment.json");
    let far_facts = &environment["hosts"]["far"];
    assert_eq!(
        far_facts["kernel"], environment["machine"]["kernel"],
        "{environment}"
    );
    assert!(
        environment.to_string().contains("Python 3"),
        "{environment}"
    );
    far.assert_is_clean();
}

#[test]
fn machines_are_checked_before_the_first_trial() {
    let far = Far::start();
    let run = |status: i32| {
        let output = far.workdir.run(&["compare", "plan.toml", "--out", "out"]);
        let output = output.expect(status);
        assert!(!far.workdir.path("out/trials").exists(), "{}", output.err);
        far.assert_is_clean();
        output.err
    };
    far.change("[\"python3\"", "[\"not-a-program\"");
    far.change("ready =", "cores = \"0,4095\"\nready =");
    let said = run(2);
    let program = "plan.toml:14: host far, service \"web\": program \"not-a-program\" was not found \
                   there (install it on that machine";
    assert!(said.contains(program), "{said}");
    let cores = "plan.toml:15: host far, service \"web\": core 4095 is not available there";
    assert!(said.contains(cores), "{said}");

    let port = far.sshd.port.to_string();
    far.change(&format!(":{port}\""), ":1\"");
    let said = run(3);
    assert!(said.contains("plan.toml:9: host far: "), "{said}");
    assert!(said.contains("refused"), "{said}");
}

#[test]
fn an_interrupt_stops_the_service_and_fetches_its_log() {
    let far = Far::start();
    far.change("duration = \"300ms\"", "duration = \"100s\"");
    let running = into_load(&far);
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    let trials = crate::running::names(&far.workdir.path("out/trials"));
    let log = far
        .workdir
        .read(&format!("out/trials/{}/web.log", trials[0]));
    assert!(log.starts_with("ready\n"), "{log}{}", output.err);
    far.assert_is_clean();
}

/// Starts the plan, and waits until the service of its first trial listens.
fn into_load(far: &Far) -> Running {
    let args = [
        "compare",
        "plan.toml",
        "--out",
        "out",
        "--progress",
        "lines",
    ];
    let mut running = Running::start(far.workdir.command(&args));
    running.wait_for("forecast");
    let began = Instant::now();
    while !is_ready(&far.workdir.path("tmp")) {
        assert!(began.elapsed() < TEST_TIMEOUT, "no service was started");
        std::thread::sleep(Duration::from_millis(10));
    }
    running
}

/// Returns true if the log of a service contains the server's first line.
fn is_ready(folder: &Path) -> bool {
    let sessions = std::fs::read_dir(folder).unwrap().flatten();
    let files = sessions.filter_map(|session| std::fs::read_dir(session.path()).ok());
    let mut logs = files.flatten().flatten().map(|file| file.path());
    logs.any(|path| {
        let is_log = path.extension().is_some_and(|it| it == "log");
        is_log && std::fs::read_to_string(path).is_ok_and(|log| log.starts_with("ready"))
    })
}

#[test]
fn a_connection_lost_in_a_trial_is_a_finding_and_the_next_trial_connects_again() {
    let far = Far::start();
    far.change("duration = \"300ms\"", "duration = \"4s\"");
    let running = into_load(&far);
    std::thread::sleep(Duration::from_secs(1));
    let server = far.sshd.process.0.id();
    let path = format!("/proc/{server}/task/{server}/children");
    for pid in std::fs::read_to_string(path).unwrap().split_whitespace() {
        let pid = rustix::process::Pid::from_raw(pid.parse().unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
    }
    let output = running.end();
    assert!(
        output
            .out
            .contains("The ssh connection to host far was lost"),
        "{}{}",
        output.out,
        output.err
    );
    assert_eq!(
        crate::running::names(&far.workdir.path("out/trials")).len(),
        4
    );
    far.assert_is_clean();
}

#[test]
fn a_killed_prony_leaves_nothing_at_any_moment() {
    let far = Far::start();
    let args = ["compare", "plan.toml", "--out", "out"];
    for round in 0..10_u64 {
        let _ = std::fs::remove_dir_all(far.workdir.path("out"));
        let running = Running::start(far.workdir.command(&args));
        // Moments from the connection to the second block.
        let moment = 37 * round * round + 11 * u64::from(far.sshd.port) % 97;
        std::thread::sleep(Duration::from_millis(moment));
        running.signal(Signal::KILL);
        running.end();
        far.assert_is_clean();
    }
}

/// Runs the plan for two hosts of a study, with shorter trials, against the ssh server.
fn run_study(name: &str, host: &str, changes: &[(&str, &str)]) {
    let far = Far::start();
    let studies = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies");
    let folder: PathBuf = far.workdir.path(name);
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([studies.join(name), folder.clone()])
        .status();
    assert!(copied.unwrap().success());
    let plan = folder.join("two-hosts.toml");
    let mut text = std::fs::read_to_string(&plan).unwrap();
    let ssh = format!("{}\ndir = {:?}", far.ssh(), far.workdir.path("tmp"));
    let destination = format!("\"root@{host}\"");
    for (from, to) in changes
        .iter()
        .copied()
        .chain([(destination.as_str(), ssh.as_str())])
    {
        assert!(text.contains(from), "{name} no longer has {from}");
        text = text.replacen(from, to, 1);
    }
    std::fs::write(&plan, text).unwrap();
    let args = [
        "compare",
        plan.to_str().unwrap(),
        "--blocks",
        "1",
        "--out",
        "out",
    ];
    let output = far.workdir.run(&args);
    assert!(
        matches!(output.status, 0 | 1),
        "{}{}",
        output.out,
        output.err
    );
    let trials = crate::running::names(&far.workdir.path("out/trials"));
    assert_eq!(trials.len(), 2, "{}", output.err);
    for trial in trials {
        let record = far.workdir.json(&format!("out/trials/{trial}/record.json"));
        assert!(
            record["totals"]["ok"].as_u64() > Some(10),
            "{trial}: {record}"
        );
        assert_eq!(
            record["totals"]["failed"], 0,
            "{trial}: {}",
            record["outcomes"]
        );
    }
    far.assert_is_clean();
}

#[test]
fn openssl_build_runs_on_two_hosts() {
    let changes = [
        ("requests     = 3000", "requests = 60"),
        ("connections  = 300", "connections = 20"),
    ];
    run_study("openssl-build", "server", &changes);
}

#[test]
fn apache_clients_runs_on_two_hosts() {
    let changes = [
        ("warmup   = \"4s\"", "warmup = \"500ms\""),
        ("duration = \"10s\"", "duration = \"1s\""),
        ("cores = 4", "cores = 1"),
    ];
    run_study("apache-clients", "linux1", &changes);
}

#[test]
fn gunicorn_sockets_runs_on_two_hosts() {
    let changes = [
        ("warmup   = \"3s\"", "warmup = \"500ms\""),
        ("duration = \"30s\"", "duration = \"1s\""),
    ];
    run_study("gunicorn-sockets", "server", &changes);
}
