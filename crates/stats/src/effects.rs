//! Effects of factors averaged over the other factors: main effects and two-way interactions.
//!
//! Effects are computed if the variants are all combinations of the factors' levels. Within each
//! block, the contrast is taken between averages over all cells of the other factors, on the
//! averaging scale. The interval comes from the spread between blocks. Effects are descriptive:
//! they have no verdict, and each interval on its own has a coverage of 95%.

use serde::{Deserialize, Serialize};

use crate::comparison::Effect;
use crate::design::{Design, Factor, Levels};
use crate::estimate::{Estimate, Interval, mean};
use crate::metric::Metric;
use crate::pairing;
use crate::trials::Block;

/// Type of a factor effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EffectKind {
    /// Effect of one level instead of another, averaged over the other factors.
    Main,
    /// Dependence of a main effect on the level of another factor, as a ratio of ratios.
    Interaction,
}

/// One main effect or interaction, on one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorEffect {
    /// Main effect or interaction.
    pub kind: EffectKind,
    /// Metric that the effect changes.
    pub metric: Metric,
    /// Levels whose effect is described: a level of one factor (main effect), or a level of each of
    /// two factors (interaction).
    pub levels: Levels,
    /// Reference level of each of these factors: the baseline's level, or the factor's first level
    /// if the baseline doesn't fix the factor.
    pub against: Levels,
    /// Estimate with its 95% interval.
    #[serde(flatten)]
    pub effect: Effect,
    /// Dependence of a main effect on each of the other factors. Empty for interactions, and in
    /// documents of earlier versions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependences: Vec<FactorDependence>,
    /// The effect as one sentence, composed from the other fields; empty until then.
    pub text: String,
}

/// Dependence of a main effect on one of the other factors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorDependence {
    /// Name of the other factor.
    pub factor: String,
    /// The dependence, as far as the blocks establish it.
    pub dependence: Dependence,
}

/// Dependence of a factor's effect on the level of another factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dependence {
    /// The effect differs by no more than the margin between the levels of the other factor.
    None,
    /// The effect is established to differ between at least two levels of the other factor.
    /// Contains the effect at each level.
    Established(Vec<LevelEffect>),
    /// Neither a dependence nor its absence is established.
    Unclear,
}

/// Effect of a step at one level of another factor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelEffect {
    /// Level of the other factor.
    pub level: String,
    /// Estimate with its 95% interval.
    #[serde(flatten)]
    pub effect: Effect,
}

/// Returns all effects on the family's metrics. The list is empty if the variants aren't all
/// combinations of at least two factors, or if there are too few blocks. `miss` is the probability
/// that an interval does not contain the true value.
pub(crate) fn factor_effects(
    design: &Design,
    blocks: &[Block<'_>],
    miss: Option<f64>,
) -> Vec<FactorEffect> {
    let (Some(product), Some(miss)) = (FullProduct::of(design), miss) else {
        return Vec::new();
    };
    design
        .family
        .iter()
        .filter_map(|&metric| CellValues::measured(&product, blocks, metric, miss))
        .flat_map(|cells| cells.effects())
        .collect()
}

/// A design whose variants are all combinations of the varying factors' levels.
struct FullProduct<'a> {
    design: &'a Design,
    factors: Vec<&'a Factor>,
    /// Index of each factor's reference level.
    references: Vec<usize>,
    /// Index of each variant's level in each factor, by variant.
    cells: Vec<Vec<usize>>,
}

impl<'a> FullProduct<'a> {
    fn of(design: &'a Design) -> Option<Self> {
        let factors: Vec<&Factor> = design.varying().collect();
        let cells_wanted: usize = factors.iter().map(|factor| factor.levels.len()).product();
        // `Design::pairs` has already rejected duplicate variants, so equal counts mean that every
        // combination exists.
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
        Some(FullProduct {
            design,
            factors,
            references,
            cells,
        })
    }
}

/// Step from a factor's reference level to another of its levels.
#[derive(Clone, Copy)]
struct LevelStep {
    factor: usize,
    level: usize,
}

/// One metric of every variant in every block, on the averaging scale.
struct CellValues<'a> {
    product: &'a FullProduct<'a>,
    metric: Metric,
    miss: f64,
    /// Values by block, then by variant.
    values: Vec<Vec<f64>>,
}

impl<'a> CellValues<'a> {
    fn measured(
        product: &'a FullProduct<'a>,
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
        Some(CellValues {
            product,
            metric,
            miss,
            values,
        })
    }

