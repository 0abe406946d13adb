//! Texts from other machines, made safe to print.

/// Longest short text kept, in characters.
const SHORT_TEXT_MAX: usize = 200;
/// Longest text of a finding kept, in characters.
pub(crate) const FINDING_TEXT_MAX: usize = 2_000;
/// Replaces a control character.
const REPLACEMENT: char = '\u{fffd}';

/// The text without control characters, cut to at most `chars_max` characters.
pub(crate) fn legible(text: &str, chars_max: usize) -> String {
    let is_control = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}');
    let shown = |c: char| if is_control(c) { REPLACEMENT } else { c };
    text.chars().take(chars_max).map(shown).collect()
}

/// The text of a name, version or the like, cut to a length that fits a table.
pub(crate) fn short(text: &str) -> String {
    legible(text, SHORT_TEXT_MAX)
}
