//! Parses the URL as ab does.

use crate::authority;

/// URL of the form `[http[s]://]HOST[:PORT]/PATH`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AbUrl {
    /// True for `https`.
    pub(super) is_tls: bool,
    /// Host without the brackets of an IPv6 address.
    pub(super) host: String,
    /// Port as typed, or the scheme's default.
    pub(super) port: u16,
    /// Path and query, as typed.
    pub(super) path: String,
}

impl AbUrl {
    /// Parses a URL. The host must be followed by a slash. Returns `None` if the URL is invalid.
    pub(super) fn parse(text: &str) -> Option<AbUrl> {
        let (is_tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (false, rest),
            (None, Some(rest)) => (true, rest),
            (None, None) => (false, text),
        };
        let (authority, path) = rest.split_at(rest.find('/')?);
        let (host, port) = authority::split(authority)?;
        let port = match port {
            Some(digits) => authority::port(digits)?,
            None => authority::default_port(is_tls),
        };
        // Rejects credentials, zone identifiers, and other characters that host names can't
        // contain.
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-._~:".contains(c);
        if host.is_empty() || !host.chars().all(is_name) {
            return None;
        }
        if path.contains(|c: char| c.is_control()) {
            return None;
        }
        Some(AbUrl {
            is_tls,
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// Returns `HOST[:PORT]` for the Host header, with the port only if it isn't the scheme's
    /// default.
    pub(super) fn authority(&self) -> String {
        authority::host_header(&self.host, self.port, self.is_tls)
    }

    /// Returns the scheme, the authority and the slash that follows it.
    pub(super) fn root(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}/", self.authority())
    }

    /// Returns the complete URL, for requests to a proxy.
    pub(super) fn whole(&self) -> String {
        let root = self.root();
        format!("{}{}", root.trim_end_matches('/'), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed_as_by_ab() {
        for (text, is_tls, host, port, path, authority) in [
            ("http://h/", false, "h", 80, "/", "h"),
            ("h:8080/a?b#c d", false, "h", 8080, "/a?b#c d", "h:8080"),
            ("https://h:443/x//", true, "h", 443, "/x//", "h"),
            ("https://h:80/", true, "h", 80, "/", "h:80"),
            ("http://[::1]:81/", false, "::1", 81, "/", "[::1]:81"),
            ("[::1]/", false, "::1", 80, "/", "[::1]"),
        ] {
            let url = AbUrl::parse(text).unwrap();
            let seen = (url.is_tls, url.host.as_str(), url.port, url.path.as_str());
            assert_eq!(seen, (is_tls, host, port, path), "{text}");
            assert_eq!(url.authority(), authority, "{text}");
        }
        let whole = AbUrl::parse("h:81//x?y").unwrap().whole();
        assert_eq!(whole, "http://h:81//x?y");
    }

    #[test]
    fn what_ab_refuses_is_refused() {
        for bad in [
            "http://h",
            "h",
            "http:///x",
            "/",
            "http://h:0/",
            "http://h:x/",
            "http://h:99999/",
            "http://u:p@h/",
            "ftp://h/",
            "http://[::1/",
            "http://[fe80::1%lo]/",
            "http://a b/",
            "http://h/\r\nx",
            "",
        ] {
            assert_eq!(AbUrl::parse(bad), None, "{bad}");
        }
    }
}
