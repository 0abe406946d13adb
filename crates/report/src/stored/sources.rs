//! The stored facts about what two runs ran: files that commands name, Git states, and files that
//! the plan names. Runs of older versions lack these facts.

use std::collections::{BTreeMap, BTreeSet};

use prony_stats::runs::Unrecorded;
use serde_json::Value;

use super::{Stored, StoredContent};
use crate::Experiment;
use crate::number;

/// Stored properties by name.
pub(super) type Facts = BTreeMap<String, String>;

/// Digits of a hash that are shown and compared.
const HASH_DIGITS: usize = 16;

/// Returns the facts of each variant of both experiments. Only services of which both have facts
/// are included, because a missing fact is not a difference.
pub(super) fn of_both(
    old: &Experiment,
    new: &Experiment,
) -> (BTreeMap<String, Facts>, BTreeMap<String, Facts>) {
    let (old, new) = (by_service(old), by_service(new));
    let common = |own: &Services<'_>, other: &Services<'_>| {
        let mut found: BTreeMap<String, Facts> = BTreeMap::new();
        for (&(variant, service), &value) in own {
            if let Some(&other) = other.get(&(variant, service)) {
                let facts = found.entry(variant.to_owned()).or_default();
                facts.extend(service_facts(service, value, other));
            }
        }
        found
    };
    (common(&old, &new), common(&new, &old))
}

/// Stored sources by variant and service.
type Services<'a> = BTreeMap<(&'a str, &'a str), &'a Value>;

fn by_service(experiment: &Experiment) -> Services<'_> {
    let variants = experiment.environment["sources"].as_object();
    let variants = variants.into_iter().flatten();
    let services = variants.flat_map(|(variant, services)| {
        let services = services.as_object().into_iter().flatten();
        services.map(move |(service, value)| ((variant.as_str(), service.as_str()), value))
    });
    services.collect()
}

/// Returns the facts about a service. `other` has the other run's facts: what it lacks of Git is
/// unknown there, and not a difference.
fn service_facts(service: &str, value: &Value, other: &Value) -> Facts {
    let mut facts = Facts::new();
    for (name, file) in value["files"].as_object().into_iter().flatten() {
        let bytes = number::count(file["bytes"].as_u64().unwrap_or_default());
        let contents = match (file["sha256"].as_str(), file["modified_s"].as_i64()) {
            (Some(hash), _) => format!("SHA-256 {}", shortened(hash)),
            (None, Some(modified)) => format!("changed {modified} s after 1970"),
            (None, None) => "unreadable".to_owned(),
        };
        let text = format!("{bytes} bytes, {contents}");
        facts.insert(format!("{service}: file {name}"), text);
    }
    let (git, other) = (&value["git"], &other["git"]);
    if let Some(commit) = git["commit"]
        .as_str()
        .filter(|_| other["commit"].is_string())
    {
        let text = shortened(commit).to_owned();
        facts.insert(format!("{service}: Git commit"), text);
    }
    if let Some(count) = git["changes"]["changed_files"].as_u64()
        && other["changes"].is_object()
    {
        let text = match (count, git["changes"]["sha256"].as_str()) {
            (0, _) => "none".to_owned(),
            (count, hash) => {
                let hash = hash.map(|hash| format!(", SHA-256 {}", shortened(hash)));
                let files = number::plural(count, "file", "files");
                files + &hash.unwrap_or_default()
            }
        };
        facts.insert(format!("{service}: uncommitted changes"), text);
    }
    facts
}

fn shortened(hash: &str) -> &str {
    hash.get(..HASH_DIGITS).unwrap_or(hash)
}

/// Returns the files that the plan names, with their hashes.
pub(super) fn plan_files(experiment: &Experiment) -> Facts {
    let files = experiment.plan_files.iter().flatten();
    let files = files.map(|(name, hash)| (name.clone(), shortened(hash).to_owned()));
    files.collect()
}

/// Lists what is not known about one of the runs, so that it may differ.
pub(super) fn unrecorded(old: (&Stored, &str), new: (&Stored, &str)) -> Vec<Unrecorded> {
    let mut found = Vec::new();
    let (mut without_sources, mut without_plan_files) = (Vec::new(), Vec::new());
    let mut ungit = BTreeSet::new();
    let mut uncommitted = BTreeSet::new();
    let (mut libraries, mut others) = (false, false);
    for (stored, label) in [old, new] {
        let StoredContent::Experiment(experiment) = &stored.content else {
            if label == old.1 {
                found.push(Unrecorded::LoadFiles);
            }
            others = true;
            continue;
        };
        let programs = experiment.environment["services"].as_object();
        let programs = programs.into_iter().flatten();
        let started = programs.flat_map(|(variant, services)| {
            let services = services.as_object().into_iter().flatten();
            services.map(move |(service, _)| (variant.as_str(), service.as_str()))
        });
        let started: Vec<(&str, &str)> = started.collect();
        let sources = by_service(experiment);
        if started.iter().any(|service| !sources.contains_key(service)) {
            without_sources.push(label.to_owned());
        }
        if experiment.plan_files.is_none() {
            without_plan_files.push(label.to_owned());
        }
        for (&(_, service), value) in &sources {
            let changes = &value["git"]["changes"];
            let changed = changes["changed_files"].as_u64().unwrap_or_default();
            if !changes.is_object() {
                ungit.insert(service.to_owned());
            } else if changes["untracked"].as_u64() != Some(0)
                || (changed > 0 && changes["sha256"].is_null())
            {
                uncommitted.insert(service.to_owned());
            }
        }
        libraries |= !started.is_empty();
        let has_own = |variant: &str| started.iter().any(|(own, _)| *own == variant);
        let ids = experiment.verdict.order.iter().flatten();
        others |= started.is_empty() || ids.into_iter().any(|id| !has_own(id));
        others |= has_remote_service(experiment);
    }
    if !without_sources.is_empty() {
        let runs = without_sources;
        found.push(Unrecorded::Sources { runs });
    }
    if !without_plan_files.is_empty() {
        let runs = without_plan_files;
        found.push(Unrecorded::PlanFiles { runs });
    }
    if !ungit.is_empty() {
        let services = ungit.into_iter().collect();
        found.push(Unrecorded::UnnamedFiles { services });
    }
    if !uncommitted.is_empty() {
        let services = uncommitted.into_iter().collect();
        found.push(Unrecorded::UntrackedFiles { services });
    }
    found.extend(libraries.then_some(Unrecorded::Libraries));
    found.extend(others.then_some(Unrecorded::OtherServers));
    found
}

