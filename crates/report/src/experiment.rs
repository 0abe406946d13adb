//! What an experiment stored, as reports need it.

use prony_record::Record;
use prony_stats::{Levels, Values, VerdictDocument};

/// A stored experiment.
#[derive(Debug, Clone, PartialEq)]
pub struct Experiment {
    /// `verdict.json`.
    pub verdict: VerdictDocument,
    /// `plan.toml` as run; empty where there is none.
    pub plan: String,
    /// `environment.json`; null where there is none.
    pub environment: serde_json::Value,
    /// Every trial that left a record, by block and variant.
    pub trials: Vec<Trial>,
}

/// One trial.
#[derive(Debug, Clone, PartialEq)]
pub struct Trial {
    /// Its block, from 1.
    pub block: u32,
    /// Its variant's place among the verdict's variants.
    pub variant: usize,
    /// Its place within the block, from 0; none where that wasn't stored.
    pub position: Option<usize>,
    /// The metrics that could be measured; without telemetry those that the record tells.
    pub values: Values,
    /// `telemetry.csv`; empty where there is none.
    pub telemetry: String,
    /// What was measured.
    pub record: Record,
}

impl Experiment {
    /// The trials of one variant within complete blocks, in the order of the blocks. A block that
    /// was interrupted is no part of the verdict, so it is no part of the charts either.
    pub fn trials_of(&self, variant: usize) -> Vec<&Trial> {
        let variants = self.verdict.variants.len();
        let is_complete = |block: u32| {
            (0..variants).all(|v| {
                let mut trials = self.trials.iter();
                trials.any(|trial| trial.block == block && trial.variant == v)
            })
        };
        let mut trials: Vec<&Trial> = self
            .trials
            .iter()
            .filter(|trial| trial.variant == variant && is_complete(trial.block))
            .collect();
        trials.sort_by_key(|trial| trial.block);
        trials
    }

    /// The variant whose trials are named so in folder names: the same name or the same levels,
    /// whatever stands between them.
    pub(crate) fn variant_named(verdict: &VerdictDocument, name: &str) -> Option<usize> {
        let wanted = letters(name);
        let by = |key: &dyn Fn(&Levels, &str) -> String| {
            let mut variants = verdict.variants.iter();
            variants.position(|variant| letters(&key(&variant.levels, &variant.name)) == wanted)
        };
        by(&|_, name| name.to_owned()).or_else(|| {
            by(&|levels, _| {
                levels
                    .values()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .join("-")
            })
        })
    }
}

/// A name without what file names leave out.
fn letters(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric() || *c == '.')
        .flat_map(char::to_lowercase)
        .collect()
}
