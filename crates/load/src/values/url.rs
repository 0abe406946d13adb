//! Parsed URLs of requests.

use std::borrow::Cow;

use http::Uri;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use prony_record::redact;

use crate::values::cookies::CookieUrl;
use crate::values::error::SettingsError;
use crate::values::reference;

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query, as in the request line.
    pub(crate) path: String,
    /// True if the scheme is `ws` or `wss`.
    pub(crate) is_websocket: bool,
}

impl Url {
    /// Parses a typed URL. `http://` is the default scheme, and a URL that begins with `/` is a
    /// path on `base`.
    pub(crate) fn parse(text: &str, base: Option<&Url>) -> Result<Url, SettingsError> {
        if text.starts_with('/') {
            let base = base.ok_or_else(|| {
                SettingsError::from(format!("\"{text}\" is a path"))
                    .hint("give the server's URL as well, such as http://localhost:8080")
            })?;
            let path = parsed(text, text)?;
            return Ok(Url {
                path: path_of(&path),
                ..base.clone()
            });
        }
        // A host may be called "unix", but a port never begins with a slash.
        if text.starts_with("unix:/") {
            let path = text.trim_start_matches("unix:");
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = path.split_once(':').map_or(path, |(path, _)| path);
            let error = SettingsError::from(format!("\"{text}\" is not a URL"));
            let error = error
                .hint("for a UNIX socket, use ")
                .and_value("unix", path);
            return Err(error.text(" with http://localhost/"));
        }
        let whole = if has_scheme(text) {
            text.to_owned()
        } else {
            format!("http://{text}")
        };
        let shown = redact::url(&whole);
        let added = if has_scheme(text) { "" } else { "http://" };
        let shown = &shown[added.len()..];
        if zone(&whole).is_some() {
            let cause = format!("\"{shown}\": an address with a zone is not supported");
            let hint = "give the server another address, such as a unique local address (fd00::/8)";
            return Err(SettingsError::from(cause).hint(hint));
        }
        let uri = parsed(&with_ascii_host(&whole, shown)?, shown)?;
        let (tls, is_websocket) = match uri.scheme_str() {
            Some("http" | "grpc") => (false, false),
            Some("https" | "grpcs") => (true, false),
            Some("ws") => (false, true),
            Some("wss") => (true, true),
            other => {
                let other = other.unwrap_or_default();
                let cause = format!("\"{shown}\": the scheme {other} is not supported");
                return Err(SettingsError::from(cause).hint("use http, https, ws or wss"));
            }
        };
        let authority = uri.authority().map(|a| a.as_str()).unwrap_or_default();
        if authority.contains('@') {
            let cause = format!("\"{shown}\": this URL can't contain a user and password");
            let error = SettingsError::from(cause).hint("use ");
            let error = error.and_value("user", "USER:PASSWORD");
            return Err(error.hint("put them in the load's own URL"));
        }
        let host = host_of(&uri, text)?;
        let port = match uri.port_u16() {
            Some(0) => return Err(format!("\"{text}\": port 0 is not a valid port").into()),
            Some(port) => port,
            None if authority
                .rsplit_once(':')
                .is_some_and(|(_, p)| !p.ends_with(']')) =>
            {
                let error = format!("\"{text}\": the port is not a number from 1 to 65535");
                return Err(error.into());
            }
            None if tls => 443,
            None => 80,
        };
        Ok(Url {
            tls,
            host: host.to_owned(),
            port,
            path: path_of(&uri),
            is_websocket,
        })
    }

    /// Host as written in a URL: an IPv6 address is in brackets.
    pub(crate) fn bracketed_host(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }

    /// Value of the Host header; includes the port unless it is the scheme's default.
    pub(crate) fn host_header(&self) -> String {
        let host = self.bracketed_host();
        match (self.tls, self.port) {
            (false, 80) | (true, 443) => host,
            (_, port) => format!("{host}:{port}"),
        }
    }

    /// Returns the parts of the URL that determine which cookies are sent.
    pub(crate) fn cookie_url(&self) -> CookieUrl<'_> {
        CookieUrl {
            host: &self.host,
            path: &self.path,
            is_tls: self.tls,
        }
    }

    /// The whole URL, as shown in results.
    pub(crate) fn text(&self) -> String {
        let scheme = match (self.is_websocket, self.tls) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        };
        format!("{scheme}://{}{}", self.host_header(), self.path)
    }
}

/// Returns the zone of an IPv6 address in a URL (RFC 6874), which the URL parser would reject.
fn zone(whole: &str) -> Option<&str> {
    let authority = whole.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let address = authority.split_once('[')?.1.split(']').next()?;
    Some(address.split_once('%')?.1)
}

/// Length of the part of a typed URL before its path: 0 if the URL is a path.
pub(crate) fn origin_bytes(text: &str) -> usize {
    let host = if has_scheme(text) {
        text.find("://").map_or(0, |scheme| scheme + "://".len())
    } else {
        0
    };
    let path = text[host..].find(['/', '?', '#']);
    path.map_or(text.len(), |path| host + path)
}

