//! The word and the sign of a verdict.

use prony_stats::Verdict;

/// The verdict's word.
pub(crate) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
        Verdict::Withheld => "withheld",
    }
}

/// The sign of a verdict on a terminal and in summaries.
pub(crate) fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::Equivalent => "=",
        Verdict::Undecided => "?",
        Verdict::Withheld => "×",
    }
}
