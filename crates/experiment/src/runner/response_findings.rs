//! Findings about responses: unexpected statuses, bodies that differ between variants, and effects
//! of factors whose levels return different responses.

use std::collections::BTreeMap;

use prony_record::{Finding, FindingId, Severity};
use prony_stats::{Design, Evaluation, FactorEffect, Levels};

use super::experiment_finding::ExperimentFinding;
use super::responses::{self, ResponseDigests};
use super::trial_result::TrialResult;
use crate::plan::BodyComparison;

/// Maximum fraction of the checked requests that may have an unexpected status. Beyond it, nothing
/// is compared. The `errors` finding has the same limit.
const UNEXPECTED_SHARE_MAX: f64 = 0.05;

/// Returns all findings about the responses of the variants. `rule` determines which differences
/// between bodies are allowed.
pub(crate) fn of(
    responses: &[ResponseDigests],
    baseline: &dyn Fn(usize) -> usize,
    name: &dyn Fn(usize) -> String,
    rule: BodyComparison,
) -> Vec<ExperimentFinding> {
    let variants = responses.len();
    let mut found = unexpected_status(responses, name);
    let failing: Vec<usize> = found
        .iter()
        .filter(|found| found.finding.severity == Severity::Error)
        .flat_map(|found| found.variants.clone())
        .collect();
    let pairs = (0..variants).map(|variant| (variant, baseline(variant)));
    let pairs: Vec<(usize, usize)> = pairs
        // Bodies of error pages are not compared.
        .filter(|(one, other)| !failing.contains(one) && !failing.contains(other))
        .collect();
    for &(one, other) in &pairs {
        found.extend(bytes_differ(responses, (one, other), name, rule));
    }
    found.extend(bodies_changing(responses, rule));
    found.extend(bodies_as_sent(responses, &pairs, name, rule));
    found
}

/// Returns a description of the first unexpected status if all responses of all variants have one.
/// In that case, nothing can be compared.
pub(crate) fn all_failed(responses: &[ResponseDigests]) -> Option<String> {
    let is_failing = |of_variant: &ResponseDigests| {
        let unexpected = responses::unexpected(of_variant).len();
        unexpected > 0 && unexpected == of_variant.digests.len()
    };
    if !responses.iter().all(is_failing) {
        return None;
    }
    let first = responses.first()?.digests.values().next()?;
    Some(match &first.tls_expected {
        Some(cause) => format!(
            "{} returns status {}: {cause}",
            first.url_or_request(),
            first.status.unwrap_or_default()
        ),
        None => format!(
            "{} returns status {}; the load expects {} (expect_status)",
            first.url_or_request(),
            first.status.unwrap_or_default(),
            first.expected_statuses.as_deref().unwrap_or_default()
        ),
    })
}

/// Combines the responses of each variant's trials.
pub(crate) fn by_variant(results: &[TrialResult], variants: usize) -> Vec<ResponseDigests> {
    let of = |variant: usize| {
        let trials = results.iter().filter(|result| result.variant == variant);
        responses::over_trials(trials.map(|result| &result.responses))
    };
    (0..variants).map(of).collect()
}

/// Finds variants that return a status that the load counts as a failure. Variants with the same
/// status are reported together.
fn unexpected_status(
    responses: &[ResponseDigests],
    name: &dyn Fn(usize) -> String,
) -> Vec<ExperimentFinding> {
    // Group responses without their URLs, because ports differ between variants.
    let mut groups: BTreeMap<(Severity, String, String), (String, Vec<usize>)> = BTreeMap::new();
    for (variant, of_variant) in responses.iter().enumerate() {
        let unexpected = responses::unexpected(of_variant);
        let Some(first) = unexpected.first() else {
            continue;
        };
        let share = unexpected.len() as f64 / of_variant.digests.len() as f64;
        let severity = match share > UNEXPECTED_SHARE_MAX {
            true => Severity::Error,
            false => Severity::Warning,
        };
        let status = match first.status {
            Some(status) => format!("status {status}"),
            None => "changing statuses".to_owned(),
        };
        let others = match unexpected.len() - 1 {
            0 => String::new(),
            others => format!(
                ", and {others} more of {} requests",
                of_variant.digests.len()
            ),
        };
        let expected = first.expected_statuses.as_deref().unwrap_or_default();
        let what = match &first.tls_expected {
            Some(cause) => format!("returns {status}{others}: {cause}."),
            None => format!(
                "returns {status}{others}; the load expects {expected}. Check the load's path and \
                 host, and the server's log; if the status is intended, set expect_status \
                 (--expect-status)."
            ),
        };
        let group = groups
            .entry((severity, first.request.clone(), what))
            .or_insert_with(|| (first.url_or_request().to_owned(), Vec::new()));
        group.1.push(variant);
    }
    let found = groups
        .into_iter()
        .map(|((severity, _, what), (url, variants))| {
            let whose = match variants.len() == responses.len() {
                true => "All variants".to_owned(),
                false => names(&variants, name),
            };
            ExperimentFinding {
                finding: Finding::new(
                    FindingId::UnexpectedStatus,
                    severity,
                    format!("{whose}: {url} {what}"),
                ),
                variants,
            }
        });
    found.collect()
}

fn names(variants: &[usize], name: &dyn Fn(usize) -> String) -> String {
    let names: Vec<String> = variants.iter().map(|&variant| name(variant)).collect();
    names.join("; ")
}

