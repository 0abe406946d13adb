//! Makes text from other machines safe to print.

/// Maximum length of a short string, in characters.
const SHORT_TEXT_MAX: usize = 200;
/// Maximum length of a finding's text, in characters.
pub(crate) const FINDING_TEXT_MAX: usize = 2_000;
/// Replacement for control characters.
const REPLACEMENT: char = '\u{fffd}';

/// Replaces control characters, and truncates the text to `chars_max` characters.
pub(crate) fn legible(text: &str, chars_max: usize) -> String {
    let is_control = |c: char| c.is_control() || matches!(c, '\u{2028}'..='\u{202e}');
    let shown = |c: char| if is_control(c) { REPLACEMENT } else { c };
    text.chars().take(chars_max).map(shown).collect()
}

/// Makes a short string, such as a name or version in a table, safe to print.
pub(crate) fn short(text: &str) -> String {
    legible(text, SHORT_TEXT_MAX)
}
