//! Finds the value of a form's field, and the parts of a page, in HTML.

use std::collections::HashSet;

use html5gum::{DefaultEmitter, Token, Tokenizer};

use crate::values::location;
use crate::values::url::Url;

/// Maximum number of parts of a page that are requested.
const PARTS_MAX: usize = 100;

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

/// Returns the URLs of the images, scripts and style sheets of a page that are on its server, each
/// once, in the order of the page.
pub(crate) fn page_parts(html: &[u8], page: &Url) -> Vec<Url> {
    let mut emitter = DefaultEmitter::default();
    // With this setting, text in scripts that looks like a tag is not treated as one.
    emitter.naively_switch_states(true);
    let (mut parts, mut seen) = (Vec::new(), HashSet::new());
    let mut base = page.clone();
    for token in Tokenizer::new_with_emitter(html, emitter) {
        let Ok(Token::StartTag(tag)) = token else {
            continue;
        };
        let attribute = |key: &str| {
            let value = tag.attributes.get(key.as_bytes())?;
            Some(value.trim_ascii()).filter(|value| !value.is_empty())
        };
        let is_style_sheet = || {
            let relations = attribute("rel").unwrap_or_default().to_ascii_lowercase();
            let mut relations = relations.split(|byte| byte.is_ascii_whitespace());
            relations.any(|word| word == b"stylesheet" || word == b"icon")
        };
        let reference = match &tag.name[..] {
            b"img" | b"script" => attribute("src"),
            b"link" if is_style_sheet() => attribute("href"),
            b"base" => {
                let to = attribute("href").and_then(|to| location::resolve(&base, to).ok());
                base = to.unwrap_or(base);
                None
            }
            _ => None,
        };
        let Some(Ok(url)) = reference.map(|reference| location::resolve(&base, reference)) else {
            continue;
        };
        let is_here = (&url.host, url.port, url.tls) == (&page.host, page.port, page.tls);
        if is_here && seen.insert(url.path.clone()) {
            parts.push(url);
        }
        if parts.len() == PARTS_MAX {
            break;
        }
    }
    parts
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
    fn parts_of_a_page_are_on_its_server() {
        let page = Url::parse("http://a.test/dir/page", None).unwrap();
        let html = br#"<link rel="stylesheet" href=a.css><link rel=next href=n><img src=/b.png#x>
            <script src="//b.test/c.js"></script><script>x = '<img src=no.png>'</script>
            <img src="data:image/gif;base64,AA"><img src=/b.png><base href=/sub/><img src="d?e&amp;f">
            <img src=""><a href=/z>z</a>"#;
        let parts = page_parts(html, &page);
        let paths: Vec<&str> = parts.iter().map(|url| url.path.as_str()).collect();
        assert_eq!(paths, ["/dir/a.css", "/b.png", "/sub/d?e&f"]);
        let many: String = (0..200).map(|n| format!("<img src={n}>")).collect();
        assert_eq!(page_parts(many.as_bytes(), &page).len(), PARTS_MAX);
    }

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
