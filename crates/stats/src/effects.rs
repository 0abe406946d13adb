//! What a factor does, over all others: main effects and two-way interactions.
//!
//! For variants that are the full product of their factors. Within each block the contrast is
//! taken between averages over all cells of the other factors, on the log scale (or of shares);
//! the interval comes from the blocks, as everywhere. These describe: no verdict hangs on them,
//! and each interval covers alone.

use serde::{Deserialize, Serialize};

use crate::change::Change;
use crate::comparison::Effect;
use crate::design::{Design, Factor, Levels};
use crate::estimate::{Estimate, Interval, mean};
use crate::metric::Metric;
use crate::pairing;
use crate::trials::Block;

/// What an effect is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// One level instead of another, averaged over the other factors.
    Main,
    /// By how much a main effect differs between two levels of another factor: a ratio of ratios.
    Interaction,
}

/// One main effect or interaction, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorEffect {
    /// Main effect or interaction.
    pub kind: EffectKind,
    /// What is compared.
    pub metric: Metric,
    /// The level of the factor, or of both.
    pub levels: Levels,
    /// What it is set against: the baseline's level, or the factor's first where the baseline
    /// fixes none.
    pub against: Levels,
    /// The estimate and its 95% interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// The same in words.
    pub text: String,
}

/// All effects on the metrics of the family; none when the variants are no full product of two
/// factors or more, or there are too few blocks. `miss` is how often an interval misses.
pub(crate) fn of(design: &Design, blocks: &[Block<'_>], miss: Option<f64>) -> Vec<FactorEffect> {
    let (Some(product), Some(miss)) = (Product::of(design), miss) else {
        return Vec::new();
    };
    design
        .family
        .iter()
        .filter_map(|&metric| Cells::measured(&product, blocks, metric, miss))
        .flat_map(|cells| cells.effects())
        .collect()
}

/// The full product of the factors that vary.
struct Product<'a> {
    design: &'a Design,
    factors: Vec<&'a Factor>,
    /// For each factor, which of its levels is the reference.
    references: Vec<usize>,
    /// For each variant, the place of its level in each factor.
    cells: Vec<Vec<usize>>,
}

impl<'a> Product<'a> {
    fn of(design: &'a Design) -> Option<Self> {
        let factors: Vec<&Factor> = design.varying().collect();
        let cells_wanted: usize = factors.iter().map(|factor| factor.levels.len()).product();
        // The design's check has seen that no variant comes twice.
        if factors.len() < 2 || design.variants.len() != cells_wanted {
            return None;
        }
        let place = |factor: &Factor, levels: &Levels| {
            let level = levels.get(&factor.name)?;
            factor.levels.iter().position(|known| known == level)
        };
        let cells = design
            .variants
            .iter()
            .map(|levels| factors.iter().map(|factor| place(factor, levels)).collect())
            .collect::<Option<Vec<Vec<usize>>>>()?;
        let references = factors
            .iter()
            .map(|factor| place(factor, &design.baseline).unwrap_or(0))
            .collect();
        Some(Product {
            design,
            factors,
            references,
            cells,
        })
    }
}

/// A level of a factor that is not its reference.
#[derive(Clone, Copy)]
struct Step {
    factor: usize,
    level: usize,
}

/// One metric of every variant in every block, on the averaging scale.
struct Cells<'a> {
    product: &'a Product<'a>,
    metric: Metric,
    miss: f64,
    /// By block, then variant.
    values: Vec<Vec<f64>>,
}

impl<'a> Cells<'a> {
    fn measured(
        product: &'a Product<'a>,
        blocks: &[Block<'_>],
        metric: Metric,
        miss: f64,
    ) -> Option<Self> {
        let variants = 0..product.design.variants.len();
        let values = blocks
            .iter()
            .map(|block| {
                variants
                    .clone()
                    .map(|variant| pairing::averaged(block, variant, metric))
                    .collect()
            })
            .collect::<Option<Vec<Vec<f64>>>>()?;
        Some(Cells {
            product,
            metric,
            miss,
            values,
        })
    }

    fn effects(&self) -> Vec<FactorEffect> {
        let steps: Vec<Step> = (0..self.product.factors.len())
            .flat_map(|f| self.steps(f))
            .collect();
        let mains = steps.iter().filter_map(|&step| self.main(step));
        let interactions = steps.iter().flat_map(|&a| {
            steps
                .iter()
                .filter(move |b| b.factor > a.factor)
                .map(move |&b| (a, b))
        });
        mains
            .chain(interactions.filter_map(|(a, b)| self.interaction(a, b)))
            .collect()
    }

    fn steps(&self, factor: usize) -> impl Iterator<Item = Step> + use<'a> {
        let product = self.product;
        let reference = product.references[factor];
        (0..product.factors[factor].levels.len())
            .filter(move |&level| level != reference)
            .map(move |level| Step { factor, level })
    }

    /// By block: the mean over all cells with the step's level, less that over all cells with the
    /// reference, among the cells that `chosen` picks.
    fn contrast(&self, step: Step, chosen: impl Fn(&[usize]) -> bool) -> Vec<f64> {
        let reference = self.product.references[step.factor];
        let average = |block: &[f64], level: usize| {
            let values: Vec<f64> = self
                .product
                .cells
                .iter()
                .zip(block)
                .filter(|(cell, _)| cell[step.factor] == level && chosen(cell))
                .map(|(_, &value)| value)
                .collect();
            mean(&values)
        };
        self.values
            .iter()
            .map(|block| average(block, step.level) - average(block, reference))
            .collect()
    }

