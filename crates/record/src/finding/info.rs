//! The columns of the registry of findings.

use super::Severity;

/// Row of the registry: all fixed properties of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FindingInfo {
    /// The part of prony that creates the finding.
    pub scope: FindingScope,
    /// Statement of the observation, as a sentence.
    pub seen: &'static str,
    /// Possible severities, mildest first, each with its condition. The condition is empty if there
    /// is only one severity.
    pub severities: &'static [(Severity, &'static str)],
    /// The verdicts that the finding withholds when it is an error.
    pub withholds: WithheldVerdicts,
    /// Consequences for the result, in sentences.
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
    /// Default row. The other rows list only the fields that differ from it.
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

/// The verdicts that a finding of severity [`Severity::Error`] withholds, in comparisons that
/// include an affected variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithheldVerdicts {
    /// No verdict; such a finding is never an error.
    Nothing,
    /// Verdicts on the rate and on response times.
    Speed,
    /// Verdicts on the rate and on response times, unless only the faster variant is affected. The
    /// slower variant is then still slower, so the direction stays valid.
    SpeedUnlessFaster,
    /// Verdicts on every metric except the share of failed requests.
    AllButFailures,
    /// All verdicts.
    All,
    /// Verdicts that are selected individually by the code that creates the finding.
    Selected,
}

/// Rule that combines the findings of a variant's trials into one finding of the experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrialFolding {
    /// The severity reached in at least half of the trials; at most a warning if fewer trials have
    /// the finding.
    Median,
    /// The severity in the worst trial.
    Worst,
}
