//! Summarizes the reports from several agents.

use std::collections::BTreeMap;

use prony_record::finding::{Subject, listed_agents};
use prony_record::{Finding, FindingName, SourceSpread, SourceTotals, SourceUse};

/// Maximum number of distinct messages that are kept for one finding.
const TEXTS_MAX: usize = 3;

/// Merges findings; `of` is the number of agents. Each kind of finding appears once, with its most
/// severe message first and with the names of the agents.
pub(super) fn findings<'a>(
    reported: impl Iterator<Item = (&'a str, &'a [Finding])>,
    of: usize,
) -> Vec<Finding> {
    let mut by_id: Vec<(&FindingName, Vec<(&str, &Finding)>)> = Vec::new();
    for (name, findings) in reported {
        for finding in findings {
            let group = by_id.iter_mut().find(|(id, _)| **id == finding.id);
            match group {
                Some((_, group)) => group.push((name, finding)),
                None => by_id.push((&finding.id, vec![(name, finding)])),
            }
        }
    }
    let merged = by_id
        .into_iter()
        .flat_map(|(_, group)| one_kind(&group, of));
    merged.collect()
}

/// Merges findings with the same ID by the rules of their figures. Those that can't be combined are
/// listed, the most severe first.
fn one_kind(group: &[(&str, &Finding)], of: usize) -> Option<Finding> {
    let mut merged: Vec<(Finding, Vec<&str>)> = Vec::new();
    for (name, finding) in group {
        let combined = merged.iter_mut().find_map(|(known, names)| {
            *known = known.merged(finding)?;
            Some(names)
        });
        match combined {
            Some(names) => names.push(name),
            None => merged.push((Finding::clone(finding), vec![name])),
        }
    }
    // The sort is stable, so findings of equal severity keep their order.
    merged.sort_by_key(|(finding, _)| std::cmp::Reverse(finding.severity));
    let shown = merged.iter().take(TEXTS_MAX);
    let mut texts: Vec<String> = shown
        .map(|(finding, names)| match (&finding.subject, &names[..]) {
            (Subject::Agent(agent), [name]) if agent == name => finding.text.clone(),
            _ => format!("{}: {}", shorten(names, of), finding.text),
        })
        .collect();
    let rest = merged.iter().skip(TEXTS_MAX);
    match rest.map(|(_, names)| names.len()).sum::<usize>() {
        0 => {}
        more => texts.push(format!("And {more} more.")),
    }
    let is_single = merged.len() == 1;
    let (worst, _) = merged.into_iter().next()?;
    Some(Finding {
        text: texts.join(" "),
        subject: if is_single {
            worst.subject
        } else {
            Subject::Load
        },
        ..worst
    })
}

/// Formats a short list of names, or `all N agents` if it contains all of them.
pub(super) fn shorten(names: &[impl AsRef<str>], of: usize) -> String {
    let mut names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    names.dedup();
    match names.len() {
        1 => names[0].to_owned(),
        all if all == of => format!("all {of} agents"),
        _ => listed_agents(&names),
    }
}

/// Merges the use of source addresses. Returns `None` if no agent used any.
pub(super) fn sources<'a>(each: impl Iterator<Item = &'a SourceUse>) -> Option<SourceUse> {
    let each: Vec<&SourceUse> = each.collect();
    let first = *each.first()?;
    let listed = each.iter().all(|one| one.each.len() as u64 == one.used);
    let mut sum = if listed {
        // Several machines may use the same loopback address, so count distinct addresses.
        let mut counts = BTreeMap::new();
        for count in each.iter().flat_map(|one| &one.each) {
            let known = counts
                .entry(count.address)
                .or_insert(prony_record::SourceCount {
                    totals: SourceTotals::default(),
                    ..*count
                });
            add_totals(&mut known.totals, &count.totals);
        }
        SourceUse::of(counts.into_values())
    } else {
        SourceUse {
            used: each.iter().map(|one| one.used).sum(),
            connections: spread(&each, |one| one.connections),
            ok: spread(&each, |one| one.ok),
            failed: spread(&each, |one| one.failed),
            ..SourceUse::default()
        }
    };
    sum.kind.clone_from(&first.kind);
    sum.order.clone_from(&first.order);
    sum.given = match first.kind.as_str() {
        // The PROXY headers of all agents name the same addresses.
        "told" => first.given,
        "server" => sum.used,
        _ => each.iter().map(|one| one.given).sum(),
    };
    for beyond in each.iter().filter_map(|one| one.beyond.as_ref()) {
        add_totals(sum.beyond.get_or_insert_default(), beyond);
    }
    Some(sum)
}

fn add_totals(sum: &mut SourceTotals, more: &SourceTotals) {
    sum.connections += more.connections;
    sum.ok += more.ok;
    sum.failed += more.failed;
}

