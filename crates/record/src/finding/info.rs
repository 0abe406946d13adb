//! The columns of the registry of findings.

use super::Severity;

/// A row of the registry, with all fixed properties of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingInfo {
    /// Component of prony that creates the finding.
    pub scope: FindingScope,
    /// Sentence that describes the observation.
    pub seen: &'static str,
    /// Possible severities, mildest first, each with its condition. The condition is empty if there
    /// is only one severity.
    pub severities: &'static [(Severity, &'static str)],
    /// Verdicts that the finding withholds if its severity is error.
    pub withholds: WithheldVerdicts,
    /// Sentences that explain the consequences for the result.
    pub meaning: &'static str,
    /// Recommended action.
    pub action: &'static str,
    /// Rule that combines the findings of a variant's trials into one finding of the experiment.
    pub folding: TrialFolding,
    /// True if the finding is reported separately for each variant, because its text differs
    /// between variants.
    pub per_variant: bool,
    /// True if the finding may explain a difference when only one of the two variants has it.
    pub explains_difference: bool,
    /// True if part of the load is missing. `prony load` then exits with status 1, and `--fail-if`
    /// accepts the finding as a condition.
    pub incomplete_load: bool,
}

impl FindingInfo {
    /// Default values of a row. Each row lists only the fields that differ from the defaults.
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

    /// Returns true if the finding can have this severity.
    pub fn can_have(&self, severity: Severity) -> bool {
        self.severities
            .iter()
            .any(|(listed, _)| *listed == severity)
    }
}

/// Component of prony that creates a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindingScope {
    /// Any load.
    Load,
    /// A load by several agents.
    FleetLoad,
    /// A single trial of an experiment, with its services and their machines.
    Trial,
    /// An experiment as a whole.
    Experiment,
}

impl FindingScope {
    /// All scopes, in the order of the documentation.
    pub const ALL: [FindingScope; 4] = [
        FindingScope::Load,
        FindingScope::FleetLoad,
        FindingScope::Trial,
        FindingScope::Experiment,
    ];
}

/// Verdicts that a finding of severity [`Severity::Error`] withholds, in comparisons that include
/// an affected variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldVerdicts {
    /// No verdict. Findings of this kind are never errors.
    Nothing,
    /// Verdicts on the rate and on response times.
    Speed,
    /// Verdicts on the rate and on response times, unless only the faster variant is affected. Then
    /// the direction of the difference still holds, but the measured difference understates it.
    SpeedUnlessFaster,
    /// Verdicts on every metric except the share of failed requests.
    AllButFailures,
    /// All verdicts.
    All,
    /// Verdicts chosen individually by the code that creates the finding.
    Selected,
}

/// Rule that combines the findings of a variant's trials into one finding of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialFolding {
    /// The finding gets the severity that is reached in at least half of the trials. If fewer
    /// trials have the finding, it is at most a warning.
    Median,
    /// The finding gets the severity of the worst trial.
    Worst,
}
