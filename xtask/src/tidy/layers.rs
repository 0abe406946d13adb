//! Rule: crates depend only on lower layers.

use toml::{Table, Value};

use super::complaint::Complaint;
use crate::tree::Tree;

/// The diagram of docs/architecture.md: each crate with its direct dependencies. Indirect
/// dependencies are allowed too.
const LAYERS: &[(&str, &[&str])] = &[
    (
        "cli",
        &[
            "fleet",
            "frontends",
            "report",
            "origin",
            "experiment",
            "lua",
        ],
    ),
    ("fleet", &["experiment"]),
    ("frontends", &["lua"]),
    ("report", &["wording", "stats", "record"]),
    ("origin", &[]),
    ("experiment", &["machine", "wording"]),
    ("machine", &["plan"]),
    ("plan", &["load", "stats"]),
    ("lua", &["load"]),
    ("load", &["protocol", "record", "tcp", "xdp"]),
    ("wording", &["stats"]),
    ("stats", &["record"]),
    ("protocol", &[]),
    ("record", &[]),
    ("tcp", &[]),
    ("xdp", &[]),
];

/// External crates that give access to clocks, sockets or threads.
const IMPURE: &[&str] = &[
    "async-std",
    "hyper",
    "libc",
    "mio",
    "nix",
    "polling",
    "rustix",
    "smol",
    "socket2",
    "tokio",
];

/// External crates that parse flags. Only `cli` may use them; below it, settings are data.
const COMMAND_LINE: &[&str] = &["clap", "clap_builder", "lexopt", "pico-args"];

/// Crates that are pure functions of their input.
pub(super) const PURE: &[&str] = &["protocol", "stats", "wording", "report", "tcp", "plan"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DependencyKind {
    Always,
    InTests,
}

/// Checks the manifests of all crates.
pub(super) fn check(tree: &Tree) -> Vec<Complaint> {
    let mut complaints = Vec::new();
    for name in tree.crates() {
        let path = format!("crates/{name}/Cargo.toml");
        let text = tree.text(&path).unwrap_or_default();
        if !LAYERS.iter().any(|(n, _)| *n == name) {
            let text = format!("{name} is in no layer (add it to xtask/src/tidy/layers.rs)");
            complaints.push(Complaint::new(&path, 0, text));
            continue;
        }
        check_manifest(name, &path, text, &mut complaints);
    }
    if let Some(text) = tree.text("xtask/Cargo.toml") {
        for (dependency, _) in dependencies(&text.parse().unwrap_or_default()) {
            if dependency == "prony" || dependency.starts_with("prony-") {
                let line = line_of(text, &dependency);
                let text = format!(
                    "xtask must not depend on {dependency}: it is built before all \
                    other crates"
                );
                complaints.push(Complaint::new("xtask/Cargo.toml", line, text));
            }
        }
    }
    complaints
}

fn check_manifest(name: &str, path: &str, text: &str, complaints: &mut Vec<Complaint>) {
    let mut complain = |line, text: String| complaints.push(Complaint::new(path, line, text));
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return complain(0, format!("{error}")),
    };
    let expected = if name == "cli" {
        "prony".to_string()
    } else {
        format!("prony-{name}")
    };
    let package = lookup(&manifest, &["package", "name"]).and_then(Value::as_str);
    if package != Some(&expected) {
        complain(
            line_of(text, "name"),
            format!("the package in crates/{name} must be named {expected}"),
        );
    }
    if lookup(&manifest, &["lints", "workspace"]) != Some(&Value::Boolean(true)) {
        complain(0, "`[lints] workspace = true` is missing".to_string());
    }
    for (dependency, purpose) in dependencies(&manifest) {
        let line = line_of(text, &dependency);
        if purpose == DependencyKind::Always
            && PURE.contains(&name)
            && IMPURE.contains(&dependency.as_str())
        {
            complain(
                line,
                format!(
                    "{name} must not depend on {dependency}: pure crates use no clock, \
                    socket or thread"
                ),
            );
        }
        if name != "cli" && COMMAND_LINE.contains(&dependency.as_str()) {
            let text = format!("{name} must not depend on {dependency}: only cli parses flags");
            complain(line, text);
        }
        let Some(lower) = crate_of(&dependency) else {
            continue;
        };
        // Tests of any layer may use the origin as a real server.
        if purpose == DependencyKind::InTests && lower == "origin" {
            continue;
        }
        if !is_below(lower, name) {
            complain(
                line,
                format!("{name} must not depend on {lower}, which is not a lower layer"),
            );
        }
    }
}

/// Folder of a package in this workspace, or `None` for an external package.
fn crate_of(package: &str) -> Option<&str> {
    if package == "prony" {
        Some("cli")
    } else {
        package.strip_prefix("prony-")
    }
}

fn is_below(lower: &str, upper: &str) -> bool {
    LAYERS
        .iter()
        .filter(|(name, _)| *name == upper)
        .flat_map(|(_, direct)| direct.iter())
        .any(|d| *d == lower || is_below(lower, d))
}

