//! Converts URLs as Go's client does: percent-encodes invalid characters, and turns credentials
//! into a header.

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

/// Characters of a query that Go encodes, in addition to non-ASCII characters.
const INVALID_IN_QUERY: &AsciiSet = &CONTROLS.add(b' ').add(b'"').add(b'<').add(b'>');
/// Characters of a path that Go encodes, in addition to non-ASCII characters.
const INVALID_IN_PATH: &AsciiSet = &INVALID_IN_QUERY
    .add(b'#')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A URL that can be requested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeyUrl {
    /// URL without fragment and credentials.
    pub(super) text: String,
    /// Credentials from the URL: `user:password`, or `user:` without a password.
    pub(super) user: Option<String>,
}

impl HeyUrl {
    /// Parses a URL and formats it again. Returns an invalid URL unchanged, because the error is
    /// reported later, when the URL is resolved.
    pub(super) fn parse(input: &str) -> HeyUrl {
        let Some((scheme, rest)) = input.split_once("://") else {
            return HeyUrl {
                text: input.to_owned(),
                user: None,
            };
        };
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user), host),
            None => (None, authority),
        };
        let (path, query) = match path.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path, None),
        };
        let mut text = format!("{scheme}://{host}");
        text.push_str(if path.is_empty() && query.is_some() {
            "/"
        } else {
            ""
        });
        text.extend(utf8_percent_encode(path, INVALID_IN_PATH));
        if let Some(query) = query {
            text.push('?');
            text.extend(utf8_percent_encode(query, INVALID_IN_QUERY));
        }
        HeyUrl {
            text,
            user: user.map(credentials),
        }
    }
}

fn credentials(user: &str) -> String {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
    format!("{}:{}", decoded(name), decoded(password))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_made_fit_to_be_sent() {
        for (text, expected) in [
            ("http://h", "http://h"),
            ("http://h?x=1", "http://h/?x=1"),
            ("http://h/a b|c", "http://h/a%20b%7Cc"),
            ("http://h/ä?ö=<1>", "http://h/%C3%A4?%C3%B6=%3C1%3E"),
            (
                "http://h/a%20b/[1]?c=a|{b}&d=/?",
                "http://h/a%20b/[1]?c=a|{b}&d=/?",
            ),
            ("http://h/a#part?x", "http://h/a"),
            ("HTTP://[::1]:80//a/../b", "HTTP://[::1]:80//a/../b"),
            ("h:1/x", "h:1/x"),
        ] {
            let url = HeyUrl::parse(text);
            assert_eq!((url.text.as_str(), url.user), (expected, None), "{text}");
        }
    }

    #[test]
    fn credentials_are_removed_from_the_url() {
        for (text, user) in [
            ("http://me:pass@h/", "me:pass"),
            ("http://me@h/", "me:"),
            ("http://a%40b:p%3Aq%zz@h/", "a@b:p:q%zz"),
        ] {
            let url = HeyUrl::parse(text);
            assert_eq!(url.text, "http://h/");
            assert_eq!(url.user.as_deref(), Some(user));
        }
    }
}
