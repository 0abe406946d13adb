//! Findings about the responses that variants return, and their figures.

use serde::{Deserialize, Serialize};

use super::BASE;
use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, WithheldVerdicts};

pub(in crate::finding) const UNEXPECTED_STATUS: FindingInfo = FindingInfo {
    seen: "A request that was checked before the load returns a status that counts as a failure.",
    severities: &[
        (Warning, "up to 5% of the checked requests"),
        (Error, "more than 5% of the checked requests"),
    ],
    withholds: WithheldVerdicts::All,
    meaning: "The variant probably serves error pages instead of the intended responses.",
    action: "Check the load's path and host, and the server's log. If the status is intended, set \
        `expect_status` (`--expect-status`).",
    ..BASE
};

figures! {
    /// A status that counts as a failure.
    UnexpectedStatus {
        /// Names of the variants; empty if all variants return it.
        variants: Vec<String> = same,
        /// Method and URL of the first request with such a status.
        request: String = same,
        /// Status of its response, unless it changes.
        status: Option<u16> = same,
        /// Number of requests with such a status.
        unexpected: u64 = sum,
        /// Number of checked requests.
        checked: u64 = sum,
        /// Statuses that the load expects, such as `200-399`.
        expected: String = same,
        /// Cause, if the server expects TLS.
        tls_expected: Option<String> = same,
    }
    |it, _subject| {
        let variants = if it.variants.is_empty() { "All variants".to_owned() } else { it.variants.join("; ") };
        let status = match it.status {
            Some(status) => format!("status {status}"),
            None => "changing statuses".to_owned(),
        };
        let others = match it.unexpected.saturating_sub(1) {
            0 => String::new(),
            others => format!(", and {others} more of {} requests", it.checked),
        };
        let cause = match &it.tls_expected {
            Some(cause) => format!(": {cause}."),
            None => format!(
                "; the load expects {}. Check the load's path and host, and the server's log; if \
                 the status is intended, set expect_status (--expect-status).",
                it.expected
            ),
        };
        format!("{variants}: {} returns {status}{others}{cause}", it.request)
    }
}

/// Difference between the responses of two variants to the same request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResponseDifference {
    /// Method and path of the request.
    pub request: String,
    /// The difference.
    pub kind: DifferenceKind,
}

/// Kind of a difference between a variant and its baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    /// The statuses of the variant and of its baseline.
    Status(u16, u16),
    /// Only the variant's body varies between responses.
    Varies,
    /// Only the baseline's body varies between responses.
    BaselineVaries,
    /// The lengths of both bodies in bytes.
    Length {
        /// Length of the variant's body.
        own: u64,
        /// Length of the baseline's body.
        baseline: u64,
        /// True for lengths after decoding.
        decoded: bool,
    },
    /// The contents of bodies of the same length.
    Content {
        /// Length of each body.
        length: u64,
        /// True for the length after decoding.
        decoded: bool,
    },
    /// The bytes of bodies, one of which can't be decoded for this reason.
    Undecodable(String),
}

impl ResponseDifference {
    /// Describes the difference, as in `GET /: 13 bytes against 14`.
    pub fn text(&self) -> String {
        let after = |decoded: bool| if decoded { " after decoding" } else { "" };
        let difference = match &self.kind {
            DifferenceKind::Status(own, baseline) => format!("status {own} against {baseline}"),
            DifferenceKind::Varies => "a varying body versus a constant one".to_owned(),
            DifferenceKind::BaselineVaries => "a constant body versus a varying one".to_owned(),
            DifferenceKind::Length {
                own,
                baseline,
                decoded,
            } => format!("{} against {baseline}{}", bytes(*own), after(*decoded)),
            DifferenceKind::Content { length, decoded } => format!(
                "{} each{}, but with different content",
                bytes(*length),
                after(*decoded)
            ),
            DifferenceKind::Undecodable(reason) => {
                format!("a body can't be decoded ({reason}), and its bytes differ")
            }
        };
        format!("{}: {difference}", self.request)
    }
}

fn bytes(length: u64) -> String {
    match length {
        1 => "1 byte".to_owned(),
        length => format!("{length} bytes"),
    }
}

pub(in crate::finding) const BYTES_DIFFER: FindingInfo = FindingInfo {
    seen: "Variants return different responses to the same request.",
    severities: &[
        (
            Note,
            "a body changes from one request to the next in every variant, so only the status is \
             compared",
        ),
        (
            Error,
            "a status or a body differs from the baseline's under the `bodies` rule, or a body changes from one request to the next in only one of the two variants",
        ),
    ],
    withholds: WithheldVerdicts::All,
    meaning: "Variants that do different work can't be compared.",
    action: "Make the responses equal. If the bodies differ on purpose, set `bodies = \"may-differ\"` \
             in `[load]` (`--bodies may-differ`).",
    ..BASE
};

