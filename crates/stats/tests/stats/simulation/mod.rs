//! Simulated experiments: trials drawn from a known truth with a seeded generator, evaluated with
//! all looks. Used by the tests and by the example `power`.

// Each program that includes this module uses only part of it.
#![allow(unreachable_pub, dead_code)]

pub mod machine;

use std::collections::BTreeMap;

use prony_stats::{
    AlphaTable, Design, Evaluation, Factor, Levels, Metric, Trials, Values, evaluate_with,
};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Distribution of a trial's deviation from the truth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Noise {
    /// Log-normal noise with the same deviation for all trials.
    Normal,
    /// Noise with occasional outliers: Student's t with 3 degrees of freedom, scaled to the
    /// standard deviation of `Normal`.
    HeavyTails,
    /// Each block draws a standard deviation between a third and three times the usual one, and the
    /// standard deviations of the variants differ by a factor of two.
    Uneven,
    /// Delays that follow an exponential distribution: some trials are slower, none is faster.
    Skewed,
}

/// Parameters of a simulated experiment.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Rate of each variant, relative to the first variant's.
    pub rates: Vec<f64>,
    /// Standard deviation of the log ratio between two variants within a block.
    pub noise: f64,
    pub kind: Noise,
    pub blocks: (u32, u32),
    pub margin: f64,
    pub alpha: f64,
}

impl Setting {
    /// Creates a setting with normal noise and the default margin.
    pub fn new(rates: &[f64], noise: f64, blocks: (u32, u32)) -> Setting {
        Setting {
            rates: rates.to_vec(),
            noise,
            kind: Noise::Normal,
            blocks,
            margin: 0.02,
            alpha: 0.05,
        }
    }

    pub fn with(mut self, kind: Noise) -> Setting {
        self.kind = kind;
        self
    }

    pub fn design(&self) -> Design {
        let levels: Vec<String> = (0..self.rates.len())
            .map(|place| format!("v{place}"))
            .collect();
        let named = |level: &String| Levels::from([("stack".to_owned(), level.clone())]);
        Design {
            variants: levels.iter().map(named).collect(),
            baseline: named(&levels[0]),
            factors: vec![Factor {
                name: "stack".to_owned(),
                levels,
            }],
            margin: self.margin,
            family: vec![Metric::RatePerS],
            blocks_min: self.blocks.0,
            blocks_max: self.blocks.1,
            alpha: self.alpha,
            goals: Vec::new(),
        }
    }

    /// Runs one experiment in the same way as the runner: blocks until the next look, then
    /// `evaluate_with`, until no look is left.
    pub fn run(&self, draws: &mut Draws) -> Evaluation {
        let design = self.design();
        let mut trials = Trials::new();
        let mut blocks = 0;
        let mut next = design.planned_looks()[0];
        let mut earlier = Vec::new();
        loop {
            while blocks < next {
                self.block(&mut trials, blocks, draws);
                blocks += 1;
            }
            let evaluation = evaluate_with(&mut draws.table, &design, &trials, &earlier).unwrap();
            match evaluation.next_look() {
                Some(look) => next = look,
                None => return evaluation,
            }
            earlier = evaluation.looks;
        }
    }

    /// Adds the trials of one block.
    pub fn block(&self, trials: &mut Trials, block: u32, draws: &mut Draws) {
        // Influences that all trials of a block share cancel out.
        let shared = 0.1 * draws.normal();
        let spread = match self.kind {
            Noise::Uneven => 3.0_f64.powf(2.0 * draws.uniform() - 1.0),
            _ => 1.0,
        };
        for (variant, rate) in self.rates.iter().enumerate() {
            let unit = match self.kind {
                Noise::Normal => draws.normal(),
                Noise::HeavyTails => draws.student_3() / 3.0_f64.sqrt(),
                Noise::Uneven => {
                    spread * draws.normal() * if variant % 2 == 1 { 1.26 } else { 0.63 }
                }
                Noise::Skewed => draws.uniform().ln() + 1.0,
            };
            let log = rate.ln() + shared + unit * self.noise / 2.0_f64.sqrt();
            let values: Values = BTreeMap::from([(Metric::RatePerS, 10_000.0 * log.exp())]);
            trials.add(block, variant, values);
        }
    }
}

/// Seeded random number generator, with a cache of significance levels.
pub struct Draws {
    generator: ChaCha8Rng,
    table: AlphaTable,
}

impl Draws {
    pub fn seeded(seed: u64) -> Draws {
        Draws {
            generator: ChaCha8Rng::seed_from_u64(seed),
            table: AlphaTable::new(),
        }
    }

    /// Returns a uniform random number above 0 and up to 1.
    pub fn uniform(&mut self) -> f64 {
        ((self.generator.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }

    /// Returns a standard normal random number (Box and Muller).
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Returns a random number from Student's t with 3 degrees of freedom. The standard deviation
    /// is √3.
    pub fn student_3(&mut self) -> f64 {
        let squares: f64 = (0..3).map(|_| self.normal().powi(2)).sum();
        self.normal() / (squares / 3.0).sqrt()
    }
}

/// Share of the simulated experiments: `count` out of `of`.
#[derive(Debug, Clone, Copy)]
pub struct Share {
    pub count: u32,
    pub of: u32,
}

impl Share {
    pub fn value(self) -> f64 {
        f64::from(self.count) / f64::from(self.of)
    }

    /// Returns the standard error of the share.
    pub fn error(self) -> f64 {
        (self.value() * (1.0 - self.value()) / f64::from(self.of)).sqrt()
    }
}
