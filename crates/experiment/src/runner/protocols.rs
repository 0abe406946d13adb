//! Protocols that the variants negotiated with their servers.

use prony_record::{Finding, FindingId, LoadInfo, Negotiated, Severity};

use super::experiment_finding::ExperimentFinding;
use crate::plan::BodyComparison;

/// Protocols that a load requested, and those that it got.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Protocols {
    http: String,
    tls: Option<String>,
    negotiated: Negotiated,
}

impl Protocols {
    pub(crate) fn new(load: &LoadInfo, negotiated: &Negotiated) -> Protocols {
        Protocols {
            http: load.http.clone(),
            tls: load.tls.clone(),
            negotiated: negotiated.clone(),
        }
    }

    /// Returns true if two loads negotiated the same protocols. A difference in HTTP version or TLS
    /// is ignored if it results from the settings of the loads, because the plan then intends the
    /// difference.
    fn agree(&self, other: &Protocols) -> bool {
        let (a, b) = (&self.negotiated, &other.negotiated);
        let same_http = self.http == other.http;
        let same_tls = self.tls == other.tls;
        // ALPN, a part of TLS, negotiates the HTTP version.
        (!same_http || a.http == b.http)
            && (!same_tls || (&a.tls, &a.cipher) == (&b.tls, &b.cipher))
            && (!same_http || !same_tls || a.alpn == b.alpn)
    }

    fn described(&self) -> String {
        let agreed = &self.negotiated;
        let http = agreed
            .http
            .as_ref()
            .map(|version| format!("HTTP/{version}"));
        let parts = [&http, &agreed.tls, &agreed.cipher, &agreed.alpn];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        parts.join(" ")
    }
}

/// Finds variants that were configured like their baseline but negotiated different protocols.
/// `rule` determines if such a difference is part of the comparison.
pub(crate) fn findings(
    protocols: &[Option<Protocols>],
    baseline: &dyn Fn(usize) -> usize,
    name: &dyn Fn(usize) -> String,
    rule: BodyComparison,
) -> Vec<ExperimentFinding> {
    let of_variant = |variant: usize| {
        let other = baseline(variant);
        let (a, b) = (protocols[variant].as_ref()?, protocols[other].as_ref()?);
        if a.agree(b) {
            return None;
        }
        let differs = format!(
            "{} and {} were configured alike but negotiated different protocols: {} and {}.",
            name(variant),
            name(other),
            a.described(),
            b.described()
        );
        let (severity, text) = match rule {
            BodyComparison::MayDiffer => (
                Severity::Warning,
                format!("{differs} The comparison includes this difference."),
            ),
            BodyComparison::Same | BodyComparison::SameDecoded => (
                Severity::Error,
                format!(
                    "{differs} Set the protocol (--http, --tls-min, --tls-max, --ciphers); if the \
                     protocols differ on purpose, set bodies = \"may-differ\" in [load] (--bodies \
                     may-differ)."
                ),
            ),
        };
        Some(ExperimentFinding {
            finding: Finding::new(FindingId::NegotiationDiffers, severity, text),
            variants: vec![variant],
        })
    };
    (0..protocols.len()).filter_map(of_variant).collect()
}
