//! Responses of the variants. The speeds of variants are comparable only if all variants return the
//! same responses.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prony_load::{BodyDigest, CheckError, CheckedResponse, LoadSpec, check_request_until};
use prony_plan::BodyComparison;
use prony_record::finding::{DifferenceKind, ResponseDifference, SentBody, SentDifference};
use serde::{Deserialize, Serialize};

use super::Interrupt;
use super::protocols::Protocols;

/// Maximum number of requests that are checked. They are spread evenly over the load's list.
pub(crate) const CHECKED_REQUESTS_MAX: usize = 64;
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Digests of a variant's responses, by request. They describe the responses collected before one
/// trial, or the properties that the responses before all trials share.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ResponseDigests {
    /// Digests by the number of the checked request.
    pub digests: BTreeMap<usize, ResponseDigest>,
    /// Protocols of the first response. Not stored, because records have them, too.
    #[serde(skip)]
    pub(crate) protocols: Option<Protocols>,
}

/// Properties that all responses to a request share.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResponseDigest {
    /// Method and path of the request.
    pub request: String,
    /// Method and URL of the request.
    #[serde(default)]
    pub url: String,
    /// Status; `None` if it varies.
    pub status: Option<u16>,
    /// Statuses that the load expects; `None` if `status` is one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_statuses: Option<String>,
    /// The cause of an unexpected status with a hint, if the response says that the port expects
    /// TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_expected: Option<String>,
    /// Body as sent; `None` if it varies.
    pub body: Option<StoredBody>,
    /// Body after its content codings have been decoded.
    #[serde(default)]
    pub decoded: DecodedBody,
    /// Content type; `None` if it is absent or varies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Content codings; `None` if the body has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_encoding: Option<String>,
}

/// Length and hash of a body.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredBody {
    /// Length of the body in bytes.
    pub length: u64,
    /// SHA-256 of the body in hexadecimal.
    pub sha256: String,
}

/// A body after its content codings have been decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DecodedBody {
    /// The body has no content coding. Also used for trials that were stored by versions that
    /// didn't decode bodies.
    #[default]
    AsSent,
    /// Length and hash of the decoded body.
    Body(StoredBody),
    /// The body can't be decoded. Contains the reason.
    Undecodable(String),
    /// The body varies between responses.
    Changing,
}

impl From<BodyDigest> for StoredBody {
    fn from(body: BodyDigest) -> StoredBody {
        let digits = body.sha256.iter().map(|byte| format!("{byte:02x}"));
        StoredBody {
            length: body.length,
            sha256: digits.collect(),
        }
    }
}

/// A request that has no complete response.
#[derive(Debug)]
pub struct UnansweredRequest {
    /// Method and URL.
    pub request: String,
    /// The reason why it failed.
    pub reason: CheckError,
}

impl fmt::Display for UnansweredRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.request, self.reason)
    }
}

/// Sends up to `requests_max` of the load's safe requests, each of them twice. Stops early after an
/// interrupt.
///
/// # Errors
///
/// The first request without a complete response.
pub(crate) fn collect(
    spec: &LoadSpec,
    requests_max: usize,
    interrupt: &Interrupt,
) -> Result<ResponseDigests, UnansweredRequest> {
    let safe = spec.safe_requests();
    let step = safe.len().div_ceil(requests_max).max(1);
    let mut responses = ResponseDigests::default();
    for &index in safe.iter().step_by(step) {
        let send =
            || check_request_until(spec, index, RESPONSE_TIMEOUT, &|| interrupt.is_stopped());
        let both = send().and_then(|first| Ok((first, send()?)));
        if interrupt.is_stopped() {
            break;
        }
        let (first, second) = both.map_err(|reason| UnansweredRequest {
            request: spec.request_name(index),
            reason,
        })?;
        let protocols = || Protocols::new(spec.info(), &first.negotiated);
        responses.protocols.get_or_insert_with(protocols);
        let digest = digest(spec, index, &first).common(&digest(spec, index, &second));
        responses.digests.insert(index, digest);
    }
    Ok(responses)
}

