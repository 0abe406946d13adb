//! Results of each entry of a list, by variant.

use std::collections::BTreeMap;

use prony_record::{EntryGrouping, EntryResult, EntryResults};
use prony_stats::{Effect, Metric, VerdictDocument};
use prony_wording::Change;

use super::entries::{failed, p50, p99, worst_first};
use super::standing::reference_of;
use crate::number;
use crate::table::{Emphasis, Table, TableCell};

/// The entries of a list, with the pooled results of each variant.
#[derive(Debug, Clone)]
pub(crate) struct EntryComparison<'a> {
    verdict: &'a VerdictDocument,
    /// The entries in the order of the first variant's list, followed by those that appear only in
    /// later variants' lists.
    rows: Vec<EntryRow<'a>>,
    /// Combined results of all other entries.
    other: Option<EntryRow<'a>>,
    /// True if a variant's entries are groups of URLs.
    pub(crate) is_grouped: bool,
    /// True if the entries are the steps of a journey.
    pub(crate) are_steps: bool,
    /// Number of entries combined in the row for the other entries; the largest number if variants
    /// differ.
    pub(crate) summed_up: u64,
}

/// Results of one entry.
#[derive(Debug, Clone)]
struct EntryRow<'a> {
    /// Results by variant. `None` if the entry isn't in the variant's list.
    variants: Vec<Option<&'a EntryResult>>,
}

/// One variant's results for an entry, and the changes against its reference.
pub(crate) struct EntryStanding<'a> {
    pub(crate) variant: usize,
    pub(crate) result: &'a EntryResult,
    /// The changes of rate, share of failures, p50 and p99.
    pub(crate) changes: [Option<EntryChange>; 4],
}

/// A change without an interval.
pub(crate) struct EntryChange {
    metric: Metric,
    effect: Effect,
}

impl EntryChange {
    /// The change with its sign; empty if it can't be expressed.
    fn text(&self) -> String {
        Change::of(self.metric, &self.effect).map_or(String::new(), |change| change.signed())
    }

    /// The change as a ratio or, for a share, as a difference.
    pub(crate) fn value(&self) -> Option<f64> {
        self.effect.ratio.or(self.effect.difference)
    }
}

impl<'a> EntryComparison<'a> {
    /// Creates the comparison; `None` if no variant has results by entry.
    pub(crate) fn of(verdict: &'a VerdictDocument) -> Option<EntryComparison<'a>> {
        let variants = verdict.variants.iter();
        let entries: Vec<Option<&EntryResults>> = variants.map(|it| it.entries.as_ref()).collect();
        let listed = || entries.iter().flatten();
        listed().next()?;
        let mut rows: Vec<EntryRow<'_>> = Vec::new();
        // Names are shortened, so a name may occur twice.
        let mut places: BTreeMap<(&str, usize), usize> = BTreeMap::new();
        for (variant, of_variant) in entries.iter().enumerate() {
            let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
            for result in of_variant.iter().flat_map(|entries| &entries.each) {
                let occurrence = seen.entry(&result.name).or_default();
                let key = (result.name.as_str(), *occurrence);
                *occurrence += 1;
                let place = *places.entry(key).or_insert_with(|| {
                    let variants = vec![None; entries.len()];
                    rows.push(EntryRow { variants });
                    rows.len() - 1
                });
                rows[place].variants[variant] = Some(result);
            }
        }
        let other = EntryRow {
            variants: entries
                .iter()
                .map(|it| it.and_then(|it| it.other.as_ref()))
                .collect(),
        };
        let summed_up = listed().map(|it| it.count - (it.each.len() as u64).min(it.count));
        Some(EntryComparison {
            verdict,
            rows,
            is_grouped: listed().any(|it| it.grouping == EntryGrouping::Path),
            are_steps: listed().all(|it| it.grouping == EntryGrouping::Step),
            summed_up: summed_up.max().unwrap_or_default(),
            other: other.variants.iter().any(Option::is_some).then_some(other),
        })
    }

    /// Number of entries with their own results.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the standings, ordered by entry and then by variant. The standings of the combined
    /// other entries come last.
    pub(crate) fn standings(&self) -> impl Iterator<Item = EntryStanding<'a>> {
        let rows = self.rows.iter().chain(&self.other);
        rows.flat_map(|row| self.standings_of(row))
    }

    /// The table of all entries.
    pub(crate) fn table(&self) -> Table {
        self.table_of(self.rows.iter().chain(&self.other))
    }

