//! Group-sequential testing: several looks at growing data without raising the error rate.
//!
//! The error rate is spent as blocks are completed (Lan and DeMets 1983): at a fraction *f* of the
//! planned blocks, `alpha · ln(1 + (e − 1) f)` is spent. This is their spending function of the
//! Pocock type. It spends much of the error rate early, so a large effect can be found at the first
//! look. The significance level of a look's t-test follows from the error rate that the look may
//! spend: the probability of passing *this look's level and none before* must equal the newly spent
//! part, for normal noise of unknown variance (Jennison and Turnbull 1991, "Exact calculations for
//! sequential t, χ² and F tests").
//!
//! These probabilities are cheap to compute, because the successive t statistics form a Markov
//! chain if the mean is zero. Write the n values as a vector. The cosine `u` of its angle to the
//! vector (1, …, 1) gives `t² = (n − 1) u² / (1 − u²)`. The direction of a normal vector is
//! independent of its length, and all earlier cosines are functions of the direction. An
//! additional value turns the vector by an angle φ with density ∝ cosⁿ⁻¹ φ on ±π/2:
//!
//! `u′ = √(n/(n+1)) · cos φ · u + √(1/(n+1)) · sin φ`
//!
//! The part of the distribution that has crossed the level of a look is therefore kept as masses on
//! a grid of |u| and updated block by block.

use std::collections::HashMap;
use std::f64::consts::{E, FRAC_PI_2};

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::design::{BLOCKS_MAX, Design, INTERVAL_BLOCKS_MIN};
use crate::estimate::{critical, upper_tail};

/// An evaluation of the verdicts after a certain number of blocks. Looks are stored with the
/// results, so the look at an unplanned block, at which an experiment stopped, still counts when
/// the experiment is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Number of complete blocks at the look.
    pub blocks: u32,
    /// Fraction of the error rate spent up to and including this look, 0 to 1.
    pub spent_share: f64,
}

/// Reads the looks of a stored experiment, and refuses those that no experiment can have, because
/// the time for computing levels grows with the number of looks and of their blocks.
pub(crate) fn stored_looks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Look>, D::Error> {
    let looks = Vec::<Look>::deserialize(from)?;
    let is_possible = |look: &Look| {
        (1..=BLOCKS_MAX).contains(&look.blocks) && (0.0..=1.0).contains(&look.spent_share)
    };
    if looks.iter().all(is_possible) && looks.is_sorted_by(|a, b| a.blocks < b.blocks) {
        Ok(looks)
    } else {
        Err(D::Error::custom(format!(
            "looks must have increasing numbers of blocks, from 1 to {BLOCKS_MAX}, and shares from \
         0 to 1"
        )))
    }
}

/// Returns the fraction of the error rate that may be spent when `fraction` of the planned blocks
/// are complete. Both fractions are between 0 and 1.
pub fn spent_share(fraction: f64) -> f64 {
    (1.0 + (E - 1.0) * fraction.clamp(0.0, 1.0)).ln()
}

/// Returns the looks up to `blocks` complete blocks: those in `earlier`, the planned looks after
/// them, and one at `blocks`. The last one is omitted if the whole error rate has been spent.
pub(crate) fn looks_until(design: &Design, earlier: &[Look], blocks: u32) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    // An earlier look whose blocks are missing can't be replayed, but its error rate stays spent.
    let mut spent: f64 = 0.0;
    let mut given: Vec<Look> = earlier.to_vec();
    given.sort_by(|a, b| {
        a.blocks
            .cmp(&b.blocks)
            .then(a.spent_share.total_cmp(&b.spent_share))
    });
    for look in given {
        spent = spent.max(look.spent_share.clamp(0.0, 1.0));
        if look.blocks < INTERVAL_BLOCKS_MIN || look.blocks > blocks {
            continue;
        }
        push(
            &mut looks,
            Look {
                blocks: look.blocks,
                spent_share: spent,
            },
        );
    }
    let last = looks.last().map_or(0, |look| look.blocks);
    let planned = design.planned_looks();
    let passed = planned
        .into_iter()
        .filter(|&look| last < look && look < blocks);
    for at in passed.chain((blocks >= INTERVAL_BLOCKS_MIN && last < blocks).then_some(blocks)) {
        let share = spent_share(f64::from(at) / f64::from(design.blocks_max));
        if share > spent {
            spent = share;
            push(
                &mut looks,
                Look {
                    blocks: at,
                    spent_share: share,
                },
            );
        }
    }
    looks
}

