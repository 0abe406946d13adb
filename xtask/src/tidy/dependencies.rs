//! Rule: dependencies obey `deny.toml` (licenses, banned crates, duplicate versions), as in
//! `cargo deny check`. The number of crates in the program is limited.

use std::collections::{BTreeMap, BTreeSet};

use toml::Table;

use super::complaint::Complaint;
use super::licenses::is_allowed;

const RULES: &str = "deny.toml";

/// Maximum number of crates in the program on Linux, including build dependencies. Lower the limit
/// when a dependency is removed; raise it only for a dependency that is worth its build time.
const CRATES_MAX: usize = 321;

/// Arguments for cargo to list all dependencies of the workspace, including those of tests.
pub(super) const ALL_CRATES: [&str; 9] = tree_of("--workspace", "normal,build,dev");

/// Arguments for cargo to list the dependencies of the program.
pub(super) const CRATES_OF_PROGRAM: [&str; 9] = tree_of("--package=prony", "normal,build");

const fn tree_of(root: &'static str, edges: &'static str) -> [&'static str; 9] {
    let target = "--target=x86_64-unknown-linux-gnu";
    let format = "--format={p}|{l}";
    let prefix = "--prefix=none";
    [
        "tree", "--quiet", "--locked", target, root, "-e", edges, prefix, format,
    ]
}

/// Checks the dependencies. `rules` is the content of `deny.toml`; `all` and `program` are cargo's
/// output for [`ALL_CRATES`] and [`CRATES_OF_PROGRAM`].
pub(super) fn check(rules: &str, all: &str, program: &str) -> Vec<Complaint> {
    check_against(CRATES_MAX, rules, all, program)
}

fn check_against(crates_max: usize, rules: &str, all: &str, program: &str) -> Vec<Complaint> {
    let complaint = |text: String| Complaint::new(RULES, 0, text);
    let rules: Table = match rules.parse() {
        Ok(rules) => rules,
        Err(error) => return vec![complaint(format!("{error}"))],
    };
    let packages = Package::read_all(all);
    let external: Vec<&Package> = packages.iter().filter(|it| !it.is_local).collect();
    let mut texts = licenses(&rules, &external);
    texts.extend(banned(&rules, &external));
    texts.extend(duplicates(&rules, &external));
    let count = Package::read_all(program).len();
    if count > crates_max {
        texts.push(format!(
            "the program has {count} crates; CRATES_MAX in xtask/src/tidy/dependencies.rs is \
             {crates_max}"
        ));
    }
    texts.into_iter().map(complaint).collect()
}

/// One crate in one version.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Package<'a> {
    name: &'a str,
    version: &'a str,
    license: &'a str,
    /// True if the crate belongs to the workspace.
    is_local: bool,
}

