//! Plans (descriptions of experiments), from a file to checked variants.
//!
//! Input: the text of a plan, the files that it names, and the machine on which it is read
//! ([`machine::PlanMachine`]). Output: a [`Plan`], whose variants are services, networks, telemetry
//! settings and a load, all as data. The crate starts nothing, and it uses no clock, socket, thread
//! or process. The only files that it touches are the plan, those that the plan names, and their
//! copies in an experiment's folder.
//!
//! Each stage uses only the stages before it:
//!
//! 1. `syntax`: the TOML text becomes a tree of values with line numbers.
//! 2. `model`: the tree becomes a [`Plan`], which contains everything that is the same for all
//!    variants.
//! 3. `render`: the templates of one variant are filled in with endpoints, which yields services
//!    and a load.
//! 4. `check`: every variant is rendered with placeholder endpoints, so that problems are reported
//!    before anything starts.
//!
//! A trial renders its variant again with the endpoints that the host allocated
//! ([`Plan::resolve`]).

pub mod abort_rules;
pub mod capacity_goals;
mod check;
mod diagnostic;
mod freeze;
pub mod machine;
mod model;
pub mod probe_load;
pub mod reference;
mod render;
pub mod service;
pub mod ssh_host;
mod syntax;
pub mod topology;
pub mod watch_spec;

pub use check::{
    HostObjection, HostRequirement, ServiceAspect, is_placeholder_path, is_placeholder_port,
};
pub use diagnostic::{DiagnosticKind, PlanError, PlanErrors};
pub use freeze::forget_secrets;
pub use model::{
    BodyComparison, FactorLevel, Interleave, LevelSelection, Plan, PlanFactor, PlanVariant,
    TrialSettings, VARIANTS_MAX, metric_to_judge,
};
pub use render::{
    CapacityLoad, LoadModel, ReadySettings, ResolvedLoad, ResolvedService, ResolvedVariant, Scheme,
    TelemetrySettings,
};

/// The plan that `prony init` writes.
pub const STARTER: &str = include_str!("starter.toml");
