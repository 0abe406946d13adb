//! Parsed URLs of requests.

use http::Uri;
use prony_record::redact;

use crate::cookies::CookieUrl;
use crate::reference;

/// A parsed URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) tls: bool,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Path and query, as in the request line.
    pub(crate) path: String,
}

impl Url {
    /// Parses a typed URL. `http://` is the default scheme, and a URL that begins with `/` is a
    /// path on `base`.
    pub(crate) fn parse(typed: &str, base: Option<&Url>) -> Result<Url, String> {
        if typed.starts_with('/') {
            let base = base.ok_or_else(|| {
                format!(
                    "\"{typed}\" is a path; give the server's URL as well, such as \
                         http://localhost:8080"
                )
            })?;
            let path: Uri = typed.parse().map_err(|error| invalid(typed, error))?;
            return Ok(Url {
                path: path_of(&path),
                ..base.clone()
            });
        }
        // A host may be called "unix", but a port never begins with a slash.
        if typed.starts_with("unix:/") {
            let path = typed.trim_start_matches("unix:");
            let path = path.strip_prefix("//").unwrap_or(path);
            let path = path.split_once(':').map_or(path, |(path, _)| path);
            return Err(format!(
                "\"{typed}\": for a UNIX socket, use --unix {path} with http://localhost/"
            ));
        }
        let whole = if has_scheme(typed) {
            typed.to_owned()
        } else {
            format!("http://{typed}")
        };
        let shown = redact::url(&whole);
        let added = if has_scheme(typed) { "" } else { "http://" };
        let shown = &shown[added.len()..];
        if zone(&whole).is_some() {
            return Err(format!(
                "\"{shown}\": an address with a zone is not supported; give the server another \
                 address, such as a unique local address (fd00::/8)"
            ));
        }
        let uri: Uri = whole.parse().map_err(|error| invalid(shown, error))?;
        let tls = match uri.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => {
                let other = other.unwrap_or_default();
                return Err(format!(
                    "\"{shown}\": the scheme {other} is not supported; use http or https"
                ));
            }
        };
        let authority = uri.authority().map(|a| a.as_str()).unwrap_or_default();
        if authority.contains('@') {
            return Err(format!(
                "\"{shown}\": this URL can't contain a user and password; use -u USER:PASSWORD, or \
                 put them in the load's own URL"
            ));
        }
        let host = host_of(&uri, typed)?;
        let port = match uri.port_u16() {
            Some(0) => return Err(format!("\"{typed}\": port 0 is not a valid port")),
            Some(port) => port,
            None if authority
                .rsplit_once(':')
                .is_some_and(|(_, p)| !p.ends_with(']')) =>
            {
                return Err(format!(
                    "\"{typed}\": the port is not a number from 1 to 65535"
                ));
            }
            None if tls => 443,
            None => 80,
        };
        Ok(Url {
            tls,
            host: host.to_owned(),
            port,
            path: path_of(&uri),
        })
    }

    /// Host as written in a URL: an IPv6 address is in brackets.
    pub(crate) fn bracketed_host(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
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
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header(), self.path)
    }
}

/// Returns the zone of an IPv6 address in a URL (RFC 6874), which the URL parser would reject.
fn zone(whole: &str) -> Option<&str> {
    let authority = whole.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let address = authority.split_once('[')?.1.split(']').next()?;
    Some(address.split_once('%')?.1)
}

/// Returns true if `beginning`, the first part of a URL, extends into the path or query.
pub(crate) fn has_path(beginning: &str) -> bool {
    let scheme = reference::scheme(beginning).filter(|_| has_scheme(beginning));
    let rest = scheme.map_or(beginning, |scheme| &beginning[scheme.len() + "://".len()..]);
    rest.contains(['/', '?'])
}

/// Returns true if `typed` begins with a scheme and `://`. A URL in the query doesn't count.
pub(crate) fn has_scheme(typed: &str) -> bool {
    reference::scheme(typed).is_some_and(|scheme| typed[scheme.len()..].starts_with("://"))
}

fn invalid(typed: &str, error: http::uri::InvalidUri) -> String {
    format!(
        "\"{typed}\" is not a URL ({error}); percent-encode spaces and all characters that are not ASCII"
    )
}

/// Returns the host, without the brackets around an IPv6 address.
fn host_of<'a>(uri: &'a Uri, typed: &str) -> Result<&'a str, String> {
    let host = uri.host().unwrap_or_default();
    let bracketed = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = bracketed.unwrap_or(host);
    if host.is_empty() {
        return Err(format!("\"{typed}\" has no host"));
    }
    if host.contains(['[', ']']) {
        return Err(format!(
            "\"{typed}\" is not a URL (brackets may only enclose an IPv6 address)"
        ));
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
            ("http://h/a b", "not a URL"),
            ("http://h/é\u{7f}", "not a URL"),
            ("", "not a URL"),
            ("http://[fe80::1%25lo]/", "zone"),
            ("unix:/run/app.sock", "--unix /run/app.sock with"),
            ("unix:///run/app.sock:/health", "--unix /run/app.sock with"),
            ("[fe80::1%lo]:80", "zone"),
            ("unix:////run/app.sock", "--unix //run/app.sock with"),
        ] {
            let error = Url::parse(bad, None).unwrap_err();
            assert!(error.contains(reason), "{bad}: {error}");
        }
        for with_password in ["u:secret@h/a b", "ftp://u:secret@h/", "u:secret@[::1%lo]/"] {
            let error = Url::parse(with_password, None).unwrap_err();
            assert!(!error.contains("secret"), "{error}");
        }
    }
}
