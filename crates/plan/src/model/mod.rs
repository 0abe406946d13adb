//! The plan as data, common to all variants. Templates are not rendered yet.

mod baseline;
mod bodies;
mod certificate;
pub(super) mod document;
mod factors;
mod folder;
mod frozen_file;
mod hosts;
mod interleave;
mod levels;
mod limits;
mod ranges;
mod sections;
pub(super) mod trials;
mod variants;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_stats::Metric;

use super::machine::PlanMachine;
use super::ssh_host::SshHost;
use super::syntax::TomlTable;

pub use bodies::BodyComparison;
pub(super) use certificate::{CertificateCache, SelfSignedCertificate};
pub use factors::{FactorLevel, PlanFactor};
pub(super) use folder::{INCLUDES, PlanFolder, io_error_words};
pub(super) use frozen_file::{FrozenFile, frozen_files};
pub(super) use hosts::LOCAL;
pub use interleave::Interleave;
pub use levels::LevelSelection;
pub use limits::VARIANTS_MAX;
pub(super) use sections::{NamedTable, PLACE_WORDS};
pub use trials::{TrialSettings, metric_to_judge};
pub use variants::PlanVariant;

/// A plan that has been checked.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the plan; by default the name of its file.
    pub name: String,
    /// Question that the experiment answers, as written by the author; may be empty.
    pub question: String,
    /// Levels with which others are compared. Factors may be omitted; each combination of their
    /// levels then has a separate baseline.
    pub baseline: LevelSelection,
    /// Relative difference within which two variants count as equivalent.
    pub margin: f64,
    /// Metrics that get a verdict; at least one.
    pub metrics: Vec<Metric>,
    /// Goals of the capacity searches, such as `p99<50ms`; empty for other loads.
    pub goals: Vec<String>,
    /// Number of blocks and length of trials.
    pub trials: TrialSettings,
    /// Agreement required between the response bodies of all variants.
    pub bodies: BodyComparison,
    /// Factors that vary.
    pub factors: Vec<PlanFactor>,
    /// Variants in the order in which results show them; at least two.
    pub variants: Vec<PlanVariant>,
    /// Notes for the user before the experiment runs: the plan's own notes, and warnings about
    /// identical variants and about cores that the load shares with services.
    pub notes: Vec<String>,
    /// File that contains the plan, as named by the user.
    pub(super) origin: PathBuf,
    pub(super) text: String,
    pub(super) folder: PlanFolder,
    pub(super) machine: Arc<dyn PlanMachine>,
    /// Factors with one level. Templates can use them, but results don't show them.
    pub(super) constants: Vec<PlanFactor>,
    pub(super) certificates: CertificateCache,
    pub(super) services: Vec<NamedTable>,
    pub(super) places: Vec<NamedTable>,
    pub(super) links: Vec<NamedTable>,
    /// Machines on which services run over ssh.
    pub(super) hosts: Vec<SshHost>,
    pub(super) load: TomlTable,
    pub(super) telemetry: Option<TomlTable>,
    /// Line of `interleave` in `[trials]`, from 1; 0 if the plan doesn't set it.
    pub(super) interleave_line: usize,
    /// Keys of `[trials]` that the plan sets.
    pub(super) trial_keys: Vec<String>,
    pub(super) frozen_files: Vec<FrozenFile>,
}

impl Plan {
    /// Returns the file that contains the plan, as named by the user.
    pub fn origin(&self) -> &Path {
        &self.origin
    }

    /// Returns the index of the variant with which `variant` is compared. A baseline is compared
    /// with itself. The variant's response bodies must agree with those of its baseline, as
    /// `bodies` requires.
    ///
    /// # Panics
    /// `variant` is out of range.
    pub fn baseline_of(&self, variant: usize) -> usize {
        // Plans in which a variant has no baseline are rejected when they are read.
        baseline::baseline_of(
            &self.baseline,
            &self.variants,
            &self.variants[variant].levels,
        )
        .unwrap_or(variant)
    }

    /// Describes a variant by its levels, as in `socket = unix, cores = 2`.
    ///
    /// # Panics
    /// `variant` is out of range.
    pub fn variant_name(&self, variant: usize) -> String {
        let levels = self.variants[variant].levels.iter();
        let levels: Vec<String> = levels
            .map(|(factor, level)| format!("{factor} = {level}"))
            .collect();
        levels.join(", ")
    }
}
