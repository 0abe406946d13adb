//! The server's explanation of a failed gRPC call.

use percent_encoding::percent_decode;

/// Maximum length of an explanation in characters.
const CHARS_MAX: usize = 120;

/// A server's explanation of a failed gRPC call (`grpc-message`), as one line of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallExplanation(pub(super) String);

impl CallExplanation {
    /// Decodes the value of `grpc-message`. Invalid escapes stay as they are, invalid UTF-8 and
    /// control characters are replaced, and a long text is cut.
    #[cold]
    pub(crate) fn decode(value: &[u8]) -> CallExplanation {
        let decoded = percent_decode(value).decode_utf8_lossy();
        let visible = |char: char| if char.is_control() { ' ' } else { char };
        let mut text: String = decoded.chars().map(visible).take(CHARS_MAX + 1).collect();
        if let Some((end, _)) = text.char_indices().nth(CHARS_MAX) {
            text.truncate(end);
            text.push('…');
        }
        CallExplanation(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn explanations_are_one_line_of_text() {
        let cases = [
            ("no tea", "no tea"),
            ("100%25 sure%0A\u{1b}[31m", "100% sure  [31m"),
            ("%e2%82%ac 5", "\u{20ac} 5"),
            ("%", "%"),
            ("%2", "%2"),
            ("%zz%", "%zz%"),
            ("%ff%c3", "\u{fffd}\u{fffd}"),
        ];
        for (value, text) in cases {
            assert_eq!(CallExplanation::decode(value.as_bytes()).0, text);
        }
        let long = CallExplanation::decode("%e2%82%ac".repeat(CHARS_MAX + 1).as_bytes());
        assert_eq!(long.0, "\u{20ac}".repeat(CHARS_MAX) + "…");
    }
}
