//! Tests of the `[telemetry]` table, and of the telemetry of a trial.

use std::collections::BTreeMap;
use std::path::Path;

use super::{GOOD, Study, allocate};
use prony_plan::Plan;
use prony_plan::watch_spec::{CounterMode, WatchSpec};

/// Returns the processes and counters that the first variant of a plan requests from its host.
fn watch(plan: &Plan) -> WatchSpec {
    watch_of(plan, 0)
}

fn watch_of(plan: &Plan, variant: usize) -> WatchSpec {
    let allocated = allocate(&plan.allocations(variant).unwrap());
    let resolved = plan.resolve(variant, &allocated).unwrap();
    resolved.telemetry.watch(&resolved)
}

/// Returns a plan with two servers that are already running.
fn remote(service: &str, telemetry: &str) -> String {
    format!(
        "[factors]\nport = [8080, 8081]\n[service.far]\nremote = \"127.0.0.1:{{{{ port }}}}\"\n\
         {service}\n[load]\ntarget = \"far\"\n{telemetry}"
    )
}

#[test]
fn by_default_counters_are_read_by_core() {
    let watch = watch(&Study::new().read(GOOD).unwrap());
    assert_eq!(watch.counters, CounterMode::Cores);
    assert_eq!(watch.load_cores, [1]);
    assert!(watch.others.is_empty() && watch.remote.is_none());
}

#[test]
fn remote_services_are_sampled_on_the_given_machine() {
    let study = Study::new();
    let text = remote(
        "cgroup = \"web.slice\"",
        "[telemetry]\nremote = \"me@far\"\nssh = [\"-i\", \"key\"]\ncounters = \"off\"\n",
    );
    let watch = watch(&study.read(&text).unwrap());
    assert_eq!(watch.counters, CounterMode::Off);
    assert!(watch.others.is_empty());
    let machine = watch.remote.unwrap();
    assert_eq!(
        (machine.destination.as_str(), machine.ssh.len()),
        ("me@far", 2)
    );
    let far = &machine.services["far"];
    assert_eq!(far.port, Some(8080));
    assert_eq!(far.follow.cgroup.as_deref(), Some("web.slice"));
}

#[test]
fn each_variants_server_can_be_read_on_a_machine_of_its_own() {
    let text = remote(
        "",
        "[telemetry]\nremote = \"{% if port == 8080 %}me@near{% endif %}\"\nssh = [\"-v\"]\n",
    );
    let plan = Study::new().read(&text).unwrap();
    let near = watch_of(&plan, 0).remote.unwrap();
    assert_eq!(near.destination, "me@near");
    assert_eq!(watch_of(&plan, 1).remote, None);
}

#[test]
fn a_running_local_server_is_followed_by_its_pid_file() {
    let study = Study::new();
    let plan = study
        .read(&remote("pid_file = \"/run/far.pid\"", ""))
        .unwrap();
    let others: BTreeMap<_, _> = watch(&plan).others;
    assert_eq!(
        others["far"].pid_file.as_deref(),
        Some(Path::new("/run/far.pid"))
    );
    // Without a pid file, the server's processes are unknown.
    let plan = study.read(&remote("", "")).unwrap();
    assert!(watch(&plan).others.is_empty());
}

#[test]
fn a_service_can_be_followed_beyond_its_process_tree() {
    let study = Study::new();
    let text = GOOD.replace(
        "needs   = [\"app\"]",
        "needs   = [\"app\"]\npid_file = \"web.pid\"\ncgroup = \"\"",
    );
    let plan = study.read(&text).unwrap();
    let resolved = plan
        .resolve(0, &allocate(&plan.allocations(0).unwrap()))
        .unwrap();
    let web = resolved
        .services
        .iter()
        .find(|service| service.spec.name == "web")
        .unwrap();
    assert_eq!(web.spec.follow.pid_file, Some(study.path("web.pid")));
    assert_eq!(web.spec.follow.cgroup, None);
}

#[test]
fn profiles_include_servers_on_this_machine() {
    let telemetry = "[telemetry]\nprofile = true\nprofile_rate = 499\n";
    let watch = watch(&Study::new().read(&remote("", telemetry)).unwrap());
    assert_eq!(watch.profile_rate_hz, Some(499));
    assert_eq!(watch.listeners["far"], "127.0.0.1:8080");
    let off = "[telemetry]\nprofile = false\nprofile_rate = 499\n";
    let off = Study::new().read(&remote("", off)).unwrap();
    assert_eq!(watch_of(&off, 0).profile_rate_hz, None);
}

#[test]
fn problems_of_telemetry() {
    let study = Study::new();
    for (telemetry, said) in [
        ("counters = \"all\"", "\"all\""),
        (
            "remote = \"-oProxyCommand=x\"",
            "not a valid ssh destination",
        ),
        ("remote = \"a b\"", "not a valid ssh destination"),
        ("ssh = [\"-v\"]", "no remote machine"),
        ("host = \"a\"", "\"host\""),
        ("profile = \"yes\"", "profile is \"yes\""),
        ("profile_rate = 0", "profile_rate is 0"),
        ("profile_rate = 20000", "from 1 to 10000"),
    ] {
        let diagnostics = study.diagnostics(&remote("", &format!("[telemetry]\n{telemetry}\n")));
        assert!(
            diagnostics.iter().any(|text| text.contains(said)),
            "{telemetry}: {diagnostics:?}"
        );
    }
    let diagnostics = study.diagnostics(&remote("cgroup = \"a/../../b\"", ""));
    assert!(
        diagnostics
            .iter()
            .any(|text| text.contains("is outside the control group hierarchy")),
        "{diagnostics:?}"
    );
}
