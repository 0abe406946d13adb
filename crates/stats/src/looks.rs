//! Looking more than once at growing data without raising the error rate.
//!
//! The error rate is spent as the blocks come in (Lan and DeMets 1983): at a share *f* of the
//! planned blocks, `alpha · ln(1 + (e − 1) f)` is spent, their function of the Pocock kind. It
//! spends early, so that a large effect is found at the first look. From what a look may spend
//! follows the level at which its t-test is made: such that the chance to pass *this look's level
//! and none before* is exactly the new part, for normal noise of unknown variance (Jennison and
//! Turnbull 1991, "Exact calculations for sequential t, χ² and F tests").
//!
//! Those chances are cheap to compute because the successive t statistics form a Markov chain when
//! the mean is zero. Write the n values as a vector; `u`, the cosine of its angle to (1, …, 1),
//! gives `t² = (n − 1) u² / (1 − u²)`. The direction of a normal vector is independent of its
//! length, and all earlier cosines are functions of the direction. One more value turns it by an
//! angle φ with density ∝ cosⁿ⁻¹ φ on ±π/2:
//!
//! `u′ = √(n/(n+1)) · cos φ · u + √(1/(n+1)) · sin φ`
//!
//! So the part of the distribution that has passed a look is kept as masses on a grid of |u| and
//! carried on block by block.

use std::collections::HashMap;
use std::f64::consts::{E, FRAC_PI_2};

use serde::{Deserialize, Serialize};

use crate::design::{Design, LEAST_BLOCKS};
use crate::estimate::{critical, upper_tail};

/// One time that verdicts were sought. What is kept in the results, so that an experiment that
/// stopped at an unplanned block and goes on later pays for that look too.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Complete blocks then.
    pub blocks: u32,
    /// How much of the error rate was spent in all by then, as a share of it (0 to 1).
    pub spent_share: f64,
}

/// Share of the error rate that may be spent when `fraction` of the blocks are in.
pub fn spent_share(fraction: f64) -> f64 {
    (1.0 + (E - 1.0) * fraction.clamp(0.0, 1.0)).ln()
}

