//! A plan as data: everything that is the same for all variants, not yet rendered.

mod baseline;
mod bodies;
mod certificate;
pub(super) mod document;
mod factors;
mod folder;
mod frozen_file;
mod interleave;
mod levels;
mod limits;
mod machine;
mod ranges;
mod sections;
pub(super) mod trials;
mod variants;

use std::path::{Path, PathBuf};

use prony_stats::Metric;

use super::syntax::TomlTable;

pub use bodies::BodyComparison;
pub(super) use certificate::{CertificateCache, SelfSignedCertificate};
pub use factors::{FactorLevel, PlanFactor};
pub(super) use folder::{INCLUDES, PlanFolder, io_error_words};
pub(super) use frozen_file::{FrozenFile, frozen_files};
pub use interleave::Interleave;
pub use levels::LevelSelection;
pub use limits::VARIANTS_MAX;
pub use machine::MachineProfile;
pub(super) use sections::{NamedTable, PLACE_WORDS};
pub use trials::{TrialSettings, metric_to_judge};
pub use variants::PlanVariant;

/// A plan that has been checked: what is compared, how, and how often.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The name; by default that of the plan's file.
    pub name: String,
    /// The question that the experiment answers, in the author's words; may be empty.
    pub question: String,
    /// The levels that others are compared with. If the baseline omits factors, each combination of
    /// their levels has a baseline of its own.
    pub baseline: LevelSelection,
    /// The relative difference within which two variants count as equivalent.
    pub margin: f64,
    /// The metrics that get a verdict, at least one.
    pub metrics: Vec<Metric>,
    /// The goals of the capacity searches, such as `p99<50ms`; empty if the trials are no searches.
    pub goals: Vec<String>,
    /// The number and length of trials.
    pub trials: TrialSettings,
    /// The degree to which the response bodies of all variants must be the same.
    pub bodies: BodyComparison,
    /// The factors that vary.
    pub factors: Vec<PlanFactor>,
    /// The variants, at least two, in the order in which results show them.
    pub variants: Vec<PlanVariant>,
    /// Notes for the user before the experiment runs: the plan's own notes, identical variants, and
    /// cores that the load shares with services.
    pub notes: Vec<String>,
    /// The file that the plan was read from, as the user named it.
    pub(super) origin: PathBuf,
    pub(super) text: String,
    pub(super) folder: PlanFolder,
    pub(super) machine: MachineProfile,
    /// Factors with one level. Templates can use them, and results don't show them.
    pub(super) constants: Vec<PlanFactor>,
    pub(super) certificates: CertificateCache,
    pub(super) services: Vec<NamedTable>,
    pub(super) places: Vec<NamedTable>,
    pub(super) links: Vec<NamedTable>,
    pub(super) load: TomlTable,
    pub(super) telemetry: Option<TomlTable>,
    /// The line of `interleave` in `[trials]`, from 1; 0 if the plan doesn't set it.
    pub(super) interleave_line: usize,
    /// The keys of `[trials]` that the plan sets.
    pub(super) trial_keys: Vec<String>,
    pub(super) frozen_files: Vec<FrozenFile>,
    /// The lines, from 1, that the experiment's own copy of the plan replaces.
    pub(super) replaced_lines: Vec<usize>,
}

impl Plan {
    /// The file that the plan was read from, as the user named it.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Position of the variant that `variant` is compared with. For a baseline, this is its own
    /// position. Variants with the same baseline must return the same bytes.
    ///
    /// # Panics
    /// If `variant` is out of range.
    pub fn baseline_of(&self, variant: usize) -> usize {
        // Plans in which a variant has no baseline are rejected when they are read.
        baseline::baseline_of(
            &self.baseline,
            &self.variants,
            &self.variants[variant].levels,
        )
        .unwrap_or(variant)
    }

    /// The variant's levels with their factors: `socket = unix, cores = 2`.
    ///
    /// # Panics
    /// If `variant` is out of range.
    pub fn variant_name(&self, variant: usize) -> String {
        let levels = self.variants[variant].levels.iter();
        let levels: Vec<String> = levels
            .map(|(factor, level)| format!("{factor} = {level}"))
            .collect();
        levels.join(", ")
    }
}
