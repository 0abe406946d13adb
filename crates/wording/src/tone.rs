//! Colors of verdicts, findings and results of conditions. All output formats use the same colors.

use prony_record::Severity;
use prony_stats::Verdict;
use prony_stats::gate::GateOutcome;

/// The meaning of a color. Series in charts use other colors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    /// Better, equal or passed: green.
    Good,
    /// Worse, a warning or inconclusive: amber.
    Care,
    /// Withheld, an error or failed: red.
    Bad,
    /// Undecided, or a note: gray.
    Muted,
}

impl Tone {
    /// The name of the tone's class in the HTML page.
    pub fn name(self) -> &'static str {
        match self {
            Tone::Good => "good",
            Tone::Care => "care",
            Tone::Bad => "bad",
            Tone::Muted => "muted",
        }
    }
}

impl From<Verdict> for Tone {
    fn from(verdict: Verdict) -> Tone {
        match verdict {
            Verdict::Faster | Verdict::Equivalent => Tone::Good,
            Verdict::Slower => Tone::Care,
            Verdict::Undecided => Tone::Muted,
            Verdict::Withheld => Tone::Bad,
        }
    }
}

impl From<Severity> for Tone {
    fn from(severity: Severity) -> Tone {
        match severity {
            Severity::Error => Tone::Bad,
            Severity::Warning => Tone::Care,
            Severity::Note => Tone::Muted,
        }
    }
}

impl From<GateOutcome> for Tone {
    fn from(ruling: GateOutcome) -> Tone {
        match ruling {
            GateOutcome::Failed => Tone::Bad,
            GateOutcome::Unclear => Tone::Care,
            GateOutcome::Passed => Tone::Good,
        }
    }
}