/// Reduces the responses of a variant's trials to the properties that they share.
pub(crate) fn over_trials<'a>(
    trials: impl Iterator<Item = &'a ResponseDigests>,
) -> ResponseDigests {
    let mut all = ResponseDigests::default();
    for trial in trials {
        for (&index, digest) in &trial.digests {
            let common = match all.digests.get(&index) {
                Some(before) => before.common(digest),
                None => digest.clone(),
            };
            all.digests.insert(index, common);
        }
    }
    all
}

impl ResponseDigest {
    /// Reduces two responses to the properties that they share.
    fn common(&self, other: &ResponseDigest) -> ResponseDigest {
        let decoded = match (self.without_codings(), other.without_codings()) {
            (a, b) if a != b => DecodedBody::Changing,
            _ if self.decoded == other.decoded => self.decoded.clone(),
            (Content::Body(body), _) => DecodedBody::Body(body.clone()),
            _ => DecodedBody::Changing,
        };
        ResponseDigest {
            status: self.status.filter(|_| self.status == other.status),
            expected_statuses: self
                .expected_statuses
                .clone()
                .or_else(|| other.expected_statuses.clone()),
            body: self.body.clone().filter(|_| self.body == other.body),
            decoded,
            ..self.clone()
        }
    }

    fn without_codings(&self) -> Content<'_> {
        match &self.decoded {
            DecodedBody::AsSent => self.as_sent(),
            DecodedBody::Body(body) => Content::Body(body),
            // Bodies that can't be decoded are equal if their bytes as sent are equal.
            DecodedBody::Undecodable(why) => match self.as_sent() {
                Content::Body(body) => Content::Undecodable(body, why),
                changing => changing,
            },
            DecodedBody::Changing => Content::Changing,
        }
    }

    fn as_sent(&self) -> Content<'_> {
        match &self.body {
            Some(body) => Content::Body(body),
            None => Content::Changing,
        }
    }

    fn compared(&self, rule: BodyComparison) -> Content<'_> {
        match rule {
            BodyComparison::Same => self.as_sent(),
            BodyComparison::SameDecoded => self.without_codings(),
            BodyComparison::MayDiffer => Content::NotCompared,
        }
    }

    /// Returns the method and URL of the request. For trials that were stored without the URL,
    /// returns the method and path.
    pub(crate) fn url_or_request(&self) -> &str {
        if self.url.is_empty() {
            &self.request
        } else {
            &self.url
        }
    }

    fn sent_body(&self) -> SentBody {
        SentBody {
            length: self.body.as_ref().map(|body| body.length),
            content_type: self.content_type.clone(),
            content_encoding: self.content_encoding.clone(),
        }
    }
}

/// A body in the form in which it is compared.
#[derive(PartialEq)]
enum Content<'a> {
    Body(&'a StoredBody),
    Undecodable(&'a StoredBody, &'a str),
    Changing,
    NotCompared,
}

fn digest(spec: &LoadSpec, index: usize, answer: &CheckedResponse) -> ResponseDigest {
    let decoded = match (&answer.content_encoding, &answer.decoded) {
        (None, _) => DecodedBody::AsSent,
        (Some(_), Ok(body)) => DecodedBody::Body((*body).into()),
        (Some(_), Err(error)) => DecodedBody::Undecodable(error.to_string()),
    };
    let is_expected = spec.expects_status(index, answer.status);
    ResponseDigest {
        request: path_of(&answer.request),
        url: answer.request.clone(),
        status: Some(answer.status),
        expected_statuses: (!is_expected).then(|| spec.expected_statuses(index)),
        tls_expected: answer.tls_expected.clone().filter(|_| !is_expected),
        body: Some(answer.body.into()),
        decoded,
        content_type: answer.content_type.clone(),
        content_encoding: answer.content_encoding.clone(),
    }
}

