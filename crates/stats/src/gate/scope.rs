//! Names that a gate may use: variants, levels and the stored run.

use crate::design::Levels;
use crate::runs::{Run, RunVariant};

/// Names that a gate may use.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct GateScope {
    /// Variants that gates can refer to.
    pub variants: Vec<RunVariant>,
    /// Levels that the baseline fixes; empty for loads.
    pub baseline: Levels,
    /// Label of the stored run, if any.
    pub stored: Option<String>,
}

impl GateScope {
    /// Returns true if the scope is a single load, as it is for a condition of `prony load`. The
    /// scope of a single load has no variants and no stored run.
    pub(super) fn is_single_load(&self) -> bool {
        self.variants.is_empty() && self.stored.is_none()
    }

    pub(super) fn counterpart(&self, variant: usize) -> Option<usize> {
        // This run has no trials. It exists only so that `Run::counterpart` can find the baseline.
        let run = Run {
            variants: self.variants.clone(),
            baseline: self.baseline.clone(),
            ..Run::default()
        };
        run.counterpart(variant)
    }

    /// Returns every accepted name with the index of its variant. In addition to names used in
    /// sentences, earlier versions accepted levels alone (`1` for `cores = 1`), so both are
    /// included.
    pub(super) fn all_names(&self) -> Vec<(usize, String)> {
        let varies = |factor: &str| {
            let mut levels = self
                .variants
                .iter()
                .map(|variant| variant.levels.get(factor));
            let first = levels.next().flatten();
            levels.any(|level| level != first)
        };
        let names = self
            .variants
            .iter()
            .enumerate()
            .flat_map(|(place, variant)| {
                let levels = variant.levels.iter();
                let varying = levels.filter(|(factor, _)| varies(factor));
                let varying: Vec<&str> = varying.map(|(_, level)| level.as_str()).collect();
                [(place, variant.name.clone()), (place, varying.join(", "))]
            });
        names.filter(|(_, name)| !name.is_empty()).collect()
    }

    /// Lists the names for an error message.
    pub(super) fn names(&self) -> String {
        let names: Vec<String> = self
            .variants
            .iter()
            .filter(|variant| !variant.name.is_empty())
            .map(|variant| quoted(&variant.name))
            .collect();
        if names.is_empty() {
            return "a load has no variants; remove \"of …\"".to_owned();
        }
        let level = self
            .variants
            .first()
            .and_then(|variant| variant.levels.first());
        let level = level.map_or(String::new(), |(factor, level)| {
            format!("; {factor}={level} selects all variants with this level")
        });
        format!("the variants are {}{level}", names.join(", "))
    }
}

/// Returns a name as the user must type it.
fn quoted(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':');
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("\"{name}\"")
    }
}
