//! Protocols that the variants negotiated with their servers.

use prony_plan::BodyComparison;
use prony_record::finding::{NegotiatedBy, NegotiatingSides, NegotiationDiffers};
use prony_record::{LoadInfo, Negotiated, Severity};

use super::experiment_finding::ExperimentFinding;

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
        let (severity, sides) = match rule {
            BodyComparison::MayDiffer => {
                (Severity::Warning, NegotiatingSides::VariantsThatMayDiffer)
            }
            BodyComparison::Same | BodyComparison::SameDecoded => {
                (Severity::Error, NegotiatingSides::Variants)
            }
        };
        let negotiated = [(variant, a), (other, b)].map(|(variant, of)| NegotiatedBy {
            name: name(variant),
            negotiated: of.negotiated.clone(),
        });
        let figures = NegotiationDiffers {
            sides,
            negotiated: negotiated.into(),
        };
        Some(ExperimentFinding::about(vec![variant], severity, &figures))
    };
    (0..protocols.len()).filter_map(of_variant).collect()
}
