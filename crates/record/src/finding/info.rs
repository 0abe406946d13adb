//! The columns of the registry of findings.

use super::Severity;

/// One row of the registry: all fixed properties of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingInfo {
    /// The part of prony that creates the finding.
    pub scope: FindingScope,
    /// The observation, as a sentence.
    pub seen: &'static str,
    /// Possible severities, mildest first, each with its condition. The condition is empty if there
    /// is only one severity.
    pub severities: &'static [(Severity, &'static str)],
    /// The verdicts that the finding withholds when it is an error.
    pub withholds: WithheldVerdicts,
    /// Consequences for the result.
    pub meaning: &'static str,
    /// Advice for the reader.
    pub action: &'static str,
    /// The rule that combines the findings of a variant's trials into one of the experiment.
    pub folding: TrialFolding,
    /// Reported for each variant by itself, because its text differs from variant to variant.
    pub per_variant: bool,
    /// May explain a difference between two variants when only one of them has it.
    pub explains_difference: bool,
    /// Part of the load is missing. `prony load` then exits with status 1, and `--fail-if` accepts
    /// the finding as a condition.
    pub incomplete_load: bool,
}

impl FindingInfo {
    /// The row on which others are based: each other row lists only the fields that differ.
    pub(super) const BASE: FindingInfo = FindingInfo {
        scope: FindingScope::Load,
        seen: "",
        severities: &[],
        withholds: WithheldVerdicts::Nothing,
        meaning: "",
        action: "",
        folding: TrialFolding::Median,
        per_variant: false,
        explains_difference: false,
        incomplete_load: false,
    };

    /// True if the finding can have this severity.
    pub fn can_have(&self, severity: Severity) -> bool {
        self.severities
            .iter()
            .any(|(listed, _)| *listed == severity)
    }
}

/// The part of prony that creates a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingScope {
    /// Any load.
    Load,
    /// A load by several agents.
    FleetLoad,
    /// One trial of an experiment: its services and their machines.
    Trial,
    /// An experiment as a whole: several trials compared.
    Experiment,
}

impl FindingScope {
    /// All scopes, in the documentation's order.
    pub const ALL: [FindingScope; 4] = [
        FindingScope::Load,
        FindingScope::FleetLoad,
        FindingScope::Trial,
        FindingScope::Experiment,
    ];
}

/// The verdicts that a finding withholds when its severity is [`Severity::Error`]: those of
/// comparisons in which one of the affected variants takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldVerdicts {
    /// No verdict; such a finding is never an error.
    Nothing,
    /// Verdicts on the rate and on response times.
    Speed,
    /// Verdicts on the rate and on response times, unless only the faster variant is affected: the
    /// other one is slower still, and the direction is still valid.
    SpeedUnlessFaster,
    /// Verdicts on every metric except the share of failed requests.
    AllButFailures,
    /// All verdicts.
    All,
    /// Verdicts that the code which creates the finding selects one by one.
    Selected,
}

/// The rule that combines the findings of a variant's trials into one of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialFolding {
    /// As severe as in at least half of the trials; at most a warning if fewer trials have it.
    Median,
    /// As severe as in the worst trial.
    Worst,
}
