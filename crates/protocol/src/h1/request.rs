//! Encoding of requests, done once before the run.

use std::fmt;

use super::Version;
use super::head::elements;
use crate::field::{is_token, is_value, trim};

/// Default value of the `User-Agent` header.
pub const USER_AGENT: &str = concat!("prony/", env!("CARGO_PKG_VERSION"));

/// Content of one request.
#[derive(Debug, Clone, Copy)]
pub struct RequestSpec<'a> {
    /// Method: a token, case-sensitive (RFC 9110 §9.1).
    pub method: &'a str,
    /// Request target (RFC 9112 §3.2): `/path?query`; `http://host/path` to a proxy; `host:port`
    /// for CONNECT; `*` for OPTIONS. Characters outside ASCII must be percent-encoded.
    pub target: &'a str,
    /// Version in the request line.
    pub version: Version,
    /// Value of the Host header (RFC 9110 §7.2): `host` or `host:port`; empty if the target has no
    /// authority.
    pub host: &'a str,
    /// The user's headers, in the order in which they are sent. They replace defaults of the same
    /// name.
    pub headers: &'a [(String, String)],
    /// The body. If it is empty, only POST, PUT and PATCH send a Content-Length (of 0).
    pub body: &'a [u8],
    /// True to keep the connection open after the exchange.
    pub keep_alive: bool,
}

/// Encodes a request.
///
/// By default, the request has Host, `User-Agent: prony/<version>`, `Accept: */*`, and
/// Content-Length if there is a body. The last request on a connection also has `Connection:
/// close`. In HTTP/1.0, all earlier requests have `Connection: keep-alive`. The user's headers
/// override each of these; an empty User-Agent or Accept suppresses the default. If the user's
/// headers contain `Transfer-Encoding: chunked`, the body is sent as one chunk.
///
/// # Errors
///
/// Returns an error if a part of the request isn't valid HTTP, or if its framing contradicts the
/// body.
pub fn encode_request(spec: &RequestSpec) -> Result<Vec<u8>, RequestError> {
    let framing = check_request(spec)?;

    let mut out = Vec::with_capacity(512 + spec.body.len());
    let version = match spec.version {
        Version::Http10 => "HTTP/1.0",
        Version::Http11 => "HTTP/1.1",
    };
    for part in [spec.method, " ", spec.target, " ", version, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
    // Host is sent first (RFC 9110 §7.2).
    let host = header_values(spec, "host").next().unwrap_or(spec.host);
    write_header(&mut out, "Host", host);
    for (name, default) in [("User-Agent", USER_AGENT), ("Accept", "*/*")] {
        if header_values(spec, name).next().is_none() {
            write_header(&mut out, name, default);
        }
    }
    for (name, value) in spec.headers.iter().filter(|(name, value)| {
        !name.eq_ignore_ascii_case("host") && !only_suppresses_default(name, value)
    }) {
        write_header(&mut out, name, value);
    }
    if framing == BodyFraming::DefaultLength {
        write_header(&mut out, "Content-Length", &spec.body.len().to_string());
    }
    let connection = match (spec.keep_alive, spec.version) {
        (false, _) => Some("close"),
        (true, Version::Http10) => Some("keep-alive"),
        (true, Version::Http11) => None,
    };
    if let (Some(default), None) = (connection, header_values(spec, "connection").next()) {
        write_header(&mut out, "Connection", default);
    }
    out.extend_from_slice(b"\r\n");
    write_body(&mut out, spec.body, framing);
    Ok(out)
}

/// Returns true if no other request may follow this serialized request on its connection: it has the
/// connection option `close` (RFC 9112 §9.6), or it is HTTP/1.0 without `keep-alive` (§9.3). Returns
/// false if the bytes are not an HTTP/1 request.
#[must_use]
pub fn asks_to_close(request: &[u8]) -> bool {
    let lines = request.split(|&byte| byte == b'\n');
    let mut lines = lines.map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.next().unwrap_or_default();
    let mut is_kept = match first {
        _ if first.ends_with(b" HTTP/1.1") => true,
        _ if first.ends_with(b" HTTP/1.0") => false,
        _ => return false,
    };
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line
            .split_at_checked(b"connection:".len())
            .unwrap_or_default();
        if !name.eq_ignore_ascii_case(b"connection:") {
            continue;
        }
        for option in elements(value) {
            if option.eq_ignore_ascii_case(b"close") {
                return true;
            }
            is_kept |= option.eq_ignore_ascii_case(b"keep-alive");
        }
    }
    !is_kept
}

