//! Tests of `[host.NAME]`: machines on which services run over ssh.

use super::{Study, allocate};
use prony_plan::service::Jail;
use prony_plan::{DiagnosticKind, HostObjection, ServiceAspect};

const PLAN: &str = r#"
baseline = { machine = "one" }
[factors]
machine = ["one", "two"]
[host.one]
ssh = "root@one"
[host.two]
ssh     = ["-p", "2222", "two"]
address = "10.0.0.2"
sudo    = true
dir     = "/var/tmp"
[host.unused]
ssh = "unused"
[service.app]
host    = "{{ machine }}"
listen  = "unix"
command = ["app-server", "{{ app.address }}"]
[service.web]
host    = "{{ machine }}"
needs   = ["app"]
command = ["not-installed-here", "{{ app.path }}", "{{ web.address }}"]
[load]
target = "web"
"#;

#[test]
fn a_host_of_the_plan_needs_no_agent() {
    let study = Study::new();
    let plan = study.read(PLAN).unwrap();
    assert!(!plan.needs_agents());
    let hosts = plan.ssh_hosts();
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["one", "two"], "only hosts that run services");
    let (one, two) = (hosts[0], hosts[1]);
    assert_eq!((one.destination.as_str(), one.ssh.len()), ("root@one", 0));
    assert_eq!(
        (one.address, one.sudo, one.dir.as_deref()),
        (None, false, None)
    );
    assert_eq!(two.destination, "two");
    assert_eq!(two.ssh, ["-p", "2222"]);
    assert_eq!(two.address, Some("10.0.0.2".parse().unwrap()));
    assert_eq!((two.sudo, two.dir.as_deref()), (true, Some("/var/tmp")));

    let wanted = plan.allocations(1).unwrap();
    assert!(wanted.iter().all(|it| it.host.as_deref() == Some("two")));
    let resolved = plan.resolve(1, &allocate(&wanted)).unwrap();
    assert_eq!(resolved.services[1].host.as_deref(), Some("two"));

    // A name that the plan doesn't define is an agent's.
    let agents = PLAN.replace("\"two\"]\n[host", "\"three\"]\n[host");
    let plan = study.read(&agents).unwrap();
    assert!(plan.needs_agents());
    assert_eq!(plan.ssh_hosts().len(), 1);
}

#[test]
fn objections_of_a_host_have_the_plans_line() {
    let plan = Study::new().read(PLAN).unwrap();
    let mut asked = Vec::new();
    let errors = plan.check_ssh_hosts(&mut |host, spec| {
        asked.push(format!("{host} {}", spec.name));
        let refuses = host == "two" && spec.name == "web";
        let objection = refuses.then(|| HostObjection {
            aspect: ServiceAspect::Command,
            kind: DiagnosticKind::NotInstalled,
            message: "no".to_owned(),
            hint: None,
        });
        objection.into_iter().collect()
    });
    let errors = errors.unwrap_err();
    let lines: Vec<_> = errors.iter().map(|it| it.line).collect();
    assert_eq!(lines, [Some(21)]);
    assert_eq!(asked, ["one app", "one web", "two app", "two web"]);
    // Agents are not asked about these services.
    plan.check_hosts(&mut |wanted| panic!("{wanted:?}"))
        .unwrap();
}

#[test]
fn wrong_hosts_are_reported() {
    let study = Study::new();
    let says = |from: &str, to: &str| {
        let text = PLAN.replacen(from, to, 1);
        assert_ne!(text, PLAN, "{from}");
        study.diagnostics(&text).join("\n")
    };
    for (from, to, message) in [
        (
            "[host.one]",
            "[host.local]",
            "has a name that a host can't have",
        ),
        (
            "[host.one]",
            "[host.\"o n e\"]",
            "has a name that a host can't have",
        ),
        ("ssh = \"root@one\"", "", "host \"one\" has no ssh"),
        (
            "\"root@one\"",
            "\"-oProxyCommand=x\"",
            "not an ssh destination",
        ),
        (
            "\"root@one\"",
            "\"root@one -p 22\"",
            "not an ssh destination",
        ),
        ("\"root@one\"", "[]", "not an ssh destination"),
        ("\"root@one\"", "\"{{ machine }}\"", "contains a template"),
        ("\"10.0.0.2\"", "\"bsd1\"", "not an IP address of a machine"),
        (
            "\"10.0.0.2\"",
            "\"0.0.0.0\"",
            "not an IP address of a machine",
        ),
        ("\"/var/tmp\"", "\"tmp\"", "not an absolute path"),
        (
            "sudo    = true",
            "sudo = \"please\"",
            "sudo of host \"two\"",
        ),
        ("sudo    = true", "user = \"me\"", "user"),
        (
            "listen  = \"unix\"",
            "place = \"namespace\"",
            "runs over ssh, but its place",
        ),
        (
            "listen  = \"unix\"",
            "memory = \"64M\"",
            "memory can't be limited",
        ),
        ("listen  = \"unix\"", "cwd = \"site\"", "relative path"),
        (
            "needs   = [\"app\"]",
            "image = \"nginx\"",
            "runs on another machine",
        ),
    ] {
        let said = says(from, to);
        assert!(said.contains(message), "{to}: {said}");
    }
    // A UNIX socket is reached only from its own machine.
    let elsewhere = PLAN.replacen("host    = \"{{ machine }}\"\nneeds", "needs", 1);
    let said = study.diagnostics(&elsewhere).join("\n");
    assert!(said.contains("UNIX socket on host \"one\""), "{said}");
}

#[test]
fn a_service_of_a_host_can_run_in_a_jail() {
    let study = Study::new();
    let jail_of = |place: &str| {
        let text = PLAN.replacen("needs   =", &format!("place = \"{place}\"\nneeds ="), 1);
        let plan = study.read(&text).unwrap();
        let wanted = plan.allocations(0).unwrap();
        let resolved = plan.resolve(0, &allocate(&wanted)).unwrap();
        assert_eq!(wanted[1].jail, resolved.services[1].spec.jail);
        wanted[1].jail.clone()
    };
    assert_eq!(jail_of("native"), None);
    assert_eq!(
        jail_of("jail:web-1.x"),
        Some(Jail::Existing("web-1.x".to_owned()))
    );
    assert_eq!(
        jail_of("jail:/usr/jails/w"),
        Some(Jail::Root("/usr/jails/w".to_owned()))
    );

    let says = |from: &str, to: &str| study.diagnostics(&PLAN.replacen(from, to, 1)).join("\n");
    for bad in ["jail:", "jail:7", "jail:a b", "jail:-x", "jail:web/x"] {
        let said = says("needs   =", &format!("place = \"{bad}\"\nneeds ="));
        assert!(said.contains("not a jail"), "{bad}: {said}");
    }
    let local = says(
        "host    = \"{{ machine }}\"\nneeds   =",
        "place = \"jail:web\"\nneeds =",
    );
    assert!(local.contains("its host is no [host.NAME]"), "{local}");
}
