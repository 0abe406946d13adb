//! Whether a gate holds: by the interval where there is one, by the facts where they are facts.

use prony_record::condition::{Measure, Sign};

use super::evidence::{Evidence, Source};
use super::quantity::Quantity;
use super::said::{self, Basis};
use super::{Gate, GateResult, GateScale, Limit, Reference, Rule, Ruling};
use crate::comparison::Verdict;
use crate::estimate::{Estimate, Interval, mean};
use crate::metric::{Metric, Scale};
use crate::runs::Gap;

/// One gate for one variant; none where it doesn't concern that variant at all.
pub(super) fn judge(gate: &Gate, variant: usize, evidence: &Evidence<'_>) -> Option<GateResult> {
    let name = evidence.new.run.variants.get(variant)?.name.clone();
    let result = |measure: &str, ruling, text| GateResult {
        gate: gate.typed.clone(),
        name: name.clone(),
        measure: measure.to_owned(),
        ruling,
        text,
        scale: None,
        value: None,
        low: None,
        high: None,
        limit: None,
    };
    match &gate.rule {
        Rule::Verdict { metric, wanted, is } => {
            let (ruling, text) = verdict(evidence, variant, *metric, wanted, *is)?;
            Some(result("verdict", ruling, text))
        }
        Rule::Figure {
            quantity,
            sign,
            limit,
        } => {
            let case = Case {
                evidence,
                variant,
                name: &name,
                quantity,
                sign: *sign,
            };
            let found = case.found(*limit);
            let mut result = result(&quantity.name, found.ruling, found.text);
            if let Some(numbers) = found.numbers {
                result.scale = Some(numbers.scale);
                result.value = Some(numbers.value).filter(|value| value.is_finite());
                result.low = numbers.interval.map(|interval| interval.low);
                result.high = numbers.interval.map(|interval| interval.high);
                result.limit = Some(numbers.limit);
            }
            Some(result)
        }
    }
}

/// A gate on verdicts. One that is undecided or withheld doesn't tell whether the variant is
/// faster, slower or the same.
fn verdict(
    evidence: &Evidence<'_>,
    variant: usize,
    metric: Option<Metric>,
    wanted: &[Verdict],
    is: bool,
) -> Option<(Ruling, String)> {
    let all = evidence.verdicts(variant);
    let mut worst: Option<(Ruling, String)> = None;
    for stated in all
        .iter()
        .filter(|one| metric.is_none_or(|m| m == one.metric))
    {
        let open = matches!(stated.verdict, Verdict::Undecided | Verdict::Withheld);
        // Whoever names `undecided` or `withheld` means it; else they tell nothing.
        let ruling = match (wanted.contains(&stated.verdict), open) {
            (true, _) if is => Ruling::Failed,
            (true, _) => Ruling::Passed,
            (false, true) => Ruling::Unclear,
            (false, false) if is => Ruling::Passed,
            (false, false) => Ruling::Failed,
        };
        if worst.as_ref().is_none_or(|(before, _)| ruling < *before) {
            worst = Some((ruling, stated.text.to_owned()));
        }
    }
    worst
}

/// The numbers behind a ruling.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    pub(super) scale: GateScale,
    pub(super) value: f64,
    pub(super) interval: Option<Interval>,
    pub(super) limit: f64,
}

struct Found {
    ruling: Ruling,
    text: String,
    numbers: Option<Numbers>,
}

impl Found {
    fn unclear(text: String) -> Found {
        Found {
            ruling: Ruling::Unclear,
            text,
            numbers: None,
        }
    }
}

/// One gate for one variant.
struct Case<'a> {
    evidence: &'a Evidence<'a>,
    variant: usize,
    name: &'a str,
    quantity: &'a Quantity,
    sign: Sign,
}