/// Returns true if the plan has a service that prony does not start.
fn has_remote_service(experiment: &Experiment) -> bool {
    let plan: toml::Table = experiment.plan.parse().unwrap_or_default();
    let services = plan.get("service").and_then(toml::Value::as_table);
    let mut services = services.into_iter().flat_map(toml::Table::values);
    services.any(|service| service.get("remote").is_some())
}

#[cfg(test)]
mod tests {
    use prony_stats::runs::Difference;
    use serde_json::json;

    use super::*;
    use crate::stored::{self, differences};

    /// An experiment whose service `web` has the given sources.
    fn run(sources: Value) -> Stored {
        let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/demo");
        let mut stored = stored::read_results(fixture.as_ref()).unwrap();
        if let StoredContent::Experiment(experiment) = &mut stored.content {
            experiment.plan_files = Some(BTreeMap::new());
            experiment.environment["services"] = json!({});
            for id in experiment.verdict.order.concat() {
                experiment.environment["services"][&id] = json!({"web": []});
                experiment.environment["sources"][&id] = json!({"web": sources});
            }
        }
        stored
    }

    fn file(hash: &str) -> Value {
        json!({"app.py": {"bytes": 1_234, "sha256": hash}})
    }

    fn git(commit: &str, changed_files: u64, sha256: Option<&str>, untracked: u64) -> Value {
        let changes = json!({
            "changed_files": changed_files, "sha256": sha256, "untracked": untracked
        });
        json!({"commit": commit, "changes": changes})
    }

    fn sources(hash: &str, git: Value) -> Stored {
        run(json!({"files": file(hash), "git": git}))
    }

    fn named(old: &Stored, new: &Stored) -> Vec<String> {
        let found: Vec<Difference> = differences(old, new);
        found.into_iter().map(|one| one.name).collect()
    }

    fn unknown(old: &Stored, new: &Stored) -> Vec<Unrecorded> {
        unrecorded((old, "A"), (new, "B"))
    }

    #[test]
    fn edited_files_commits_and_uncommitted_changes_are_differences() {
        let old = sources("aa", git("11", 0, None, 0));
        assert_eq!(named(&old, &old), [""; 0]);
        assert_eq!(unknown(&old, &old), [Unrecorded::Libraries]);
        let edited = sources("bb", git("11", 1, Some("cc"), 0));
        let expected = ["web: file app.py", "web: uncommitted changes"];
        assert_eq!(named(&old, &edited), expected);
        let again = sources("bb", git("11", 1, Some("dd"), 0));
        assert_eq!(named(&edited, &again), ["web: uncommitted changes"]);
        let committed = sources("bb", git("22", 0, None, 0));
        assert_eq!(named(&edited, &committed)[0], "web: Git commit");
    }

    #[test]
    fn missing_facts_are_unknown_and_no_difference() {
        let new = sources("aa", git("11", 0, None, 0));
        let mut old = run(Value::Null);
        if let StoredContent::Experiment(experiment) = &mut old.content {
            experiment.environment["sources"] = Value::Null;
            experiment.plan_files = None;
        }
        assert_eq!(named(&old, &new), [""; 0]);
        let runs = || vec!["A".to_owned()];
        let (sources_of, files) = (
            Unrecorded::Sources { runs: runs() },
            Unrecorded::PlanFiles { runs: runs() },
        );
        assert_eq!(
            unknown(&old, &new),
            [sources_of, files, Unrecorded::Libraries]
        );
        // The same file, but one run has no repository, and the other has files outside of it.
        let services = || vec!["web".to_owned()];
        let without = sources("aa", Value::Null);
        assert_eq!(named(&without, &new), [""; 0]);
        let unnamed = Unrecorded::UnnamedFiles {
            services: services(),
        };
        assert_eq!(unknown(&without, &new), [unnamed, Unrecorded::Libraries]);
        let untracked = sources("aa", git("11", 0, None, 1));
        assert_eq!(named(&untracked, &new), [""; 0]);
        let uncommitted = Unrecorded::UntrackedFiles {
            services: services(),
        };
        assert_eq!(
            unknown(&untracked, &new),
            [uncommitted, Unrecorded::Libraries]
        );
    }

    #[test]
    fn files_of_the_plan_are_compared() {
        let with = |hash: &str| {
            let mut stored = run(json!({"files": {}, "git": null}));
            if let StoredContent::Experiment(experiment) = &mut stored.content {
                let file = ("includes/site.conf".to_owned(), hash.to_owned());
                experiment.plan_files = Some([file].into());
            }
            stored
        };
        assert_eq!(named(&with("aa"), &with("bb")), ["includes/site.conf"]);
        assert_eq!(named(&with("aa"), &with("aa")), [""; 0]);
    }
}
