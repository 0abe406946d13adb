//! The URL as wrk takes it apart.

use std::net::{IpAddr, SocketAddr};

use super::lua::Address;

/// An URL's parts, for the request and for a script's `wrk` table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Url {
    /// `http` or `https`, as typed.
    pub(super) scheme: String,
    /// Without the brackets of an IPv6 address.
    pub(super) host: String,
    /// As typed, if one was.
    pub(super) port: Option<u16>,
    /// From the path's slash to the end, the query with it.
    pub(super) path: String,
}

impl Url {
    /// Takes an URL apart; nothing where it isn't one for wrk: scheme and host are needed.
    pub(super) fn parse(typed: &str) -> Option<Url> {
        let (scheme, rest) = typed.split_once("://")?;
        if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
            return None;
        }
        if typed.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return None;
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // A query without a path is left out, as wrk does it.
        let path = if path.starts_with('/') { path } else { "/" };
        let place = authority
            .rsplit_once('@')
            .map_or(authority, |(_, place)| place);
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, rest) = bracketed.split_once(']')?;
                (
                    host,
                    rest.strip_prefix(':').or(rest.is_empty().then_some(""))?,
                )
            }
            None => place.split_once(':').unwrap_or((place, "")),
        };
        if host.is_empty() || (port.is_empty() && place.ends_with(':')) {
            return None;
        }
        let port = match port {
            "" => None,
            digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                Some(digits.parse().ok().filter(|port| *port > 0)?)
            }
            _ => return None,
        };
        Some(Url {
            scheme: scheme.to_owned(),
            host: host.to_owned(),
            port,
            path: path.to_owned(),
        })
    }

    /// The address that it names, if it is no name.
    pub(super) fn address(&self) -> Option<Address> {
        let ip: IpAddr = self.host.parse().ok()?;
        Some(Address(SocketAddr::new(ip, self.port())))
    }

    /// Whether it is TLS.
    pub(super) fn is_tls(&self) -> bool {
        self.scheme.eq_ignore_ascii_case("https")
    }

    /// The port, typed or by scheme.
    pub(super) fn port(&self) -> u16 {
        self.port.unwrap_or(if self.is_tls() { 443 } else { 80 })
    }

    /// The port as typed, or the scheme: what wrk resolves names with.
    pub(super) fn service(&self) -> String {
        self.port
            .map_or_else(|| self.scheme.clone(), |port| port.to_string())
    }

    /// The value of Host.
    pub(super) fn authority(&self) -> String {
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.clone(),
        };
        match self.port {
            Some(port) => format!("{host}:{port}"),
            None => host,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        for (typed, authority, service, path) in [
            ("http://h", "h", "http", "/"),
            ("HTTP://h/", "h", "HTTP", "/"),
            ("https://h:8443/a?b#c", "h:8443", "8443", "/a?b#c"),
            ("http://me:pw@h:80/@", "h:80", "80", "/@"),
            ("http://[::1]:81/x", "[::1]:81", "81", "/x"),
            ("http://[::1]", "[::1]", "http", "/"),
            ("http://h?x=1", "h", "http", "/"),
        ] {
            let url = Url::parse(typed).unwrap_or_else(|| panic!("{typed}"));
            assert_eq!(url.authority(), authority, "{typed}");
            assert_eq!(url.service(), service, "{typed}");
            assert_eq!(url.path, path, "{typed}");
        }
        assert_eq!(Url::parse("https://h").unwrap().port(), 443);
        assert_eq!(Url::parse("http://[::1]/").unwrap().host, "::1");
    }

    #[test]
    fn what_is_none_is_none() {
        for typed in [
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
            assert_eq!(Url::parse(typed), None, "{typed}");
        }
    }
}
