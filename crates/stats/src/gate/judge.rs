//! Evaluation of gates: an estimate is judged by its interval, a count by its value.

use prony_record::measure::{Measure, Relation};

use super::evidence::{Evidence, RunEvidence};
use super::rule::{Gate, GateLimit, GateReference, GateRule};
use crate::comparison::{Verdict, WithheldBecause};
use crate::estimate::{Estimate, Interval, mean};
use crate::gate_result::{
    GateBasis, GateJudgement, GateNumbers, GateOutcome, GateScale, TrialUnit,
};
use crate::metric::{Metric, Scale};
use crate::observable::{Observable, ObservableSource};
use crate::runs::MeanDifference;

/// Judges a gate for one variant. Returns `None` if the gate doesn't apply to that variant.
pub(super) fn judge(gate: &Gate, variant: usize, evidence: &Evidence<'_>) -> Option<GateJudgement> {
    let name = &evidence.new.run.variants.get(variant)?.name;
    let (measure, found) = match &gate.rule {
        GateRule::Verdict { metric, wanted, is } => {
            ("verdict", verdict(evidence, variant, *metric, wanted, *is)?)
        }
        GateRule::Figure {
            observable,
            relation,
            limit,
        } => {
            let case = GateCase {
                evidence,
                variant,
                name,
                observable,
                relation: *relation,
            };
            (observable.name.as_str(), case.found(*limit))
        }
    };
    Some(GateJudgement {
        gate: gate.input.clone(),
        name: name.clone(),
        measure: measure.to_owned(),
        ruling: found.ruling,
        basis: found.basis,
        numbers: found.numbers,
    })
}

/// Judges a gate on verdicts. The gate is unclear if the verdict is undecided or withheld, unless
/// the gate names that verdict.
fn verdict(
    evidence: &Evidence<'_>,
    variant: usize,
    metric: Option<Metric>,
    wanted: &[Verdict],
    is: bool,
) -> Option<Judgement> {
    let all = evidence.verdicts(variant);
    let mut worst: Option<Judgement> = None;
    for stated in all
        .iter()
        .filter(|one| metric.is_none_or(|m| m == one.metric))
    {
        let open = matches!(stated.verdict, Verdict::Undecided | Verdict::Withheld);
        // A verdict of `undecided` or `withheld` decides the gate if the gate names that verdict.
        let ruling = match (wanted.contains(&stated.verdict), open) {
            (true, _) if is => GateOutcome::Failed,
            (true, _) => GateOutcome::Passed,
            (false, true) => GateOutcome::Unclear,
            (false, false) if is => GateOutcome::Passed,
            (false, false) => GateOutcome::Failed,
        };
        if worst.as_ref().is_none_or(|before| ruling < before.ruling) {
            worst = Some(Judgement {
                ruling,
                basis: GateBasis::Verdict(stated.text.to_owned()),
                numbers: None,
            });
        }
    }
    worst
}

struct Judgement {
    ruling: GateOutcome,
    basis: GateBasis,
    numbers: Option<GateNumbers>,
}

impl Judgement {
    fn unclear(basis: GateBasis) -> Judgement {
        Judgement {
            ruling: GateOutcome::Unclear,
            basis,
            numbers: None,
        }
    }
}

/// Gate on a measured value, applied to one variant.
struct GateCase<'a> {
    evidence: &'a Evidence<'a>,
    variant: usize,
    name: &'a str,
    observable: &'a Observable,
    relation: Relation,
}

