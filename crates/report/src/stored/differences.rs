//! Differences between two runs, apart from their results.

use std::collections::{BTreeMap, BTreeSet};

use prony_record::Record;
use prony_stats::runs::{Difference, DifferencePart};
use serde_json::Value;

use super::sources::{self, Facts};
use super::{Stored, StoredContent};
use crate::environment::flattened;
use crate::number;

/// Returns the stored facts that differ between the runs: the machine, the services' programs, the
/// load and the plan. A fact that only one run has also counts as a difference.
pub fn differences(old: &Stored, new: &Stored) -> Vec<Difference> {
    let mut found = Vec::new();
    let (old_records, new_records) = (old.records(), new.records());
    let versions = |records: &[(u32, usize, &Record)]| -> Facts {
        let mut versions: Vec<&str> = records.iter().map(|(_, _, r)| r.version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        [("version".to_owned(), versions.join(", "))].into()
    };
    add_differences(
        &mut found,
        DifferencePart::Prony,
        &versions(&old_records),
        &versions(&new_records),
    );
    if let (StoredContent::Experiment(old), StoredContent::Experiment(new)) =
        (&old.content, &new.content)
    {
        let (old_env, new_env) = (&old.environment, &new.environment);
        let machine = |environment: &Value| facts_in(&environment["machine"]);
        add_differences(
            &mut found,
            DifferencePart::Machine,
            &machine(old_env),
            &machine(new_env),
        );
        for (part, key) in [
            (DifferencePart::Services, "services"),
            (DifferencePart::Places, "places"),
        ] {
            let by_variant = |environment: &Value| variants_facts(&environment[key], part);
            by_variants(&mut found, part, &by_variant(old_env), &by_variant(new_env));
        }
        let (old_sources, new_sources) = sources::of_both(old, new);
        by_variants(
            &mut found,
            DifferencePart::Services,
            &old_sources,
            &new_sources,
        );
    }
    if let (StoredContent::Loads(old), StoredContent::Loads(new)) = (&old.content, &new.content) {
        add_differences(
            &mut found,
            DifferencePart::Machine,
            &machines(old),
            &machines(new),
        );
    }
    let loads = |stored: &Stored, pick: fn(&Record) -> Value| loads_facts(stored, pick);
    let asked = |record: &Record| serde_json::to_value(&record.load).unwrap_or_default();
    let agreed = |record: &Record| serde_json::to_value(&record.negotiated).unwrap_or_default();
    by_variants(
        &mut found,
        DifferencePart::Load,
        &loads(old, asked),
        &loads(new, asked),
    );
    by_variants(
        &mut found,
        DifferencePart::Negotiated,
        &loads(old, agreed),
        &loads(new, agreed),
    );
    if let (StoredContent::Experiment(old), StoredContent::Experiment(new)) =
        (&old.content, &new.content)
    {
        plans(&mut found, &old.plan, &new.plan);
        if old.plan_files.is_some() && new.plan_files.is_some() {
            let (old, new) = (sources::plan_files(old), sources::plan_files(new));
            add_differences(&mut found, DifferencePart::Plan, &old, &new);
        }
    }
    without_repetition(found)
}

/// Removes differences between the plans that are also listed as differences between the loads.
fn without_repetition(found: Vec<Difference>) -> Vec<Difference> {
    let of_load: Vec<Difference> = found
        .iter()
        .filter(|one| one.part == DifferencePart::Load)
        .cloned()
        .collect();
    let is_repeated = |one: &Difference| {
        let key = one.name.strip_prefix("load.");
        one.part == DifferencePart::Plan
            && of_load.iter().any(|other| {
                key == Some(&other.name) && (&other.old, &other.new) == (&one.old, &one.new)
            })
    };
    found.into_iter().filter(|one| !is_repeated(one)).collect()
}

/// The machines that generated the loads.
fn machines(records: &[Record]) -> Facts {
    let machines = records.iter().filter_map(|it| it.machine.as_deref());
    let machines: BTreeSet<&str> = machines.collect();
    let machines: Vec<&str> = machines.into_iter().collect();
    [("machine".to_owned(), machines.join("\n"))].into()
}

fn facts_in(value: &Value) -> Facts {
    flattened(value)
        .into_iter()
        .map(|(name, text)| (name.replace(" › ", "."), text))
        .collect()
}

fn add_differences(found: &mut Vec<Difference>, part: DifferencePart, old: &Facts, new: &Facts) {
    found.extend(between(part, old, new));
}

fn between(part: DifferencePart, old: &Facts, new: &Facts) -> Vec<Difference> {
    let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
    names.sort();
    names.dedup();
    let each = names.into_iter().filter_map(|name| {
        let (old, new) = (old.get(name), new.get(name));
        let (old_text, new_text) = shortened(old, new);
        (old != new).then(|| Difference {
            part,
            name: name.clone(),
            old: old_text,
            new: new_text,
        })
    });
    each.collect()
}

/// Reduces long values to the lines or list members that differ.
fn shortened(old: Option<&String>, new: Option<&String>) -> (Option<String>, Option<String>) {
    let (Some(old), Some(new)) = (old, new) else {
        return (old.cloned(), new.cloned());
    };
    for separator in ["\n", ", "] {
        if !old.contains(separator) && !new.contains(separator) {
            continue;
        }
        let lacking = |text: &str, other: &str| -> String {
            let others: Vec<&str> = other.split(separator).collect();
            let kept = text.split(separator).filter(|part| !others.contains(part));
            kept.collect::<Vec<_>>().join(separator)
        };
        let (of_old, of_new) = (lacking(old, new), lacking(new, old));
        if !of_old.is_empty() || !of_new.is_empty() {
            return (Some(of_old), Some(of_new));
        }
    }
    (Some(old.clone()), Some(new.clone()))
}

/// Lists the differences of each variant. A difference that all variants share is listed once.
fn by_variants(
    found: &mut Vec<Difference>,
    part: DifferencePart,
    old: &BTreeMap<String, Facts>,
    new: &BTreeMap<String, Facts>,
) {
    let shared: Vec<&String> = old.keys().filter(|name| new.contains_key(*name)).collect();
    let mut grouped: Vec<(Difference, Vec<&str>)> = Vec::new();
    for variant in &shared {
        for difference in between(part, &old[*variant], &new[*variant]) {
            let known = grouped.iter_mut().find(|(other, _)| *other == difference);
            match known {
                Some((_, variants)) => variants.push(variant),
                None => grouped.push((difference, vec![variant])),
            }
        }
    }
    for (mut difference, variants) in grouped {
        if variants.len() < shared.len() {
            difference.name = format!("{} ({})", difference.name, variants.join(", "));
        }
        found.push(difference);
    }
}

/// The facts of each variant in `environment.json`.
fn variants_facts(value: &Value, part: DifferencePart) -> BTreeMap<String, Facts> {
    let variants = value.as_object().into_iter().flatten();
    variants
        .map(|(variant, of_it)| {
            let mut facts = facts_in(of_it);
            // Process numbers are removed from names.
            if part == DifferencePart::Services {
                facts = facts
                    .into_iter()
                    .map(|(name, text)| (name.replace(".1.", "."), text))
                    .collect();
            }
            (variant.clone(), facts)
        })
        .collect()
}

/// The facts of each variant's first record.
fn loads_facts(stored: &Stored, pick: fn(&Record) -> Value) -> BTreeMap<String, Facts> {
    let mut by_variant = BTreeMap::new();
    for (_, variant, record) in stored.records() {
        let name = match &stored.content {
            // The variant's name is built from its levels, because earlier versions built names
            // differently.
            StoredContent::Experiment(experiment) => {
                let levels = experiment.verdict.variants[variant].levels.iter();
                let levels = levels.map(|(factor, level)| format!("{factor} = {level}"));
                levels.collect::<Vec<_>>().join(", ")
            }
            StoredContent::Loads(_) => String::new(),
        };
        by_variant.entry(name).or_insert_with(|| {
            let mut facts = facts_in(&pick(record));
            // prony chooses the ports and sockets of services, so the authority of a URL differs
            // between runs.
            if !stored.is_loads()
                && let Some(url) = facts.get_mut("url")
            {
                *url = without_authority(url);
            }
            facts
        });
    }
    by_variant
}

/// A URL's scheme and path.
fn without_authority(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let path = rest.find('/').map_or("/", |slash| &rest[slash..]);
    format!("{scheme}://…{path}")
}

/// Compares plans by key. If a plan can't be parsed, reports only that the plans differ.
fn plans(found: &mut Vec<Difference>, old: &str, new: &str) {
    if old == new {
        return;
    }
    let read = |text: &str| -> Option<Facts> {
        let table: toml::Table = text.parse().ok()?;
        Some(facts_in(&serde_json::to_value(table).ok()?))
    };
    let length = |text: &str| number::plural(text.lines().count() as u64, "line", "lines");
    match (read(old), read(new)) {
        (Some(old), Some(new)) => add_differences(found, DifferencePart::Plan, &old, &new),
        _ => found.push(Difference {
            part: DifferencePart::Plan,
            name: "text".to_owned(),
            old: Some(length(old)),
            new: Some(length(new)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortened_texts(old: &str, new: &str) -> (Option<String>, Option<String>) {
        shortened(Some(&old.to_owned()), Some(&new.to_owned()))
    }

    #[test]
    fn long_texts_are_reduced_to_what_differs() {
        let nginx = |version| format!("nginx version: nginx/{version}\nbuilt with OpenSSL 3.0.15");
        let (old, new) = shortened_texts(&nginx("1.22.1"), &nginx("1.27.4"));
        assert_eq!(old.as_deref(), Some("nginx version: nginx/1.22.1"));
        assert_eq!(new.as_deref(), Some("nginx version: nginx/1.27.4"));
        let (old, new) = shortened_texts("/lib/libc.so.6, /lib/libssl.so.1", "/lib/libc.so.6");
        assert_eq!(
            (old.as_deref(), new.as_deref()),
            (Some("/lib/libssl.so.1"), Some(""))
        );
        assert_eq!(
            shortened_texts("a, b", "b, a"),
            (Some("a, b".into()), Some("b, a".into()))
        );
    }

    #[test]
    fn a_difference_of_all_variants_is_listed_once() {
        let variant =
            |version: &str| -> Facts { [("web.version".to_owned(), version.to_owned())].into() };
        let of = |tcp: &str, unix: &str| -> BTreeMap<String, Facts> {
            [
                ("tcp".to_owned(), variant(tcp)),
                ("unix".to_owned(), variant(unix)),
            ]
            .into()
        };
        let names = |old, new| -> Vec<String> {
            let mut found = Vec::new();
            by_variants(&mut found, DifferencePart::Services, &old, &new);
            found
                .into_iter()
                .map(|difference| difference.name)
                .collect()
        };
        assert_eq!(names(of("1", "1"), of("2", "2")), ["web.version"]);
        assert_eq!(names(of("1", "1"), of("2", "1")), ["web.version (tcp)"]);
        assert_eq!(names(of("1", "1"), of("1", "1")), Vec::<String>::new());
    }

    #[test]
    fn plans_are_compared_by_keys_not_by_text() {
        let mut found = Vec::new();
        plans(
            &mut found,
            "name = \"x\"\n[load]\nconnections = 10\n",
            "name   = \"x\"\n\n[load]\nconnections = 20\nstreams = 2\n",
        );
        let differing: Vec<_> = found
            .iter()
            .map(|one| (one.name.as_str(), one.old.as_deref(), one.new.as_deref()))
            .collect();
        assert_eq!(
            differing,
            [
                ("load.connections", Some("10"), Some("20")),
                ("load.streams", None, Some("2"))
            ]
        );
    }

    #[test]
    fn the_port_of_a_url_is_not_a_difference() {
        assert_eq!(without_authority("http://127.0.0.1:4711/a"), "http://…/a");
        assert_eq!(without_authority("http://127.0.0.1:4711"), "http://…/");
    }
}
