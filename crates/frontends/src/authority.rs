//! The host and port in URLs, for the tools that parse URLs themselves.

use std::borrow::Cow;

/// Splits `HOST`, `HOST:PORT` or `[IPV6]:PORT` into the host without brackets and the text after
/// the colon, if there is one. Returns `None` for misplaced brackets.
pub(crate) fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let Some(inner) = authority.strip_prefix('[') else {
        return Some(match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        });
    };
    let (host, rest) = inner.split_once(']')?;
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port))),
        None => rest.is_empty().then_some((host, None)),
    }
}

/// Parses a port from 1 to 65535.
pub(crate) fn port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|port| is_number && *port > 0)
}

/// Returns the default port of http or https.
pub(crate) fn default_port(is_tls: bool) -> u16 {
    if is_tls { 443 } else { 80 }
}

/// Returns the host as written in a URL: an IPv6 address is in brackets.
pub(crate) fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') {
        Cow::Owned(format!("[{host}]"))
    } else {
        Cow::Borrowed(host)
    }
}

/// Returns the value of a Host header, with the port only if it isn't the scheme's default.
pub(crate) fn host_header(host: &str, port: u16, is_tls: bool) -> String {
    let host = bracketed(host);
    if port == default_port(is_tls) {
        host.into_owned()
    } else {
        format!("{host}:{port}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports_are_split() {
        for (authority, parts) in [
            ("h", Some(("h", None))),
            ("h:", Some(("h", Some("")))),
            ("h:80", Some(("h", Some("80")))),
            ("[::1]", Some(("::1", None))),
            ("[::1]:81", Some(("::1", Some("81")))),
            ("[::1]81", None),
            ("[::1", None),
        ] {
            assert_eq!(split(authority), parts, "{authority}");
        }
        let ports = ["80", "0", "65536", "+80", "x", ""].map(port);
        assert_eq!(ports, [Some(80), None, None, None, None, None]);
    }

    #[test]
    fn host_headers_omit_default_ports() {
        assert_eq!(host_header("h", 80, false), "h");
        assert_eq!(host_header("h", 80, true), "h:80");
        assert_eq!(host_header("::1", 443, true), "[::1]");
        assert_eq!(host_header("::1", 81, false), "[::1]:81");
    }
}