    fn main(&self, step: Step) -> Option<FactorEffect> {
        let (effect, _) = self.estimated(&self.contrast(step, |_| true))?;
        let change = Change::of(self.metric, &effect)?;
        let (level, reference) = self.names(step);
        let text = format!(
            "{level} instead of {reference}: {}{}",
            cost(self.metric, &change),
            self.dependence(step)
        );
        Some(self.effect(EffectKind::Main, &[step], effect, text))
    }

    fn interaction(&self, a: Step, b: Step) -> Option<FactorEffect> {
        let (effect, _) = self.interplay(a, b)?;
        let change = Change::of(self.metric, &effect)?;
        let ((a_level, a_reference), (b_level, b_reference)) = (self.names(a), self.names(b));
        let text = format!(
            "the effect of {a_level} instead of {a_reference} on the {} changes by {} with {b_level} \
             instead of {b_reference}",
            self.metric.noun(),
            change.with_interval(),
        );
        Some(self.effect(EffectKind::Interaction, &[a, b], effect, text))
    }

    fn interplay(&self, a: Step, b: Step) -> Option<(Effect, Interval)> {
        let reference = self.product.references[b.factor];
        let with = self.contrast(a, |cell| cell[b.factor] == b.level);
        let without = self.contrast(a, |cell| cell[b.factor] == reference);
        let changes: Vec<f64> = with.iter().zip(&without).map(|(x, y)| x - y).collect();
        self.estimated(&changes)
    }

    /// How the effect of a step hangs on each other factor, in words.
    fn dependence(&self, step: Step) -> String {
        let others = (0..self.product.factors.len()).filter(|&other| other != step.factor);
        let (mut regardless, mut said) = (Vec::new(), String::new());
        for other in others {
            let name = &self.product.factors[other].name;
            let intervals: Vec<Interval> = self
                .steps(other)
                .filter_map(|b| Some(self.interplay(step, b)?.1))
                .collect();
            let margin = self.margin();
            if intervals.iter().all(|interval| interval.within(&margin)) {
                regardless.push(format!("whichever the {name}"));
            } else if intervals.iter().any(|interval| !interval.contains(0.0)) {
                said += &format!("; it depends on the {name} ({})", self.simple(step, other));
            } else {
                said += &format!("; whether the {name} changes that is open");
            }
        }
        let regardless = regardless.join(" and ");
        let comma = if regardless.is_empty() { "" } else { ", " };
        format!("{comma}{regardless}{said}")
    }

    /// The step's effect at each level of another factor: "−5.0% with unix, −11.2% with tcp".
    fn simple(&self, step: Step, other: usize) -> String {
        let factor = self.product.factors[other];
        let levels = factor.levels.iter().enumerate();
        let parts: Vec<String> = levels
            .filter_map(|(place, level)| {
                let values = self.contrast(step, |cell| cell[other] == place);
                let (effect, _) = self.estimated(&values)?;
                Some(format!(
                    "{} with {}",
                    Change::of(self.metric, &effect)?.signed(),
                    factor.name_of(level)
                ))
            })
            .collect();
        parts.join(", ")
    }

    fn estimated(&self, values: &[f64]) -> Option<(Effect, Interval)> {
        let estimate = Estimate::from_blocks(values)?;
        let interval = estimate.interval(self.miss);
        let effect = Effect::on(self.metric.scale(), Some(estimate.mean), Some(interval));
        Some((effect, interval))
    }

    fn margin(&self) -> Interval {
        crate::evaluate::equivalence(self.metric, self.product.design.margin)
    }

    /// The names of the step's level and of the reference in sentences.
    fn names(&self, step: Step) -> (String, String) {
        let factor = self.product.factors[step.factor];
        let (level, reference) = self.levels(step);
        (factor.name_of(level), factor.name_of(reference))
    }

    fn levels(&self, step: Step) -> (&str, &str) {
        let levels = &self.product.factors[step.factor].levels;
        (
            &levels[step.level],
            &levels[self.product.references[step.factor]],
        )
    }

    fn effect(
        &self,
        kind: EffectKind,
        steps: &[Step],
        effect: Effect,
        text: String,
    ) -> FactorEffect {
        let named = |of: &dyn Fn(Step) -> String| -> Levels {
            steps
                .iter()
                .map(|&step| (self.product.factors[step.factor].name.clone(), of(step)))
                .collect()
        };
        FactorEffect {
            kind,
            metric: self.metric,
            levels: named(&|step| self.levels(step).0.to_owned()),
            against: named(&|step| self.levels(step).1.to_owned()),
            effect,
            text,
        }
    }
}

/// "costs 8.0% (7.0% to 9.0%)" for a rate whose direction is sure; signs otherwise.
fn cost(metric: Metric, change: &Change) -> String {
    if metric == Metric::RatePerS
        && !change.is_factor()
        && let Some(range) = change.range().filter(|_| change.is_one_sided())
    {
        let verb = if change.is_less() { "costs" } else { "gains" };
        return format!("{verb} {} ({range})", change.amount());
    }
    format!("{} {}", metric.noun(), change.with_interval())
}
