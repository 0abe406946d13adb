//! Design of an experiment: factors, variants, baseline and stopping rule.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;

use crate::metric::{Direction, Metric};
use crate::naming::{is_named_with_factor, level_name};

/// The level of each factor, in the plan's order. Equality ignores the order.
pub type Levels = IndexMap<String, String>;

/// Minimum number of complete blocks for an interval. With two blocks (one degree of freedom), a
/// 95% interval would extend thirteen standard errors to each side.
pub const INTERVAL_BLOCKS_MIN: u32 = 3;

/// Largest number of blocks in a design.
pub const BLOCKS_MAX: u32 = 1_000;

/// Ratio between the block counts of successive planned looks. With the defaults of 5 and 15
/// blocks, the looks are at 5, 7, 10 and 15.
const LOOK_GROWTH: f64 = 1.4;

/// Setting that varies between variants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Name of the factor in the plan.
    pub name: String,
    /// Names of the factor's levels, at least one.
    pub levels: Vec<String>,
}

impl Factor {
    /// Returns the name of a level in sentences.
    pub fn name_of(&self, level: &str) -> String {
        let with_factor = is_named_with_factor(self.levels.iter().map(String::as_str));
        level_name(&self.name, level, with_factor)
    }
}

/// Variants, metrics and stopping rule of an experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// The factors, in the plan's order.
    pub factors: Vec<Factor>,
    /// All combinations of the factors' levels, or some of the combinations. Trials refer to
    /// variants by index.
    pub variants: Vec<Levels>,
    /// Levels that define the baseline. If only some factors have a baseline level, each variant is
    /// compared with the variant that has the baseline's level in those factors and the same level
    /// in all others.
    pub baseline: Levels,
    /// Largest change in either direction that counts as no difference. It is a relative change for
    /// metrics that are compared by ratio (0.02 means ±2%), and an absolute difference for shares.
    pub margin: f64,
    /// The metrics that share the error rate and decide when to stop.
    pub family: Vec<Metric>,
    /// Number of complete blocks at the first look.
    pub blocks_min: u32,
    /// Number of complete blocks at the last look. If it equals `blocks_min`, the design is fixed:
    /// it has only one look.
    pub blocks_max: u32,
    /// Probability of at least one false `faster` or `slower` in the whole experiment, usually
    /// 0.05. Each interval on its own has a coverage of 95%.
    pub alpha: f64,
    /// Goals of the capacity searches, such as `p99<50ms`; empty if the trials aren't searches.
    pub goals: Vec<String>,
}

/// Indices in [`Design::variants`] of a variant and its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// Variant that the verdict is about.
    pub variant: usize,
    /// The variant's baseline.
    pub against: usize,
}

/// Reason why a design can't be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub enum DesignError {
    /// The baseline, or a variant, names a factor that does not exist.
    UnknownFactor(String),
    /// The baseline, or a variant, names a level that the factor doesn't have.
    UnknownLevel {
        /// Name of the factor.
        factor: String,
        /// Level that the factor doesn't have.
        level: String,
    },
    /// A variant does not give a level for this factor.
    MissingFactor(String),
    /// Two variants have the same levels.
    SameVariantTwice(String),
    /// The baseline fixes no factor.
    NoBaseline,
    /// No variant has a baseline to be compared with.
    NothingToCompare,
    /// There is no metric to judge.
    NoMetric,
    /// Neither direction of the metric is better, so it can't have a verdict.
    NoDirection(Metric),
    /// The family contains a metric twice.
    SameMetricTwice(Metric),
    /// `blocks_min` and `blocks_max` violate 1 ≤ `blocks_min` ≤ `blocks_max` ≤ [`BLOCKS_MAX`].
    Blocks {
        /// The given `blocks_min`.
        min: u32,
        /// The given `blocks_max`.
        max: u32,
    },
    /// The margin is not above 0 and below 1.
    Margin(f64),
    /// The error rate is not above 0 and below 0.5.
    Alpha(f64),
}

impl Design {
    /// Checks the design and returns its comparisons, in the order of the variants.
    ///
    /// # Errors
    /// Returns the first contradiction found.
    pub fn pairs(&self) -> Result<Vec<Pair>, DesignError> {
        self.check_rules()?;
        self.check_levels()?;
        let pairs: Vec<Pair> = (0..self.variants.len())
            .filter_map(|variant| {
                let against = self.counterpart(variant)?;
                (against != variant).then_some(Pair { variant, against })
            })
            .collect();
        if pairs.is_empty() {
            return Err(DesignError::NothingToCompare);
        }
        Ok(pairs)
    }

    /// Returns the baseline of a variant: the variant with the baseline's levels in the factors
    /// that the baseline fixes, and the same levels in all others. A baseline variant is its own
    /// baseline. Returns `None` if the plan doesn't include such a variant.
    pub fn counterpart(&self, variant: usize) -> Option<usize> {
        let mut wanted = self.variants.get(variant)?.clone();
        for (factor, level) in &self.baseline {
            wanted.insert(factor.clone(), level.clone());
        }
        self.variants.iter().position(|levels| *levels == wanted)
    }

