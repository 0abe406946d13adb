//! What an experiment compares: factors, variants, the baseline and the rules of stopping.

use std::collections::HashSet;
use std::fmt;

use indexmap::IndexMap;

use crate::metric::{Direction, Metric};
use crate::naming::{is_named_with_factor, level_name};

/// The level of each factor, in the plan's order. Equality ignores the order.
pub type Levels = IndexMap<String, String>;

/// Fewest complete blocks from which an interval is computed. Two blocks leave one degree of
/// freedom, on which a 95% interval is thirteen standard errors wide on each side.
pub const LEAST_BLOCKS: u32 = 3;

/// Most blocks that a design may have; far beyond any sensible experiment.
pub const MOST_BLOCKS: u32 = 1_000;

/// Each planned look comes when there are this many times the blocks of the look before. With the
/// defaults of 5 and 15 blocks the looks fall at 5, 7, 10 and 15.
const LOOK_GROWTH: f64 = 1.4;

/// One thing that varies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Factor {
    /// Its name in the plan.
    pub name: String,
    /// The names of its levels, at least one.
    pub levels: Vec<String>,
}

impl Factor {
    /// The name of one of its levels in sentences.
    pub(crate) fn name_of(&self, level: &str) -> String {
        let with_factor = is_named_with_factor(self.levels.iter().map(String::as_str));
        level_name(&self.name, level, with_factor)
    }
}

/// What is compared with what, on which metrics, and when to stop.
#[derive(Debug, Clone, PartialEq)]
pub struct Design {
    /// The factors, in the plan's order.
    pub factors: Vec<Factor>,
    /// The variants: the factors' product or a part of it. Trials name them by their place here.
    pub variants: Vec<Levels>,
    /// The reference. When it fixes some factors only, each variant is compared with the one that
    /// has the baseline's levels in those and its own levels in the others.
    pub baseline: Levels,
    /// Half the width of what counts as no difference, as a share (0.02 for ±2%): of the ratio,
    /// or of the difference between two shares.
    pub margin: f64,
    /// The metrics that share the error rate and decide when to stop.
    pub family: Vec<Metric>,
    /// Complete blocks before the first look.
    pub blocks_min: u32,
    /// Complete blocks at the last look. Equal to `blocks_min`: a fixed design with one look.
    pub blocks_max: u32,
    /// Chance of one false `faster` or `slower` or more in the whole experiment; 0.05 by custom.
    /// Each interval alone covers with the rest, 95%.
    pub alpha: f64,
}

/// A variant and what it is compared with, as places in [`Design::variants`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The variant that the verdict is about.
    pub variant: usize,
    /// Its baseline.
    pub against: usize,
}

/// Why a design can't be evaluated.
#[derive(Debug, Clone, PartialEq)]
pub enum DesignError {
    /// The baseline, or a variant, names a factor that does not exist.
    UnknownFactor(String),
    /// The baseline, or a variant, names a level that its factor lacks.
    UnknownLevel {
        /// The factor.
        factor: String,
        /// The level that it lacks.
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
    /// No metric to judge.
    NoMetric,
    /// The metric is better neither high nor low, so that no verdict can be stated on it.
    NoDirection(Metric),
    /// The same metric twice in the family.
    SameMetricTwice(Metric),
    /// Not 1 ≤ `blocks_min` ≤ `blocks_max` ≤ [`MOST_BLOCKS`].
    Blocks {
        /// Fewest, as given.
        min: u32,
        /// Most, as given.
        max: u32,
    },
    /// The margin is not above 0 and below 1.
    Margin(f64),
    /// The error rate is not above 0 and below 0.5.
    Alpha(f64),
}

impl Design {
    /// Checks the design and lists its comparisons, in the order of the variants.
    ///
    /// # Errors
    /// The first thing that is wrong with the design.
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

    /// The baseline of a variant: its own levels, but the baseline's where that fixes one. A
    /// variant of the baseline is its own counterpart. `None` when the plan lists no such variant.
    pub fn counterpart(&self, variant: usize) -> Option<usize> {
        let mut wanted = self.variants.get(variant)?.clone();
        for (factor, level) in &self.baseline {
            wanted.insert(factor.clone(), level.clone());
        }
        self.variants.iter().position(|levels| *levels == wanted)
    }

    /// The numbers of complete blocks at which verdicts are sought: the first at `blocks_min`,
    /// then whenever there are two fifths more, the last at `blocks_max`. Empty when `blocks_max`
    /// is under [`LEAST_BLOCKS`].
    pub fn planned_looks(&self) -> Vec<u32> {
        let mut looks = Vec::new();
        let mut next = self.blocks_min.max(LEAST_BLOCKS);
        while f64::from(next) * 1.2 < f64::from(self.blocks_max) {
            looks.push(next);
            next = (f64::from(next) * LOOK_GROWTH).ceil() as u32;
        }
        if self.blocks_max >= LEAST_BLOCKS {
            looks.push(self.blocks_max);
        }
        looks
    }

    /// The name of a variant in sentences: its levels in the plan's order, without the factors that
    /// have only one.
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

    /// The factors with two levels or more.
    pub(crate) fn varying(&self) -> impl Iterator<Item = &Factor> {
        self.factors.iter().filter(|factor| factor.levels.len() > 1)
    }

    fn check_rules(&self) -> Result<(), DesignError> {
        if self.blocks_min < 1 || self.blocks_min > self.blocks_max || self.blocks_max > MOST_BLOCKS
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
                write!(out, "a variant gives no level for factor \"{name}\"")
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
                "no verdict can be given on {metric}: neither more nor less of it is better"
            ),
            Self::SameMetricTwice(metric) => write!(out, "metric {metric} is listed twice"),
            Self::Blocks { min, max } => write!(
                out,
                "blocks from {min} to {max}: want at least 1, no more than {MOST_BLOCKS}, \
                 and the least not above the most"
            ),
            Self::Margin(margin) => {
                write!(out, "margin {margin}: want a share above 0 and below 1")
            }
            Self::Alpha(alpha) => {
                write!(
                    out,
                    "error rate {alpha}: want a share above 0 and below 0.5"
                )
            }
        }
    }
}

impl std::error::Error for DesignError {}
