//! Tables of an experiment's results.

use prony_record::Outcome;
use prony_stats::{Metric, VerdictDocument, is_named_with_factor, level_name};

use super::standing::{Standing, figure, level, standings};
use crate::table::{Align, Emphasis, Table, TableCell, TableKind};
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

/// Two factors crossed: the levels of the first are rows, the levels of the second are columns.
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

/// The cross table of an experiment with two varying factors; `None` for any other.
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

/// Columns for the names of variants: one for each varying factor, headed by its name. If no factor
/// varies, there is one column without a heading.
struct NameColumns {
    factors: Vec<String>,
}

impl NameColumns {
    fn of(verdict: &VerdictDocument) -> NameColumns {
        let factors = varying(verdict).into_iter();
        NameColumns {
            factors: factors.map(|(name, _)| name).collect(),
        }
    }

    fn headings(&self) -> Vec<&str> {
        match self.factors.is_empty() {
            true => vec![""],
            false => self.factors.iter().map(String::as_str).collect(),
        }
    }

    fn cells(&self, verdict: &VerdictDocument, variant: usize) -> Vec<String> {
        let variant = &verdict.variants[variant];
        if self.factors.is_empty() {
            return vec![variant.name.clone()];
        }
        let level = |factor: &String| variant.levels.get(factor).cloned().unwrap_or_default();
        self.factors.iter().map(level).collect()
    }

    fn align(&self, table: &mut Table) {
        for (_, align) in table.columns.iter_mut().take(self.factors.len()) {
            *align = Align::Left;
        }
    }
}

/// The results for one metric, as shown in files: a cross table if there are two factors, otherwise
/// a list.
pub(crate) fn results(verdict: &VerdictDocument, standings: &[Standing]) -> Table {
    let Some(cross) = cross(verdict) else {
        return stacked_list(verdict, standings);
    };
    let mut headings = vec![cross.corner.as_str()];
    headings.extend(cross.columns.iter().map(String::as_str));
    let mut table = Table::new(&headings);
    table.kind = TableKind::Results;
    for (level, cells) in &cross.rows {
        let cell = |index: &Option<usize>| match index.and_then(|index| standings.get(index)) {
            Some(standing) => standing_cell(standing),
            None => TableCell::from("–"),
        };
        let row = std::iter::once(TableCell::new(level, Emphasis::Strong));
        table.push_cells(row.chain(cells.iter().map(cell)).collect());
    }
    table
}

/// A cell with the mean of a variant, and the change and its interval below it.
fn standing_cell(standing: &Standing) -> TableCell {
    let figure = TableCell::new(&standing.figure, Emphasis::Figure).swatch(standing.variant);
    match standing.is_reference {
        true => figure.line("reference", Emphasis::Muted),
        false => figure
            .line(&standing.change, Emphasis::Strong)
            .line(&standing.interval, Emphasis::Muted),
    }
}

/// A row for each variant, with the change and its interval in one cell.
fn stacked_list(verdict: &VerdictDocument, standings: &[Standing]) -> Table {
    let mut table = Table::new(&["", "mean", "change, 95% interval", "verdict"]);
    table.kind = TableKind::Results;
    table.columns[3].1 = Align::Left;
    for standing in standings {
        let name = &verdict.variants[standing.variant].name;
        let name = TableCell::new(name, Emphasis::Strong).swatch(standing.variant);
        let change = TableCell::new(&standing.change, Emphasis::Strong);
        table.push_cells(vec![
            name,
            TableCell::new(&standing.figure, Emphasis::Strong),
            change.line(&standing.interval, Emphasis::Muted),
            match standing.is_reference {
                true => "reference".into(),
                false => standing.verdict.into(),
            },
        ]);
    }
    table
}

/// The results for one metric, as shown on terminals: a row for each variant with its change and
/// verdict.
pub(crate) fn result_list(verdict: &VerdictDocument, metric: Metric) -> Table {
    let names = NameColumns::of(verdict);
    let mut headings = names.headings();
    headings.extend(["mean", "change", "95% interval", "verdict"]);
    let mut table = Table::new(&headings);
    names.align(&mut table);
    if let Some(last) = table.columns.last_mut() {
        last.1 = Align::Left;
    }
    for standing in standings(verdict, metric) {
        let word = match standing.is_reference {
            true => "reference",
            false => standing.verdict,
        };
        let mut row = names.cells(verdict, standing.variant);
        row.extend([
            standing.figure,
            standing.change,
            standing.interval,
            word.to_owned(),
        ]);
        table.push(row);
    }
    table
}

/// Rate, response times and failures of each variant, if they were measured.
pub(crate) fn variants_table(verdict: &VerdictDocument) -> Table {
    const SHOWN: [(&str, Metric); 5] = [
        ("rate", Metric::RatePerS),
        ("time for all", Metric::TotalTimeUs),
        ("p50", Metric::P50Us),
        ("p99", Metric::P99Us),
        ("failed", Metric::FailedShare),
    ];
    let names = NameColumns::of(verdict);
    let variants = 0..verdict.variants.len();
    let measured = |metric| {
        let mut levels = variants.clone().map(|place| level(verdict, place, metric));
        levels.any(|level| level.is_some())
    };
    let shown: Vec<_> = SHOWN
        .into_iter()
        .filter(|&(_, metric)| measured(metric))
        .collect();
    let mut headings = names.headings();
    headings.extend(shown.iter().map(|(heading, _)| *heading));
    let mut table = Table::new(&headings);
    names.align(&mut table);
    for variant in variants {
        let mut row = names.cells(verdict, variant);
        let cells = shown.iter();
        row.extend(cells.map(|&(_, metric)| figure(verdict, variant, metric)));
        table.push(row);
    }
    table
}

/// A row for each metric that was measured and a column for each variant, at most `columns_max`
/// variants in one table. The values are means over the blocks.
pub(crate) fn metrics_tables(verdict: &VerdictDocument, columns_max: usize) -> Vec<Table> {
    let is_measured = |metric: &Metric| {
        let mut variants = verdict.variants.iter();
        variants.any(|variant| variant.metrics.contains_key(metric))
    };
    let metrics: Vec<Metric> = Metric::ALL.iter().copied().filter(is_measured).collect();
    let places: Vec<usize> = (0..verdict.variants.len()).collect();
    let tables = places.chunks(columns_max.max(1)).map(|places| {
        let mut headings = vec!["mean over the blocks"];
        headings.extend(
            places
                .iter()
                .map(|&place| verdict.variants[place].name.as_str()),
        );
        let mut table = Table::new(&headings);
        for &metric in &metrics {
            let cells = places.iter().map(|&place| figure(verdict, place, metric));
            let row = std::iter::once(metric.noun().to_owned()).chain(cells);
            table.push(row.collect());
        }
        table
    });
    tables.collect()
}

/// The outcomes of each variant's requests, over all its trials; `None` without trials. There is
/// always a column for timeouts, because readers look for it.
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
            // Every closed loop has requests in flight at its end.
            Outcome::Unfinished | Outcome::Unstarted => false,
            _ => happened,
        }
    };
    let shown: Vec<usize> = (0..Outcome::ALL.len()).filter(is_shown).collect();
    let names = shown.iter().map(|&place| Outcome::ALL[place].name());
    let headings: Vec<&str> = std::iter::once("requests").chain(names).collect();
    let mut table = Table::new(&headings);
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
    fn timeouts_have_a_column_even_if_there_are_none() {
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
