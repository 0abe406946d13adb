//! Shortening of texts that may be of any length.

use std::borrow::Cow;

/// Shortens a text to at most `chars_max` characters; an ellipsis replaces the rest.
pub fn truncated(text: &str, chars_max: usize) -> Cow<'_, str> {
    if text.char_indices().nth(chars_max).is_none() {
        return Cow::Borrowed(text);
    }
    let kept = text.chars().take(chars_max.saturating_sub(1));
    Cow::Owned(kept.chain(['…']).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ellipsis_counts() {
        for (chars_max, shortened) in [(4, "käse"), (3, "kä…"), (1, "…"), (9, "käse")] {
            assert_eq!(truncated("käse", chars_max), shortened);
        }
    }
}
