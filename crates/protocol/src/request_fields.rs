//! Fields of a request in HTTP/2 and HTTP/3 (RFC 9113 §8.2, §8.3; RFC 9114 §4.2, §4.3).

use crate::compression::{FIELD_OVERHEAD_BYTES, FieldCoding};
use crate::h1::{
    BodyFraming, Expects, RequestError, RequestSpec, USER_AGENT, check_request, header_values,
    only_suppresses_default,
};

/// Value of `:scheme`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestScheme {
    /// `http`: HTTP in cleartext.
    Http,
    /// `https`: HTTP over TLS.
    Https,
}

/// Fields that apply only to an HTTP/1.1 connection and are not allowed in later versions (RFC 9113
/// §8.2.2, RFC 9114 §4.2).
const CONNECTION_SPECIFIC: [&str; 5] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "transfer-encoding",
    "upgrade",
];

/// A field block that is being encoded.
#[derive(Default)]
pub(crate) struct RequestBlock {
    pub(crate) bytes: Vec<u8>,
    pub(crate) list_bytes: u32,
}

impl RequestBlock {
    /// Encodes every field of a request.
    ///
    /// # Errors
    ///
    /// Returns an error if a part of the request isn't valid HTTP, or if its framing contradicts
    /// the body.
    pub(crate) fn new<C: FieldCoding>(
        spec: &RequestSpec,
        scheme: RequestScheme,
    ) -> Result<RequestBlock, RequestError> {
        let mut block = RequestBlock::default();
        write_fields(spec, scheme, |name, value| block.add::<C>(name, value))?;
        Ok(block)
    }

    /// Appends a field.
    pub(crate) fn add<C: FieldCoding>(&mut self, name: &str, value: &str) {
        C::encode_field(name, value, &mut self.bytes);
        self.list_bytes += (name.len() + value.len()) as u32 + FIELD_OVERHEAD_BYTES;
    }
}

/// Returns the effect of a method on the response's body.
pub(crate) fn expects_of(method: &str) -> Expects {
    match method {
        "HEAD" => Expects::NoBody,
        "CONNECT" => Expects::Connect,
        _ => Expects::Body,
    }
}

/// Passes every field of a request to `add`, in order, with its name in lower case.
///
/// # Errors
///
/// See [`RequestBlock::new`].
pub(crate) fn write_fields(
    spec: &RequestSpec,
    scheme: RequestScheme,
    mut add: impl FnMut(&str, &str),
) -> Result<(), RequestError> {
    let body = check_request(spec)?;
    write_pseudo_headers(spec, scheme, &mut add);
    for (name, default) in [("user-agent", USER_AGENT), ("accept", "*/*")] {
        if header_values(spec, name).next().is_none() {
            add(name, default);
        }
    }
    for (name, value) in spec.headers {
        let name = name.to_ascii_lowercase();
        let value = value.trim_matches([' ', '\t']);
        let is_sent = name != "host" && !only_suppresses_default(&name, value);
        if is_sent && !is_for_connection(spec, &name, value) {
            add(&name, value);
        }
    }
    if body == BodyFraming::DefaultLength {
        add("content-length", &spec.body.len().to_string());
    }
    Ok(())
}

/// Writes the request line of HTTP/1.1 as pseudo-header fields (RFC 9113 §8.3.1).
fn write_pseudo_headers(
    spec: &RequestSpec,
    scheme: RequestScheme,
    add: &mut impl FnMut(&str, &str),
) {
    let scheme = match scheme {
        RequestScheme::Http => "http",
        RequestScheme::Https => "https",
    };
    add(":method", spec.method);
    let host = header_values(spec, "host").next().unwrap_or(spec.host);
    let host = host.trim_matches([' ', '\t']);
    if spec.method == "CONNECT" {
        // A CONNECT request has no scheme and no path (RFC 9113 §8.5).
        add(":authority", spec.target);
        return;
    }
    let absolute = match spec.target {
        path if path.starts_with('/') => None,
        target => target.split_once("://"),
    };
    let (scheme, authority, path) = match absolute {
        None => (scheme, host, spec.target),
        Some((scheme, rest)) => {
            let path_at = rest.find(['/', '?']).unwrap_or(rest.len());
            let (authority, path) = rest.split_at(path_at);
            // User information is omitted because it is deprecated (RFC 3986 §3.2.1).
            let host = authority
                .rsplit_once('@')
                .map_or(authority, |(_, host)| host);
            (scheme, host, path)
        }
    };
    add(":scheme", scheme);
    if !authority.is_empty() {
        add(":authority", authority);
    }
    match path {
        // `*` stands for the server as a whole (RFC 9110 §7.1).
        "" if spec.method == "OPTIONS" => add(":path", "*"),
        "" => add(":path", "/"),
        query if query.starts_with('?') => add(":path", &format!("/{query}")),
        path => add(":path", path),
    }
}

/// Returns true if a field applies only to an HTTP/1.1 connection. The name is in lower case.
fn is_for_connection(spec: &RequestSpec, name: &str, value: &str) -> bool {
    let named = || {
        header_values(spec, "connection")
            .flat_map(|options| options.split(','))
            .any(|option| option.trim_matches([' ', '\t']).eq_ignore_ascii_case(name))
    };
    match name {
        "te" => !value.eq_ignore_ascii_case("trailers"),
        _ => CONNECTION_SPECIFIC.contains(&name) || named(),
    }
}
