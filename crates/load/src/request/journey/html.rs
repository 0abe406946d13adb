//! Finds the value of a form's field in HTML.

use html5gum::{Token, Tokenizer};

/// Returns the value that a browser would send for the first field with this name: an `input`, a
/// `button`, a `textarea`, the selected `option` of a `select`, or the content of a `meta`, in
/// which some frameworks put their token.
pub(super) fn field_value(html: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut tokens = Tokenizer::new(html).flatten();
    while let Some(token) = tokens.next() {
        let Token::StartTag(tag) = token else {
            continue;
        };
        let attribute = |key: &str| tag.attributes.get(key.as_bytes()).map(|it| it.to_vec());
        if attribute("name").as_deref() != Some(name.as_bytes()) {
            continue;
        }
        match &tag.name[..] {
            b"input" | b"button" => return Some(attribute("value").unwrap_or_default()),
            b"meta" => return Some(attribute("content").unwrap_or_default()),
            b"textarea" => return Some(text_until(&mut tokens, b"textarea")),
            b"select" => return selected(&mut tokens),
            _ => {}
        }
    }
    None
}

/// Returns the text up to an end tag.
fn text_until(tokens: &mut impl Iterator<Item = Token>, end: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for token in tokens {
        match token {
            Token::String(piece) => text.extend_from_slice(&piece),
            Token::EndTag(tag) if tag.name[..] == *end => break,
            _ => {}
        }
    }
    // A line break after the start tag is not part of the text.
    match text.strip_prefix(b"\n") {
        Some(rest) => rest.to_vec(),
        None => text,
    }
}

/// Returns the value of the selected option, or of the first one.
fn selected(tokens: &mut impl Iterator<Item = Token>) -> Option<Vec<u8>> {
    let mut first = None;
    // The option whose text is being read, if its value is its text.
    let mut open: Option<(bool, Vec<u8>)> = None;
    loop {
        let token = tokens.next();
        let ends_option = match &token {
            None => true,
            Some(Token::StartTag(tag)) => tag.name[..] == *b"option",
            Some(Token::EndTag(tag)) => matches!(&tag.name[..], b"option" | b"select"),
            Some(_) => false,
        };
        if ends_option && let Some((is_selected, text)) = open.take() {
            let text = text.trim_ascii().to_vec();
            if is_selected {
                return Some(text);
            }
            first.get_or_insert(text);
        }
        match token? {
            Token::StartTag(tag) if tag.name[..] == *b"option" => {
                let attribute = |key: &str| tag.attributes.get(key.as_bytes());
                let is_selected = attribute("selected").is_some();
                match attribute("value") {
                    Some(value) if is_selected => return Some(value.to_vec()),
                    Some(value) => {
                        first.get_or_insert(value.to_vec());
                    }
                    None => open = Some((is_selected, Vec::new())),
                }
            }
            Token::String(text) => {
                if let Some((_, piece)) = &mut open {
                    piece.extend_from_slice(&text);
                }
            }
            Token::EndTag(tag) if tag.name[..] == *b"select" => return first,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_values_that_a_browser_sends() {
        let html = br#"<form><!-- <input name="csrf" value="no"> -->
            <INPUT type=hidden Name="csrf" VALUE="a&amp;b">
            <input name=agree type=checkbox><meta name="csrf-token" content='m=='>
            <textarea name="text">
one &lt; two</textarea>
            <select name="one"><option value="1">x<option selected value=2>y</select>
            <select name="two"><option> first </option><option>second</select>
            <select name="three"><option>a<option selected>b</select></form>"#;
        for (name, value) in [
            ("csrf", Some("a&b")),
            ("agree", Some("")),
            ("csrf-token", Some("m==")),
            ("text", Some("one < two")),
            ("one", Some("2")),
            ("two", Some("first")),
            ("three", Some("b")),
            ("none", None),
        ] {
            let found = field_value(html, name);
            let found = found.map(|it| String::from_utf8(it).unwrap());
            assert_eq!(found.as_deref(), value, "{name}");
        }
        for html in [
            &b""[..],
            b"<",
            b"<select name=a>",
            b"<input name=",
            b"\xff<textarea name=a>",
        ] {
            assert!(field_value(html, "a").is_none_or(|it| it.is_empty()));
        }
    }
}
