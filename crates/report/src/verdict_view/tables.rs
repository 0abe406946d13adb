//! The tables that articles print.

use prony_record::Outcome;
use prony_stats::{Metric, VerdictDocument};

use super::standing::{standings, value};
use crate::table::{Align, Table};
use crate::{Experiment, number};

/// The factors with two levels or more, each with its levels in the variants' order.
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

/// Two factors crossed: the first one's levels as rows, the second one's as columns, in each cell
/// a variant's place if the plan lists it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Cross {
    /// The levels of the second factor.
    pub(crate) columns: Vec<String>,
    /// A level of the first factor and its cells.
    pub(crate) rows: Vec<(String, Vec<Option<usize>>)>,
}

/// The cross table of an experiment with two varying factors; none for any other.
pub(crate) fn cross(verdict: &VerdictDocument) -> Option<Cross> {
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
    Some(Cross {
        columns: columns.clone(),
        rows: rows
            .iter()
            .map(|row| {
                (
                    row.clone(),
                    columns.iter().map(|column| place(row, column)).collect(),
                )
            })
            .collect(),
    })
}

/// The table that articles print, on one metric: crossed for two factors, a list for others.
pub(crate) fn result_table(verdict: &VerdictDocument, metric: Metric) -> Table {
    let standings = standings(verdict, metric);
    let title = format!("{}, median and percent of the reference", metric.noun());
    if let Some(cross) = cross(verdict) {
        let mut headings = vec![""];
        headings.extend(cross.columns.iter().map(String::as_str));
        let mut table = Table::new(&title, &headings);
        for (level, cells) in &cross.rows {
            let cell = |place: &Option<usize>| match place {
                Some(place) => standings[*place].in_one_cell(),
                None => "–".to_owned(),
            };
            let row = std::iter::once(level.clone()).chain(cells.iter().map(cell));
            table.push(row.collect());
        }
        return table;
    }
    let headings = ["", "median", "of the reference", "95% interval", "verdict"];
    let mut table = Table::new(&title, &headings);
    table.columns[4].1 = Align::Left;
    for standing in standings {
        let verdict_word = if standing.is_reference {
            "reference"
        } else {
            standing.verdict
        };
        table.push(vec![
            verdict.variants[standing.variant].name.clone(),
            standing.figure,
            standing.relative,
            standing.interval,
            verdict_word.to_owned(),
        ]);
    }
    table
}

/// Every metric that was measured, as rows; the variants as columns. Medians of the trials.
pub(crate) fn metrics_table(verdict: &VerdictDocument) -> Table {
    let names: Vec<&str> = verdict.variants.iter().map(|v| v.name.as_str()).collect();
    let mut headings = vec!["median of the trials"];
    headings.extend(names);
    let mut table = Table::new("All metrics", &headings);
    let is_measured = |metric: &Metric| {
        verdict
            .variants
            .iter()
            .any(|v| v.metrics.contains_key(metric))
    };
    for &metric in Metric::ALL.iter().filter(|metric| is_measured(metric)) {
        let cells = verdict.variants.iter().map(|variant| {
            let summary = variant.metrics.get(&metric);
            summary.map_or("–".to_owned(), |s| value(metric, s.median))
        });
        let row = std::iter::once(metric.noun().to_owned()).chain(cells);
        table.push(row.collect());
    }
    table
}

/// How the requests of each variant ended, all its trials together; none without trials. Timeouts
/// have their column also where there was none, since that is what people look for.
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
    let is_shown = |place: &usize| {
        let happened = counts.iter().any(|counts| counts[*place] > 0);
        match Outcome::ALL[*place] {
            Outcome::Ok | Outcome::Timeout => true,
            // What had not ended when the load did, as in every closed loop.
            Outcome::Unfinished | Outcome::Unstarted => false,
            _ => happened,
        }
    };
    let shown: Vec<usize> = (0..Outcome::ALL.len()).filter(is_shown).collect();
    let names = shown.iter().map(|&place| Outcome::ALL[place].name());
    let headings: Vec<&str> = std::iter::once("requests").chain(names).collect();
    let mut table = Table::new("How requests ended", &headings);
    for (variant, counts) in variants.iter().zip(&counts) {
        let cells = shown.iter().map(|&place| number::count(counts[place]));
        table.push(std::iter::once(variant.name.clone()).chain(cells).collect());
    }
    let any = counts.iter().flatten().any(|&count| count > 0);
    any.then_some(table)
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
    fn timeouts_are_counted_also_where_there_are_none() {
        let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        let read = |name| crate::folder::read(format!("{fixtures}/{name}").as_ref()).unwrap();
        let mut experiment = read("errors");
        let table = outcomes_table(&experiment).unwrap();
        let headings: Vec<&str> = table.columns.iter().map(|(h, _)| h.as_str()).collect();
        assert_eq!(headings, ["requests", "ok", "unexpected_status", "timeout"]);
        assert_eq!(table.rows[0][2..], ["0", "0"]);
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
        assert_eq!(result_table(&listed, Metric::RatePerS).rows.len(), 3);
        let mut crossed = stored("gunicorn-sockets");
        let table = cross(&crossed).unwrap();
        assert_eq!(table.columns, ["tcp", "unix"]);
        let row = ("namespace".to_owned(), vec![Some(2), Some(3)]);
        assert_eq!(table.rows[1], row);
        crossed.variants.remove(2);
        assert_eq!(cross(&crossed).unwrap().rows[1].1, [None, Some(2)]);
    }
}
