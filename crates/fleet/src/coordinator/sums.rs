//! What several agents say of the same, said once.

use std::collections::BTreeMap;

use prony_record::{Finding, SourceTotals, SourceUse, Spread};

/// So many names are told one by one.
const MOST_NAMES: usize = 6;

/// What agents found, of so many in all: each finding once, the worst first told, with their names.
pub(super) fn findings<'a>(
    told: impl Iterator<Item = (&'a str, &'a [Finding])>,
    of: usize,
) -> Vec<Finding> {
    let mut by_id: Vec<(&str, Vec<(&str, &Finding)>)> = Vec::new();
    for (name, findings) in told {
        for finding in findings {
            let group = by_id.iter_mut().find(|(id, _)| *id == finding.id);
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

fn one_kind(group: &[(&str, &Finding)], of: usize) -> Option<Finding> {
    // Of equals the first.
    let worst = group
        .iter()
        .rev()
        .max_by_key(|(_, finding)| finding.severity);
    let (who, worst) = *worst?;
    let mut names: Vec<&str> = group.iter().map(|(name, _)| *name).collect();
    names.dedup();
    let alike = group.iter().all(|(_, finding)| finding.text == worst.text);
    let shown = match names.len() {
        1 => names[0].to_owned(),
        all if all == of => format!("all {of} agents"),
        few if few <= MOST_NAMES => names.join(", "),
        many => format!(
            "{} and {} more",
            names[..MOST_NAMES].join(", "),
            many - MOST_NAMES
        ),
    };
    let text = match alike || names.len() == 1 {
        // It says so itself.
        true if worst.text.starts_with(&format!("Agent {shown} ")) => worst.text.clone(),
        true => format!("{shown}: {}", worst.text),
        false => format!("{shown}; {who}: {}", worst.text),
    };
    Some(Finding::new(&worst.id, worst.severity, text))
}

/// What came from all agents' source addresses; none where no agent was given any.
pub(super) fn sources<'a>(each: impl Iterator<Item = &'a SourceUse>) -> Option<SourceUse> {
    let each: Vec<&SourceUse> = each.collect();
    let first = *each.first()?;
    let listed = each.iter().all(|one| one.each.len() as u64 == one.used);
    let mut sum = match listed {
        true => {
            // An address of the loopback may be several machines'.
            let mut counts = BTreeMap::new();
            for count in each.iter().flat_map(|one| &one.each) {
                let known = counts
                    .entry(count.address)
                    .or_insert(prony_record::SourceCount {
                        totals: SourceTotals::default(),
                        ..*count
                    });
                add(&mut known.totals, &count.totals);
            }
            SourceUse::of(counts.into_values())
        }
        false => SourceUse {
            used: each.iter().map(|one| one.used).sum(),
            connections: spread(&each, |one| one.connections),
            ok: spread(&each, |one| one.ok),
            failed: spread(&each, |one| one.failed),
            ..SourceUse::default()
        },
    };
    sum.kind.clone_from(&first.kind);
    sum.order.clone_from(&first.order);
    sum.given = match first.kind.as_str() {
        // All tell the same addresses.
        "told" => first.given,
        _ => each.iter().map(|one| one.given).sum(),
    };
    for beyond in each.iter().filter_map(|one| one.beyond.as_ref()) {
        add(sum.beyond.get_or_insert_default(), beyond);
    }
    Some(sum)
}

fn add(sum: &mut SourceTotals, more: &SourceTotals) {
    sum.connections += more.connections;
    sum.ok += more.ok;
    sum.failed += more.failed;
}

/// Of addresses that are too many to be listed: least and most are exact, the median is that of the
/// agents' medians, each as often as it has addresses.
fn spread(each: &[&SourceUse], of: fn(&SourceUse) -> Spread) -> Spread {
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
    Spread {
        least: used.clone().map(|one| of(one).least).min().unwrap_or(0),
        median: median.map_or(0, |(median, _)| *median),
        most: used.map(|one| of(one).most).max().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use prony_record::{Severity, SourceCount};

    use super::*;

    #[test]
    fn the_same_finding_of_several_is_told_once() {
        let finding = |id: &str, severity, text: &str| Finding::new(id, severity, text);
        let a = [
            finding("errors", Severity::Note, "1 of 10 failed."),
            finding("io-fallback", Severity::Note, "No ring."),
        ];
        let b = [
            finding("errors", Severity::Error, "9 of 10 failed."),
            finding("io-fallback", Severity::Note, "No ring."),
        ];
        let told = [("a", &a[..]), ("b", &b[..]), ("c", &[])];
        let merged = findings(told.into_iter(), 3);
        let texts: Vec<_> = merged
            .iter()
            .map(|it| (it.severity, it.text.as_str()))
            .collect();
        let expected = [
            (Severity::Error, "a, b; b: 9 of 10 failed."),
            (Severity::Note, "a, b: No ring."),
        ];
        assert_eq!(texts, expected);
        let merged = findings([("a", &a[1..]), ("b", &b[1..])].into_iter(), 2);
        assert_eq!(merged[0].text, "all 2 agents: No ring.");
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
    fn sources_of_all_agents_are_one_list() {
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
    fn of_too_many_to_list_the_ends_are_exact() {
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
