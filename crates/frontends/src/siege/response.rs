//! Parses the headers of a response that affect what siege's virtual users request next.

use prony_load::response_head::texts;

/// Parsed head of a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ResponseHead<'a> {
    /// Protocol version, such as `HTTP/1.1`.
    pub(super) protocol: &'a str,
    pub(super) status: u16,
    /// True if the body is an HTML page to parse.
    pub(super) is_html: bool,
    /// Value of the Content-Encoding header.
    pub(super) coding: Option<&'a str>,
    pub(super) location: Option<&'a str>,
    pub(super) set_cookies: Vec<&'a str>,
    /// Values of the WWW-Authenticate headers.
    pub(super) challenges: Vec<&'a str>,
}

impl<'a> ResponseHead<'a> {
    /// Parses the head in a [`prony_load::script::ResponseView`].
    pub(super) fn parse(text: &'a [u8], status: u16) -> ResponseHead<'a> {
        let mut head = ResponseHead {
            protocol: "HTTP/1.1",
            status,
            ..ResponseHead::default()
        };
        let protocol = text.split(|byte| *byte == b' ').next();
        if let Some(Ok(protocol)) = protocol.map(std::str::from_utf8)
            && protocol.starts_with("HTTP/")
        {
            head.protocol = protocol;
        }
        // Headers whose values aren't UTF-8 are skipped, because none of them is needed.
        for (name, value) in texts(text) {
            let is = |other: &str| name.trim().eq_ignore_ascii_case(other);
            if is("content-type") {
                let kind = value.split(';').next().unwrap_or_default().trim();
                head.is_html = kind.eq_ignore_ascii_case("text/html");
            } else if is("content-encoding") {
                head.coding = Some(value);
            } else if is("location") {
                head.location = Some(value);
            } else if is("set-cookie") {
                head.set_cookies.push(value);
            } else if is("www-authenticate") {
                head.challenges.push(value);
            }
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_that_matter() {
        let text = b"HTTP/1.0 302 Found\r\ncontent-type: Text/HTML; charset=utf-8\r\n\
            Content-Encoding: GZIP\r\nLocation: /x:y\r\nSet-Cookie: a=1\r\nset-cookie: b=2; Path=/\r\n\
            WWW-Authenticate: Basic realm=\"r\"\r\nX: \xff\r\n\r\n";
        let expected = ResponseHead {
            protocol: "HTTP/1.0",
            status: 302,
            is_html: true,
            coding: Some("GZIP"),
            location: Some("/x:y"),
            set_cookies: vec!["a=1", "b=2; Path=/"],
            challenges: vec!["Basic realm=\"r\""],
        };
        assert_eq!(ResponseHead::parse(text, 302), expected);
    }

    #[test]
    fn an_empty_head_has_no_fields() {
        let head = ResponseHead::parse(b"", 200);
        assert_eq!(
            (head.protocol, head.status, head.is_html),
            ("HTTP/1.1", 200, false)
        );
    }
}
