//! Comparison of two runs of the same variants, for example on another day, build or machine.
//!
//! Input: two [`Run`]s, each with one number per metric, block and variant. Output: for each
//! variant that both runs have, a comparison of the new run with the old one. No block belongs to
//! both runs, so values can't be paired. The runs are therefore two samples on the averaging scale,
//! compared by Welch's t-test with Holm's procedure over the family. The intervals don't include
//! drift between the runs, unless the old side is a series of runs ([`combined`]): then the new
//! run's mean is compared with the spread between those runs.

mod series;
mod welch;

use crate::comparison::{Effect, Verdict, WithheldBecause};
use crate::design::{INTERVAL_BLOCKS_MIN, Levels};
use crate::estimate::{Interval, mean};
use crate::gate_result::GateOutcome;
use crate::metric::{Direction, Metric, Scale};
use crate::pairing::equivalence;
use crate::trials::Values;

pub use crate::run_comparison::{
    Difference, DifferencePart, RUNS_SCHEMA, RelativeChange, RunComparison, RunFinding, RunInfo,
    RunPairInfo, RunWithheld, RunsDocument, Unrecorded,
};
pub use series::combined;
pub(crate) use welch::MeanDifference;

/// Probability that an interval misses the true value, and also the probability that any verdict of
/// the family is a false alarm.
const MISS_PROBABILITY: f64 = 0.05;

/// A run: an experiment, or loads with the same settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Run {
    /// Variants of the run.
    pub variants: Vec<RunVariant>,
    /// Levels that the run's baseline fixes; empty for loads.
    pub baseline: Levels,
    /// Largest change that counts as no difference in this run, as a fraction.
    pub margin: f64,
    /// Metrics on which the run was judged.
    pub family: Vec<Metric>,
    /// Trials of the run's complete blocks.
    pub trials: Vec<TrialValues>,
    /// Metrics on which the run itself withheld verdicts.
    pub doubts: Vec<WithheldMetric>,
    /// True if each trial is the mean of a whole run, so that their spread is that between runs.
    pub is_series: bool,
}

/// One variant of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunVariant {
    /// Name of the variant in sentences.
    pub name: String,
    /// Levels of the variant; empty for a load.
    pub levels: Levels,
}

/// Measurements of one trial.
#[derive(Debug, Clone, PartialEq)]
pub struct TrialValues {
    /// Number of the trial's block.
    pub block: u32,
    /// Index of the variant in [`Run::variants`].
    pub variant: usize,
    /// Measured values by metric.
    pub values: Values,
}

/// A metric whose verdict was withheld by the run itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WithheldMetric {
    /// Index of the variant in [`Run::variants`].
    pub variant: usize,
    /// Metric whose verdict was withheld.
    pub metric: Metric,
    /// Reason for withholding the verdict.
    pub because: WithheldBecause,
}

impl Run {
    /// Returns the index in [`Run::variants`] of the baseline of `variant` within this run.
    pub(crate) fn counterpart(&self, variant: usize) -> Option<usize> {
        let mut wanted = self.variants.get(variant)?.levels.clone();
        if self.baseline.is_empty() {
            return None;
        }
        for (factor, level) in &self.baseline {
            wanted.insert(factor.clone(), level.clone());
        }
        self.variants
            .iter()
            .position(|other| other.levels == wanted)
    }

    /// Returns the index of the same variant in another run: the variant with the same levels or,
    /// failing that, with the same name. If both runs have only one variant, that variant is
    /// returned.
    pub(crate) fn same_in(&self, variant: usize, other: &Run) -> Option<usize> {
        let wanted = self.variants.get(variant)?;
        let mut others = other.variants.iter();
        let by_levels = others
            .position(|one| !wanted.levels.is_empty() && one.levels == wanted.levels)
            .or_else(|| {
                other
                    .variants
                    .iter()
                    .position(|one| one.name == wanted.name)
            });
        let only = (self.variants.len() == 1 && other.variants.len() == 1).then_some(0);
        by_levels.or(only)
    }

