//! Dry runs of plans whose load ends after a fixed number of requests.

use rustix::process::Signal;

use crate::running::{CommandOutput, Origin, Running, Workdir};

/// Returns a plan with two variants of the built-in server, each loaded with `requests` requests.
/// `option` is appended to the server's command.
fn counted_plan(requests: u64, option: &str) -> String {
    format!(
        r#"
name     = "counted"
baseline = {{ socket = "unix" }}

[trials]
warmup = "50ms"

[factors]
socket = ["tcp", "unix"]

[service.origin]
command = ["prony", "origin", "--listen", "{{{{ origin.address }}}}"{option}]
listen  = "{{{{ socket }}}}"

[load]
target      = "origin"
connections = 2
requests    = {requests}
"#
    )
}

fn dry_run(workdir: &Workdir, more: &[&str]) -> CommandOutput {
    let output = workdir.run(&[&["compare", "counted.toml", "--dry-run"], more].concat());
    assert_eq!(workdir.left_running(), Vec::<String>::new());
    assert_eq!(workdir.names(), ["counted.toml"]);
    output
}

#[test]
fn requests_are_forecast_by_a_probe() {
    let workdir = Workdir::new();
    workdir.write("counted.toml", &counted_plan(20_000_000, ""));
    let output = dry_run(&workdir, &["--progress", "lines"]).expect(0);
    for part in [
        "measures 20,000,000 requests after ",
        "; about ",
        " at most, estimated from a probe of 1",
        " s per variant\n",
    ] {
        assert!(output.out.contains(part), "{part}: {}", output.out);
    }
    for line in ["probe 1 of 2: socket = tcp", "probe 2 of 2: socket = unix"] {
        assert!(output.err.contains(line), "{line}: {}", output.err);
    }
    let output = dry_run(&workdir, &["--no-precheck"]).expect(0);
    let why = "time unknown: the load ends after a set number of requests, and --no-precheck skips";
    assert!(output.out.contains(why), "{}", output.out);
    assert!(!output.out.contains("about "), "{}", output.out);
    assert_eq!(output.err, "");
}

#[test]
fn a_service_that_does_not_start_in_a_probe_is_reported_with_its_log() {
    let workdir = Workdir::new();
    workdir.write("counted.toml", &counted_plan(100, ", \"--nonsense\""));
    let output = dry_run(&workdir, &[]).expect(3);
    let failure = "prony: variant socket = tcp: service \"origin\" ended before it was ready";
    assert!(output.err.contains(failure), "{}", output.err);
    assert!(output.err.contains("  origin | "), "{}", output.err);
    assert!(output.err.contains("--nonsense"), "{}", output.err);
    let why = "time unknown: the probe could not load every variant";
    assert!(output.out.contains(why), "{}", output.out);
}

#[test]
fn requests_that_may_change_data_and_running_servers_are_not_probed() {
    let workdir = Workdir::new();
    let plan = counted_plan(100, "") + "method = \"POST\"\n";
    workdir.write("counted.toml", &plan);
    let output = dry_run(&workdir, &[]).expect(0);
    assert!(output.out.contains("may change data"), "{}", output.out);
    let origin = Origin::tcp(&workdir);
    let url = origin.url("/");
    let output = workdir
        .run(&["compare", &url, &url, "-n", "100", "--dry-run"])
        .expect(0);
    let why = "time unknown: the load ends after a set number of requests";
    assert!(output.out.contains(why), "{}", output.out);
    let why = "prony does not start it";
    assert!(output.out.contains(why), "{}", output.out);
    assert_eq!(output.err, "");
}

#[test]
fn an_interrupt_during_a_probe_stops_the_services() {
    let workdir = Workdir::new();
    workdir.write("counted.toml", &counted_plan(1_000_000_000, ""));
    let args = ["compare", "counted.toml", "--dry-run"];
    let mut running = Running::start(workdir.command(&args));
    running.wait_for("probe 1 of 2");
    running.signal(Signal::INT);
    let output = running.end().expect(130);
    assert_eq!(output.out, "");
    assert!(output.err.contains("prony: interrupted"), "{}", output.err);
    assert_eq!(workdir.left_running(), Vec::<String>::new());
}
