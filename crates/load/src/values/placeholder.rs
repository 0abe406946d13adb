//! The extent of a placeholder (`{{ … }}`) in text.

/// Returns the length of the complete placeholder at the beginning of `text`; `None` if there is
/// none. Callers that split text into words skip placeholders, because whitespace and quotes in
/// them don't end a word.
pub(crate) fn skip_placeholder(text: &str) -> Option<usize> {
    text.starts_with("{{").then(|| placeholder_length(text))?
}

/// Length of the placeholder with which `opened` begins, including the braces; `None` if the
/// placeholder is not closed.
pub(crate) fn placeholder_length(opened: &str) -> Option<usize> {
    let inner = &opened[2..];
    let blanks = inner.len() - inner.trim_start().len();
    let mut from = blanks;
    // Quoted text may contain braces.
    if let Some(quote) = inner[blanks..].chars().next()
        && is_quote(quote)
    {
        from = blanks + 1 + inner[blanks + 1..].find(quote)? + 1;
    }
    let end = from + inner[from..].find("}}")?;
    Some(2 + end + 2)
}

/// Returns true for a character that quotes text in a placeholder.
pub(crate) fn is_quote(c: char) -> bool {
    matches!(c, '"' | '\'')
}
