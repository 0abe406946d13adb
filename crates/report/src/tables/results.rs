//! Tables of an experiment's results.

use prony_record::Outcome;
use prony_stats::{Metric, VerdictDocument, is_named_with_factor, level_name};

use super::standing::{Standing, is_measured, mean_text, standings};
use crate::table::{Emphasis, Table, TableBuilder, TableCell, TableKind};
use crate::{Experiment, number};

/// The factors with at least two levels, each with its levels in the order of the variants.
fn varying(verdict: &VerdictDocument) -> Vec<(String, Vec<String>)> {
    let mut factors: Vec<(String, Vec<String>)> = Vec::new();
    for (factor, level) in verdict.variants.iter().flat_map(|v| &v.levels) {
        let place = factors.iter().position(|(name, _)| name == factor);
        let place = place.unwrap_or_else(|| {
            factors.push((factor.clone(), Vec::new()));
            factors.len() - 1
        });
        if !factors[place].1.contains(level) {
            factors[place].1.push(level.clone());
        }
    }
    factors.retain(|(_, levels)| levels.len() > 1);
    factors
}

/// Cross table of two factors: the levels of the first are rows, and the levels of the second are
/// columns.
#[derive(Debug, Clone, PartialEq, Eq)]
struct CrossTable {
    /// The names of both factors: `place / socket`.
    corner: String,
    /// The levels of the second factor, as named in sentences.
    columns: Vec<String>,
    /// Each level of the first factor, as named in sentences, with the index of the variant in each
    /// column.
    rows: Vec<(String, Vec<Option<usize>>)>,
}

/// The cross table of an experiment with two varying factors; `None` for any other experiment.
fn cross(verdict: &VerdictDocument) -> Option<CrossTable> {
    let factors = varying(verdict);
    let [(first, rows), (second, columns)] = factors.as_slice() else {
        return None;
    };
    let place = |row: &String, column: &String| {
        verdict
            .variants
            .iter()
            .position(|v| v.levels.get(first) == Some(row) && v.levels.get(second) == Some(column))
    };
    let named = |factor: &str, levels: &[String]| -> Vec<String> {
        let with_factor = is_named_with_factor(levels.iter().map(String::as_str));
        let names = levels.iter();
        names
            .map(|level| level_name(factor, level, with_factor))
            .collect()
    };
    let cells = rows.iter().map(|row| {
        let places = columns.iter().map(|column| place(row, column));
        places.collect::<Vec<_>>()
    });
    Some(CrossTable {
        corner: format!("{first} / {second}"),
        columns: named(second, columns),
        rows: named(first, rows).into_iter().zip(cells).collect(),
    })
}

/// Adds columns with the names of variants: one for each varying factor, headed by its name. If no
/// factor varies, there is one column without a heading.
fn name_columns<T: Copy>(
    mut table: TableBuilder<T>,
    verdict: &VerdictDocument,
    variant: impl Fn(T) -> usize,
) -> TableBuilder<T> {
    let factors = varying(verdict);
    if factors.is_empty() {
        return table.left("", |it| verdict.variants[variant(it)].name.as_str());
    }
    for (factor, _) in &factors {
        table = table.left(factor, |it| {
            let level = verdict.variants[variant(it)].levels.get(factor);
            level.map_or("", String::as_str)
        });
    }
    table
}

/// The results for one metric, as shown in files: a cross table if there are two factors, otherwise
/// a list.
pub(crate) fn results(verdict: &VerdictDocument, standings: &[Standing]) -> Table {
    let Some(cross) = cross(verdict) else {
        return stacked_list(verdict, standings);
    };
    let mut table = Table::of(&cross.rows).left(&cross.corner, |(level, _)| {
        TableCell::new(level, Emphasis::Strong)
    });
    for (place, column) in cross.columns.iter().enumerate() {
        table = table.right(column, |(_, variants)| {
            let standing = variants[place].and_then(|variant| standings.get(variant));
            standing.map_or(TableCell::from("–"), standing_cell)
        });
    }
    table.build_as(TableKind::Results)
}

/// A cell with the mean of a variant, and the change and its interval below it.
fn standing_cell(standing: &Standing) -> TableCell {
    let figure = TableCell::new(&standing.figure, Emphasis::Figure).swatch(standing.variant);
    if standing.is_reference {
        figure.line("reference", Emphasis::Muted)
    } else {
        figure
            .line(&standing.change, Emphasis::Strong)
            .line(&standing.interval, Emphasis::Muted)
    }
}

/// A row for each variant, with the change and its interval in one cell.
fn stacked_list(verdict: &VerdictDocument, standings: &[Standing]) -> Table {
    Table::of(standings)
        .left("", |it| {
            let name = &verdict.variants[it.variant].name;
            TableCell::new(name, Emphasis::Strong).swatch(it.variant)
        })
        .right("mean", |it| TableCell::new(&it.figure, Emphasis::Strong))
        .right("change, 95% interval", |it| {
            let change = TableCell::new(&it.change, Emphasis::Strong);
            change.line(&it.interval, Emphasis::Muted)
        })
        .left("verdict", Standing::word)
        .build_as(TableKind::Results)
}