/// Returns the method and path of a request. The host and port are removed, because they differ
/// between trials.
fn path_of(request: &str) -> String {
    let (method, url) = request.split_once(' ').unwrap_or(("", request));
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    format!("{method} {}", path.unwrap_or(url))
}

/// Returns the first difference between the responses of two variants that `rule` doesn't allow.
pub(crate) fn difference(
    one: &ResponseDigests,
    other: &ResponseDigests,
    rule: BodyComparison,
) -> Option<ResponseDifference> {
    one.digests.iter().find_map(|(index, a)| {
        let b = other.digests.get(index)?;
        let kind = match (a.status, b.status) {
            (Some(a), Some(b)) if a != b => Some(DifferenceKind::Status(a, b)),
            // Failed responses are reported as failures, so their bodies don't matter.
            _ if a.expected_statuses.is_some() && b.expected_statuses.is_some() => None,
            _ => body_difference(a, b, rule),
        };
        Some(ResponseDifference {
            request: a.request.clone(),
            kind: kind?,
        })
    })
}

fn body_difference(
    a: &ResponseDigest,
    b: &ResponseDigest,
    rule: BodyComparison,
) -> Option<DifferenceKind> {
    let has_coding = a.content_encoding.is_some() || b.content_encoding.is_some();
    let decoded = rule == BodyComparison::SameDecoded && has_coding;
    Some(match (a.compared(rule), b.compared(rule)) {
        (Content::NotCompared, _) | (_, Content::NotCompared) => return None,
        (Content::Changing, Content::Changing) => return None,
        (Content::Changing, _) => DifferenceKind::Varies,
        (_, Content::Changing) => DifferenceKind::BaselineVaries,
        (Content::Body(a), Content::Body(b)) if a == b => return None,
        (Content::Body(a), Content::Body(b)) if a.length != b.length => DifferenceKind::Length {
            own: a.length,
            baseline: b.length,
            decoded,
        },
        (Content::Body(a), Content::Body(_)) => DifferenceKind::Content {
            length: a.length,
            decoded,
        },
        (Content::Undecodable(a, _), Content::Undecodable(b, _)) if a == b => return None,
        (Content::Undecodable(_, why), _) | (_, Content::Undecodable(_, why)) => {
            DifferenceKind::Undecodable(why.to_owned())
        }
    })
}

/// Returns the requests whose bodies `rule` can't compare, because they vary between responses.
pub(crate) fn changing(responses: &ResponseDigests, rule: BodyComparison) -> Vec<&str> {
    let changing = responses
        .digests
        .values()
        .filter(|digest| digest.compared(rule) == Content::Changing);
    changing.map(|digest| digest.request.as_str()).collect()
}

/// Returns the requests whose bodies differ as sent. For bodies that vary between responses, only
/// the descriptions are compared.
pub(crate) fn as_sent_differences(
    one: &ResponseDigests,
    other: &ResponseDigests,
) -> Vec<SentDifference> {
    let pairs = one.digests.iter();
    let pairs = pairs.filter_map(|(index, a)| Some((a, other.digests.get(index)?)));
    let differing = pairs.filter_map(|(a, b)| {
        let (own, baseline) = (a.sent_body(), b.sent_body());
        let both_known = a.body.is_some() && b.body.is_some();
        (own != baseline || (both_known && a.body != b.body)).then(|| SentDifference {
            request: a.request.clone(),
            own,
            baseline,
        })
    });
    differing.collect()
}

/// Returns responses with a status that the load counts as a failure.
pub(crate) fn unexpected(responses: &ResponseDigests) -> Vec<&ResponseDigest> {
    let all = responses.digests.values();
    all.filter(|digest| digest.expected_statuses.is_some())
        .collect()
}

#[cfg(test)]
#[path = "responses_tests.rs"]
mod tests;
