//! Hides credentials in text that is stored or shown: values of Authorization, Cookie, X-Api-Key
//! and similar headers, user and password in URLs, and the passwords of `user` and `proxy`
//! settings. Credentials under other names or in bodies are not recognized.
//!
//! The text may be a plan, a list of arguments or JSON. [`split`] returns the removed credentials.
//! [`restore`] puts them back for a run that needs them.

use std::ops::Range;

/// Headers whose values are credentials.
const SECRET_HEADERS: [&str; 15] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "api-key",
    "apikey",
    "private-token",
    "x-access-token",
    "x-amz-security-token",
    "x-api-key",
    "x-api-token",
    "x-auth-key",
    "x-auth-token",
    "x-csrf-token",
    "x-vault-token",
];

/// Text that replaces a credential when the result is only shown, not restored.
pub const REDACTED: &str = "[redacted]";

/// Beginning of a numbered placeholder: `[redacted 1]`.
const NUMBERED: &str = "[redacted ";

/// Redacted text, with the credentials that were removed from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redacted {
    /// The text with a numbered placeholder for each credential.
    pub text: String,
    /// The removed credentials, in the order of their placeholders.
    pub secrets: Vec<String>,
}

/// Returns the text with every credential replaced by [`REDACTED`].
pub fn hide(text: &str) -> String {
    replaced(text, |_| REDACTED.to_owned())
}

/// Replaces the credentials in `text` with numbered placeholders.
pub fn split(text: &str) -> Redacted {
    let mut secrets: Vec<String> = Vec::new();
    let text = replaced(text, |secret| {
        let known = secrets.iter().position(|other| other == secret);
        let index = known.unwrap_or_else(|| {
            secrets.push(secret.to_owned());
            secrets.len() - 1
        });
        placeholder(index)
    });
    Redacted { text, secrets }
}

/// Replaces the placeholders in `text` with the credentials.
pub fn restore(text: &str, secrets: &[String]) -> String {
    let numbered = secrets.iter().enumerate();
    numbered.fold(text.to_owned(), |text, (index, secret)| {
        text.replace(&placeholder(index), secret)
    })
}

/// Returns true if the text contains placeholders from [`split`].
pub fn is_redacted(text: &str) -> bool {
    let mut found = text.match_indices(NUMBERED);
    found.any(|(at, _)| {
        let rest = &text[at + NUMBERED.len()..];
        let number = rest.split(']').next().unwrap_or_default();
        rest.contains(']') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Returns the URL without user and password.
pub fn url(url: &str) -> String {
    match userinfo_range(url) {
        Some(range) => format!("{}{}", &url[..range.start], &url[range.end + 1..]),
        None => url.to_owned(),
    }
}

/// Returns the user and password of a URL with a scheme, as written.
pub fn userinfo(url: &str) -> Option<&str> {
    userinfo_range(url).map(|range| &url[range])
}

fn placeholder(index: usize) -> String {
    format!("{NUMBERED}{}]", index + 1)
}

fn replaced(text: &str, mut stand_in: impl FnMut(&str) -> String) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut from = 0;
    for range in credentials(text) {
        kept.push_str(&text[from..range.start]);
        kept.push_str(&stand_in(&text[range.clone()]));
        from = range.end;
    }
    kept + &text[from..]
}

/// Returns the ranges of all credentials, in order and without overlaps.
fn credentials(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for header in SECRET_HEADERS {
        found.extend(values(text, header, &[':', '=']));
    }
    for range in values(text, "user", &['=']) {
        let password = text[range.clone()].find(':').map(|at| range.start + at + 1);
        found.extend(password.map(|from| from..range.end));
    }
    for range in values(text, "proxy", &['=']) {
        let value = &text[range.clone()];
        let at = value.rfind('@').filter(|_| !value.contains("://"));
        found.extend(at.map(|at| range.start..range.start + at));
    }
    found.extend(text.match_indices("://").filter_map(|(at, _)| {
        let scheme = text[..at].rfind(|c: char| !c.is_ascii_alphanumeric());
        let begins = scheme.map_or(0, |before| before + 1);
        let begins = (begins..=at).find(|&index| text.is_char_boundary(index))?;
        let range = userinfo_range(&text[begins..])?;
        Some(begins + range.start..begins + range.end)
    }));
    found.retain(|range| is_credential(&text[range.clone()]));
    found.sort_by_key(|range| (range.start, std::cmp::Reverse(range.end)));
    let mut end = 0;
    found.retain(|range| {
        let is_apart = range.start >= end;
        end = end.max(range.end);
        is_apart
    });
    found
}

/// Returns true if the value is a credential that must be hidden. Returns false for templates that
/// only name a variable, and for values that are already hidden.
fn is_credential(value: &str) -> bool {
    let value = value.trim();
    let is_template =
        value.starts_with("{{") && value.ends_with("}}") && !value.contains(['"', '\'']);
    !value.is_empty() && !is_template && !value.starts_with("[redacted")
}

/// Returns the ranges of the values after `name` and a separator: `name: value`, `name = "value"`,
/// `"name": "value"`.
fn values(text: &str, name: &str, separators: &[char]) -> Vec<Range<usize>> {
    let lower = text.to_ascii_lowercase();
    let found = lower.match_indices(name).filter_map(|(at, _)| {
        let before = &text[..at];
        let in_name = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
        if before.ends_with(in_name) && !before.ends_with("--") {
            return None;
        }
        let mut opened = before.chars().next_back().filter(|c| is_quote(*c));
        let mut rest = &text[at + name.len()..];
        if let Some(after) = opened.and_then(|quote| rest.strip_prefix(quote)) {
            (opened, rest) = (None, after);
        }
        rest = rest
            .trim_start_matches([' ', '\t'])
            .strip_prefix(separators)?;
        rest = rest.trim_start_matches([' ', '\t']);
        if let Some(quote) = rest
            .chars()
            .next()
            .filter(|c| is_quote(*c) && opened.is_none())
        {
            (opened, rest) = (Some(quote), &rest[1..]);
        }
        let from = text.len() - rest.len();
        Some(from..from + end_of(rest, opened))
    });
    found.collect()
}

fn is_quote(c: char) -> bool {
    c == '"' || c == '\''
}

/// Returns the length of a value that ends at a quote or, without a quote, at the end of its line.
fn end_of(text: &str, quote: Option<char>) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        let ends = c == '\n' || c == '\r' || (Some(c) == quote && !escaped);
        if ends {
            return at;
        }
        escaped = quote == Some('"') && c == '\\' && !escaped;
    }
    text.len()
}

