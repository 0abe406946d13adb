//! Redirects: resolving their target (RFC 9110 §10.2.2, RFC 3986 §5) and changing the request (RFC
//! 9110 §15.4). Where the RFC leaves a choice, this module follows browsers (the WHATWG fetch
//! standard).

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_encode};

use crate::values::reference;
use crate::values::url::Url;

/// Reason why a redirect can't be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedirectError(String);

impl fmt::Display for RedirectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for RedirectError {}

/// ASCII characters that aren't allowed in a URL and are percent-encoded, like all non-ASCII
/// characters.
const INVALID_IN_URL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');
/// Maximum number of characters from a Location that are shown in a message.
const SHOWN_CHARS_MAX: usize = 100;
/// Maximum length of a Location in bytes; a longer one is refused.
pub(crate) const LOCATION_BYTES_MAX: usize = 8 * 1024;

/// Returns true for the statuses of redirects that prony follows.
pub(crate) fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// Returns the value of the first Location field in a response head.
pub(crate) fn location_of(head: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"location:";
    let mut lines = head.split(|&byte| byte == b'\n').skip(1);
    let line = lines.find(|line| {
        line.get(..NAME.len())
            .is_some_and(|name| name.eq_ignore_ascii_case(NAME))
    })?;
    Some(line[NAME.len()..].trim_ascii())
}

/// Resolves a Location against the URL of the request.
///
/// # Errors
///
/// An error that names the Location and the reason why it can't be requested.
pub(crate) fn resolve(base: &Url, location: &[u8]) -> Result<Url, RedirectError> {
    let shown = String::from_utf8_lossy(&location[..location.len().min(SHOWN_CHARS_MAX)]);
    let refused = |why: &str| RedirectError(format!("Location: {shown}: {why}"));
    if location.len() > LOCATION_BYTES_MAX {
        return Err(refused("it is longer than 8 KiB"));
    }
    let reference = percent_encode(location, INVALID_IN_URL).to_string();
    let reference = reference.split('#').next().unwrap_or_default();
    let parsed = |text: &str| {
        Url::parse(text, None).map_err(|error| RedirectError(format!("Location: {error}")))
    };
    let mut url = match reference::scheme(reference) {
        Some(name) if ["http", "https"].contains(&name.to_ascii_lowercase().as_str()) => {
            let rest = &reference[name.len()..];
            if !rest.starts_with("://") {
                return Err(refused("no host follows the scheme"));
            }
            parsed(&format!("{}{rest}", name.to_ascii_lowercase()))?
        }
        Some(_) => return Err(refused("only http and https can be followed")),
        None if reference.starts_with("//") => {
            let scheme = if base.tls { "https:" } else { "http:" };
            parsed(&format!("{scheme}{reference}"))?
        }
        None => Url {
            is_websocket: false,
            path: reference::resolve_path(&base.path, reference),
            ..base.clone()
        },
    };
    url.path = reference::without_dots(&url.path);
    Ok(url)
}

/// The request that follows a redirect.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RedirectedRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) has_body: bool,
}

/// Headers that describe a body and are removed with it.
const BODY_HEADERS: [&str; 6] = [
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-type",
    "transfer-encoding",
];
/// Headers that are meant for one server only, because they identify the client or the host.
const SERVER_HEADERS: [&str; 3] = ["authorization", "cookie", "host"];

/// Derives the request that follows a redirect with this status. After 303, and after 301 and 302
/// in response to a POST, it is a GET without a body. Headers that identify the client are removed
/// if the redirect leads to another server.
pub(crate) fn further<'a>(
    status: u16,
    method: &'a str,
    headers: &[(String, String)],
    (from, to): (&Url, &Url),
) -> RedirectedRequest<'a> {
    let becomes_get = match status {
        303 => !matches!(method, "GET" | "HEAD"),
        301 | 302 => method == "POST",
        _ => false,
    };
    let stays =
        (from.tls, from.port) == (to.tls, to.port) && from.host.eq_ignore_ascii_case(&to.host);
    let is_kept = |name: &str| {
        let is_one_of = |list: &[&str]| list.iter().any(|it| it.eq_ignore_ascii_case(name));
        !(becomes_get && is_one_of(&BODY_HEADERS)) && (stays || !is_one_of(&SERVER_HEADERS))
    };
    RedirectedRequest {
        method: if becomes_get { "GET" } else { method },
        headers: headers
            .iter()
            .filter(|(name, _)| is_kept(name))
            .cloned()
            .collect(),
        has_body: !becomes_get,
    }
}

#[cfg(test)]
mod tests;
