//! Parses URLs as siege does: the scheme and the path may be missing, blanks are allowed, and links
//! are resolved against the page's URL.

use std::fmt::Write;

use percent_encoding::percent_decode_str;
use prony_load::{CookieUrl, SettingsError, reference};

use crate::authority;

/// URL of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SiegeUrl {
    tls: bool,
    /// Host without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Path and query, beginning with `/`.
    path: String,
    /// Credentials in the URL. They are sent only in response to an authentication challenge.
    login: Option<(String, String)>,
}

impl SiegeUrl {
    /// Parses a URL. If `escape` is true, writes characters that can't be in a request line as
    /// `%XX`.
    ///
    /// # Errors
    ///
    /// The URL is invalid.
    pub(super) fn parse(input: &str, escape: bool) -> Result<SiegeUrl, SettingsError> {
        let (scheme, rest) = split_scheme(input);
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "" | "http" => false,
            "https" => true,
            "ftp" => return Err(SettingsError::from("FTP is not supported, only HTTP").at(input)),
            other => {
                let cause = format!("{other} is not supported, only HTTP");
                return Err(SettingsError::from(cause).at(input));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let (login, address) = match authority.rsplit_once('@') {
            Some((login, address)) => {
                let (name, password) = login.split_once(':').unwrap_or((login, ""));
                (Some((decoded(name), decoded(password))), address)
            }
            None => (None, authority),
        };
        let (host, port) = host_and_port(address)
            .ok_or("the port is not a number from 1 to 65535")
            .map_err(|cause| SettingsError::from(cause).at(input))?;
        if host.is_empty() {
            return Err(format!("\"{input}\" has no host").into());
        }
        if host
            .contains(|c: char| c.is_whitespace() || c.is_control() || "\"<>\\^`{|}%".contains(c))
        {
            let error = SettingsError::from(format!("\"{host}\" is not a valid host name"));
            return Err(error.at(format!("\"{input}\"")));
        }
        Ok(SiegeUrl {
            tls,
            host: host.to_owned(),
            port: port.unwrap_or(authority::default_port(tls)),
            path: path_of(path, escape),
            login,
        })
    }

    /// Resolves `link` against this URL, which is the URL of the page (RFC 3986, section 5.2).
    ///
    /// # Errors
    ///
    /// The resulting URL is invalid.
    pub(super) fn join(&self, link: &str, escape: bool) -> Result<SiegeUrl, SettingsError> {
        let link = link.trim();
        if reference::scheme(link).is_some() {
            return SiegeUrl::parse(link, escape);
        }
        if link.starts_with("//") {
            let scheme = if self.tls { "https:" } else { "http:" };
            return SiegeUrl::parse(&format!("{scheme}{link}"), escape);
        }
        Ok(SiegeUrl {
            path: path_of(&reference::resolve_path(&self.path, link), escape),
            login: None,
            ..self.clone()
        })
    }

    /// Returns the path and query, for the request line.
    pub(super) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the host's name or address.
    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Returns true if the scheme is `https`.
    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    /// Returns the parts of the URL that determine which cookies are sent.
    pub(super) fn cookie_url(&self) -> CookieUrl<'_> {
        CookieUrl {
            host: self.host(),
            path: self.path(),
            is_tls: self.is_tls(),
        }
    }

    /// Returns the user name and password, if there are any.
    pub(super) fn login(&self) -> Option<(&str, &str)> {
        self.login
            .as_ref()
            .map(|(name, password)| (name.as_str(), password.as_str()))
    }

    /// Returns true if both URLs have the same scheme, host and port.
    pub(super) fn is_same_server(&self, other: &SiegeUrl) -> bool {
        self.tls == other.tls
            && self.port == other.port
            && self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Returns the value of the Host header. It includes the port, unless that is the scheme's
    /// default.
    pub(super) fn host_header(&self) -> String {
        authority::host_header(&self.host, self.port, self.tls)
    }

    /// Returns the whole URL without credentials.
    pub(super) fn text(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header(), self.path)
    }
}

/// Splits a URL into the scheme (empty if missing) and the text after `//`.
fn split_scheme(text: &str) -> (&str, &str) {
    let scheme = reference::scheme(text).unwrap_or_default();
    match text[scheme.len()..].strip_prefix("://") {
        Some(rest) if !scheme.is_empty() => (scheme, rest),
        _ => ("", text),
    }
}

