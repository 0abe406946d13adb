//! Recorded steps, and the conversion of the parts of a request.

use prony_load::{JourneyStep, Table};

/// Header fields that are left out, because prony, HTTP or the user's cookies determine them, or
/// because servers rarely need them.
const OMITTED_HEADERS: &[&str] = &[
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-length",
    "cookie",
    "dnt",
    "host",
    "if-modified-since",
    "if-none-match",
    "keep-alive",
    "origin",
    "pragma",
    "priority",
    "proxy-connection",
    "referer",
    "te",
    "transfer-encoding",
    "upgrade-insecure-requests",
    "user-agent",
];

/// The steps of a recorded session.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RecordedSteps {
    /// URL of the server, without a path.
    pub server: String,
    /// The steps, with paths as URLs.
    pub steps: Vec<JourneyStep>,
    /// Requests that are not steps, by reason.
    pub omitted: Vec<(String, usize)>,
}

/// Returns true for a header field that becomes a part of a step.
pub(super) fn is_kept(name: &str, value: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let is_default_accept = lower == "accept" && (value == "*/*" || value.contains("text/html"));
    !(lower.starts_with(':')
        || lower.starts_with("sec-")
        || OMITTED_HEADERS.contains(&lower.as_str())
        || is_default_accept)
}

/// Replaces the body of a form that a browser sent with the form's fields.
pub(super) fn take_form(step: &mut JourneyStep, headers: &mut Vec<(String, String)>) {
    const FORM: &str = "application/x-www-form-urlencoded";
    let is_form = |(name, value): &(String, String)| {
        name.eq_ignore_ascii_case("content-type") && value.starts_with(FORM)
    };
    let (Some(body), Some(at)) = (&step.body, headers.iter().position(is_form)) else {
        return;
    };
    let pairs = body.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        Some((url_decoded(name)?, url_decoded(value)?))
    });
    let Some(pairs) = pairs.collect::<Option<Vec<_>>>() else {
        return;
    };
    step.form = Table(pairs);
    step.body = None;
    headers.remove(at);
    // POST is the default method of a step with a form.
    step.method.take_if(|method| method == "POST");
}

/// Decodes a part of a form's body. Returns `None` if it isn't UTF-8.
fn url_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        let hex = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
        let escape = rest.as_slice();
        bytes.push(match (byte, escape) {
            (b'+', _) => b' ',
            (b'%', [high, low, ..]) if hex(*high).is_some() && hex(*low).is_some() => {
                let value = hex(*high)? << 4 | hex(*low)?;
                rest.nth(1);
                value
            }
            _ => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// Splits a URL before its path.
pub(super) fn split_url(url: &str) -> (&str, &str) {
    let host = url.find("://").map_or(0, |scheme| scheme + 3);
    let end = url[host..].find(['/', '?', '#']);
    let end = end.map_or(url.len(), |at| host + at);
    let (server, rest) = url.split_at(end);
    let path = rest.split('#').next().unwrap_or_default();
    (server, if path.is_empty() { "/" } else { path })
}