impl GateCase<'_> {
    fn found(&self, limit: GateLimit) -> Judgement {
        let new = &self.evidence.new;
        match limit {
            GateLimit::Fixed { value, is_share } => match self.observable.counts() {
                Some(measure) => self.counted(measure, value, is_share),
                None => match new.doubt(self.variant, self.observable) {
                    Some(reason) => withheld(reason),
                    None => match self.beyond_every_limit(new, self.variant, self.name) {
                        Some((basis, everywhere)) => self.infinite(basis, everywhere),
                        None => self.fixed(value),
                    },
                },
            },
            GateLimit::Relative { to, factor, shift } => {
                let Some(reference) = self.reference(to) else {
                    return Judgement::unclear(GateBasis::NoReference);
                };
                let doubt = new
                    .doubt(self.variant, self.observable)
                    .or_else(|| reference.source.doubt(reference.variant, self.observable));
                if let Some(because) = doubt {
                    return withheld(because);
                }
                let old =
                    self.beyond_every_limit(&reference.source, reference.variant, &reference.name);
                if let Some((basis, _)) = old {
                    return Judgement::unclear(basis);
                }
                match self.beyond_every_limit(new, self.variant, self.name) {
                    Some((basis, everywhere)) => self.infinite(basis, everywhere),
                    None => self.relative(&reference, factor, shift),
                }
            }
        }
    }

    /// Returns the basis if the percentile of a variant is beyond every limit in some of its trials,
    /// because requests failed. The flag is true if it does so in all of them.
    fn beyond_every_limit(
        &self,
        source: &RunEvidence<'_>,
        variant: usize,
        name: &str,
    ) -> Option<(GateBasis, bool)> {
        let values = source.values(variant, self.observable);
        let beyond = |(_, value): &&(u32, Option<f64>)| value.is_some_and(f64::is_infinite);
        let count = values.iter().filter(beyond).count();
        let basis = GateBasis::BeyondEveryLimit {
            variant: name.to_owned(),
            unit: unit_of(source),
            count,
            all: values.len(),
        };
        (count > 0).then_some((basis, count == values.len()))
    }

    /// Judges a percentile that is infinite in all trials, or only in some of them.
    fn infinite(&self, basis: GateBasis, everywhere: bool) -> Judgement {
        let ruling = match (everywhere, self.relation.holds(f64::INFINITY, 0.0)) {
            (true, true) => GateOutcome::Failed,
            (true, false) => GateOutcome::Passed,
            (false, _) => GateOutcome::Unclear,
        };
        Judgement {
            ruling,
            basis,
            numbers: None,
        }
    }

    /// Judges a count of requests. The count is summed over all trials and is a fact rather than an
    /// estimate.
    fn counted(&self, measure: Measure, limit: f64, is_share: bool) -> Judgement {
        let records = self.evidence.new.records.iter();
        let counts = records
            .filter(|(_, variant, _)| *variant == self.variant)
            .filter_map(|(_, _, record)| measure.count(record));
        let (count, whole) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if whole == 0 && is_share {
            return Judgement::unclear(GateBasis::NoRequests);
        }
        let value = if is_share {
            count as f64 / whole as f64
        } else {
            count as f64
        };
        let ruling = if self.relation.holds(value, limit) {
            GateOutcome::Failed
        } else {
            GateOutcome::Passed
        };
        Judgement {
            ruling,
            basis: GateBasis::Counted {
                count,
                whole,
                is_share,
                limit,
            },
            numbers: Some(GateNumbers {
                scale: GateScale::Value,
                value,
                interval: None,
                limit,
            }),
        }
    }

    fn fixed(&self, limit: f64) -> Judgement {
        let source = &self.evidence.new;
        let values = match self.whole(source, self.variant) {
            Ok(values) => values,
            Err(lacking) => return Judgement::unclear(lacking),
        };
        let is_ratio = self.observable.scale() == Scale::Ratio;
        let averaged: Vec<f64> = values
            .iter()
            .map(|(_, value)| if is_ratio { value.ln() } else { *value })
            .collect();
        let back = |value: f64| if is_ratio { value.exp() } else { value };
        let estimate = Estimate::from_blocks(&averaged);
        let interval = estimate.map(|estimate| estimate.interval(self.evidence.miss).map(back));
        let numbers = GateNumbers {
            scale: GateScale::Value,
            value: back(mean(&averaged)),
            interval,
            limit,
        };
        let ruling = match interval {
            Some(interval) => self.rule(interval, limit),
            // A load that ran only once has no interval, so it is judged by its value.
            None if source.is_loads => {
                let held = values
                    .iter()
                    .filter(|(_, v)| self.relation.holds(*v, limit));
                match held.count() {
                    0 => GateOutcome::Passed,
                    n if n == values.len() => GateOutcome::Failed,
                    _ => GateOutcome::Unclear,
                }
            }
            None => GateOutcome::Unclear,
        };
        Judgement {
            ruling,
            basis: GateBasis::Value {
                observable: self.observable.clone(),
                trials: values.len(),
                unit: unit_of(source),
            },
            numbers: Some(numbers),
        }
    }

    fn relative(&self, reference: &ReferenceTrials<'_>, factor: f64, shift: f64) -> Judgement {
        let is_ratio = self.observable.scale() == Scale::Ratio && shift == 0.0;
        let stated = (is_ratio && reference.is_baseline)
            .then(|| self.stated(reference.variant))
            .flatten();
        let measured = match stated {
            Some(numbers) => Ok((numbers, self.trials_of(&self.evidence.new, self.variant))),
            None => self.measured(reference, factor, is_ratio),
        };
        let ((value, interval), trials) = match measured {
            Ok(measured) => measured,
            Err(lacking) => return Judgement::unclear(lacking),
        };
        let (scale, limit) = if is_ratio {
            (GateScale::Ratio, factor)
        } else {
            (GateScale::Difference, shift)
        };
        let numbers = GateNumbers {
            scale,
            value,
            interval,
            limit,
        };
        let ruling = interval.map_or(GateOutcome::Unclear, |interval| self.rule(interval, limit));
        Judgement {
            ruling,
            basis: GateBasis::Relative {
                observable: self.observable.clone(),
                against: reference.name.clone(),
                factor,
                trials,
                unit: unit_of(&self.evidence.new),
            },
            numbers: Some(numbers),
        }
    }

    /// Returns the ratio to the baseline from the experiment's own comparison, whose interval
    /// accounts for the looks.
    fn stated(&self, against: usize) -> Option<(f64, Option<Interval>)> {
        let ObservableSource::Metric(metric) = self.observable.what else {
            return None;
        };
        let variants = &self.evidence.new.run.variants;
        let comparison = self.evidence.comparisons.iter().find(|comparison| {
            comparison.metric == metric
                && comparison.levels == variants[self.variant].levels
                && comparison.against == variants[against].levels
        })?;
        let effect = &comparison.effect;
        let interval = effect.low.zip(effect.high);
        let interval = interval.map(|(low, high)| Interval { low, high });
        Some((effect.ratio?, interval))
    }

    /// Computes the ratio or the difference from the trials: within the blocks of one run, or
    /// between the samples of two runs.
    fn measured(
        &self,
        reference: &ReferenceTrials<'_>,
        factor: f64,
        is_ratio: bool,
    ) -> Result<((f64, Option<Interval>), usize), GateBasis> {
        let new = self.whole(&self.evidence.new, self.variant)?;
        let old = self.whole(&reference.source, reference.variant)?;
        let on_scale = |value: f64, factor: f64| if is_ratio { value.ln() } else { factor * value };
        let back = |value: f64| if is_ratio { value.exp() } else { value };
        let new_values: Vec<f64> = new.iter().map(|(_, v)| on_scale(*v, 1.0)).collect();
        let old_values: Vec<f64> = old.iter().map(|(_, v)| on_scale(*v, factor)).collect();
        let miss = self.evidence.miss;
        if reference.is_stored {
            let gap = MeanDifference::between(&old_values, &new_values);
            let value = back(mean(&new_values) - mean(&old_values));
            let interval = gap.map(|gap| gap.interval(0.05).map(back));
            return Ok(((value, interval), new.len()));
        }
        let within: Vec<f64> = new
            .iter()
            .zip(&new_values)
            .filter_map(|((block, _), new)| {
                let place = old.iter().position(|(other, _)| other == block)?;
                Some(new - old_values[place])
            })
            .collect();
        let interval = Estimate::from_blocks(&within).map(|one| one.interval(miss).map(back));
        Ok(((back(mean(&within)), interval), within.len()))
    }

    /// Returns the values of all trials, or the trials without a value.
    fn whole(
        &self,
        source: &RunEvidence<'_>,
        variant: usize,
    ) -> Result<Vec<(u32, f64)>, GateBasis> {
        let values = source.values(variant, self.observable);
        let lacking = values.iter().filter(|(_, value)| value.is_none());
        let mut trials: Vec<u32> = lacking.map(|(block, _)| *block).collect();
        if values.is_empty() || !trials.is_empty() {
            if values.len() == trials.len() {
                trials.clear();
            }
            let unit = unit_of(source);
            return Err(GateBasis::NotMeasured { unit, trials });
        }
        Ok(values
            .into_iter()
            .filter_map(|(block, value)| Some((block, value?)))
            .collect())
    }

    fn trials_of(&self, source: &RunEvidence<'_>, variant: usize) -> usize {
        source.values(variant, self.observable).len()
    }

    /// Compares the whole interval with the limit.
    fn rule(&self, interval: Interval, limit: f64) -> GateOutcome {
        let ends = [interval.low, interval.high].map(|end| self.relation.holds(end, limit));
        match ends {
            [true, true] => GateOutcome::Failed,
            [false, false] => GateOutcome::Passed,
            _ => GateOutcome::Unclear,
        }
    }

    fn reference(&self, to: GateReference) -> Option<ReferenceTrials<'_>> {
        let new = self.evidence.new;
        let within = |variant: usize| ReferenceTrials {
            source: new,
            variant,
            name: new.run.variants[variant].name.clone(),
            is_baseline: new.run.counterpart(self.variant) == Some(variant),
            is_stored: false,
        };
        match to {
            GateReference::Variant(variant) => Some(within(variant)),
            GateReference::Baseline => new.run.counterpart(self.variant).map(within),
            GateReference::Stored => {
                let stored = self.evidence.stored?;
                let variant = new.run.same_in(self.variant, stored.run)?;
                Some(ReferenceTrials {
                    source: stored,
                    variant,
                    name: stored.label.to_owned(),
                    is_baseline: false,
                    is_stored: true,
                })
            }
        }
    }
}

/// Reference trials with which a variant is compared.
struct ReferenceTrials<'a> {
    source: RunEvidence<'a>,
    variant: usize,
    name: String,
    /// True if the reference is the variant's baseline, so the experiment's own comparisons cover
    /// this pair.
    is_baseline: bool,
    is_stored: bool,
}

fn withheld(because: &WithheldBecause) -> Judgement {
    Judgement::unclear(GateBasis::Withheld(because.clone()))
}

fn unit_of(source: &RunEvidence<'_>) -> TrialUnit {
    if source.is_loads {
        TrialUnit::Load
    } else {
        TrialUnit::Block
    }
}