fn push(looks: &mut Vec<Look>, look: Look) {
    match looks.last_mut() {
        Some(last) if last.blocks == look.blocks => last.spent_share = look.spent_share,
        _ => looks.push(look),
    }
}

/// Cache of significance levels. They depend only on the looks and the error rate, so a caller that
/// evaluates a design repeatedly, such as a simulation, keeps one cache.
#[derive(Debug, Clone, Default)]
pub struct AlphaTable {
    known: HashMap<AlphaKey, Vec<f64>>,
}

/// Key of the cache: looks and error rate, with floating-point numbers stored as bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct AlphaKey {
    looks: Vec<(u32, u64)>,
    alpha: u64,
}

impl AlphaTable {
    /// Creates an empty cache.
    pub fn new() -> Self {
        Self::default()
    }

    /// Like the function [`nominal_alphas`], but cached.
    pub(crate) fn nominal_alphas(&mut self, looks: &[Look], alpha: f64) -> &[f64] {
        let looked = |look: &Look| (look.blocks, look.spent_share.to_bits());
        let question = AlphaKey {
            looks: looks.iter().map(looked).collect(),
            alpha: alpha.to_bits(),
        };
        self.known
            .entry(question)
            .or_insert_with(|| nominal_alphas(looks, alpha))
    }
}

/// Number of cells in the grid of |u|.
const GRID_CELLS: usize = 1_024;
/// Number of angles by which an additional value may turn the vector.
const ANGLE_STEPS: usize = 48;

/// Returns the significance level of the t-test at each of `looks`, for a total error rate of
/// `alpha` (0 to 1). Each level is at least the error rate that the look spends, because the
/// rejections of different looks overlap.
pub fn nominal_alphas(looks: &[Look], alpha: f64) -> Vec<f64> {
    let mut levels = Vec::with_capacity(looks.len());
    let mut passed = CrossedMass::none();
    let mut before: Option<Look> = None;
    for &look in looks {
        let spent = alpha * look.spent_share;
        let earlier = before.map_or(0.0, |before| alpha * before.spent_share);
        if let Some(before) = before {
            for blocks in before.blocks..look.blocks {
                passed = passed.one_more(blocks);
            }
        }
        let level = passed.level_for((spent - earlier).max(0.0), spent, look.blocks);
        passed = passed.with_level(level, look.blocks);
        levels.push(level);
        before = Some(look);
    }
    levels
}

/// Distribution of |u| over the paths that have crossed the significance level of at least one
/// look, if the mean is zero.
struct CrossedMass {
    /// Mass at `|u| = i / GRID_CELLS`. Each value represents the cell that extends half a cell
    /// width to each side.
    mass: Vec<f64>,
}

impl CrossedMass {
    fn none() -> Self {
        CrossedMass {
            mass: vec![0.0; GRID_CELLS + 1],
        }
    }

    /// Returns the distribution of the crossed paths after one more block.
    fn one_more(&self, blocks: u32) -> CrossedMass {
        let n = f64::from(blocks);
        let (old, new) = ((n / (n + 1.0)).sqrt(), (1.0 / (n + 1.0)).sqrt());
        let angle_steps = angle_steps(n);
        let mut next = CrossedMass::none();
        for (cell, &mass) in self
            .mass
            .iter()
            .enumerate()
            .filter(|(_, mass)| **mass > 0.0)
        {
            let u = cell as f64 / GRID_CELLS as f64;
            for step in &angle_steps {
                let moved = (old * step.cos * u + new * step.sin).abs().min(1.0);
                // Linear splitting of the mass between the two nearest points preserves the mean.
                let place = moved * GRID_CELLS as f64;
                let below = (place as usize).min(GRID_CELLS - 1);
                let part = place - below as f64;
                next.mass[below] += mass * step.weight * (1.0 - part);
                next.mass[below + 1] += mass * step.weight * part;
            }
        }
        next
    }