/// Returns true if this serialized HTTP/1 request asks the server to switch to another protocol (RFC
/// 9110 §7.8).
#[must_use]
pub fn asks_to_upgrade(request: &[u8]) -> bool {
    let lines = request.split(|&byte| byte == b'\n');
    let head = lines.take_while(|line| !matches!(line, [] | [b'\r']));
    head.filter_map(|line| line.get(..b"upgrade:".len()))
        .any(|name| name.eq_ignore_ascii_case(b"upgrade:"))
}

/// Method by which a request marks the end of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyFraming {
    /// The user's headers mark the end of the body, or there is no body.
    AsGiven,
    DefaultLength,
    Chunked,
}

/// Returns true if the only effect of a user's header is to suppress a default.
pub(crate) fn only_suppresses_default(name: &str, value: &str) -> bool {
    let has_default = ["user-agent", "accept"];
    has_default.iter().any(|own| name.eq_ignore_ascii_case(own)) && trim_str(value).is_empty()
}

fn write_header(out: &mut Vec<u8>, name: &str, value: &str) {
    for part in [name.as_bytes(), b": ", trim(value.as_bytes()), b"\r\n"] {
        out.extend_from_slice(part);
    }
}

fn write_body(out: &mut Vec<u8>, body: &[u8], framing: BodyFraming) {
    if framing != BodyFraming::Chunked {
        out.extend_from_slice(body);
        return;
    }
    if !body.is_empty() {
        out.extend_from_slice(format!("{:x}\r\n", body.len()).as_bytes());
        out.extend_from_slice(body);
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(b"0\r\n\r\n");
}

/// Returns the values of the user's headers with this name.
pub(crate) fn header_values<'a>(
    spec: &RequestSpec<'a>,
    name: &str,
) -> impl Iterator<Item = &'a str> {
    let named = move |(own, _): &&(String, String)| own.eq_ignore_ascii_case(name);
    spec.headers
        .iter()
        .filter(named)
        .map(|(_, value)| value.as_str())
}

/// Checks a request and determines the framing of its body.
pub(crate) fn check_request(spec: &RequestSpec) -> Result<BodyFraming, RequestError> {
    check_spec(spec)?;
    framing(spec)
}

fn check_spec(spec: &RequestSpec) -> Result<(), RequestError> {
    if !is_token(spec.method.as_bytes()) {
        return Err(RequestError::Method(spec.method.to_owned()));
    }
    check_target(spec.method, spec.target)?;
    check_host(spec.host)?;
    for (name, value) in spec.headers {
        if !is_token(name.as_bytes()) {
            return Err(RequestError::HeaderName(name.clone()));
        }
        if !is_value(value.as_bytes()) {
            return Err(RequestError::HeaderValue {
                name: name.clone(),
                value: value.clone(),
            });
        }
    }
    if let Some(host) = header_values(spec, "host").next() {
        check_host(trim_str(host))?;
    }
    if header_values(spec, "host").nth(1).is_some() {
        return Err(RequestError::SecondHost);
    }
    Ok(())
}

/// Checks that the target has one of the four forms of RFC 9112 §3.2. A fragment is not allowed,
/// because it is never sent (RFC 9110 §4.2.5).
fn check_target(method: &str, target: &str) -> Result<(), RequestError> {
    let visible = target
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let form = match method {
        "CONNECT" => target.contains(':') && !target.contains('/'),
        "OPTIONS" if target == "*" => true,
        _ => target.starts_with('/') || target.contains("://"),
    };
    if visible && form {
        Ok(())
    } else {
        Err(RequestError::Target(target.to_owned()))
    }
}

/// Checks that the host has the form `uri-host [ ":" port ]` (RFC 9110 §7.2) and only the
/// characters of RFC 3986 §3.2.2.
fn check_host(host: &str) -> Result<(), RequestError> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+,;=:[]".contains(&byte);
    if host.bytes().all(allowed) {
        Ok(())
    } else {
        Err(RequestError::Host(host.to_owned()))
    }
}

