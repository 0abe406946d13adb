//! Plans whose services and load run on different hosts, which can't reach each other's loopback
//! addresses.

use std::path::Path;

use prony_record::Record;

use crate::testbed::{Testbed, folder_contains, name};

/// Returns a plan with nginx as its service. The arguments are parts of the plan's text.
fn plan(factor: &str, host: &str, load: &str) -> String {
    format!(
        r#"name = "machines"
baseline = {{ {factor} }}
[trials]
blocks = 1
warmup = "50ms"
duration = "300ms"
[factors]
{host}
[service.web]
HOST
command = ["nginx", "-c", "{{{{ web.files['nginx.conf'] }}}}", "-g", "daemon off; worker_processes 1;"]
[service.web.files]
"nginx.conf" = {{ text = """
pid {{{{ web.dir }}}}/nginx.pid;
error_log stderr;
events {{}}
http {{
  access_log /dev/stderr;
  client_body_temp_path {{{{ web.dir }}}};
  server {{
    listen {{{{ web.address }}}};
    location / {{ return 200 'the same'; }}
  }}
}}
""" }}
[load]
target = "web"
connections = 4
threads = 1
rate = 200
{load}
"#
    )
}

/// Starts agents that have permission to run nginx.
fn testbed(agents: usize) -> Testbed {
    Testbed::with(agents, |agent, command, folder| {
        let policy = folder.join(format!("policy-{agent}.toml"));
        std::fs::write(&policy, "[services]\ncommands = ['nginx']").unwrap();
        command.arg("--policy").arg(policy);
    })
}

/// Runs a plan. Returns the output of its dry run, and the trials' records.
fn run(testbed: &mut Testbed, text: &str, variants: [&str; 2]) -> (String, [Record; 2]) {
    let (file, out) = (testbed.path("plan.toml"), testbed.path("out"));
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let mut asked = testbed.coordinator(&["compare", file, "--dry-run"]);
    assert_eq!(asked.end(), 0, "{}", asked.stderr());
    let words = ["--clock-bound", "500ms", "--out", out.to_str().unwrap()];
    let mut made = testbed.coordinator(&[&["compare", file], &words[..]].concat());
    // On a busy machine, verdicts may be withheld, which gives status 1.
    assert!(matches!(made.end(), 0 | 1), "{}", made.stderr());
    let records =
        variants.map(|variant| read(&out.join(format!("trials/1-{variant}/record.json"))));
    (asked.stdout(), records)
}

fn read(path: &Path) -> Record {
    let json = std::fs::read_to_string(path);
    let json = json.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Record::from_json(&json).unwrap()
}

/// Checks that the load succeeded. Returns the names of its agents.
fn by(record: &Record) -> Vec<String> {
    let totals = &record.totals;
    assert!(totals.ok > 0 && totals.failed == 0, "{totals:?}");
    let fleet = record.fleet.as_ref().unwrap();
    fleet.agents.iter().map(|it| it.name.clone()).collect()
}

#[test]
fn two_servers_on_different_machines_are_loaded_from_a_third() {
    let mut testbed = testbed(3);
    let host = "host = ['agent-1', 'agent-2']";
    let text = plan("host = 'agent-1'", host, "agents = 'agent-3'");
    let text = text.replace("HOST", "host = '{{ host }}'");
    let (printed, records) = run(&mut testbed, &text, ["agent-1", "agent-2"]);
    for address in ["10.77.0.3", "10.77.0.4"] {
        let load = format!("load: prony load http://{address}:");
        assert!(printed.contains(&load), "{printed}");
    }
    for record in &records {
        assert_eq!(by(record), [name(2)]);
    }
}

#[test]
fn a_server_of_the_coordinators_machine_is_loaded_by_agents() {
    let mut testbed = testbed(2);
    let text = plan("keep = 1", "keep = [1, 100]", "agents = 2");
    let text = text.replace("HOST\n", "");
    let text = text.replace("return 200", "keepalive_requests {{ keep }}; return 200");
    let (printed, records) = run(&mut testbed, &text, ["1", "100"]);
    assert!(
        printed.contains("load: prony load http://10.77.0.1:"),
        "{printed}"
    );
    for record in &records {
        assert_eq!(by(record), [name(0), name(1)]);
    }
}

#[test]
fn credentials_of_a_plan_are_sent_to_its_server_and_not_stored() {
    let mut testbed = testbed(2);
    let load =
        "agents = 2\nheader = ['Authorization: Bearer s3cret-value', 'Cookie: id=t0ken-value']";
    let text = plan("keep = 1", "keep = [1, 100]", load);
    let text = text.replace("HOST\n", "");
    let guarded = "keepalive_requests {{ keep }}; if ($http_authorization = '') { return 401; } \
                   if ($http_cookie = '') { return 403; } return 200";
    let text = text.replace("return 200", guarded);
    let (printed, records) = run(&mut testbed, &text, ["1", "100"]);
    for record in &records {
        assert_eq!(by(record), [name(0), name(1)]);
    }
    let out = testbed.path("out");
    let stored = std::fs::read_to_string(out.join("plan.toml")).unwrap();
    assert!(stored.contains("Authorization: [redacted"), "{stored}");
    let mut report = testbed.command(&["report", out.to_str().unwrap()]);
    assert!(matches!(report.end(), 0 | 1), "{}", report.stderr());
    assert!(out.join("report.html").is_file());
    for secret in ["s3cret-value", "t0ken-value"] {
        assert!(!printed.contains(secret), "{printed}");
        assert!(!report.stdout().contains(secret), "{}", report.stdout());
        assert!(!folder_contains(&out, secret), "{secret}");
        assert!(
            !folder_contains(&testbed.path("up/store"), secret),
            "{secret}"
        );
    }
}