fn bytes_differ(
    responses: &[ResponseDigests],
    (one, other): (usize, usize),
    name: &dyn Fn(usize) -> String,
    rule: BodyComparison,
) -> Option<ExperimentFinding> {
    let difference = responses::difference(&responses[one], &responses[other], rule)?;
    let text = format!(
        "{} and {} return different responses: {difference}. Their rates can't be compared. Make the \
         responses identical; if the bodies differ on purpose, set bodies = \"may-differ\" in [load] \
         (--bodies may-differ).",
        name(one),
        name(other)
    );
    Some(ExperimentFinding {
        finding: Finding::new(FindingId::BytesDiffer, Severity::Error, text),
        variants: vec![one],
    })
}

fn bodies_changing(
    responses: &[ResponseDigests],
    rule: BodyComparison,
) -> Option<ExperimentFinding> {
    let mut changing: Vec<&str> = responses
        .iter()
        .flat_map(|of_variant| responses::changing(of_variant, rule))
        .collect();
    changing.sort_unstable();
    changing.dedup();
    let (first, count) = (changing.first()?, changing.len());
    let requests = if count == 1 { "request" } else { "requests" };
    let text = format!(
        "{count} {requests} ({first}) returned a different body each time; only the status was \
         compared."
    );
    Some(ExperimentFinding {
        finding: Finding::new(FindingId::BytesDiffer, Severity::Note, text),
        variants: Vec::new(),
    })
}

/// Finds bodies that differ as sent although `rule` allows the difference.
fn bodies_as_sent(
    responses: &[ResponseDigests],
    pairs: &[(usize, usize)],
    name: &dyn Fn(usize) -> String,
    rule: BodyComparison,
) -> Option<ExperimentFinding> {
    let allowed = pairs.iter().filter(|(one, other)| {
        let refused = responses::difference(&responses[*one], &responses[*other], rule);
        refused.is_none() && rule != BodyComparison::Same
    });
    let mut said = Vec::new();
    let mut variants = Vec::new();
    for &(one, other) in allowed {
        let differences = responses::as_sent_differences(&responses[one], &responses[other]);
        let Some(first) = differences.first() else {
            continue;
        };
        let more = match differences.len() - 1 {
            0 => String::new(),
            1 => ", and 1 more request".to_owned(),
            more => format!(", and {more} more requests"),
        };
        said.push(format!("{} and {}: {first}{more}", name(one), name(other)));
        variants.push(one);
    }
    if said.is_empty() {
        return None;
    }
    let said = said.join("; ");
    let (id, text) = match rule {
        BodyComparison::MayDiffer => (
            FindingId::BodiesMayDiffer,
            format!(
                "Bodies differ, as bodies = \"may-differ\" allows: {said}. The comparison includes \
                 the cost of that difference."
            ),
        ),
        _ => (
            FindingId::BodiesDecoded,
            format!(
                "Bodies are identical after decoding, but differ as sent: {said}. \
                 The comparison includes the cost of the encoding."
            ),
        ),
    };
    Some(ExperimentFinding {
        finding: Finding::new(id, Severity::Note, text),
        variants,
    })
}

/// Removes the effects of factors whose levels return different responses, and reports them.
///
/// Other checks compare a variant's responses only with those of its baseline. If the baseline
/// omits a factor, only the factor's effect compares its levels, so the responses of these levels
/// are compared here. An interaction is kept if the responses don't differ between the levels of
/// one of its two factors.
pub(crate) fn withhold_effects(
    evaluation: &mut Evaluation,
    design: &Design,
    results: &[TrialResult],
    rule: BodyComparison,
) -> Option<ExperimentFinding> {
    let responses = by_variant(results, design.variants.len());
    let distorted = |effect: &FactorEffect| {
        let mut factors = effect.levels.iter();
        factors.all(|(factor, level)| {
            let against = effect.against.get(factor);
            let against = against.map(String::as_str).unwrap_or_default();
            step_difference(&responses, design, (factor, level, against), rule).is_some()
        })
    };
    let mut reported: BTreeMap<String, String> = BTreeMap::new();
    for effect in evaluation.effects.iter().filter(|it| distorted(it)) {
        for (factor, level) in &effect.levels {
            let against = effect.against.get(factor).cloned().unwrap_or_default();
            let step = (factor.as_str(), level.as_str(), against.as_str());
            if let Some(difference) = step_difference(&responses, design, step, rule) {
                let said = format!("{factor} = {level} instead of {against} ({difference})");
                reported.entry(factor.clone()).or_insert(said);
            }
        }
    }
    if reported.is_empty() {
        return None;
    }
    evaluation.withhold_effects(distorted);
    let reported: Vec<String> = reported.into_values().collect();
    let text = format!(
        "Effects of factors whose levels return different responses are withheld: {}.",
        reported.join("; ")
    );
    Some(ExperimentFinding {
        finding: Finding::new(FindingId::EffectsWithheld, Severity::Note, text),
        variants: Vec::new(),
    })
}

/// Returns the first difference in responses between variants that differ only in the level of one
/// factor.
fn step_difference(
    responses: &[ResponseDigests],
    design: &Design,
    (factor, level, against): (&str, &str, &str),
    rule: BodyComparison,
) -> Option<String> {
    let has = |levels: &Levels, level: &str| levels.get(factor).is_some_and(|own| own == level);
    let others_equal = |a: &Levels, b: &Levels| {
        a.iter()
            .all(|(name, own)| name == factor || b.get(name) == Some(own))
    };
    let variants = || design.variants.iter().enumerate();
    variants()
        .filter(|(_, levels)| has(levels, level))
        .find_map(|(one, levels)| {
            let mut twins =
                variants().filter(|(_, twin)| has(twin, against) && others_equal(levels, twin));
            let (other, _) = twins.next()?;
            responses::difference(&responses[one], &responses[other], rule)
        })
}

#[cfg(test)]
#[path = "response_findings_tests.rs"]
mod tests;