/// Splits an address into host and port. Returns `None` if the port is invalid.
fn host_and_port(address: &str) -> Option<(&str, Option<u16>)> {
    match authority::split(address)? {
        (host, None | Some("")) => Some((host, None)),
        (host, Some(digits)) => Some((host, Some(authority::port(digits)?))),
    }
}

/// Converts a path for the request line: it begins with `/` and has no fragment.
fn path_of(text: &str, escape: bool) -> String {
    let path = text.split('#').next().unwrap_or_default().trim();
    let path = if path.starts_with('/') {
        path.to_owned()
    } else {
        format!("/{path}")
    };
    if escape { escaped_path(&path) } else { path }
}

/// Percent-encodes characters that can't be in a request line. Keeps a `%` before two hexadecimal
/// digits.
fn escaped_path(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut escaped = String::with_capacity(path.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let is_escape = byte == b'%'
            && bytes
                .get(at + 1..at + 3)
                .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let stays = byte.is_ascii_graphic() && !b"\"<>\\^`{|}%".contains(&byte);
        if stays || is_escape {
            escaped.push(char::from(byte));
        } else {
            // Writing to a String can't fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> SiegeUrl {
        SiegeUrl::parse(text, true).unwrap()
    }

    #[test]
    fn shortcuts_are_taken() {
        for (input, text) in [
            ("http://a.test/x?y=1", "http://a.test/x?y=1"),
            ("a.test", "http://a.test/"),
            ("a.test:81/x", "http://a.test:81/x"),
            ("localhost:8080/x", "http://localhost:8080/x"),
            ("HTTPS://a.test", "https://a.test/"),
            ("https://a.test:443/", "https://a.test/"),
            ("http://a.test?q=1", "http://a.test/?q=1"),
            ("http://[::1]:81/", "http://[::1]:81/"),
            ("http://a.test/x#part", "http://a.test/x"),
            (
                "http://a.test/sp ace?q=ä",
                "http://a.test/sp%20ace?q=%C3%A4",
            ),
            ("http://a.test/100%25?a=50%", "http://a.test/100%25?a=50%25"),
            (
                "http://a.test/x?u=http://b.test/",
                "http://a.test/x?u=http://b.test/",
            ),
        ] {
            assert_eq!(url(input).text(), text, "{input}");
        }
        assert_eq!(SiegeUrl::parse("a.test/{b}", false).unwrap().path(), "/{b}");
    }

    #[test]
    fn logins_are_removed_from_the_url() {
        let url = url("http://me:s%40x@a.test:81/x");
        assert_eq!(url.login(), Some(("me", "s@x")));
        assert_eq!(url.text(), "http://a.test:81/x");
    }

    #[test]
    fn invalid_urls_are_refused() {
        for text in [
            "ftp://a.test/",
            "gopher://a.test/",
            "http://",
            "http://a.test:0/",
            "http://a.test:x/",
            "http://a b/",
            "http://[::1",
            "",
        ] {
            assert!(SiegeUrl::parse(text, true).is_err(), "{text:?}");
        }
    }

    #[test]
    fn references_are_resolved_as_in_browsers() {
        let page = url("https://a.test:81/dir/page?x=1");
        for (reference, text) in [
            ("b.png", "https://a.test:81/dir/b.png"),
            ("./b.png?v=2", "https://a.test:81/dir/b.png?v=2"),
            ("../b.png", "https://a.test:81/b.png"),
            ("../../../b.png", "https://a.test:81/b.png"),
            ("/b/./c/../d", "https://a.test:81/b/d"),
            ("sub/..", "https://a.test:81/dir/"),
            ("?y=../2", "https://a.test:81/dir/page?y=../2"),
            ("", "https://a.test:81/dir/page?x=1"),
            ("#there", "https://a.test:81/dir/page?x=1"),
            ("//b.test/c", "https://b.test/c"),
            ("http://b.test/c", "http://b.test/c"),
            (" c.js ", "https://a.test:81/dir/c.js"),
        ] {
            assert_eq!(
                page.join(reference, true).unwrap().text(),
                text,
                "{reference}"
            );
        }
        assert!(page.join("data:image/png;base64,AA", true).is_err());
    }

    #[test]
    fn servers_differ_by_scheme_host_and_port() {
        assert!(url("http://A.test/x").is_same_server(&url("http://a.test:80/y")));
        assert!(!url("http://a.test/").is_same_server(&url("https://a.test/")));
        assert!(!url("http://a.test/").is_same_server(&url("http://b.test/")));
    }
}
