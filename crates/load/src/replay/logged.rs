//! One request of a log, and the reasons why a line can't be sent again.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use super::stamp::Stamp;

/// Reason why a line of a log is not sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The line is too long.
    TooLong,
    /// The line doesn't have the format of the log.
    Format,
    /// The line has no valid request, as with bytes that are no HTTP.
    NoRequest,
    /// The method may change something on the server, and was not allowed.
    Method,
    /// The request is for no path, such as `OPTIONS *`.
    NoPath,
    /// The line has no valid time.
    NoTime,
}

impl SkipReason {
    pub(crate) const ALL: [SkipReason; 6] = [
        SkipReason::TooLong,
        SkipReason::Format,
        SkipReason::NoRequest,
        SkipReason::Method,
        SkipReason::NoPath,
        SkipReason::NoTime,
    ];

    /// The reason in words, which follow a number of lines.
    pub(crate) fn text(self) -> &'static str {
        match self {
            SkipReason::TooLong => "longer than 64 KiB",
            SkipReason::Format => "in another format",
            SkipReason::NoRequest => "without a valid request",
            SkipReason::Method => "with a method that is not allowed",
            SkipReason::NoPath => "without a path",
            SkipReason::NoTime => "without a valid time",
        }
    }
}

/// A request of a log. Its memory is reused for the next one.
#[derive(Debug, Default)]
pub(crate) struct LoggedRequest {
    /// Hash of the client's address.
    pub(crate) client: u64,
    pub(crate) method: String,
    /// Path and query, with the slash at the beginning.
    pub(crate) path: Vec<u8>,
    pub(crate) body: Vec<u8>,
    pub(crate) stamp: Option<Stamp>,
    /// Status of the recorded response; 0 if unknown.
    pub(crate) status: u16,
}

impl LoggedRequest {
    /// Clears the request for the next line.
    pub(super) fn clear(&mut self) {
        self.client = 0;
        self.method.clear();
        self.path.clear();
        self.body.clear();
        self.stamp = None;
        self.status = 0;
    }

    pub(super) fn set_client(&mut self, address: &[u8]) {
        let mut hasher = DefaultHasher::new();
        address.hash(&mut hasher);
        self.client = hasher.finish();
    }

    /// Sets method and target from a request line; the version may be missing, as in HTTP/0.9.
    pub(super) fn set_request_line(&mut self, line: &[u8]) -> Result<(), SkipReason> {
        let space = memchr::memchr(b' ', line).ok_or(SkipReason::NoRequest)?;
        let (method, rest) = (&line[..space], &line[space + 1..]);
        let target = match memchr::memrchr(b' ', rest) {
            Some(end) if rest[end + 1..].starts_with(b"HTTP/") => &rest[..end],
            _ => rest,
        };
        self.set_method(method)?;
        self.set_target(target)
    }

    pub(super) fn set_method(&mut self, method: &[u8]) -> Result<(), SkipReason> {
        let is_method = (1..=32).contains(&method.len())
            && method
                .iter()
                .all(|it| it.is_ascii_alphabetic() || *it == b'-');
        match std::str::from_utf8(method) {
            Ok(text) if is_method => self.method.push_str(text),
            _ => return Err(SkipReason::NoRequest),
        }
        Ok(())
    }

    /// Sets the path from a request target. The host of an absolute URL is dropped, because
    /// requests go to the load's target only. The rest is sent as it was recorded; only bytes that
    /// would end the request line are encoded.
    pub(super) fn set_target(&mut self, target: &[u8]) -> Result<(), SkipReason> {
        let path = match target {
            [b'/', ..] => target,
            [] => return Err(SkipReason::NoPath),
            _ => path_of_url(target).ok_or(SkipReason::NoPath)?,
        };
        let path = &path[..memchr::memchr(b'#', path).unwrap_or(path.len())];
        if !path.starts_with(b"/") {
            self.path.push(b'/');
        }
        for &byte in path {
            match byte {
                ..=b' ' | 0x7f => {
                    let digit = |four: u8| b"0123456789ABCDEF"[usize::from(four)];
                    self.path.extend([b'%', digit(byte >> 4), digit(byte & 15)]);
                }
                _ => self.path.push(byte),
            }
        }
        Ok(())
    }

    pub(super) fn set_status(&mut self, text: &[u8]) {
        let status = super::stamp::number(text).filter(|it| (100..1000).contains(it));
        self.status = status.unwrap_or(0) as u16;
    }
}

/// Returns the part of an absolute URL from its path on, which may be empty.
fn path_of_url(url: &[u8]) -> Option<&[u8]> {
    let scheme = memchr::memmem::find(url, b"://")?;
    if !url[..scheme].eq_ignore_ascii_case(b"http") && !url[..scheme].eq_ignore_ascii_case(b"https")
    {
        return None;
    }
    let rest = &url[scheme + 3..];
    let path = rest.iter().position(|byte| b"/?#".contains(byte));
    Some(&rest[path.unwrap_or(rest.len())..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<(String, String), SkipReason> {
        let mut request = LoggedRequest::default();
        request.set_request_line(line.as_bytes())?;
        let path = String::from_utf8(request.path).unwrap();
        Ok((request.method, path))
    }

    #[test]
    fn every_target_becomes_a_path_on_the_loads_own_server() {
        for (line, path) in [
            ("GET /a?b=c HTTP/1.1", "/a?b=c"),
            ("GET /a", "/a"),
            ("GET //elsewhere.test/x HTTP/1.1", "//elsewhere.test/x"),
            ("GET http://elsewhere.test/x?y HTTP/1.1", "/x?y"),
            ("GET HTTPS://elsewhere.test HTTP/1.1", "/"),
            ("GET http://elsewhere.test?x HTTP/1.1", "/?x"),
            ("GET /../../etc/passwd HTTP/1.1", "/../../etc/passwd"),
            ("GET /a b\r\nHost:x HTTP/1.1", "/a%20b%0D%0AHost:x"),
            ("GET /a#b HTTP/1.1", "/a"),
            ("GET /caf\u{e9} HTTP/1.1", "/caf\u{e9}"),
        ] {
            assert_eq!(of(line), Ok(("GET".to_owned(), path.to_owned())), "{line}");
        }
    }

    #[test]
    fn what_is_no_request_for_a_path_has_a_reason() {
        for (line, reason) in [
            ("-", SkipReason::NoRequest),
            ("", SkipReason::NoRequest),
            ("\u{16}\u{3}\u{1} / HTTP/1.1", SkipReason::NoRequest),
            ("OPTIONS * HTTP/1.1", SkipReason::NoPath),
            ("CONNECT elsewhere.test:443 HTTP/1.1", SkipReason::NoPath),
            ("GET ftp://elsewhere.test/x HTTP/1.1", SkipReason::NoPath),
            ("GET  HTTP/1.1", SkipReason::NoPath),
        ] {
            assert_eq!(of(line), Err(reason), "{line:?}");
        }
    }
}
