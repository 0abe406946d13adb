//! Which colour a verdict, a finding or a ruling has, the same in every output.

use prony_record::Severity;
use prony_stats::Verdict;
use prony_stats::gate::Ruling;

/// What a colour says. Series of charts have other colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Tone {
    /// Better, equal, passed: green.
    Good,
    /// Worse, a warning, inconclusive: amber.
    Care,
    /// Withheld, an error, failed: red.
    Bad,
    /// Open, a note: grey.
    Muted,
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

impl From<Ruling> for Tone {
    fn from(ruling: Ruling) -> Tone {
        match ruling {
            Ruling::Failed => Tone::Bad,
            Ruling::Unclear => Tone::Care,
            Ruling::Passed => Tone::Good,
        }
    }
}
