//! Search in static tables.

/// Returns the zero-based index of an entry with this name in a static table, and whether its value
/// matches too.
pub(crate) fn find_text(texts: &[(&str, &str)], name: &str, value: &str) -> Option<(usize, bool)> {
    if let Some(at) = texts.iter().position(|entry| *entry == (name, value)) {
        // An entry without a value matches the empty value.
        return Some((at, true));
    }
    let at = texts.iter().position(|(own, _)| *own == name)?;
    Some((at, false))
}