    /// Returns the numbers of complete blocks at the planned looks: from `blocks_min` to
    /// `blocks_max`, each about 40% larger than the one before. A look between these two is omitted
    /// if `blocks_max` is less than 20% larger. Empty if `blocks_max` is below
    /// [`INTERVAL_BLOCKS_MIN`].
    pub fn planned_looks(&self) -> Vec<u32> {
        let mut looks = Vec::new();
        let mut next = self.blocks_min.max(INTERVAL_BLOCKS_MIN);
        while next < self.blocks_max
            && (looks.is_empty() || f64::from(next) * 1.2 < f64::from(self.blocks_max))
        {
            looks.push(next);
            next = (f64::from(next) * LOOK_GROWTH).ceil() as u32;
        }
        if self.blocks_max >= INTERVAL_BLOCKS_MIN {
            looks.push(self.blocks_max);
        }
        looks
    }

    /// Returns the name of a variant in sentences: its levels in the plan's order, without factors
    /// that have only one level.
    pub fn name_of(&self, variant: usize) -> String {
        let Some(levels) = self.variants.get(variant) else {
            return String::new();
        };
        let names: Vec<String> = self
            .varying()
            .filter_map(|factor| Some(factor.name_of(levels.get(&factor.name)?)))
            .collect();
        names.join(", ")
    }

    /// Returns the factors with at least two levels.
    pub(crate) fn varying(&self) -> impl Iterator<Item = &Factor> {
        self.factors.iter().filter(|factor| factor.levels.len() > 1)
    }

    fn check_rules(&self) -> Result<(), DesignError> {
        if self.blocks_min < 1 || self.blocks_min > self.blocks_max || self.blocks_max > BLOCKS_MAX
        {
            return Err(DesignError::Blocks {
                min: self.blocks_min,
                max: self.blocks_max,
            });
        }
        if !(self.margin > 0.0 && self.margin < 1.0) {
            return Err(DesignError::Margin(self.margin));
        }
        if !(self.alpha > 0.0 && self.alpha < 0.5) {
            return Err(DesignError::Alpha(self.alpha));
        }
        if self.family.is_empty() {
            return Err(DesignError::NoMetric);
        }
        let mut seen = HashSet::new();
        for &metric in &self.family {
            if metric.direction() == Direction::Neither {
                return Err(DesignError::NoDirection(metric));
            }
            if !seen.insert(metric) {
                return Err(DesignError::SameMetricTwice(metric));
            }
        }
        Ok(())
    }

    fn check_levels(&self) -> Result<(), DesignError> {
        if self.baseline.is_empty() {
            return Err(DesignError::NoBaseline);
        }
        for levels in self.variants.iter().chain([&self.baseline]) {
            for (name, level) in levels {
                let factor = self
                    .factors
                    .iter()
                    .find(|factor| factor.name == *name)
                    .ok_or_else(|| DesignError::UnknownFactor(name.clone()))?;
                if !factor.levels.contains(level) {
                    return Err(DesignError::UnknownLevel {
                        factor: name.clone(),
                        level: level.clone(),
                    });
                }
            }
        }
        for (place, levels) in self.variants.iter().enumerate() {
            if let Some(missing) = self
                .factors
                .iter()
                .find(|factor| !levels.contains_key(&factor.name))
            {
                return Err(DesignError::MissingFactor(missing.name.clone()));
            }
            if self.variants[..place].contains(levels) {
                return Err(DesignError::SameVariantTwice(self.name_of(place)));
            }
        }
        Ok(())
    }
}

impl fmt::Display for DesignError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownFactor(name) => write!(out, "there is no factor \"{name}\""),
            Self::UnknownLevel { factor, level } => {
                write!(out, "factor \"{factor}\" has no level \"{level}\"")
            }
            Self::MissingFactor(name) => {
                write!(out, "a variant has no level for factor \"{name}\"")
            }
            Self::SameVariantTwice(name) => write!(out, "variant \"{name}\" is listed twice"),
            Self::NoBaseline => out.write_str("the baseline fixes no factor (name one level)"),
            Self::NothingToCompare => out.write_str(
                "no variant has a baseline to be compared with \
                 (give a factor a second level, or another baseline)",
            ),
            Self::NoMetric => out.write_str("no metric to judge the variants by"),
            Self::NoDirection(metric) => write!(
                out,
                "no verdict can be given on {metric}: neither a higher nor a lower value is better"
            ),
            Self::SameMetricTwice(metric) => write!(out, "metric {metric} is listed twice"),
            Self::Blocks { min, max } => write!(
                out,
                "blocks from {min} to {max}: both must be from 1 to {BLOCKS_MAX}, and the \
                    minimum must not exceed the maximum"
            ),
            Self::Margin(margin) => {
                write!(out, "margin {margin}: must be above 0 and below 1")
            }
            Self::Alpha(alpha) => {
                write!(out, "error rate {alpha}: must be above 0 and below 0.5")
            }
        }
    }
}

impl std::error::Error for DesignError {}
