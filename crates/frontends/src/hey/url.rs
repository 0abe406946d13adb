//! Converts URLs as Go's client does: invalid characters are percent-encoded, and credentials
//! become a header.

/// A URL that can be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HeyUrl {
    /// Without fragment and credentials.
    pub(super) text: String,
    /// `user:password`, or `user:` without a password.
    pub(super) user: Option<String>,
}

impl HeyUrl {
    /// Splits and rejoins a URL. An invalid URL is returned unchanged; resolving it reports the
    /// error.
    pub(super) fn typed(typed: &str) -> HeyUrl {
        let Some((scheme, rest)) = typed.split_once("://") else {
            return HeyUrl {
                text: typed.to_owned(),
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
        encode(
            path,
            |byte| b"-._~!$&'()*+,;=:@/%[]".contains(&byte),
            &mut text,
        );
        if let Some(query) = query {
            text.push('?');
            let may_stand = |byte: u8| byte.is_ascii_graphic() && !b"\"<>".contains(&byte);
            encode(query, may_stand, &mut text);
        }
        HeyUrl {
            text,
            user: user.map(credentials),
        }
    }
}

fn encode(part: &str, may_stand: impl Fn(u8) -> bool, out: &mut String) {
    for byte in part.bytes() {
        if byte.is_ascii_alphanumeric() || may_stand(byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn credentials(user: &str) -> String {
    let (name, password) = user.split_once(':').unwrap_or((user, ""));
    format!("{}:{}", decoded(name), decoded(password))
}

/// Decodes percent-encoding (`%40` to `@`), and keeps invalid sequences.
fn decoded(part: &str) -> String {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let byte = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_made_fit_to_be_sent() {
        for (typed, expected) in [
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
            let url = HeyUrl::typed(typed);
            assert_eq!((url.text.as_str(), url.user), (expected, None), "{typed}");
        }
    }

    #[test]
    fn a_user_is_taken_out() {
        for (typed, user) in [
            ("http://me:pass@h/", "me:pass"),
            ("http://me@h/", "me:"),
            ("http://a%40b:p%3Aq%zz@h/", "a@b:p:q%zz"),
        ] {
            let url = HeyUrl::typed(typed);
            assert_eq!(url.text, "http://h/");
            assert_eq!(url.user.as_deref(), Some(user));
        }
    }
}
