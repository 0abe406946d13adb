//! The word and the symbol for a verdict.

use prony_stats::Verdict;

/// A verdict as a word.
pub fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Equivalent => "equivalent",
        Verdict::Undecided => "undecided",
        Verdict::Withheld => "withheld",
    }
}

/// The symbol for a verdict on a terminal and in summaries.
pub fn verdict_mark(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "▲",
        Verdict::Slower => "▼",
        Verdict::Equivalent => "=",
        Verdict::Undecided => "?",
        Verdict::Withheld => "×",
    }
}