/// Returns true if [`Url::parse`] accepts `path` as it is, and it has no dot segments. Returns false
/// for a few other paths that [`Url::parse`] accepts, too.
pub(crate) fn is_plain_path(path: &str) -> bool {
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/?%".contains(&byte);
    path.starts_with('/')
        && path.len() <= PLAIN_PATH_BYTES_MAX
        && path.bytes().all(is_plain)
        && !path.contains("/.")
        && !path.contains("/%2")
}

/// Maximum length for which [`is_plain_path`] returns true.
const PLAIN_PATH_BYTES_MAX: usize = 32_768;

/// Returns true if `beginning`, the first part of a URL, extends into the path or query.
pub(crate) fn has_path(beginning: &str) -> bool {
    let scheme = reference::scheme(beginning).filter(|_| has_scheme(beginning));
    let rest = scheme.map_or(beginning, |scheme| &beginning[scheme.len() + "://".len()..]);
    rest.contains(['/', '?'])
}

/// Returns true if `text` begins with a scheme and `://`. A URL in the query doesn't count.
pub(crate) fn has_scheme(text: &str) -> bool {
    reference::scheme(text).is_some_and(|scheme| text[scheme.len()..].starts_with("://"))
}

/// Parses a URL or a path. `shown` is the URL in messages.
fn parsed(whole: &str, shown: &str) -> Result<Uri, SettingsError> {
    let wrong_character = || {
        let rest = &whole[authority_of(whole).map_or(0, |authority| authority.end)..];
        let rest = rest.split('#').next().unwrap_or_default();
        rest.chars()
            .find(|c| !c.is_ascii_graphic() || "\"<>`".contains(*c))
    };
    let uri: Result<Uri, _> = whole.parse();
    match uri {
        Ok(uri) if whole.is_ascii() => Ok(uri),
        uri => match (wrong_character(), uri) {
            (Some(character), _) => Err(must_be_encoded(shown, character).into()),
            (None, Err(error)) => Err(format!("\"{shown}\" is not a URL ({error})").into()),
            (None, Ok(uri)) => Ok(uri),
        },
    }
}

/// Returns the message for a character that can't be in a path or query.
fn must_be_encoded(shown: &str, character: char) -> String {
    let mut buffer = [0; 4];
    let text = character.encode_utf8(&mut buffer);
    let encoded = utf8_percent_encode(text, percent_encoding::NON_ALPHANUMERIC);
    let name = match character {
        ' ' => "a space".to_owned(),
        character if character.is_control() => "a control character".to_owned(),
        character => format!("the character {character}"),
    };
    format!("\"{shown}\" is not a URL ({name} must be percent-encoded, as {encoded})")
}

/// Returns the position of the authority in a URL with a scheme.
fn authority_of(whole: &str) -> Option<std::ops::Range<usize>> {
    let start = if has_scheme(whole) {
        whole.find("://")? + "://".len()
    } else {
        return None;
    };
    let length = whole[start..].find(['/', '?', '#']);
    Some(start..length.map_or(whole.len(), |length| start + length))
}

/// Returns the URL with an internationalized host in its ASCII form. Rejects hosts with misplaced
/// brackets.
fn with_ascii_host<'a>(whole: &'a str, shown: &str) -> Result<Cow<'a, str>, SettingsError> {
    let Some(range) = authority_of(whole) else {
        return Ok(Cow::Borrowed(whole));
    };
    let authority = &whole[range.clone()];
    let host_start = authority.rfind('@').map_or(0, |at| at + 1);
    let place = &authority[host_start..];
    let in_brackets = place.strip_prefix('[').map(|rest| rest.split_once(']'));
    let is_misplaced = match in_brackets {
        Some(Some((address, port))) => {
            address.contains('[')
                || port.contains(['[', ']'])
                || !matches!(port.get(..1), None | Some(":"))
        }
        Some(None) => true,
        None => place.contains(['[', ']']) || place.matches(':').count() > 1,
    };
    if is_misplaced {
        return Err(format!(
            "\"{shown}\" is not a URL (only an IPv6 address contains more than one colon, and it \
             is written in brackets: http://[::1]:8080/)"
        )
        .into());
    }
    let host = place.split(':').next().unwrap_or_default();
    if in_brackets.is_some() || (host.is_ascii() && !host.contains('%')) {
        return Ok(Cow::Borrowed(whole));
    }
    let ascii = ascii_host(host)
        .ok_or_else(|| format!("\"{shown}\": \"{host}\" is not a valid host name"))?;
    let (before, after) = (
        &whole[..range.start + host_start],
        &whole[range.start + host_start + host.len()..],
    );
    Ok(Cow::Owned(format!("{before}{ascii}{after}")))
}

