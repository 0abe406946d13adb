//! What gates are judged by.

use prony_record::Record;

use super::quantity::{Quantity, What};
use crate::comparison::{Comparison, Verdict};
use crate::metric::{Metric, Scale};
use crate::runs::{Run, RunsDocument};

/// A run and the records of its trials.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// What its trials measured.
    pub run: &'a Run,
    /// Block, variant and record of each of its trials.
    pub records: &'a [(u32, usize, &'a Record)],
    /// What sentences call it.
    pub label: &'a str,
    /// Whether its trials are loads that nobody put in blocks.
    pub is_loads: bool,
}

/// What gates are judged by.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The run that they are about.
    pub new: Source<'a>,
    /// The run that it is held against.
    pub stored: Option<Source<'a>>,
    /// The experiment's own comparisons, with the intervals that its looks allow.
    pub comparisons: &'a [Comparison],
    /// The comparisons of the two runs: where they are given, gates on verdicts are about them.
    pub between: Option<&'a RunsDocument>,
    /// Chance that an interval misses: that of the last look, 0.05 for a single one.
    pub miss: f64,
}

/// The verdict on a metric of a variant.
pub(super) struct Stated<'a> {
    pub(super) metric: Metric,
    pub(super) verdict: Verdict,
    pub(super) text: &'a str,
}

impl Source<'_> {
    /// A quantity of a variant's trials by block, as it was measured.
    pub(super) fn values(&self, variant: usize, quantity: &Quantity) -> Vec<(u32, Option<f64>)> {
        let mut values: Vec<(u32, Option<f64>)> = match quantity.what {
            What::Metric(metric) => self
                .run
                .trials
                .iter()
                .filter(|trial| trial.variant == variant)
                .map(|trial| {
                    let value = trial.values.get(&metric).copied();
                    (trial.block, value.filter(|&value| metric.admits(value)))
                })
                .collect(),
            What::Measure(measure) => self
                .records
                .iter()
                .filter(|(_, of, _)| *of == variant)
                .map(|(block, _, record)| {
                    let value = match measure.count(record) {
                        // Two trials of different lengths have different counts.
                        Some((_, 0)) => None,
                        Some((count, whole)) => Some(count as f64 / whole as f64),
                        None => measure.amount(record).map(|amount| amount.value()),
                    };
                    let positive = quantity.scale() == Scale::Ratio;
                    (*block, value.filter(|&value| !positive || value > 0.0))
                })
                .collect(),
        };
        values.sort_by_key(|(block, _)| *block);
        values
    }

    /// Why the run itself can't carry a verdict on this; the end of a sentence.
    pub(super) fn doubt(&self, variant: usize, quantity: &Quantity) -> Option<&str> {
        let mut doubts = self
            .run
            .doubts
            .iter()
            .filter(|doubt| doubt.variant == variant);
        let found = match quantity.what {
            What::Metric(metric) => doubts.find(|doubt| doubt.metric == metric),
            // What distorts one time or rate distorts the others.
            What::Measure(_) if quantity.scale() == Scale::Ratio => doubts.next(),
            What::Measure(_) => None,
        };
        found.map(|doubt| doubt.reason.as_str())
    }
}

impl Evidence<'_> {
    /// The verdicts on a variant: between the runs where there are two of a kind, else within.
    pub(super) fn verdicts(&self, variant: usize) -> Vec<Stated<'_>> {
        let Some(variant) = self.new.run.variants.get(variant) else {
            return Vec::new();
        };
        match self.between {
            Some(document) => document
                .comparisons
                .iter()
                .filter(|between| between.levels == variant.levels && between.name == variant.name)
                .filter_map(|between| {
                    Some(Stated {
                        metric: between.metric,
                        verdict: between.verdict?,
                        text: &between.text,
                    })
                })
                .collect(),
            None => self
                .comparisons
                .iter()
                .filter(|comparison| comparison.levels == variant.levels)
                .map(|comparison| Stated {
                    metric: comparison.metric,
                    verdict: comparison.verdict,
                    text: &comparison.text,
                })
                .collect(),
        }
    }
}