    /// Returns the block number and the value of a metric, on the averaging scale, for each trial
    /// of a variant, ordered by block. A value is `None` if the trial has no usable value.
    fn averaged(&self, variant: usize, metric: Metric) -> Vec<(u32, Option<f64>)> {
        let mut trials: Vec<&TrialValues> = self
            .trials
            .iter()
            .filter(|trial| trial.variant == variant)
            .collect();
        trials.sort_by_key(|trial| trial.block);
        trials
            .into_iter()
            .map(|trial| {
                let value = trial.values.get(&metric).copied();
                let value = value.filter(|&value| metric.admits(value));
                let averaged = value.map(|value| match metric.scale() {
                    Scale::Ratio => value.ln(),
                    Scale::Difference => value,
                });
                (trial.block, averaged)
            })
            .collect()
    }

    fn doubt(&self, variant: usize, metric: Metric) -> Option<&WithheldBecause> {
        let mut doubts = self.doubts.iter();
        doubts
            .find(|doubt| doubt.variant == variant && doubt.metric == metric)
            .map(|doubt| &doubt.because)
    }
}

/// Compares `new` with `old`. `margin` overrides the margin of the new run.
pub fn compare(about: RunPairInfo, old: &Run, new: &Run, margin: Option<f64>) -> RunsDocument {
    let margin = margin.unwrap_or(new.margin);
    let pairs: Vec<(usize, usize)> = (0..new.variants.len())
        .filter_map(|variant| Some((new.same_in(variant, old)?, variant)))
        .collect();
    let sides = RunSides {
        old,
        new,
        about: &about,
        margin,
    };
    let family = family(old, new);
    let mut judged: Vec<MeasuredPair> = pairs
        .iter()
        .flat_map(|&pair| family.iter().map(move |&metric| (pair, metric)))
        .map(|(pair, metric)| sides.measure(pair, metric))
        .collect();
    holm(&mut judged);
    let comparisons: Vec<RunComparison> = judged.iter().map(|one| sides.verdict(one)).collect();
    let others = Metric::ALL.iter().filter(|metric| !family.contains(metric));
    let others: Vec<Metric> = others.copied().collect();
    let described = pairs
        .iter()
        .flat_map(|&pair| others.iter().map(move |&metric| (pair, metric)))
        .filter_map(|(pair, metric)| sides.description(&sides.measure(pair, metric)))
        .collect();
    let relative = pairs
        .iter()
        .flat_map(|&pair| family.iter().map(move |&metric| (pair, metric)))
        .filter_map(|(pair, metric)| sides.relative(pair, metric))
        .collect();
    let names = |run: &Run, has: &dyn Fn(usize) -> bool| -> Vec<String> {
        let places = (0..run.variants.len()).filter(|&place| !has(place));
        places
            .map(|place| run.variants[place].name.clone())
            .collect()
    };
    RunsDocument {
        schema: RUNS_SCHEMA.to_owned(),
        margin,
        only_old: names(old, &|place| pairs.iter().any(|pair| pair.0 == place)),
        only_new: names(new, &|place| pairs.iter().any(|pair| pair.1 == place)),
        comparisons,
        described,
        relative,
        gates: Vec::new(),
        old: about.old,
        new: about.new,
        differences: about.differences,
        unrecorded: about.unrecorded,
        findings: about.findings,
    }
}

/// Returns the metrics that either run was judged on and for which one direction is better.
fn family(old: &Run, new: &Run) -> Vec<Metric> {
    let mut family: Vec<Metric> = Vec::new();
    for &metric in new.family.iter().chain(&old.family) {
        if !family.contains(&metric) && metric.direction() != Direction::Neither {
            family.push(metric);
        }
    }
    family
}

/// One metric of one variant, measured in both runs.
struct MeasuredPair {
    pair: (usize, usize),
    metric: Metric,
    old: Vec<(u32, Option<f64>)>,
    new: Vec<(u32, Option<f64>)>,
    gap: Option<MeanDifference>,
    rejected: bool,
}