/// Determines the framing of the body. User headers that frame the body must match it; otherwise
/// the next request on the connection would be parsed as part of this one.
fn framing(spec: &RequestSpec) -> Result<BodyFraming, RequestError> {
    let mut lengths = header_values(spec, "content-length").map(trim_str);
    let mut codings = header_values(spec, "transfer-encoding").map(trim_str);
    let length = lengths.next();
    let coding = codings.next();
    if lengths
        .next()
        .or(codings.next())
        .or(length.and(coding))
        .is_some()
    {
        return Err(RequestError::TwoFramings);
    }
    if let Some(given) = length {
        let digits = !given.is_empty() && given.bytes().all(|byte| byte.is_ascii_digit());
        if !digits || given.parse() != Ok(spec.body.len()) {
            let (given, body_bytes) = (given.to_owned(), spec.body.len());
            return Err(RequestError::ContentLength { given, body_bytes });
        }
        return Ok(BodyFraming::AsGiven);
    }
    if let Some(given) = coding {
        if !given.eq_ignore_ascii_case("chunked") || spec.version == Version::Http10 {
            return Err(RequestError::TransferEncoding(given.to_owned()));
        }
        return Ok(BodyFraming::Chunked);
    }
    // If the method gives content a meaning, Content-Length is sent even without a body (RFC 9110
    // §8.6).
    let means_content = matches!(spec.method, "POST" | "PUT" | "PATCH");
    Ok(if spec.body.is_empty() && !means_content {
        BodyFraming::AsGiven
    } else {
        BodyFraming::DefaultLength
    })
}

fn trim_str(value: &str) -> &str {
    value.trim_matches([' ', '\t'])
}

/// Error in a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestError {
    /// The method is not a token (RFC 9110 §9.1).
    Method(String),
    /// The target has none of the forms of RFC 9112 §3.2, or contains characters that must be
    /// percent-encoded.
    Target(String),
    /// The host contains characters that no host name, address or port can have (RFC 3986 §3.2.2).
    Host(String),
    /// The name of a header is not a token (RFC 9110 §5.1).
    HeaderName(String),
    /// The value of a header contains a control character, such as CR, LF or NUL (RFC 9110 §5.5).
    HeaderValue {
        /// The header's name.
        name: String,
        /// The header's value.
        value: String,
    },
    /// Host is given twice, which servers must reject (RFC 9112 §3.2).
    SecondHost,
    /// Content-Length differs from the size of the body.
    ContentLength {
        /// Value of the Content-Length header.
        given: String,
        /// Size of the body, in bytes.
        body_bytes: usize,
    },
    /// A Transfer-Encoding other than chunked, or any Transfer-Encoding in HTTP/1.0 (RFC 9112
    /// §6.1).
    TransferEncoding(String),
    /// Content-Length or Transfer-Encoding is given twice, or both are given (RFC 9112 §6.2).
    TwoFramings,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RequestError::Method(method) => {
                write!(
                    f,
                    "the method {method:?} is invalid (use letters, digits and !#$%&'*+-.^_`|~)"
                )
            }
            RequestError::Target(target) => write!(
                f,
                "the request target {target:?} can't be sent; it must begin with / or be a \
                 complete URL, without a fragment, and spaces and non-ASCII characters must be \
                 percent-encoded"
            ),
            RequestError::Host(host) => write!(f, "the host {host:?} is not HOST or HOST:PORT"),
            RequestError::HeaderName(name) => write!(
                f,
                "the header name {name:?} is invalid (use letters, digits and !#$%&'*+-.^_`|~)"
            ),
            RequestError::HeaderValue { name, value } => {
                write!(
                    f,
                    "the value {value:?} of header {name} contains a control character"
                )
            }
            RequestError::SecondHost => write!(f, "the header Host is given twice"),
            RequestError::ContentLength { given, body_bytes } => write!(
                f,
                "the header Content-Length is {given:?}, but the body has {body_bytes} bytes (remove \
                 the header; the correct one is sent by default)"
            ),
            RequestError::TransferEncoding(given) => write!(
                f,
                "the header Transfer-Encoding is {given:?}; only chunked can be sent, and only \
                 with HTTP/1.1"
            ),
            RequestError::TwoFramings => {
                write!(
                    f,
                    "Content-Length and Transfer-Encoding may each be given once, but not both"
                )
            }
        }
    }
}

impl std::error::Error for RequestError {}