/// Summarizes a count over addresses that are too many to list. Minimum and maximum are exact; the
/// median is the weighted median of the agents' medians.
fn spread(each: &[&SourceUse], of: fn(&SourceUse) -> SourceSpread) -> SourceSpread {
    let used = each.iter().filter(|one| one.used > 0);
    let mut medians: Vec<(u64, u64)> = used.clone().map(|one| (of(one).median, one.used)).collect();
    medians.sort_unstable();
    let half = medians
        .iter()
        .map(|(_, used)| used)
        .sum::<u64>()
        .div_ceil(2);
    let mut below = 0;
    let median = medians.iter().find(|(_, used)| {
        below += used;
        below >= half
    });
    SourceSpread {
        least: used.clone().map(|one| of(one).least).min().unwrap_or(0),
        median: median.map_or(0, |(median, _)| *median),
        most: used.map(|one| of(one).most).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use prony_record::finding::{AgentStalled, GeneratorStarved};
    use prony_record::{FindingId, Severity, SourceCount};

    use super::*;

    #[test]
    fn the_same_finding_of_several_agents_is_merged() {
        let finding = |id: FindingId, severity, text: &str| Finding::stored(id, severity, text);
        let a = [
            finding(FindingId::Errors, Severity::Note, "1 of 10 failed."),
            finding(FindingId::IoFallback, Severity::Note, "No ring."),
        ];
        let b = [
            finding(FindingId::Errors, Severity::Error, "9 of 10 failed."),
            finding(FindingId::IoFallback, Severity::Note, "No ring."),
        ];
        let reported = [("a", &a[..]), ("b", &b[..]), ("c", &[])];
        let merged = findings(reported.into_iter(), 3);
        let texts: Vec<_> = merged
            .iter()
            .map(|it| (it.severity, it.text.as_str()))
            .collect();
        let expected = [
            (Severity::Error, "b: 9 of 10 failed. a: 1 of 10 failed."),
            (Severity::Note, "a, b: No ring."),
        ];
        assert_eq!(texts, expected);
        let merged = findings([("a", &a[1..]), ("b", &b[1..])].into_iter(), 2);
        assert_eq!(merged[0].text, "all 2 agents: No ring.");
    }

    #[test]
    fn only_the_first_few_different_texts_are_kept() {
        let each: Vec<(String, Finding)> = (0..20)
            .map(|n| {
                let severity = [Severity::Note, Severity::Warning][usize::from(n == 7)];
                // Eight of the findings have the same text.
                let text = format!("{} failed.", n.min(12));
                (
                    format!("a{n}"),
                    Finding::stored(FindingId::Errors, severity, text),
                )
            })
            .collect();
        let reported = each
            .iter()
            .map(|(name, finding)| (name.as_str(), std::slice::from_ref(finding)));
        let merged = findings(reported, 20);
        assert_eq!(merged.len(), 1);
        assert_eq!(merged[0].severity, Severity::Warning);
        let text = "a7: 7 failed. a0: 0 failed. a1: 1 failed. And 17 more.";
        assert_eq!(merged[0].text, text);

        let alike = findings(
            each[12..]
                .iter()
                .map(|(name, finding)| (name.as_str(), std::slice::from_ref(finding))),
            20,
        );
        let text = "a12, a13, a14, a15, a16, a17 and 2 more: 12 failed.";
        assert_eq!(alike[0].text, text);
    }

    #[test]
    fn figures_are_combined_by_their_rules() {
        let starved = |starved_share| {
            [Finding::of(
                Severity::Warning,
                &GeneratorStarved { starved_share },
            )]
        };
        let (a, b) = (starved(0.24), starved(0.5));
        let merged = findings([("a", &a[..]), ("b", &b[..])].into_iter(), 3);
        assert_eq!(merged[0].figures, b[0].figures);
        assert_eq!(merged[0].text, format!("a, b: {}", b[0].text));
        let merged = findings([("a", &a[..]), ("old", &[]), ("b", &b[..])].into_iter(), 2);
        assert_eq!(merged[0].text, format!("all 2 agents: {}", b[0].text));
        // Findings that can't be combined are listed, such as one of an older agent.
        let old = [Finding::stored(
            FindingId::GeneratorStarved,
            Severity::Warning,
            "Old.",
        )];
        let reported = [("a", &a[..]), ("old", &old[..]), ("b", &b[..])];
        let merged = findings(reported.into_iter(), 3);
        let text = format!("a, b: {} old: Old.", b[0].text);
        assert_eq!((merged.len(), merged[0].text.as_str()), (1, text.as_str()));
        assert_eq!(merged[0].figures, b[0].figures);
        // So are findings about single agents.
        let stalled = |name: &str| {
            let stalls = prony_record::Stalls::default();
            let subject = Subject::Agent(name.to_owned());
            [Finding::about(
                subject,
                Severity::Error,
                &AgentStalled { stalls },
            )]
        };
        let (a, b) = (stalled("a"), stalled("b"));
        let merged = findings([("a", &a[..]), ("b", &b[..])].into_iter(), 2);
        assert_eq!(merged[0].text, format!("{} {}", a[0].text, b[0].text));
        assert_eq!(merged[0].subject, Subject::Load);
    }

    fn used(addresses: &[(&str, u64)]) -> SourceUse {
        let counts = addresses.iter().map(|(address, ok)| SourceCount {
            address: address.parse().unwrap(),
            totals: SourceTotals {
                connections: 1,
                ok: *ok,
                failed: 0,
            },
        });
        SourceUse {
            kind: "bound".to_owned(),
            given: addresses.len() as u64 + 1,
            ..SourceUse::of(counts)
        }
    }

    #[test]
    fn sources_of_all_agents_are_merged() {
        assert_eq!(sources(std::iter::empty()), None);
        let (a, b) = (
            used(&[("10.0.0.1", 3), ("127.0.0.9", 1)]),
            used(&[("127.0.0.9", 7)]),
        );
        let sum = sources([&a, &b].into_iter()).unwrap();
        assert_eq!(
            (sum.given, sum.used, sum.ok.least, sum.ok.most),
            (5, 2, 3, 8)
        );
    }

    #[test]
    fn long_lists_of_addresses_have_exact_extremes() {
        let mut a = used(&[("10.0.0.1", 3), ("10.0.0.2", 5)]);
        let b = used(&[("10.0.0.3", 9)]);
        a.each.clear();
        let sum = sources([&a, &b].into_iter()).unwrap();
        assert_eq!(
            (sum.used, sum.ok.least, sum.ok.median, sum.ok.most),
            (3, 3, 3, 9)
        );
    }
}