    /// Returns a table of at most `most` of the worst entries.
    pub(crate) fn worst(&self, most: usize) -> Table {
        let worst = |row: &EntryRow<'_>| {
            let results = || row.variants.iter().flatten().filter(|it| it.is_sent());
            let failed = results().map(|it| it.failed_share()).fold(0.0, f64::max);
            let p99 = results()
                .map(|it| it.response_time_us.p99)
                .fold(0.0, f64::max);
            results().next().map(|_| (failed, p99))
        };
        let sent = self.rows.iter().filter_map(|row| Some((row, worst(row)?)));
        let order = worst_first(sent.collect(), most);
        self.table_of(order)
    }

    fn standings_of(&self, row: &EntryRow<'a>) -> Vec<EntryStanding<'a>> {
        let results = row.variants.iter().enumerate();
        let standing = |(variant, result): (usize, &Option<&'a EntryResult>)| {
            let result = (*result)?;
            let reference = reference_of(self.verdict, variant);
            let reference = reference.and_then(|it| row.variants[it]);
            let changes = reference.map_or_else(Default::default, |it| changes(result, it));
            Some(EntryStanding {
                variant,
                result,
                changes,
            })
        };
        results.filter_map(standing).collect()
    }

    fn table_of<'r>(&self, rows: impl IntoIterator<Item = &'r EntryRow<'a>>) -> Table
    where
        'a: 'r,
    {
        let standings = rows.into_iter().flat_map(|row| {
            let standings = self.standings_of(row);
            standings.into_iter().enumerate()
        });
        let standings: Vec<(usize, EntryStanding<'_>)> = standings.collect();
        let heading = if self.are_steps { "step" } else { "entry" };
        let mut table = Table::of(&standings)
            .left(heading, |(place, standing)| match place {
                0 => standing.result.name.as_str(),
                _ => "",
            })
            .left("variant", |(_, standing)| {
                let name = self.verdict.variants[standing.variant].name.as_str();
                TableCell::from(name).swatch(standing.variant)
            });
        let figures: [(&str, FigureText); 4] = [
            ("ok/s", |it| number::rate_figure(it.ok_per_s)),
            ("failed", failed),
            ("p50", p50),
            ("p99", p99),
        ];
        for (place, (heading, figure)) in figures.into_iter().enumerate() {
            table = table.right(heading, |(_, standing)| {
                let change = standing.changes[place].as_ref();
                let change = change.map_or(String::new(), EntryChange::text);
                TableCell::from(figure(standing.result)).line(&change, Emphasis::Muted)
            });
        }
        table.build()
    }
}

/// Function that formats one value of an entry.
type FigureText = fn(&EntryResult) -> String;

/// Computes the changes against a reference. A change that can't be computed is `None`.
fn changes(result: &EntryResult, reference: &EntryResult) -> [Option<EntryChange>; 4] {
    let ratio = |metric: Metric, new: f64, old: f64| {
        (new > 0.0 && old > 0.0).then(|| EntryChange {
            metric,
            effect: Effect {
                ratio: Some(new / old),
                difference: None,
                low: None,
                high: None,
            },
        })
    };
    let (new, old) = (&result.response_time_us, &reference.response_time_us);
    let time = |metric: Metric, name: &str, value: f64, against: f64| {
        // A ratio of lower bounds is not a bound of the ratio.
        let is_bound = |at_least: &[String]| at_least.iter().any(|bound| bound == name);
        let is_known = !is_bound(&new.at_least) && !is_bound(&old.at_least);
        ratio(metric, value, against).filter(|_| is_known)
    };
    let failed = result.failed_share() - reference.failed_share();
    let failed = (result.failed + reference.failed > 0).then_some(EntryChange {
        metric: Metric::FailedShare,
        effect: Effect {
            ratio: None,
            difference: Some(failed),
            low: None,
            high: None,
        },
    });
    [
        ratio(Metric::RatePerS, result.ok_per_s, reference.ok_per_s),
        failed,
        time(Metric::P50Us, "p50", new.p50, old.p50),
        time(Metric::P99Us, "p99", new.p99, old.p99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(ok_per_s: f64, failed: u64, p99: f64) -> EntryResult {
        let mut result = EntryResult {
            name: "GET /".to_owned(),
            started: 100 + failed,
            ok: 100,
            failed,
            ok_per_s,
            ..EntryResult::default()
        };
        let times = &mut result.response_time_us;
        (times.p50, times.p99, times.max) = (p99 / 2.0, p99, p99);
        result
    }

    fn texts(result: &EntryResult, reference: &EntryResult) -> [String; 4] {
        changes(result, reference).map(|it| it.map_or(String::new(), |it| it.text()))
    }

    #[test]
    fn changes_are_ratios_and_points() {
        let changes = texts(&result(90.0, 100, 3_000.0), &result(100.0, 0, 2_000.0));
        assert_eq!(changes, ["−10.0%", "+50.0 points", "+50.0%", "+50.0%"]);
    }

    #[test]
    fn figures_without_a_value_and_lower_bounds_have_no_change() {
        let mut bound = result(90.0, 0, 3_000.0);
        bound.response_time_us.at_least = vec!["p99".to_owned()];
        let reference = result(0.0, 0, 2_000.0);
        assert_eq!(texts(&bound, &reference), ["", "", "+50.0%", ""]);
        assert_eq!(texts(&reference, &bound), ["", "", "−33.3%", ""]);
        let unmeasured = result(1.0, 0, 0.0);
        assert_eq!(texts(&unmeasured, &reference)[2..], ["", ""]);
    }
}
