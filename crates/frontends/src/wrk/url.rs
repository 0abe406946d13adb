//! Parses URLs as wrk does.

use std::net::{IpAddr, SocketAddr};

use prony_lua::{Address, ScriptUrl};

use crate::authority;

/// A parsed URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct WrkUrl(pub(super) ScriptUrl);

impl WrkUrl {
    /// Parses a URL, which must have a scheme and a host.
    pub(super) fn parse(text: &str) -> Option<WrkUrl> {
        let (scheme, rest) = text.split_once("://")?;
        if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return None;
        }
        if text.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // A query needs no path before it (RFC 9112 §3.2.1), although wrk drops such a query.
        let path = match path.as_bytes().first() {
            Some(b'/') => path.to_owned(),
            Some(b'?') => format!("/{path}"),
            _ => "/".to_owned(),
        };
        let place = authority
            .rsplit_once('@')
            .map_or(authority, |(_, place)| place);
        let (host, port) = authority::split(place).filter(|(host, _)| !host.is_empty())?;
        let port = match port {
            Some(digits) => Some(authority::port(digits)?),
            None => None,
        };
        Some(WrkUrl(ScriptUrl {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
            path,
        }))
    }

    /// Returns the host's address and the port, unless the host is a name.
    pub(super) fn address(&self) -> Option<Address> {
        let ip: IpAddr = self.0.host.parse().ok()?;
        Some(Address(SocketAddr::new(ip, self.port())))
    }

    /// Returns true if the scheme is https.
    pub(super) fn is_tls(&self) -> bool {
        self.0.scheme.eq_ignore_ascii_case("https")
    }

    /// Returns the port as typed, or the scheme's default.
    pub(super) fn port(&self) -> u16 {
        self.0
            .port
            .unwrap_or(authority::default_port(self.is_tls()))
    }

    /// Returns the service that wrk looks up: the port as typed, or the scheme.
    pub(super) fn service(&self) -> String {
        self.0
            .port
            .map_or_else(|| self.0.scheme.clone(), |port| port.to_string())
    }

    /// Returns the value of the Host header.
    pub(super) fn authority(&self) -> String {
        let host = authority::bracketed(&self.0.host);
        match self.0.port {
            Some(port) => format!("{host}:{port}"),
            None => host.into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        for (text, authority, service, path) in [
            ("http://h", "h", "http", "/"),
            ("HTTP://h/", "h", "HTTP", "/"),
            ("https://h:8443/a?b#c", "h:8443", "8443", "/a?b#c"),
            ("http://me:pw@h:80/@", "h:80", "80", "/@"),
            ("http://[::1]:81/x", "[::1]:81", "81", "/x"),
            ("http://[::1]", "[::1]", "http", "/"),
            ("http://h?x=1", "h", "http", "/?x=1"),
            ("http://h#x", "h", "http", "/"),
        ] {
            let url = WrkUrl::parse(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!(url.authority(), authority, "{text}");
            assert_eq!(url.service(), service, "{text}");
            assert_eq!(url.0.path, path, "{text}");
        }
        assert_eq!(WrkUrl::parse("https://h").unwrap().port(), 443);
        assert_eq!(WrkUrl::parse("http://[::1]/").unwrap().0.host, "::1");
    }

    #[test]
    fn what_is_none_is_none() {
        for text in [
            "",
            "h",
            "h:80",
            "http:/h",
            "http://",
            "http:///x",
            "ftp://h",
            "http://h:x",
            "http://h:",
            "http://h:0",
            "http://h:65536",
            "http://h:+8",
            "http://[::1",
            "http://[::1]8",
            "http://h/a b",
        ] {
            assert_eq!(WrkUrl::parse(text), None, "{text}");
        }
    }
}