/// All dependencies with their package names, including platform-specific ones.
fn dependencies(manifest: &Table) -> Vec<(String, DependencyKind)> {
    let mut found = Vec::new();
    let tables = [
        ("dependencies", DependencyKind::Always),
        ("build-dependencies", DependencyKind::Always),
        ("dev-dependencies", DependencyKind::InTests),
    ];
    for (key, purpose) in tables {
        for (name, value) in manifest
            .get(key)
            .and_then(Value::as_table)
            .into_iter()
            .flatten()
        {
            let package = value.get("package").and_then(Value::as_str).unwrap_or(name);
            found.push((package.to_string(), purpose));
        }
    }
    for (_, platform) in manifest
        .get("target")
        .and_then(Value::as_table)
        .into_iter()
        .flatten()
    {
        found.extend(platform.as_table().into_iter().flat_map(dependencies));
    }
    found
}

fn lookup<'a>(table: &'a Table, keys: &[&str]) -> Option<&'a Value> {
    let (first, rest) = keys.split_first()?;
    rest.iter()
        .try_fold(table.get(*first)?, |value, key| value.get(key))
}

/// Number of the first line that contains a key.
fn line_of(text: &str, key: &str) -> usize {
    let is_key = |line: &str| {
        line.trim_start()
            .strip_prefix(key)
            .is_some_and(|rest| rest.starts_with([' ', '=', '.']))
    };
    text.lines().position(is_key).map_or(0, |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::super::complaint::printed;
    use super::*;

    fn manifest(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\n[lints]\nworkspace = true\n{rest}")
    }

    fn complaints(folder: &str, rest: &str) -> Vec<String> {
        let text = manifest(&format!("prony-{folder}"), rest);
        let path = format!("crates/{folder}/Cargo.toml");
        printed(&check(&Tree::of(&[(&path, &text)])))
    }

    #[test]
    fn downward_dependencies_are_fine() {
        let rest = "[dependencies]\nprony-load.workspace = true\nprony-protocol.workspace = true\n";
        assert!(complaints("experiment", rest).is_empty());
        assert!(complaints("stats", "[dependencies]\nprony-record.workspace = true\n").is_empty());
    }

    #[test]
    fn upward_and_sideways_dependencies_are_named_with_their_line() {
        let seen = complaints(
            "load",
            "[dependencies]\nprony-experiment.workspace = true\n",
        );
        let expected = [
            "crates/load/Cargo.toml:6: load must not depend on experiment, which is not a lower \
                layer",
        ];
        assert_eq!(seen, expected);
        let sideways = "[dependencies]\nprony-load = { path = \"../load\" }\n";
        assert_eq!(complaints("stats", sideways).len(), 1);
        assert_eq!(complaints("report", sideways).len(), 1);
        let renamed = "[dependencies]\nl = { package = \"prony-load\", path = \"../load\" }\n";
        assert_eq!(complaints("protocol", renamed).len(), 1);
        let platform = "[target.'cfg(unix)'.dependencies]\nprony-load.workspace = true\n";
        assert_eq!(complaints("record", platform).len(), 1);
    }

    #[test]
    fn flags_are_read_in_cli_alone() {
        let uses = "[dependencies]\nclap.workspace = true\n";
        let in_cli = complaints("cli", uses);
        assert!(!in_cli.iter().any(|c| c.contains("clap")), "{in_cli:?}");
        assert_eq!(complaints("load", uses).len(), 1);
        let in_tests = "[dev-dependencies]\nclap.workspace = true\n";
        assert_eq!(complaints("experiment", in_tests).len(), 1);
    }

    #[test]
    fn tests_may_use_the_origin_from_anywhere_and_nothing_else_above() {
        assert!(
            complaints(
                "load",
                "[dev-dependencies]\nprony-origin.workspace = true\n"
            )
            .is_empty()
        );
        assert_eq!(
            complaints("load", "[dependencies]\nprony-origin.workspace = true\n").len(),
            1
        );
        let report = "[dev-dependencies]\nprony-report.workspace = true\n";
        assert_eq!(complaints("load", report).len(), 1);
    }

    #[test]
    fn pure_crates_take_no_sockets_from_elsewhere() {
        assert_eq!(
            complaints("protocol", "[dependencies]\npolling = \"3\"\n").len(),
            1
        );
        assert!(complaints("load", "[dependencies]\npolling = \"3\"\n").is_empty());
        assert!(complaints("protocol", "[dev-dependencies]\nlibc = \"0.2\"\n").is_empty());
    }

    #[test]
    fn a_crate_without_a_layer_or_lints_or_its_name_is_reported() {
        assert_eq!(complaints("novel", "").len(), 1);
        let bare = "[package]\nname = \"other\"\n";
        assert_eq!(
            check(&Tree::of(&[("crates/load/Cargo.toml", bare)])).len(),
            2
        );
    }

    #[test]
    fn xtask_uses_none_of_the_crates() {
        let text = "[dependencies]\ntoml = \"1\"\nprony-load.workspace = true\n";
        let seen = printed(&check(&Tree::of(&[("xtask/Cargo.toml", text)])));
        assert_eq!(seen.len(), 1);
        assert!(seen[0].starts_with("xtask/Cargo.toml:3:"), "{seen:?}");
    }

    #[test]
    fn the_layers_hold_no_cycle_and_only_known_names() {
        for (name, direct) in LAYERS {
            assert!(!is_below(name, name), "{name} depends on itself");
            for lower in *direct {
                assert!(LAYERS.iter().any(|(n, _)| n == lower), "{lower}");
            }
        }
    }
}