figures! {
    /// Responses that differ, or change from one request to the next.
    BytesDiffer {
        /// Name of the variant whose responses differ.
        variant: Option<String> = same,
        /// Name of its baseline.
        baseline: Option<String> = same,
        /// First difference.
        difference: Option<ResponseDifference> = same,
        /// Requests whose body changes in every variant.
        changing: Vec<String> = same,
    }
    |it, _subject| match &it.difference {
        Some(difference) => format!(
            "{} and {} return different responses: {}. Their rates can't be compared. Make the \
             responses identical; if the bodies differ on purpose, set bodies = \"may-differ\" in \
             [load] (--bodies may-differ).",
            it.variant.as_deref().unwrap_or_default(),
            it.baseline.as_deref().unwrap_or_default(),
            difference.text()
        ),
        None => format!(
            "{} {} ({}) returned a different body each time; only the status was compared.",
            it.changing.len(),
            if it.changing.len() == 1 { "request" } else { "requests" },
            it.changing.first().map(String::as_str).unwrap_or_default()
        ),
    }
}

/// A body as it was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentBody {
    /// Length in bytes, unless the body varies.
    pub length: Option<u64>,
    /// Content type.
    pub content_type: Option<String>,
    /// Content codings.
    pub content_encoding: Option<String>,
}

impl SentBody {
    /// Describes size, content type and content codings, such as `512 bytes of text/html, gzip`.
    fn text(&self) -> String {
        let mut text = match self.length {
            Some(length) => bytes(length),
            None => "a varying number of bytes".to_owned(),
        };
        if let Some(content_type) = &self.content_type {
            text += &format!(" of {content_type}");
        }
        if let Some(encoding) = &self.content_encoding {
            text += &format!(", {encoding}");
        }
        text
    }
}

/// Bodies of two variants that differ as sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentDifference {
    /// Method and path of the request.
    pub request: String,
    /// Body of the variant.
    pub own: SentBody,
    /// Body of its baseline.
    pub baseline: SentBody,
}

/// Bodies of a variant that differ as sent from those of its baseline.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SentDifferences {
    /// Name of the variant.
    pub variant: String,
    /// Name of its baseline.
    pub baseline: String,
    /// First difference.
    pub first: SentDifference,
    /// Number of further requests with a difference.
    pub more: u64,
}

impl SentDifferences {
    fn text(&self) -> String {
        let SentDifference {
            request,
            own,
            baseline,
        } = &self.first;
        let difference = if own == baseline {
            format!("{} each, but with different content", own.text())
        } else {
            format!("{} against {}", own.text(), baseline.text())
        };
        let more = match self.more {
            0 => String::new(),
            1 => ", and 1 more request".to_owned(),
            more => format!(", and {more} more requests"),
        };
        format!(
            "{} and {}: {request}: {difference}{more}",
            self.variant, self.baseline
        )
    }
}

fn listed(differences: &[SentDifferences]) -> String {
    let texts: Vec<String> = differences.iter().map(SentDifferences::text).collect();
    texts.join("; ")
}

pub(in crate::finding) const BODIES_DECODED: FindingInfo = FindingInfo {
    seen: "Bodies differ as sent but are equal after decoding.",
    severities: &[(Note, "")],
    meaning: "Variants encode the same content differently, for example with and without gzip, \
              which `bodies = \"same-decoded\"` allows. The comparison includes the cost of the \
              encoding.",
    action: "Nothing, unless the encoding should be the same.",
    ..BASE
};

figures! {
    /// Bodies that differ only as sent.
    BodiesDecoded {
        /// The differences of each variant.
        differences: Vec<SentDifferences> = same,
    }
    |it, _subject| format!(
        "Bodies are identical after decoding, but differ as sent: {}. The comparison includes the \
         cost of the encoding.",
        listed(&it.differences)
    )
}

pub(in crate::finding) const BODIES_MAY_DIFFER: FindingInfo = FindingInfo {
    seen: "Bodies, their sizes or their content types differ where `bodies = \"may-differ\"` allows \
           that.",
    severities: &[(Note, "")],
    meaning: "The comparison includes the cost of this difference.",
    action: "Check that the difference is the intended one.",
    ..BASE
};

figures! {
    /// Bodies that differ on purpose.
    BodiesMayDiffer {
        /// The differences of each variant.
        differences: Vec<SentDifferences> = same,
    }
    |it, _subject| format!(
        "Bodies differ, as bodies = \"may-differ\" allows: {}. The comparison includes the cost of \
         that difference.",
        listed(&it.differences)
    )
}

pub(in crate::finding) const EFFECTS_WITHHELD: FindingInfo = FindingInfo {
    seen: "The effect of a factor is omitted because its levels return different responses.",
    severities: &[(Note, "")],
    meaning: "These levels are not compared with one another directly, so no verdict is affected.",
    action: "Make the responses equal, or allow the difference with `bodies`.",
    ..BASE
};

/// Levels of a factor that return different responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DifferingLevels {
    /// Name of the factor.
    pub factor: String,
    /// The level.
    pub level: String,
    /// The level that it is compared with.
    pub against: String,
    /// First difference.
    pub difference: ResponseDifference,
}

figures! {
    /// Effects that are omitted.
    EffectsWithheld {
        /// One pair of levels for each factor.
        levels: Vec<DifferingLevels> = same,
    }
    |it, _subject| {
        let levels = it.levels.iter().map(|of| format!(
            "{} = {} instead of {} ({})",
            of.factor,
            of.level,
            of.against,
            of.difference.text()
        ));
        format!(
            "Effects of factors whose levels return different responses are withheld: {}.",
            levels.collect::<Vec<_>>().join("; ")
        )
    }
}