impl Case<'_> {
    fn found(&self, limit: Limit) -> Found {
        let new = &self.evidence.new;
        match limit {
            Limit::Fixed { value, is_share } => match self.quantity.counts() {
                Some(measure) => self.counted(measure, value, is_share),
                None => match new.doubt(self.variant, self.quantity) {
                    Some(reason) => self.withheld(reason),
                    None => self.fixed(value),
                },
            },
            Limit::Relative { to, factor, shift } => {
                let Some(reference) = self.reference(to) else {
                    return Found::unclear(format!(
                        "{}: there is nothing of the kind to hold it against",
                        self.subject()
                    ));
                };
                let doubt = new
                    .doubt(self.variant, self.quantity)
                    .or_else(|| reference.source.doubt(reference.variant, self.quantity));
                match doubt {
                    Some(reason) => self.withheld(reason),
                    None => self.relative(&reference, factor, shift),
                }
            }
        }
    }

    /// What the gate is about: `p99 of new`.
    fn subject(&self) -> String {
        match self.name.is_empty() {
            true => self.quantity.name.clone(),
            false => format!("{} of {}", self.quantity.name, self.name),
        }
    }

    fn withheld(&self, reason: &str) -> Found {
        Found::unclear(format!("{}: withheld: {reason}", self.subject()))
    }

    /// Requests that happened are no estimate: all trials together have so many of them.
    fn counted(&self, measure: Measure, limit: f64, is_share: bool) -> Found {
        let records = self.evidence.new.records.iter();
        let counts = records
            .filter(|(_, variant, _)| *variant == self.variant)
            .filter_map(|(_, _, record)| measure.count(record));
        let (count, whole) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if whole == 0 && is_share {
            return Found::unclear(format!("{}: no request ended", self.subject()));
        }
        let value = match is_share {
            true => count as f64 / whole as f64,
            false => count as f64,
        };
        let ruling = match self.sign.holds(value, limit) {
            true => Ruling::Failed,
            false => Ruling::Passed,
        };
        Found {
            ruling,
            text: said::counted(&self.subject(), (count, whole), is_share, limit),
            numbers: Some(Numbers {
                scale: GateScale::Value,
                value,
                interval: None,
                limit,
            }),
        }
    }

    fn fixed(&self, limit: f64) -> Found {
        let source = &self.evidence.new;
        let values = match self.whole(source, self.variant) {
            Ok(values) => values,
            Err(lacking) => return Found::unclear(lacking),
        };
        let is_ratio = self.quantity.scale() == Scale::Ratio;
        let averaged: Vec<f64> = values
            .iter()
            .map(|(_, value)| if is_ratio { value.ln() } else { *value })
            .collect();
        let back = |value: f64| if is_ratio { value.exp() } else { value };
        let estimate = Estimate::from_blocks(&averaged);
        let interval = estimate.map(|estimate| estimate.interval(self.evidence.miss).map(back));
        let numbers = Numbers {
            scale: GateScale::Value,
            value: back(mean(&averaged)),
            interval,
            limit,
        };
        let ruling = match interval {
            Some(interval) => self.rule(interval, limit),
            // A load that was made once is judged by what it measured, as when it was made.
            None if source.is_loads => {
                let held = values.iter().filter(|(_, v)| self.sign.holds(*v, limit));
                match held.count() {
                    0 => Ruling::Passed,
                    n if n == values.len() => Ruling::Failed,
                    _ => Ruling::Unclear,
                }
            }
            None => Ruling::Unclear,
        };
        let basis = Basis {
            numbers,
            trials: values.len(),
            unit: unit_of(source),
        };
        Found {
            ruling,
            text: said::fixed(&self.subject(), self.quantity, &basis),
            numbers: Some(numbers),
        }
    }

    fn relative(&self, reference: &Compared<'_>, factor: f64, shift: f64) -> Found {
        let is_ratio = self.quantity.scale() == Scale::Ratio && shift == 0.0;
        let stated = (is_ratio && reference.is_baseline)
            .then(|| self.stated(reference.variant))
            .flatten();
        let measured = match stated {
            Some(numbers) => Ok((numbers, self.trials_of(&self.evidence.new, self.variant))),
            None => self.measured(reference, factor, is_ratio),
        };
        let ((value, interval), trials) = match measured {
            Ok(measured) => measured,
            Err(lacking) => return Found::unclear(lacking),
        };
        let (scale, limit) = match is_ratio {
            true => (GateScale::Ratio, factor),
            false => (GateScale::Difference, shift),
        };
        let numbers = Numbers {
            scale,
            value,
            interval,
            limit,
        };
        let ruling = interval.map_or(Ruling::Unclear, |interval| self.rule(interval, limit));
        let basis = Basis {
            numbers,
            trials,
            unit: unit_of(&self.evidence.new),
        };
        Found {
            ruling,
            text: said::relative(
                &self.subject(),
                &reference.name,
                self.quantity,
                factor,
                &basis,
            ),
            numbers: Some(numbers),
        }
    }

    /// The ratio to its baseline as the experiment's verdict has it: the interval that its looks
    /// allow.
    fn stated(&self, against: usize) -> Option<(f64, Option<Interval>)> {
        let super::quantity::What::Metric(metric) = self.quantity.what else {
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

    /// The ratio, or the difference, out of the trials: within the blocks of one run, or as two
    /// samples.
    fn measured(
        &self,
        reference: &Compared<'_>,
        factor: f64,
        is_ratio: bool,
    ) -> Result<((f64, Option<Interval>), usize), String> {
        let new = self.whole(&self.evidence.new, self.variant)?;
        let old = self.whole(&reference.source, reference.variant)?;
        let on_scale = |value: f64, factor: f64| match is_ratio {
            true => value.ln(),
            false => factor * value,
        };
        let back = |value: f64| if is_ratio { value.exp() } else { value };
        let new_values: Vec<f64> = new.iter().map(|(_, v)| on_scale(*v, 1.0)).collect();
        let old_values: Vec<f64> = old.iter().map(|(_, v)| on_scale(*v, factor)).collect();
        let miss = self.evidence.miss;
        if reference.is_stored {
            let gap = Gap::between(&old_values, &new_values);
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

    /// All trials' values; the sentence of what lacks otherwise.
    fn whole(&self, source: &Source<'_>, variant: usize) -> Result<Vec<(u32, f64)>, String> {
        let values = source.values(variant, self.quantity);
        let unit = unit_of(source);
        let lacking: Vec<String> = values
            .iter()
            .filter(|(_, value)| value.is_none())
            .map(|(block, _)| block.to_string())
            .collect();
        if values.len() == lacking.len() {
            return Err(format!("{}: not measured", self.subject()));
        }
        if !lacking.is_empty() {
            return Err(format!(
                "{}: not measured in {unit} {}",
                self.subject(),
                lacking.join(", ")
            ));
        }
        Ok(values
            .into_iter()
            .filter_map(|(block, value)| Some((block, value?)))
            .collect())
    }

    fn trials_of(&self, source: &Source<'_>, variant: usize) -> usize {
        source.values(variant, self.quantity).len()
    }

    /// By the whole interval.
    fn rule(&self, interval: Interval, limit: f64) -> Ruling {
        let ends = [interval.low, interval.high].map(|end| self.sign.holds(end, limit));
        match ends {
            [true, true] => Ruling::Failed,
            [false, false] => Ruling::Passed,
            _ => Ruling::Unclear,
        }
    }

    fn reference(&self, to: Reference) -> Option<Compared<'_>> {
        let new = self.evidence.new;
        let within = |variant: usize| Compared {
            source: new,
            variant,
            name: new.run.variants[variant].name.clone(),
            is_baseline: new.run.counterpart(self.variant) == Some(variant),
            is_stored: false,
        };
        match to {
            Reference::Variant(variant) => Some(within(variant)),
            Reference::Baseline => new.run.counterpart(self.variant).map(within),
            Reference::Stored => {
                let stored = self.evidence.stored?;
                let variant = new.run.same_in(self.variant, stored.run)?;
                Some(Compared {
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

/// What a variant is held against.
struct Compared<'a> {
    source: Source<'a>,
    variant: usize,
    name: String,
    /// Whether the experiment's own comparisons are about this pair.
    is_baseline: bool,
    is_stored: bool,
}

fn unit_of(source: &Source<'_>) -> &'static str {
    if source.is_loads { "load" } else { "block" }
}