    /// Finds the level that a path crosses now, but not at any earlier look, with the probability
    /// `new`. The level is between `new` (no overlap with earlier looks) and `spent` (the whole
    /// error rate that may have been spent by now).
    fn level_for(&self, new: f64, spent: f64, blocks: u32) -> f64 {
        let (mut low, mut high) = (new, spent);
        if self.mass.iter().all(|&mass| mass == 0.0) {
            return new;
        }
        for _ in 0..40 {
            let level = f64::midpoint(low, high);
            if level - self.beyond(cosine(level, blocks)) < new {
                low = level;
            } else {
                high = level;
            }
        }
        // The lower end of the bisected range never exceeds the permitted error rate.
        low
    }

    /// Returns the mass at |u| ≥ `from`.
    fn beyond(&self, from: f64) -> f64 {
        let place = from * GRID_CELLS as f64 + 0.5;
        let cell = (place as usize).min(GRID_CELLS);
        let inside = self.mass[cell] * (1.0 - (place - cell as f64)).clamp(0.0, 1.0);
        inside + self.mass[cell + 1..].iter().sum::<f64>()
    }

    /// Adds all paths that cross `level` at this look: beyond the level, the mass becomes that of
    /// the whole distribution.
    fn with_level(mut self, level: f64, blocks: u32) -> CrossedMass {
        let from = cosine(level, blocks);
        for cell in 0..=GRID_CELLS {
            let center = cell as f64 / GRID_CELLS as f64;
            let half = 0.5 / GRID_CELLS as f64;
            let (low, high) = ((center - half).max(0.0), (center + half).min(1.0));
            if high <= from {
                continue;
            }
            let kept = ((from - low) / (high - low)).clamp(0.0, 1.0);
            let whole = chance_beyond(low.max(from), blocks) - chance_beyond(high, blocks);
            self.mass[cell] = self.mass[cell] * kept + whole.max(0.0);
        }
        self
    }
}

/// One angle φ with its weight.
struct AngleStep {
    cos: f64,
    sin: f64,
    weight: f64,
}

/// Returns angles and weights for the density ∝ cosⁿ⁻¹ φ. The density is negligible beyond six
/// standard deviations (about 1/√n each), and the midpoint rule is practically exact for such a
/// function.
fn angle_steps(n: f64) -> Vec<AngleStep> {
    let reach = (6.0 / n.sqrt()).min(FRAC_PI_2);
    let mut angle_steps: Vec<AngleStep> = (0..ANGLE_STEPS)
        .map(|place| {
            let angle = reach * (2.0 * (place as f64 + 0.5) / ANGLE_STEPS as f64 - 1.0);
            let (sin, cos) = angle.sin_cos();
            AngleStep {
                cos,
                sin,
                weight: cos.powf(n - 1.0),
            }
        })
        .collect();
    let sum: f64 = angle_steps.iter().map(|step| step.weight).sum();
    for step in &mut angle_steps {
        step.weight /= sum;
    }
    angle_steps
}

/// Returns the value of |u| that is exceeded with probability `level` if the mean is zero.
fn cosine(level: f64, blocks: u32) -> f64 {
    let t = critical(level, blocks - 1);
    if t.is_infinite() {
        return 1.0;
    }
    t / (f64::from(blocks - 1) + t * t).sqrt()
}

/// Returns the probability that |u| ≥ `from`.
fn chance_beyond(from: f64, blocks: u32) -> f64 {
    if from >= 1.0 {
        return 0.0;
    }
    let freedom = f64::from(blocks - 1);
    2.0 * upper_tail(from * (freedom / (1.0 - from * from)).sqrt(), blocks - 1)
}
