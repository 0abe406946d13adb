//! A plan whose variants can be interleaved. Each test modifies a copy of it.

use std::path::Path;

use prony_machine::profile::MachineProfile;
use prony_plan::Plan;

/// A plan with two variants of one service.
pub(crate) const PLAN: &str = r#"name = "two"
baseline = { kind = "one" }
[factors]
kind = [{ name = "one", n = 1 }, { name = "two", n = 2 }]
[trials]
warmup = "1s"
duration = "5s"
[service.web]
command = ["server", "--bind", "{{ web.address }}"]
[load]
target = "web"
connections = 4
"#;

/// Parses a plan that must be valid.
pub(crate) fn read(text: &str) -> Plan {
    let machine = MachineProfile {
        cores: vec![0, 1],
        path: Vec::new(),
        own_program: "/opt/prony".into(),
    };
    let plan = Plan::from_str(text, Path::new("plan.toml"), machine);
    plan.unwrap_or_else(|errors| panic!("{errors}"))
}
