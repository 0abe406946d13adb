//! Runs `prony doctor` against real servers. The tests need root, and the packages that `cargo
//! xtask test` installs.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use prony_machine::system::port;
use prony_plan::service::PortProtocol;
use serde_json::Value;

use crate::running::{TEST_TIMEOUT, Workdir};

/// A server process in the foreground. Dropping this value kills the server and its children.
struct Server(Child);

impl Server {
    /// Starts a system program in its own process group.
    fn start(
        workdir: &Workdir,
        program: &str,
        args: &[&str],
        variables: &[(&str, &str)],
    ) -> Server {
        let child = Command::new(program)
            .args(args)
            .envs(variables.iter().copied())
            .current_dir(workdir.path(""))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(workdir.path("server.err")).unwrap())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{program} (cargo xtask test installs it): {error}"));
        Server(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }

    /// Waits until the server has `children` child processes, because it has read its configuration
    /// by then.
    fn with_children(mut self, workdir: &Workdir, children: usize) -> Server {
        let path = format!("/proc/{0}/task/{0}/children", self.pid());
        let began = Instant::now();
        loop {
            let now = fs::read_to_string(&path).unwrap_or_default();
            if now.split_whitespace().count() >= children {
                return self;
            }
            let ended = self.0.try_wait().unwrap();
            let output = workdir.read("server.err");
            assert!(
                ended.is_none() && began.elapsed() < TEST_TIMEOUT,
                "{ended:?}: {output}"
            );
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// Starts nginx on a UNIX socket: the tests don't connect to it, and a socket can't conflict with
/// other ports.
fn nginx(workdir: &Workdir, variables: &[(&str, &str)]) -> Server {
    let text = format!(
        "daemon off; user root; pid {0}/pid; error_log stderr; worker_processes 2;\n\
         events {{ include events.conf; }}\n\
         http {{ access_log off; server {{ listen unix:{0}/web; return 200 x; }} }}\n",
        workdir.path("").display()
    );
    workdir.write("nginx.conf", &text);
    workdir.write("events.conf", "worker_connections 256;\n");
    let conf = workdir.path("nginx.conf");
    let args = ["-c", conf.to_str().unwrap()];
    Server::start(workdir, "/usr/sbin/nginx", &args, variables).with_children(workdir, 2)
}

/// Returns the doctor's report on a server, after checking it against the schema.
fn seen(workdir: &Workdir, pid: &str) -> Value {
    workdir
        .run(&["doctor", "--pid", pid, "--json", "seen.json"])
        .expect(0);
    let report = workdir.json("seen.json");
    let schema =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/prony.doctor-1.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(schema).unwrap()).unwrap();
    if let Err(error) = jsonschema::validate(&schema, &report) {
        panic!("{error}: {report:#}");
    }
    report["subjects"][0].clone()
}

/// Returns the level of the first finding with the given ID.
fn level<'s>(subject: &'s Value, id: &str) -> Option<&'s str> {
    line(subject, id)?["level"].as_str()
}

fn line<'s>(subject: &'s Value, id: &str) -> Option<&'s Value> {
    let lines = subject["lines"].as_array()?;
    lines.iter().find(|line| line["id"] == id)
}

#[test]
fn a_default_nginx_is_accelerated_and_its_settings_are_read() {
    let workdir = Workdir::new();
    let server = nginx(&workdir, &[]);
    let subject = seen(&workdir, &server.pid());
    let crypto = &subject["crypto"];
    let library = crypto["library"].as_str().unwrap();
    assert!(library.contains("libcrypto.so"), "{subject:#}");
    assert!(crypto["version"].as_str().unwrap().starts_with("OpenSSL "));
    // The system's libcrypto uses AES instructions if the processor has them.
    let has_aes = fs::read_to_string("/proc/cpuinfo")
        .unwrap()
        .contains(" aes");
    if has_aes {
        assert_eq!(crypto["acceleration"], "used", "{subject:#}");
        assert!(crypto["ratio"].as_f64().unwrap() > 2.0, "{subject:#}");
        assert_eq!(level(&subject, "crypto-accelerated"), Some("ok"));
    } else {
        assert_eq!(crypto["acceleration"], "not-on-this-processor");
    }
    let algorithms = crypto["speeds"].as_array().unwrap().len();
    assert_eq!(algorithms, 7, "{subject:#}");
    let connections = line(&subject, "nginx-worker-connections").unwrap();
    assert!(
        connections["seen"]
            .as_str()
            .unwrap()
            .starts_with("256 for each of 2 workers")
    );
    assert_eq!(connections["level"], "warning");
}

#[test]
fn a_masked_nginx_is_reported_despite_its_overwritten_environment() {
    if !fs::read_to_string("/proc/cpuinfo")
        .unwrap()
        .contains(" aes")
    {
        eprintln!("this processor has no AES instructions that could be masked");
        return;
    }
    let workdir = Workdir::new();
    let server = nginx(&workdir, &[("OPENSSL_ia32cap", "~0x200000200000000")]);
    let subject = seen(&workdir, &server.pid());
    let crypto = &subject["crypto"];
    assert_eq!(crypto["acceleration"], "masked", "{subject:#}");
    assert_eq!(level(&subject, "crypto-unaccelerated"), Some("error"));
    let aes = &crypto["speeds"][0];
    assert_eq!(aes["algorithm"], "aes-128-gcm");
    let rate = |state: &str| aes[state].as_f64().unwrap();
    assert!(rate("on") / rate("as_server") > 2.0, "{aes}");
    let text = workdir
        .run(&["doctor", "--pid", &server.pid()])
        .expect(0)
        .out;
    assert!(text.contains("crypto-unaccelerated: "), "{text}");
    assert!(text.contains("no AES-NI, no PCLMULQDQ"), "{text}");
}

