//! Tests of services and loads on other machines: addresses, reachability, and messages.

use super::{Study, allocate};
use prony_plan::{DiagnosticKind, HostObjection, HostRequirement, ServiceAspect};

const PLAN: &str = r#"
baseline = { host = "one" }
[factors]
host = ["one", "role=server"]
[service.cache]
host    = "{{ host }}"
command = ["not-installed-here", "{{ cache.address }}"]
[service.app]
command = ["app-server", "{{ app.address }}"]
[service.web]
host    = "{{ host }}"
needs   = ["app", "cache"]
wrapper = ["taskset"]
command = ["/opt/web", "{{ app.address }}", "{{ cache.address }}"]
cores   = "7"
[load]
target = "web"
agents = 2
"#;

#[test]
fn services_used_by_other_machines_listen_on_reachable_addresses() {
    let study = Study::new();
    let plan = study.read(PLAN).unwrap();
    assert!(plan.needs_agents());
    let wanted = plan.allocations(1).unwrap();
    let of = |name: &str| {
        let of = wanted.iter().find(|wanted| wanted.service == name).unwrap();
        (of.host.as_deref(), of.exposed)
    };
    assert_eq!(of("cache"), (Some("role=server"), false));
    assert_eq!(of("app"), (None, true));
    assert_eq!(of("web"), (Some("role=server"), true));
    let resolved = plan.resolve(1, &allocate(&wanted)).unwrap();
    let mut services = resolved.services.iter();
    let web = services.find(|it| it.spec.name == "web").unwrap();
    // The program and the folder are not checked if the service runs on another machine.
    assert_eq!(web.spec.command[..2], ["taskset", "/opt/web"]);
    assert_eq!((web.spec.wrapper_words, web.spec.cores[0]), (1, 7));
    assert_eq!(web.spec.cwd.as_os_str(), "");
    assert_eq!(resolved.load.agents.as_deref(), Some("2"));

    // This machine compares response bodies even if an agent sends load to a service on the agent's
    // machine.
    let text = PLAN.replace("agents = 2", "agents = \"one\"");
    let wanted = study.read(&text).unwrap().allocations(0).unwrap();
    let web = wanted
        .iter()
        .find(|wanted| wanted.service == "web")
        .unwrap();
    assert_eq!((web.host.as_deref(), web.exposed), (Some("one"), true));

    let levels = r#"[{ name = "one", at = "" }, { name = "two", at = "local" }]"#;
    let mut here = PLAN.replace(r#"["one", "role=server"]"#, levels);
    for (from, to) in [
        ("{{ host }}", "{{ host.at }}"),
        ("agents = 2", ""),
        ("not-installed-here", "app-server"),
        ("wrapper = [\"taskset\"]", ""),
        ("/opt/web", "web-server"),
        ("cores   = \"7\"", ""),
    ] {
        here = here.replace(from, to);
    }
    assert!(!study.read(&here).unwrap().needs_agents());
}

#[test]
fn variants_that_differ_only_in_agents_are_different() {
    let study = Study::new();
    let notes = |levels: &str| {
        let text = PLAN.replace("[\"one\", \"role=server\"]", levels);
        let text = text.replace("host    = \"{{ host }}\"", "host    = \"one\"");
        let plan = study.read(&text.replace("agents = 2", "agents = \"{{ host.by }}\""));
        plan.unwrap().notes
    };
    let differ = notes("[{ name = \"one\", by = 1 }, { name = \"two\", by = 2 }]");
    assert_eq!(differ, <[String; 0]>::default());
    let same = notes("[{ name = \"one\", by = 2 }, { name = \"two\", by = 2 }]");
    assert_eq!(
        same,
        ["variants one and two have the same setup (an A/A comparison)"]
    );
}

#[test]
fn errors_from_agents_have_the_plans_line() {
    let study = Study::new();
    let plan = study.read(PLAN).unwrap();
    let mut asked = Vec::new();
    let objection = |aspect, message: &str| HostObjection {
        aspect,
        kind: DiagnosticKind::Machine,
        message: message.to_owned(),
        hint: None,
    };
    let errors = plan.check_hosts(&mut |wanted| match wanted {
        HostRequirement::Service { host, spec } => {
            asked.push(format!("{host} {}", spec.name));
            match spec.name.as_str() {
                "web" => vec![
                    objection(ServiceAspect::Wrapper, "no"),
                    objection(ServiceAspect::Host, "who"),
                ],
                _ => Vec::new(),
            }
        }
        HostRequirement::Load { agents, .. } => {
            vec![objection(ServiceAspect::Host, &format!("not {agents}"))]
        }
    });
    let errors = errors.unwrap_err();
    let lines: Vec<_> = errors
        .iter()
        .map(|it| (it.line.unwrap(), it.message.as_str()))
        .collect();
    assert_eq!(lines, [(11, "who"), (13, "no"), (18, "not 2")]);
    assert_eq!(
        asked,
        [
            "one cache",
            "one web",
            "role=server cache",
            "role=server web"
        ]
    );
}

#[test]
fn unreachable_services_and_missing_files_are_reported() {
    let study = Study::new();
    let says = |from: &str, to: &str| {
        let text = PLAN.replace(from, to);
        assert_ne!(text, PLAN);
        study.diagnostics(&text).join("\n")
    };
    let unneeded = says("needs   = [\"app\", \"cache\"]", "needs = [\"cache\"]");
    assert!(unneeded.contains("needs = [\"app\"]"), "{unneeded}");
    let socket = says(
        "{{ app.address }}\"]\n[service.web]",
        "x\"]\nlisten = \"unix\"\n[service.web]",
    );
    assert!(
        socket.contains("UNIX socket on this machine, but service \"web\" runs elsewhere"),
        "{socket}"
    );
    let inside = says("[service.app]\n", "[service.app]\nplace = \"namespace\"\n");
    assert!(inside.contains("namespace on this machine"), "{inside}");
    for (key, written) in [
        ("cwd", "conf"),
        ("library_path", "lib"),
        ("pid_file", "run/x.pid"),
    ] {
        let relative = says("cores   = \"7\"", &format!("{key} = \"{written}\""));
        assert!(
            relative.contains(&format!("{key} of service \"web\" is a relative path")),
            "{relative}"
        );
    }
    let program = says("\"/opt/web\"", "\"bin/web\"");
    assert!(program.contains("bin/web is a relative path"), "{program}");
    let named = says(
        "cores   = \"7\"",
        "place = \"front\"\n[place.front]\n[place.other]",
    );
    assert!(named.contains("and a place"), "{named}");
    let remote = says("cores   = \"7\"", "remote = \"10.0.0.1:80\"");
    assert!(remote.contains("so host has no effect"), "{remote}");
    for bad in ["a.b", "two words", "=x"] {
        let host = says("\"one\", ", &format!("\"{bad}\", \"one\", "));
        assert!(host.contains("or an agent's label"), "{host}");
    }
    for bad in ["0", "\"a b\"", "\"a.b\""] {
        let agents = says("agents = 2", &format!("agents = {bad}"));
        assert!(agents.contains("agents of [load]"), "{agents}");
    }
    let placed = says("agents = 2", "agents = 2\nplace = \"native\"");
    assert!(
        placed.contains("[load] has both agents and a place"),
        "{placed}"
    );
}
