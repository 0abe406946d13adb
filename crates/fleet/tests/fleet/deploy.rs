//! Checks the files in `deploy/` and the tables in docs/fleet.md against the program.
//! `UPDATE_GOLDEN=1 cargo test -p prony-fleet` rewrites the tables.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use prony_fleet::permissions::{Role, subjects_from_agents, subjects_to_agents};
use prony_fleet::policy::Policy;
use prony_fleet::server::ServerSetup;

use crate::nats_server::agent;

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(name)
}

fn text(name: &str) -> String {
    std::fs::read_to_string(file(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Creates a folder like the one of `prony fleet up --keys-only --agents 2`.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let wanted = ServerSetup {
        folder: folder.path().to_owned(),
        listen: "127.0.0.1:4222".parse().unwrap(),
        names: vec!["127.0.0.1".to_owned()],
        agents: vec!["agent-1".parse().unwrap(), "agent-2".parse().unwrap()],
    };
    wanted.prepare().unwrap();
    folder
}

/// Returns the lines of a configuration's accounts, without comments and keys.
fn accounts(config: &str) -> Vec<String> {
    let lines = config.lines().map(str::trim);
    let lines = lines.skip_while(|line| !line.starts_with("accounts"));
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keyless = |line: &str| {
        if line.starts_with("nkey:") {
            "nkey:".to_owned()
        } else {
            line.to_owned()
        }
    };
    lines.map(keyless).collect()
}

#[test]
fn the_example_configuration_matches_the_generated_one() {
    let folder = folder();
    let generated = std::fs::read_to_string(folder.path().join("nats.conf")).unwrap();
    assert_eq!(accounts(&text("deploy/nats.conf")), accounts(&generated));
}

#[test]
fn nats_server_accepts_the_example_configuration() {
    let folder = folder();
    let config = text("deploy/nats.conf").replace("/etc/nats/", "");
    std::fs::write(folder.path().join("ready.conf"), config).unwrap();
    for config in ["ready.conf", "nats.conf"] {
        let check = |program: &str| {
            let mut command = Command::new(program);
            command
                .args(["-t", "-c", config])
                .current_dir(folder.path());
            command.output()
        };
        let output = match check("nats-server") {
            // Debian installs nats-server in a folder that is only in root's PATH.
            Err(error) if error.kind() == ErrorKind::NotFound => check("/usr/sbin/nats-server"),
            other => other,
        };
        let output = output.expect("nats-server is needed; `cargo xtask test` installs it");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{config}: {stderr}");
    }
}

#[test]
fn the_example_policy_has_every_key() {
    let policy = Policy::read(&file("deploy/policy.toml")).unwrap();
    // This pattern lists all keys, without `..`. A new key of the policy therefore breaks the build
    // here, as a reminder to add the key to the file.
    let Policy { load, services } = policy;
    assert!(!load.targets.is_empty() && !load.refuse && !services.commands.is_empty());
    assert!(services.env.is_some());
    assert!(load.rate.is_some() && load.connections.is_some() && load.seconds.is_some());
    let shown = text("deploy/policy.toml");
    let keys = format!("{:?}", Policy::default());
    for key in keys.split(|c: char| !c.is_alphanumeric() && c != '_') {
        let is_key = keys.contains(&format!("{key}: ")) && !key.is_empty();
        let is_shown =
            shown.contains(&format!("\n{key} = ")) || shown.contains(&format!("[{key}]"));
        assert!(!is_key || is_shown, "{key} is missing");
    }
    let manifest = text("deploy/kubernetes/agents.yaml");
    let inner = manifest.split("policy.toml: |\n").nth(1).unwrap();
    let inner: String = inner
        .lines()
        .take_while(|line| *line != "---")
        .collect::<Vec<_>>()
        .join("\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("policy.toml");
    std::fs::write(&path, inner).unwrap();
    assert_eq!(Policy::read(&path).unwrap().load.targets, ["10.0.0.0/8"]);
}

/// Generates the tables of permissions for docs/fleet.md.
fn tables() -> String {
    let list = |subjects: &[String]| {
        let quoted: Vec<String> = subjects.iter().map(|it| format!("`{it}`")).collect();
        quoted.join(", ")
    };
    let mut lines = "| role | publishes | subscribes |\n|---|---|---|\n".to_owned();
    for (who, role) in [
        ("coordinator", Role::Coordinator),
        ("agent NAME", agent("NAME")),
    ] {
        let it = role.permissions();
        let publish = [&it.publish[..], &it.within_account].concat();
        let subscribe = [&it.subscribe[..], &it.within_account, &[it.inbox]].concat();
        let responses = if it.allow_responses {
            "; one reply to each request"
        } else {
            ""
        };
        lines += &format!(
            "| {who} | {}{responses} | {} |\n",
            list(&publish),
            list(&subscribe)
        );
    }
    let inbox = Role::Coordinator.permissions().inbox;
    let inward = [&subjects_from_agents()[..], &[inbox]].concat();
    lines += &format!(
        "\nFrom agents' accounts to the coordinator's: {}. In the other direction: {}.\n",
        list(&inward),
        list(&subjects_to_agents())
    );
    lines
}

#[test]
fn the_document_lists_the_permissions_of_each_role() {
    let (begin, end) = ("<!-- permissions -->\n", "<!-- end of permissions -->\n");
    let document = text("docs/fleet.md");
    let (before, rest) = document.split_once(begin).unwrap();
    let (documented, after) = rest.split_once(end).unwrap();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let document = format!("{before}{begin}{}{end}{after}", tables());
        std::fs::write(file("docs/fleet.md"), document).unwrap();
        return;
    }
    assert_eq!(documented, tables(), "UPDATE_GOLDEN=1 updates it");
}