/// The looks up to `blocks` complete blocks, the last of them the present one: those in `earlier`,
/// the planned ones that have been passed since, and one now. A look at which nothing is left to
/// spend is none: the present one then is the last that could spend.
pub(crate) fn looks_until(design: &Design, earlier: &[Look], blocks: u32) -> Vec<Look> {
    let mut looks: Vec<Look> = Vec::new();
    // What was spent on looks that can't be replayed (their blocks are gone) stays spent.
    let mut spent: f64 = 0.0;
    let mut given: Vec<Look> = earlier.to_vec();
    given.sort_by(|a, b| {
        a.blocks
            .cmp(&b.blocks)
            .then(a.spent_share.total_cmp(&b.spent_share))
    });
    for look in given {
        spent = spent.max(look.spent_share.clamp(0.0, 1.0));
        if look.blocks < LEAST_BLOCKS || look.blocks > blocks {
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
    for at in passed.chain((blocks >= LEAST_BLOCKS && last < blocks).then_some(blocks)) {
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

/// Levels that were computed once. They depend on the looks and the error rate alone, so whoever
/// evaluates one design many times (a simulation) keeps one of these.
#[derive(Debug, Clone, Default)]
pub struct LevelTable {
    known: HashMap<Question, Vec<f64>>,
}

/// Looks and error rate, the fractions by their bits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    looks: Vec<(u32, u64)>,
    alpha: u64,
}

impl LevelTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// As [`levels`].
    pub(crate) fn levels(&mut self, looks: &[Look], alpha: f64) -> &[f64] {
        let looked = |look: &Look| (look.blocks, look.spent_share.to_bits());
        let question = Question {
            looks: looks.iter().map(looked).collect(),
            alpha: alpha.to_bits(),
        };
        self.known
            .entry(question)
            .or_insert_with(|| levels(looks, alpha))
    }
}

/// Cells of the grid of |u|.
const CELLS: usize = 1_024;
/// Angles by which one more value may turn the vector.
const TURNS: usize = 48;

/// The levels of the t-tests at each of `looks` for an error rate of `alpha` (0 to 1) in all.
/// Each is at least what the look adds to the spending, as the looks overlap.
pub fn levels(looks: &[Look], alpha: f64) -> Vec<f64> {
    let mut levels = Vec::with_capacity(looks.len());
    let mut passed = Passed::none();
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

/// The part of the distribution of |u| that has passed some look, under a mean of zero.
struct Passed {
    /// Mass at `|u| = i / CELLS`, standing for the cell half a width around it.
    mass: Vec<f64>,
}

impl Passed {
    fn none() -> Self {
        Passed {
            mass: vec![0.0; CELLS + 1],
        }
    }

    /// The same part of the paths, one value after `blocks`.
    fn one_more(&self, blocks: u32) -> Passed {
        let n = f64::from(blocks);
        let (old, new) = ((n / (n + 1.0)).sqrt(), (1.0 / (n + 1.0)).sqrt());
        let turns = turns(n);
        let mut next = Passed::none();
        for (cell, &mass) in self
            .mass
            .iter()
            .enumerate()
            .filter(|(_, mass)| **mass > 0.0)
        {
            let u = cell as f64 / CELLS as f64;
            for turn in &turns {
                let moved = (old * turn.cos * u + new * turn.sin).abs().min(1.0);
                // Shared between the two nearest points, which keeps the mean.
                let place = moved * CELLS as f64;
                let below = (place as usize).min(CELLS - 1);
                let part = place - below as f64;
                next.mass[below] += mass * turn.weight * (1.0 - part);
                next.mass[below + 1] += mass * turn.weight * part;
            }
        }
        next
    }

    /// The level at which "passes now and never before" has chance `new`. It lies between `new`
    /// (no overlap with earlier looks) and `spent` (all that may be spent by now).
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
        // The lower end: never more than may be spent.
        low
    }

    /// Mass at |u| of `from` and above.
    fn beyond(&self, from: f64) -> f64 {
        let place = from * CELLS as f64 + 0.5;
        let cell = (place as usize).min(CELLS);
        let inside = self.mass[cell] * (1.0 - (place - cell as f64)).clamp(0.0, 1.0);
        inside + self.mass[cell + 1..].iter().sum::<f64>()
    }

    /// Adds all paths that pass `level` at this look: beyond it the mass is that of the whole
    /// distribution.
    fn with_level(mut self, level: f64, blocks: u32) -> Passed {
        let from = cosine(level, blocks);
        for cell in 0..=CELLS {
            let centre = cell as f64 / CELLS as f64;
            let half = 0.5 / CELLS as f64;
            let (low, high) = ((centre - half).max(0.0), (centre + half).min(1.0));
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

/// One angle φ.
struct Turn {
    cos: f64,
    sin: f64,
    weight: f64,
}

/// Angles and weights for the density ∝ cosⁿ⁻¹ φ. Its nth power vanishes beyond six standard
/// deviations (about 1/√n each); the midpoint rule is as good as exact for such a function.
fn turns(n: f64) -> Vec<Turn> {
    let reach = (6.0 / n.sqrt()).min(FRAC_PI_2);
    let mut turns: Vec<Turn> = (0..TURNS)
        .map(|place| {
            let angle = reach * (2.0 * (place as f64 + 0.5) / TURNS as f64 - 1.0);
            let (sin, cos) = angle.sin_cos();
            Turn {
                cos,
                sin,
                weight: cos.powf(n - 1.0),
            }
        })
        .collect();
    let sum: f64 = turns.iter().map(|turn| turn.weight).sum();
    for turn in &mut turns {
        turn.weight /= sum;
    }
    turns
}

/// The |u| that is passed with chance `level` under a mean of zero.
fn cosine(level: f64, blocks: u32) -> f64 {
    let t = critical(level, blocks - 1);
    if t.is_infinite() {
        return 1.0;
    }
    t / (f64::from(blocks - 1) + t * t).sqrt()
}

/// Chance that |u| is `from` or more.
fn chance_beyond(from: f64, blocks: u32) -> f64 {
    if from >= 1.0 {
        return 0.0;
    }
    let freedom = f64::from(blocks - 1);
    2.0 * upper_tail(from * (freedom / (1.0 - from * from)).sqrt(), blocks - 1)
}