impl<'a> Package<'a> {
    /// Parses lines such as `clap_derive v4.6.7 (proc-macro)|MIT OR Apache-2.0`. Cargo appends
    /// ` (*)` to repeated lines.
    fn read_all(text: &'a str) -> BTreeSet<Package<'a>> {
        let lines = text.lines().filter_map(|line| line.split_once('|'));
        let packages = lines.filter_map(|(package, license)| {
            let (name, rest) = package.split_once(" v")?;
            Some(Package {
                name,
                version: rest.split(' ').next()?,
                license: license.trim_end_matches(" (*)"),
                is_local: rest.contains(" (/"),
            })
        });
        packages.collect()
    }
}

fn licenses(rules: &Table, packages: &[&Package]) -> Vec<String> {
    let allowed = rules.get("licenses").and_then(|it| it.get("allow"));
    let allowed = allowed
        .and_then(toml::Value::as_array)
        .into_iter()
        .flatten();
    let allowed: Vec<&str> = allowed.filter_map(toml::Value::as_str).collect();
    let refused = packages
        .iter()
        .filter(|it| !is_allowed(it.license, &allowed));
    refused
        .map(|it| {
            format!(
                "{} {} has the license \"{}\"",
                it.name, it.version, it.license
            )
        })
        .collect()
}

fn banned(rules: &Table, packages: &[&Package]) -> Vec<String> {
    let entries = entries(rules, "deny");
    let found = entries
        .iter()
        .filter(|(name, _)| packages.iter().any(|it| it.name == *name));
    found
        .map(|(name, reason)| format!("{name} is banned: {reason}"))
        .collect()
}

/// Reports crates with several versions, and `skip` entries that are no longer needed.
fn duplicates(rules: &Table, packages: &[&Package]) -> Vec<String> {
    let skipped = entries(rules, "skip");
    let is_skipped = |package: &Package, (skipped, _): &(&str, &str)| {
        let (name, version) = skipped.split_once('@').unwrap_or((skipped, ""));
        let rest = package.version.strip_prefix(version);
        package.name == name && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter() {
        if !skipped.iter().any(|entry| is_skipped(package, entry)) {
            versions
                .entry(package.name)
                .or_default()
                .push(package.version);
        }
    }
    let several = versions.iter().filter(|(_, versions)| versions.len() > 1);
    let several = several
        .map(|(name, versions)| format!("{name} has several versions: {}", versions.join(", ")));
    let unused = skipped
        .iter()
        .filter(|&entry| !packages.iter().any(|it| is_skipped(it, entry)));
    let unused = unused.map(|(entry, _)| format!("no longer needed: skip of {entry}"));
    several.chain(unused).collect()
}

/// Entries of a list in `[bans]`: each crate with its reason.
fn entries<'a>(rules: &'a Table, list: &str) -> Vec<(&'a str, &'a str)> {
    let list = rules.get("bans").and_then(|bans| bans.get(list));
    let list = list.and_then(toml::Value::as_array).into_iter().flatten();
    let text = |entry: &'a toml::Value, key: &str| entry.get(key).and_then(toml::Value::as_str);
    list.filter_map(|entry| Some((text(entry, "crate")?, text(entry, "reason").unwrap_or(""))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::complaint::printed;
    use super::*;

    const RULES: &str = "[licenses]\nallow = [\"MIT\"]\n[bans]\n\
                         deny = [{ crate = \"chrono\", reason = \"unused\" }]\n\
                         skip = [{ crate = \"rand@0.8\", reason = \"b\" }]\n";

    const PROGRAM: &str = "prony v0.1.0 (/src/crates/cli)|\na v1.0.0|MIT\na v1.0.0|MIT (*)\n";

    fn complaints(crates_max: usize, others: &str) -> Vec<String> {
        let all = format!("{PROGRAM}{others}");
        printed(&check_against(crates_max, RULES, &all, PROGRAM))
    }

    #[test]
    fn permitted_dependencies_pass() {
        let rand = "rand v0.8.8|MIT\nrand v0.10.3 (proc-macro)|GPL-3.0 OR MIT\n";
        assert_eq!(complaints(2, rand), [""; 0]);
    }

    #[test]
    fn licenses_bans_and_duplicates_are_refused() {
        let others = "b v1.0.0|GPL-3.0\nc v1.0.0|MIT\nc v2.0.0|MIT (*)\nchrono v0.4.0|MIT\n";
        assert_eq!(
            complaints(2, others),
            [
                "deny.toml: b 1.0.0 has the license \"GPL-3.0\"",
                "deny.toml: chrono is banned: unused",
                "deny.toml: c has several versions: 1.0.0, 2.0.0",
                "deny.toml: no longer needed: skip of rand@0.8",
            ]
        );
    }

    #[test]
    fn the_number_of_crates_is_limited() {
        let found = complaints(1, "rand v0.8.8|MIT\n");
        assert!(found[0].contains("the program has 2 crates"), "{found:?}");
    }

    #[test]
    fn invalid_rules_are_a_complaint() {
        assert_eq!(check("[", "", "").len(), 1);
    }
}