    fn effects(&self) -> Vec<FactorEffect> {
        let steps: Vec<LevelStep> = (0..self.product.factors.len())
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

    fn steps(&self, factor: usize) -> impl Iterator<Item = LevelStep> + use<'a> {
        let product = self.product;
        let reference = product.references[factor];
        (0..product.factors[factor].levels.len())
            .filter(move |&level| level != reference)
            .map(move |level| LevelStep { factor, level })
    }

    /// Returns, for each block, the mean over all cells with the step's level minus the mean over
    /// all cells with the reference level. Only cells for which `chosen` returns true are included.
    fn contrast(&self, step: LevelStep, chosen: impl Fn(&[usize]) -> bool) -> Vec<f64> {
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

    fn main(&self, step: LevelStep) -> Option<FactorEffect> {
        let (effect, _) = self.estimated(&self.contrast(step, |_| true))?;
        effect.estimate()?;
        let main = self.effect(EffectKind::Main, &[step], effect);
        Some(FactorEffect {
            dependences: self.dependences(step),
            ..main
        })
    }

    fn interaction(&self, a: LevelStep, b: LevelStep) -> Option<FactorEffect> {
        let (effect, _) = self.interplay(a, b)?;
        effect.estimate()?;
        Some(self.effect(EffectKind::Interaction, &[a, b], effect))
    }

    fn interplay(&self, a: LevelStep, b: LevelStep) -> Option<(Effect, Interval)> {
        let reference = self.product.references[b.factor];
        let with = self.contrast(a, |cell| cell[b.factor] == b.level);
        let without = self.contrast(a, |cell| cell[b.factor] == reference);
        let changes: Vec<f64> = with.iter().zip(&without).map(|(x, y)| x - y).collect();
        self.estimated(&changes)
    }

    /// Returns the dependence of a step's effect on each other factor.
    fn dependences(&self, step: LevelStep) -> Vec<FactorDependence> {
        let others = (0..self.product.factors.len()).filter(|&other| other != step.factor);
        others
            .map(|other| {
                let intervals: Vec<Interval> = self
                    .steps(other)
                    .filter_map(|b| Some(self.interplay(step, b)?.1))
                    .collect();
                let margin = self.margin();
                let dependence = if intervals.iter().all(|interval| interval.within(&margin)) {
                    Dependence::None
                } else if intervals.iter().any(|interval| !interval.contains(0.0)) {
                    Dependence::Established(self.by_level(step, other))
                } else {
                    Dependence::Unclear
                };
                FactorDependence {
                    factor: self.product.factors[other].name.clone(),
                    dependence,
                }
            })
            .collect()
    }

    /// Returns the effect of a step at each level of another factor.
    fn by_level(&self, step: LevelStep, other: usize) -> Vec<LevelEffect> {
        let factor = self.product.factors[other];
        let levels = factor.levels.iter().enumerate();
        levels
            .filter_map(|(index, level)| {
                let values = self.contrast(step, |cell| cell[other] == index);
                let (effect, _) = self.estimated(&values)?;
                effect.estimate()?;
                Some(LevelEffect {
                    level: level.clone(),
                    effect,
                })
            })
            .collect()
    }

    fn estimated(&self, values: &[f64]) -> Option<(Effect, Interval)> {
        let estimate = Estimate::from_blocks(values)?;
        let interval = estimate.interval(self.miss);
        let effect = Effect::on(self.metric.scale(), Some(estimate.mean), Some(interval));
        Some((effect, interval))
    }

    fn margin(&self) -> Interval {
        pairing::equivalence(self.metric, self.product.design.margin)
    }

    fn levels(&self, step: LevelStep) -> (&str, &str) {
        let levels = &self.product.factors[step.factor].levels;
        (
            &levels[step.level],
            &levels[self.product.references[step.factor]],
        )
    }

    fn effect(&self, kind: EffectKind, steps: &[LevelStep], effect: Effect) -> FactorEffect {
        let named = |level_of: &dyn Fn(LevelStep) -> String| -> Levels {
            steps
                .iter()
                .map(|&step| {
                    (
                        self.product.factors[step.factor].name.clone(),
                        level_of(step),
                    )
                })
                .collect()
        };
        FactorEffect {
            kind,
            metric: self.metric,
            levels: named(&|step| self.levels(step).0.to_owned()),
            against: named(&|step| self.levels(step).1.to_owned()),
            effect,
            dependences: Vec::new(),
            text: String::new(),
        }
    }
}