#[test]
fn haproxy_s_and_apache_s_caps_are_named() {
    let workdir = Workdir::new();
    let text = format!(
        "global\n maxconn 77\n nbthread 1\n master-worker\ndefaults\n timeout client 1s\n timeout \
         connect 1s\n timeout server 1s\nfrontend web\n mode http\n bind unix@{}/haproxy\n",
        workdir.path("").display()
    );
    workdir.write("haproxy.cfg", &text);
    let args = ["-f", "haproxy.cfg"];
    let haproxy =
        Server::start(&workdir, "/usr/sbin/haproxy", &args, &[]).with_children(&workdir, 1);
    // A relative path is resolved in the server's working folder.
    let subject = seen(&workdir, &haproxy.pid());
    let maxconn = line(&subject, "haproxy-maxconn").unwrap_or_else(|| panic!("{subject:#}"));
    assert_eq!(
        (&maxconn["level"], &maxconn["seen"]),
        (&"warning".into(), &"77 in global".into())
    );
    drop(haproxy);

    let modules = "/usr/lib/apache2/modules";
    let text = format!(
        "ServerRoot {0}\nServerName x\nDefaultRuntimeDir {0}\nPidFile {0}/apache.pid\nListen 127.0.0.1:{1}\n\
         ErrorLog {0}/apache.log\n\
         LoadModule mpm_event_module {modules}/mod_mpm_event.so\n\
         LoadModule authz_core_module {modules}/mod_authz_core.so\nUser #65534\nGroup #65534\n\
         Include limits.conf\n",
        workdir.path("").display(),
        free_port(),
    );
    workdir.write("apache.conf", &text);
    workdir.write(
        "limits.conf",
        "ThreadsPerChild 10\nServerLimit 3\nMaxRequestWorkers 40\nStartServers 1\n",
    );
    let conf = workdir.path("apache.conf");
    let args = ["-DFOREGROUND", "-f", conf.to_str().unwrap()];
    let apache =
        Server::start(&workdir, "/usr/sbin/apache2", &args, &[]).with_children(&workdir, 1);
    let subject = seen(&workdir, &apache.pid());
    let workers =
        line(&subject, "apache-max-request-workers").unwrap_or_else(|| panic!("{subject:#}"));
    assert!(
        workers["seen"]
            .as_str()
            .unwrap()
            .starts_with("30 requests at the same time"),
        "{workers}"
    );
    assert_eq!(level(&subject, "apache-server-limit"), Some("warning"));
    // The report has no library, and no error: this server's modules don't need libcrypto.
    assert_eq!(subject["crypto"]["library"], Value::Null);
}

/// Returns a free port, because Apache supports neither port 0 nor UNIX sockets.
fn free_port() -> u16 {
    port::pick(Ipv4Addr::LOCALHOST.into(), &[PortProtocol::Tcp]).unwrap()
}

#[test]
fn a_missing_process_is_an_error() {
    let workdir = Workdir::new();
    let output = workdir.run(&["doctor", "--pid", "1073741824"]).expect(2);
    assert_eq!(output.out, "");
    assert!(
        output.err.contains("there is no process 1073741824"),
        "{}",
        output.err
    );
    for wrong in ["0", "-1", "nginx"] {
        workdir
            .run(&["doctor", &format!("--pid={wrong}")])
            .expect(2);
    }
}

#[test]
fn without_root_unreadable_settings_are_reported() {
    let workdir = Workdir::new();
    assert!(
        rustix::process::geteuid().is_root(),
        "this test starts a server as root and looks at it as nobody: run it as root"
    );
    let server = nginx(&workdir, &[]);
    // Copy the program to a folder that the user nobody can access.
    let program = Path::new("/tmp").join(format!("prony-doctor-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_prony"), &program).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let output = Command::new(&program)
        .args(["doctor", "--pid", &server.pid()])
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output();
    fs::remove_file(&program).unwrap();
    let output = output.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        output.status.code(),
        Some(0),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for hidden in [
        "the server's cryptography",
        "the server's listening sockets",
        "the settings in",
    ] {
        assert!(
            text.contains(&format!("unknown  {hidden}")),
            "{hidden}: {text}"
        );
    }
}

#[test]
fn this_machine_is_inspected_without_a_server() {
    let workdir = Workdir::new();
    let output = workdir.run(&["doctor", "--json", "-"]).expect(0);
    let report: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(report["schema"], "prony.doctor/1");
    let subjects = report["subjects"].as_array().unwrap();
    assert_eq!(
        (subjects.len(), &subjects[0]["kind"]),
        (1, &"machine".into())
    );
    let all = workdir.run(&["doctor", "--all"]).expect(0).out;
    assert!(all.contains("ok       ") && !all.contains("--all"), "{all}");
}