impl MeasuredPair {
    fn means(&self) -> (Option<f64>, Option<f64>) {
        let of = |values: &[(u32, Option<f64>)]| {
            let values: Vec<f64> = values.iter().filter_map(|(_, value)| *value).collect();
            (!values.is_empty()).then(|| mean(&values))
        };
        (of(&self.old), of(&self.new))
    }

    fn effect(&self) -> Effect {
        let mean = match self.means() {
            (Some(old), Some(new)) => Some(new - old),
            _ => None,
        };
        Effect::on(self.metric.scale(), mean, self.interval())
    }

    fn interval(&self) -> Option<Interval> {
        self.gap.map(|gap| gap.interval(MISS_PROBABILITY))
    }
}

/// Applies Holm's procedure. Comparisons without a p-value, which have too few blocks, count as
/// well, because the number of comparisons must not depend on the data. Comparisons of a variant
/// without trials don't count: something ruled it out before the first block of its run.
fn holm(judged: &mut [MeasuredPair]) {
    let has_trials = |one: &&MeasuredPair| !one.old.is_empty() && !one.new.is_empty();
    let mut open = judged.iter().filter(has_trials).count();
    let mut order: Vec<usize> = (0..judged.len()).collect();
    let p = |one: &MeasuredPair| one.gap.map_or(1.0, |gap| gap.p_value());
    order.sort_by(|&a, &b| p(&judged[a]).total_cmp(&p(&judged[b])));
    for place in order {
        if p(&judged[place]) > MISS_PROBABILITY / open as f64 {
            return;
        }
        judged[place].rejected = judged[place].gap.is_some();
        open = open.saturating_sub(1);
    }
}

/// The two runs with their labels.
struct RunSides<'a> {
    old: &'a Run,
    new: &'a Run,
    about: &'a RunPairInfo,
    margin: f64,
}

