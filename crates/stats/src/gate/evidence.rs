//! Measurements used to judge gates.

use prony_record::Record;

use crate::comparison::{Comparison, Verdict, WithheldBecause};
use crate::metric::{Metric, Scale};
use crate::observable::{Observable, ObservableSource};
use crate::runs::{Run, RunsDocument};

/// Values of a run and the records of its trials.
#[derive(Debug, Clone, Copy)]
pub struct RunEvidence<'a> {
    /// Values of the run's trials.
    pub run: &'a Run,
    /// Block, variant index and record of each trial.
    pub records: &'a [(u32, usize, &'a Record)],
    /// Name of the run in sentences.
    pub label: &'a str,
    /// True if the trials are single loads, not blocks of an experiment.
    pub is_loads: bool,
}

/// All measurements used to judge gates.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    /// The run that the gates apply to.
    pub new: RunEvidence<'a>,
    /// The stored run used as a reference.
    pub stored: Option<RunEvidence<'a>>,
    /// The experiment's own comparisons, with intervals that account for its looks.
    pub comparisons: &'a [Comparison],
    /// Comparison of the two runs. If present, gates on verdicts refer to it.
    pub between: Option<&'a RunsDocument>,
    /// Probability that an interval misses the true value: that of the last look, or 0.05 if there
    /// was only one look.
    pub miss: f64,
}

/// Verdict on a metric of a variant.
pub(super) struct StatedVerdict<'a> {
    pub(super) metric: Metric,
    pub(super) verdict: Verdict,
    pub(super) text: &'a str,
}

impl RunEvidence<'_> {
    /// Returns the block number and the value of an observable for each trial of a variant, ordered by
    /// block. A value is `None` if the trial has no usable value.
    pub(super) fn values(
        &self,
        variant: usize,
        observable: &Observable,
    ) -> Vec<(u32, Option<f64>)> {
        let mut values: Vec<(u32, Option<f64>)> = match &observable.what {
            ObservableSource::Metric(metric) => self
                .run
                .trials
                .iter()
                .filter(|trial| trial.variant == variant)
                .map(|trial| {
                    let value = trial.values.get(metric).copied();
                    let value = value.filter(|&value| metric.admits(value));
                    (
                        trial.block,
                        self.judged(trial.block, variant, observable).or(value),
                    )
                })
                .collect(),
            ObservableSource::Measure(measure) => self
                .records
                .iter()
                .filter(|(_, of, _)| *of == variant)
                .map(|(block, _, record)| {
                    let value = match measure.count(record) {
                        // Counts are compared as shares, because trials of different lengths have
                        // different counts.
                        Some((_, 0)) => None,
                        Some((count, whole)) => Some(count as f64 / whole as f64),
                        None => measure.judged(record).map(|amount| amount.value()),
                    };
                    let positive = observable.scale() == Scale::Ratio;
                    (*block, value.filter(|&value| !positive || value > 0.0))
                })
                .collect(),
        };
        values.sort_by_key(|(block, _)| *block);
        values
    }

    /// Returns the value of a percentile in a trial with failed requests, which are beyond every
    /// limit. The value is infinite if too many requests failed.
    fn judged(&self, block: u32, variant: usize, observable: &Observable) -> Option<f64> {
        let mut records = self.records.iter();
        let (_, _, record) = records.find(|(b, v, _)| (*b, *v) == (block, variant))?;
        let measure = observable
            .percentile()
            .filter(|_| record.untimed_failures() > 0)?;
        let value = measure.judged(record)?.value();
        (value > 0.0).then_some(value)
    }

    /// Returns the reason why the run withholds verdicts on an observable.
    pub(super) fn doubt(
        &self,
        variant: usize,
        observable: &Observable,
    ) -> Option<&WithheldBecause> {
        let mut doubts = self
            .run
            .doubts
            .iter()
            .filter(|doubt| doubt.variant == variant);
        let found = match &observable.what {
            ObservableSource::Metric(metric) => doubts.find(|doubt| doubt.metric == *metric),
            // A finding that distorts one time or rate also distorts all others.
            ObservableSource::Measure(_) if observable.scale() == Scale::Ratio => doubts.next(),
            ObservableSource::Measure(_) => None,
        };
        found.map(|doubt| &doubt.because)
    }
}

impl Evidence<'_> {
    /// Returns the verdicts on a variant: those between the runs if two runs were compared,
    /// otherwise those within the run.
    pub(super) fn verdicts(&self, variant: usize) -> Vec<StatedVerdict<'_>> {
        let Some(variant) = self.new.run.variants.get(variant) else {
            return Vec::new();
        };
        match self.between {
            Some(document) => document
                .comparisons
                .iter()
                .filter(|between| between.levels == variant.levels && between.name == variant.name)
                .filter_map(|between| {
                    Some(StatedVerdict {
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
                .map(|comparison| StatedVerdict {
                    metric: comparison.metric,
                    verdict: comparison.verdict,
                    text: &comparison.text,
                })
                .collect(),
        }
    }
}
