//! Bodies of forms that are sent as a browser does (`application/x-www-form-urlencoded`).

use percent_encoding::percent_encode;

use super::data::RESERVED;
use super::parse::{TemplateError, TextPiece, parse_pieces, placeholder};

/// Encodes a field of a form. The values of placeholders become percent-encoded, too.
pub(crate) fn form_field(name: &str, value: &str) -> Result<String, TemplateError> {
    let mut field = url_encoded(name) + "=";
    for piece in parse_pieces(value)? {
        field += &match piece {
            TextPiece::Literal(text) => url_encoded(&text),
            TextPiece::Placeholder(one) if one.filter.is_none() => {
                placeholder(&format!("{} | url", one.source))
            }
            TextPiece::Placeholder(one) => placeholder(&one.source),
        };
    }
    Ok(field)
}

fn url_encoded(text: &str) -> String {
    percent_encode(text.as_bytes(), RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_and_placeholders_are_encoded() {
        for (value, expected) in [
            ("a&b c", "n%20m=a%26b%20c"),
            (
                "{{ user }}+{{ id | raw }}",
                "n%20m={{ user | url }}%2B{{ id | raw }}",
            ),
            ("{{ '{{' }}", "n%20m=%7B%7B"),
            ("", "n%20m="),
        ] {
            assert_eq!(form_field("n m", value).unwrap(), expected);
        }
        assert!(form_field("a", "{{ b").is_err());
    }
}