impl RunSides<'_> {
    fn measure(&self, pair: (usize, usize), metric: Metric) -> MeasuredPair {
        let (old, new) = (
            self.old.averaged(pair.0, metric),
            self.new.averaged(pair.1, metric),
        );
        // A trial without a value makes the whole sample unusable, because omitting that trial
        // would bias the result.
        let whole = |values: &[(u32, Option<f64>)]| -> Option<Vec<f64>> {
            values.iter().map(|(_, value)| *value).collect()
        };
        let gap = whole(&old).zip(whole(&new)).and_then(|(old, new)| {
            if self.old.is_series {
                MeanDifference::of_next_run(&old, &new)
            } else {
                MeanDifference::between(&old, &new)
            }
        });
        MeasuredPair {
            pair,
            metric,
            old,
            new,
            gap,
            rejected: false,
        }
    }

    fn between(&self, one: &MeasuredPair) -> RunComparison {
        let back = |value: Option<f64>| {
            value.map(|value| match one.metric.scale() {
                Scale::Ratio => value.exp(),
                Scale::Difference => value,
            })
        };
        let counted = |values: &[(u32, Option<f64>)]| {
            let counted = values.iter().filter(|(_, value)| value.is_some()).count();
            u32::try_from(counted).unwrap_or(u32::MAX)
        };
        let (old, new) = one.means();
        let variant = &self.new.variants[one.pair.1];
        RunComparison {
            levels: variant.levels.clone(),
            name: variant.name.clone(),
            metric: one.metric,
            effect: one.effect(),
            old: back(old),
            new: back(new),
            old_trials: counted(&one.old),
            new_trials: counted(&one.new),
            verdict: None,
            regression: None,
            withheld: None,
            text: String::new(),
        }
    }

    fn verdict(&self, one: &MeasuredPair) -> RunComparison {
        let mut between = self.between(one);
        between.withheld = self.withheld(one);
        if between.withheld.is_some() {
            between.verdict = Some(Verdict::Withheld);
            between.regression = Some(GateOutcome::Unclear);
            return between;
        }
        let margin = equivalence(one.metric, self.margin);
        let verdict = match (one.interval(), one.gap) {
            (Some(interval), _) if interval.within(&margin) => Verdict::Equivalent,
            (Some(_), Some(gap)) if one.rejected => {
                match (gap.mean > 0.0, one.metric.direction()) {
                    (true, Direction::Higher) | (false, Direction::Lower) => Verdict::Faster,
                    _ => Verdict::Slower,
                }
            }
            _ => Verdict::Undecided,
        };
        between.verdict = Some(verdict);
        between.regression = one
            .interval()
            .map(|interval| regression(one, interval, margin));
        between
    }

    /// Returns the reason why there is no verdict.
    fn withheld(&self, one: &MeasuredPair) -> Option<RunWithheld> {
        let sides = [
            (self.old, one.pair.0, &one.old, &self.about.old),
            (self.new, one.pair.1, &one.new, &self.about.new),
        ];
        for (run, variant, _, about) in sides {
            if let Some(because) = run.doubt(variant, one.metric) {
                return Some(RunWithheld::Own {
                    run: about.label.clone(),
                    because: because.clone(),
                });
            }
        }
        for (_, _, values, about) in sides {
            let lacking = values.iter().filter(|(_, value)| value.is_none());
            let trials: Vec<u32> = lacking.map(|(block, _)| *block).collect();
            if !trials.is_empty() {
                let run = about.label.clone();
                return Some(RunWithheld::Unmeasured { run, trials });
            }
        }
        let count = |values: &[_]| u32::try_from(values.len()).unwrap_or(u32::MAX);
        let (old, new) = (count(&one.old), count(&one.new));
        (old.min(new) < INTERVAL_BLOCKS_MIN).then_some(RunWithheld::TooFew { old, new })
    }

    fn description(&self, one: &MeasuredPair) -> Option<RunComparison> {
        let between = self.between(one);
        between.effect.estimate()?;
        Some(between)
    }

    /// Returns the change, from the old run to the new one, in a variant's ratio to its baseline.
    fn relative(&self, pair: (usize, usize), metric: Metric) -> Option<RelativeChange> {
        let of = |run: &Run, variant: usize| -> Option<(usize, Vec<f64>)> {
            let against = run.counterpart(variant)?;
            let (values, base) = (run.averaged(variant, metric), run.averaged(against, metric));
            let within: Vec<f64> = values
                .iter()
                .filter_map(|(block, value)| {
                    let (_, base) = base.iter().find(|(other, _)| other == block)?;
                    Some((*value)? - (*base)?)
                })
                .collect();
            (against != variant && within.len() == values.len()).then_some((against, within))
        };
        let (old_against, old) = of(self.old, pair.0)?;
        let (against, new) = of(self.new, pair.1)?;
        if self.new.same_in(against, self.old) != Some(old_against) {
            return None;
        }
        let interval = MeanDifference::between(&old, &new)?.interval(MISS_PROBABILITY);
        let (then, now) = (mean(&old), mean(&new));
        let back = |value: f64| match metric.scale() {
            Scale::Ratio => value.exp(),
            Scale::Difference => value,
        };
        let (variant, against) = (&self.new.variants[pair.1], &self.new.variants[against]);
        Some(RelativeChange {
            levels: variant.levels.clone(),
            against: against.levels.clone(),
            name: variant.name.clone(),
            against_name: against.name.clone(),
            metric,
            old: back(then),
            new: back(now),
            effect: Effect::on(metric.scale(), Some(now - then), Some(interval)),
            text: String::new(),
        })
    }
}

/// Judges whether the new run is worse by more than the margin. A regression is established only if
/// equality is also rejected at the family's error rate, so the probability of a false alarm is at
/// most 5%, regardless of the number of variants and metrics.
fn regression(one: &MeasuredPair, interval: Interval, margin: Interval) -> GateOutcome {
    let (certainly, ruled_out) = match one.metric.direction() {
        Direction::Higher => (interval.high < margin.low, interval.low >= margin.low),
        _ => (interval.low > margin.high, interval.high <= margin.high),
    };
    match (certainly && one.rejected, ruled_out) {
        (true, _) => GateOutcome::Failed,
        (_, true) => GateOutcome::Passed,
        _ => GateOutcome::Unclear,
    }
}
