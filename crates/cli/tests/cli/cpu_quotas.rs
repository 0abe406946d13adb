//! Loads below a CPU quota of a real control group. The tests need root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::Value;

use crate::running::{Origin, TEST_TIMEOUT, Workdir};

/// A quota in microseconds per period of 100 ms: 2% of a core. It is so small that a process reaches
/// it even if other tests leave it little of a core.
const QUOTA_US: &str = "2000";

/// A control group with a quota. Dropping it removes it.
struct Group(PathBuf);

impl Group {
    /// Creates the group, in whichever version has the CPU controller; `None` if this machine
    /// doesn't let the test do so, as in most containers.
    fn with_quota(name: &str) -> Option<Group> {
        let name = format!("prony-test-{name}-{}", std::process::id());
        let roots = ["cpu", "cpu,cpuacct", "."].map(|it| Path::new("/sys/fs/cgroup").join(it));
        roots.iter().find_map(|root| {
            let group = Group(root.join(&name));
            fs::create_dir(&group.0).ok()?;
            let one = fs::write(group.0.join("cpu.cfs_quota_us"), QUOTA_US);
            let two = || fs::write(group.0.join("cpu.max"), format!("{QUOTA_US} 100000"));
            one.or_else(|_| two()).ok()?;
            Some(group)
        })
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let began = Instant::now();
        while fs::remove_dir(&self.0).is_err() && self.0.exists() {
            if began.elapsed() > TEST_TIMEOUT {
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// Runs prony in a group.
fn run_in(group: &Group, workdir: &Workdir, args: &[&str]) -> String {
    let processes = group.0.join("cgroup.procs");
    let mut command = workdir.command(args);
    // SAFETY: the closure only writes to a file.
    unsafe {
        command.pre_exec(move || fs::write(&processes, "0"));
    }
    let output = command.output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

fn finding<'a>(record: &'a Value, id: &str) -> Option<&'a Value> {
    let findings = record["findings"].as_array().unwrap();
    findings.iter().find(|finding| finding["id"] == id)
}

#[test]
fn a_quota_that_stops_the_generator_is_its_limit() {
    let Some(group) = Group::with_quota("generator") else {
        eprintln!("not tested: no control group with a CPU quota can be created here");
        return;
    };
    let workdir = Workdir::new();
    let origin = Origin::tcp(&workdir);
    let args = [
        "load",
        "-c",
        "4",
        "-d",
        "2s",
        "--json",
        "r.json",
        &origin.url("/"),
    ];
    let printed = run_in(&group, &workdir, &args);
    let record = workdir.json("r.json");
    assert_eq!(record["generator"]["throttling"]["quota_cores"], 0.02);
    let throttled = finding(&record, "generator-throttled").expect(&printed);
    assert_eq!(throttled["severity"], "error");
    let text = throttled["text"].as_str().unwrap();
    assert!(
        text.contains("of the periods of its CPU quota (") && text.contains("0.02 cores"),
        "{text}"
    );
    assert!(finding(&record, "cpu-quota").is_some(), "{printed}");
    assert!(finding(&record, "generator-starved").is_none(), "{printed}");

    let printed = run_in(&group, &workdir, &["doctor", "--json", "d.json", "--all"]);
    let doctor = workdir.json("d.json");
    let checks = doctor["subjects"][0]["lines"].as_array().unwrap();
    let quota = checks
        .iter()
        .find(|check| check["id"] == "generator-cpu-quota");
    let seen = quota.expect(&printed)["seen"].as_str().unwrap();
    assert!(
        seen.starts_with("0.02 cores for the control group /"),
        "{seen}"
    );
}

#[test]
fn a_quota_of_the_plan_that_throttles_a_server_is_a_finding_about_it() {
    if Group::with_quota("server").is_none() {
        eprintln!("not tested: no control group with a CPU quota can be created here");
        return;
    }
    let workdir = Workdir::new();
    let plan = r#"
baseline = { cpu = "unlimited" }
[factors]
cpu = ["unlimited", 0.02]
[service.web]
command = ["prony", "origin", "--listen", "{{ web.address }}"]
cpu = "{{ cpu }}"
[load]
target = "web"
connections = 2
duration = "1s"
warmup = "0s"
"#;
    workdir.write("plan.toml", plan);
    let args = [
        "compare",
        "plan.toml",
        "--blocks",
        "3",
        "--interleave",
        "off",
        "--out",
        "run",
    ];
    let printed = workdir.run(&args);
    let verdict = workdir.json("run/verdict.json");
    let found = finding(&verdict, "service-throttled").expect(&printed.err);
    let text = found["text"].as_str().unwrap();
    assert!(text.contains("Service \"web\" was throttled in"), "{text}");
    let trial = workdir.json("run/trials/1-0.02/trial.json");
    let value = |trial: &Value, name: &str| trial["values"][name].as_f64().unwrap();
    assert!(value(&trial, "server_throttled_share") > 0.0, "{trial}");
    assert!(value(&trial, "server_throttled_percent") > 0.0, "{trial}");
    let without = workdir.json("run/trials/1-unlimited/trial.json");
    assert_eq!(without["values"]["server_throttled_share"], 0.0);
    assert_eq!(without["values"]["server_throttled_percent"], 0.0);
}