/// Returns the range of the user and password of a URL, if it has a password or is an HTTP URL.
fn userinfo_range(url: &str) -> Option<Range<usize>> {
    let (scheme, rest) = url.split_once("://")?;
    let from = scheme.len() + 3;
    let ends = |c: char| c.is_whitespace() || is_quote(c) || "/?#<>{}\\".contains(c);
    let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
    let userinfo = &authority[..authority.rfind('@')?];
    let is_http = ["http", "https"].contains(&scheme.to_ascii_lowercase().as_str());
    (is_http || userinfo.contains(':')).then(|| from..from + userinfo.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_hidden_in_plans_arguments_and_json() {
        for (text, hidden) in [
            (
                r#"header = ["Authorization: Bearer abc", "Accept: text/html"]"#,
                r#"header = ["Authorization: [redacted]", "Accept: text/html"]"#,
            ),
            (
                "header = { Authorization = \"Basic \\\"x\\\"\", cookie='a=b; c=d' }\n",
                "header = { Authorization = \"[redacted]\", cookie='[redacted]' }\n",
            ),
            (
                "header = { X-Api-Key = \"k\", x-auth-token = 't', x-key = 1 }\n",
                "header = { X-Api-Key = \"[redacted]\", x-auth-token = '[redacted]', x-key = 1 }\n",
            ),
            (
                "--header=Proxy-Authorization: Basic eHg=",
                "--header=Proxy-Authorization: [redacted]",
            ),
            (
                r#"{"Set-Cookie": "id=1", "rate": 5}"#,
                r#"{"Set-Cookie": "[redacted]", "rate": 5}"#,
            ),
            ("user = \"me:secret\"", "user = \"me:[redacted]\""),
            ("--user=me:se:cret", "--user=me:[redacted]"),
            (
                "proxy = \"me:secret@h:3128\"",
                "proxy = \"[redacted]@h:3128\"",
            ),
            (
                "--proxy=http://me:p@w@h:3128/",
                "--proxy=http://[redacted]@h:3128/",
            ),
            (
                "DB = \"postgres://u:p@h/db\" # http://token@h/ and ssh://me@h",
                "DB = \"postgres://[redacted]@h/db\" # http://[redacted]@h/ and ssh://me@h",
            ),
            (
                "é://u:p@h Cookie: é\nnext",
                "é://[redacted]@h Cookie: [redacted]\nnext",
            ),
        ] {
            assert_eq!(hide(text), hidden);
            let parts = split(text);
            assert!(is_redacted(&parts.text), "{}", parts.text);
            assert_eq!(restore(&parts.text, &parts.secrets), text);
        }
    }

    #[test]
    fn text_without_credentials_is_unchanged() {
        for text in [
            "proxy_cookie_path = \"/\"",
            "header = [\"Authorization: {{ server.token }}\"]",
            "user = \"www-data\"",
            "url = \"http://h/@x?to=a@b\"",
            "authorizations = 2; cookies: 3",
            "Cookie: [redacted]",
            "://@",
            "",
        ] {
            assert_eq!(hide(text), text);
            assert!(!is_redacted(text), "{text}");
        }
    }

    #[test]
    fn a_url_is_shown_without_user_and_password() {
        assert_eq!(url("http://u:p@h:1/a@b"), "http://h:1/a@b");
        assert_eq!(url("https://u@[::1]/"), "https://[::1]/");
        assert_eq!(url("h:80/x"), "h:80/x");
    }

    #[test]
    fn equal_credentials_share_a_placeholder() {
        let parts = split("Cookie: a\nCookie: b\nCookie: a");
        assert_eq!(
            parts.text,
            "Cookie: [redacted 1]\nCookie: [redacted 2]\nCookie: [redacted 1]"
        );
        assert_eq!(parts.secrets, ["a", "b"]);
    }
}