/// Returns the ASCII form of a host name (UTS #46), which is what servers and name servers know:
/// `xn--bcher-kva.example` for `bücher.example`. Percent-encoded characters are decoded first.
pub(crate) fn ascii_host(host: &str) -> Option<String> {
    let decoded = percent_decode_str(host).decode_utf8().ok()?;
    let ascii = idna::domain_to_ascii_cow(decoded.as_bytes(), idna::AsciiDenyList::URL).ok()?;
    Some(ascii.into_owned())
}

/// Returns the host, without the brackets around an IPv6 address.
fn host_of<'a>(uri: &'a Uri, text: &str) -> Result<&'a str, SettingsError> {
    let host = uri.host().unwrap_or_default();
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = bracketed.unwrap_or(host);
    if host.is_empty() {
        return Err(format!("\"{text}\" has no host").into());
    }
    Ok(host)
}

fn path_of(uri: &Uri) -> String {
    // `Display` adds the slash of a URL with a query but no path; `as_str` doesn't.
    uri.path_and_query()
        .map_or_else(|| "/".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::error::Notation;

    #[test]
    fn urls_are_split_into_parts() {
        let url = Url::parse("https://[::1]:8443/a?b=c", None).unwrap();
        assert_eq!((url.tls, url.host.as_str(), url.port), (true, "::1", 8443));
        assert_eq!(url.host_header(), "[::1]:8443");
        assert_eq!(url.text(), "https://[::1]:8443/a?b=c");
        let url = Url::parse("localhost:8080", None).unwrap();
        assert_eq!((url.port, url.path.as_str()), (8080, "/"));
        let url = Url::parse("http://localhost?to=http://h/", None).unwrap();
        assert_eq!(url.path, "/?to=http://h/");
        let url = Url::parse("localhost/?to=http://h/", None).unwrap();
        assert_eq!(url.text(), "http://localhost/?to=http://h/");
        let url = Url::parse("localhost:8080", None).unwrap();
        let page = Url::parse("/page?x", Some(&url)).unwrap();
        assert_eq!(page.text(), "http://localhost:8080/page?x");
        assert_eq!(Url::parse("http://a", None).unwrap().host_header(), "a");
    }

    #[test]
    fn hosts_are_written_in_ascii() {
        for (text, host) in [
            ("http://bücher.example/", "xn--bcher-kva.example"),
            ("BÜCHER.example:8080", "xn--bcher-kva.example"),
            ("https://faß.example", "xn--fa-hia.example"),
            ("http://b%C3%BCcher.example/", "xn--bcher-kva.example"),
            ("http://例え.テスト/", "xn--r8jz45g.xn--zckzah"),
            ("http://１２７.0.0.1/", "127.0.0.1"),
            ("http://Example.test/", "Example.test"),
        ] {
            assert_eq!(Url::parse(text, None).unwrap().host, host, "{text}");
        }
    }

    #[test]
    fn invalid_urls_are_refused_with_a_reason() {
        for (bad, reason) in [
            ("ftp://h/", "http or https"),
            ("/a", "is a path"),
            ("http://", "not a URL"),
            ("http://h:99999/", "port"),
            ("http://[]/", "no host"),
            ("http://h[i/", "not a URL"),
            ("http://[h[i]/", "not a URL"),
            ("http://h:0/", "port 0"),
            ("http://u:p@h/", "password"),
            ("http://h/a b", "a space must be percent-encoded, as %20"),
            ("http://h/é\u{7f}", "é must be percent-encoded, as %C3%A9"),
            (
                "http://h/?q={\"a\":1}",
                "\" must be percent-encoded, as %22",
            ),
            (
                "http://h/\u{7f}",
                "a control character must be percent-encoded, as %7F",
            ),
            ("http://[::1:80/", "in brackets"),
            ("http://::1]:80/", "in brackets"),
            ("http://::1/", "in brackets"),
            ("http://[::1]80/", "in brackets"),
            ("http://b\u{fc}\u{2d}\u{200f}/", "not a valid host name"),
            ("http://a%20b/", "not a valid host name"),
            ("", "not a URL"),
            ("http://[fe80::1%25lo]/", "zone"),
            ("unix:/run/app.sock", "--unix /run/app.sock with"),
            ("unix:///run/app.sock:/health", "--unix /run/app.sock with"),
            ("[fe80::1%lo]:80", "zone"),
            ("unix:////run/app.sock", "--unix //run/app.sock with"),
        ] {
            let error = Url::parse(bad, None).unwrap_err().to_string();
            assert!(error.contains(reason), "{bad}: {error}");
        }
        let socket = Url::parse("unix:/run/app.sock", None).unwrap_err();
        assert_eq!(
            socket.in_notation(Notation::Options(&[])),
            "\"unix:/run/app.sock\" is not a URL"
        );
        let base = Url::parse("http://h/", None).unwrap();
        let error = Url::parse("/<", Some(&base)).unwrap_err().to_string();
        assert!(
            error.contains("< must be percent-encoded, as %3C"),
            "{error}"
        );
        for with_password in ["u:secret@h/a b", "ftp://u:secret@h/", "u:secret@[::1%lo]/"] {
            let error = Url::parse(with_password, None).unwrap_err().to_string();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