/// The results for one metric, as shown on terminals: a row for each variant with its change and
/// verdict.
pub(crate) fn result_list(verdict: &VerdictDocument, metric: Metric) -> Table {
    let standings = standings(verdict, metric);
    name_columns(Table::of(&standings), verdict, |it| it.variant)
        .right("mean", |it| it.figure.as_str())
        .right("change", |it| it.change.as_str())
        .right("95% interval", |it| it.interval.as_str())
        .left("verdict", Standing::word)
        .build()
}

/// Rate, response times and failures of each variant, if they were measured.
pub(crate) fn variants_table(verdict: &VerdictDocument) -> Table {
    const SHOWN: [(&str, Metric); 12] = [
        ("rate", Metric::RatePerS),
        ("journeys", Metric::JourneysPerS),
        ("journey p99", Metric::JourneyP99Us),
        ("failed journeys", Metric::JourneyFailedShare),
        ("total time", Metric::TotalTimeUs),
        ("events", Metric::EventsPerS),
        ("first event p99", Metric::FirstEventP99Us),
        ("gap p99", Metric::EventGapP99Us),
        ("p50", Metric::P50Us),
        ("p99", Metric::P99Us),
        ("failed", Metric::FailedShare),
        ("round trip", Metric::LinkRoundTripUs),
    ];
    let variants = 0..verdict.variants.len();
    let mut table = name_columns(Table::of(variants), verdict, |variant| variant);
    for (heading, metric) in SHOWN {
        if is_measured(verdict, metric) {
            table = table.right(heading, |variant| mean_text(verdict, variant, metric));
        }
    }
    table.build()
}

/// Tables with a row for each metric that was measured, and a column for each variant. One table
/// has at most `columns_max` variants. The values are means over the blocks.
pub(crate) fn metrics_tables(verdict: &VerdictDocument, columns_max: usize) -> Vec<Table> {
    let metrics = Metric::ALL.iter().copied();
    let metrics: Vec<Metric> = metrics.filter(|it| is_measured(verdict, *it)).collect();
    let places: Vec<usize> = (0..verdict.variants.len()).collect();
    let tables = places.chunks(columns_max.max(1)).map(|places| {
        let mut table = Table::of(&metrics).left("mean over the blocks", |metric| metric.noun());
        for &place in places {
            let name = &verdict.variants[place].name;
            table = table.right(name, |metric| mean_text(verdict, place, *metric));
        }
        table.build()
    });
    tables.collect()
}

/// The outcomes of each variant's requests, over all its trials; `None` without trials.
pub(crate) fn outcomes_table(experiment: &Experiment) -> Option<Table> {
    let variants = &experiment.verdict.variants;
    let counts: Vec<Vec<u64>> = (0..variants.len())
        .map(|variant| {
            let trials = experiment.trials_of(variant);
            let count = |outcome: &Outcome| {
                let of = |trial: &&crate::Trial| trial.record.outcomes.get(outcome).copied();
                trials.iter().filter_map(of).sum()
            };
            Outcome::ALL.iter().map(count).collect()
        })
        .collect();
    let rows = variants.iter().zip(&counts);
    let mut table = Table::of(rows).left("requests", |(variant, _)| variant.name.as_str());
    for (place, outcome) in Outcome::ALL.iter().enumerate() {
        let is_shown = match outcome {
            Outcome::Ok => true,
            // Every closed loop has requests in flight at its end.
            Outcome::Unfinished | Outcome::Unstarted => false,
            _ => counts.iter().any(|counts| counts[place] > 0),
        };
        if is_shown {
            table = table.right(outcome.name(), |(_, counts)| number::count(counts[place]));
        }
    }
    let any = counts.iter().flatten().any(|&count| count > 0);
    any.then(|| table.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(name: &str) -> VerdictDocument {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let json = std::fs::read_to_string(format!("{fixtures}/{name}/verdict.json")).unwrap();
        serde_json::from_str(&json).unwrap()
    }

    #[test]
    fn only_outcomes_that_occurred_have_columns() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let read =
            |name| crate::folder::read_experiment(format!("{fixtures}/{name}").as_ref()).unwrap();
        let mut experiment = read("errors");
        let table = outcomes_table(&experiment).unwrap();
        let headings: Vec<&str> = table.columns.iter().map(|(h, _)| h.as_str()).collect();
        assert_eq!(headings, ["requests", "ok", "unexpected_status"]);
        assert_eq!(table.rows[0][2..], ["0"]);
        for trial in &mut experiment.trials {
            trial.record.outcomes = [(Outcome::Ok, 10), (Outcome::Timeout, 1_000)].into();
        }
        let table = outcomes_table(&experiment).unwrap();
        assert_eq!(table.rows[1][1..], ["50", "5,000"], "of five trials");
        experiment.trials.clear();
        assert_eq!(outcomes_table(&experiment), None);
    }

    #[test]
    fn two_factors_are_crossed_and_others_listed() {
        let listed = stored("ciphers");
        assert_eq!(cross(&listed), None);
        let rates = standings(&listed, Metric::RatePerS);
        assert_eq!(results(&listed, &rates).rows.len(), 3);
        let mut crossed = stored("gunicorn-sockets");
        let table = cross(&crossed).unwrap();
        assert_eq!(table.columns, ["tcp", "unix"]);
        let row = ("namespace".to_owned(), vec![Some(2), Some(3)]);
        assert_eq!(table.rows[1], row);
        crossed.variants.remove(2);
        assert_eq!(cross(&crossed).unwrap().rows[1].1, [None, Some(2)]);
    }
}
