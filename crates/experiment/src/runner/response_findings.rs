//! Findings about responses: unexpected statuses, bodies that differ between variants, and effects
//! of factors whose levels return different responses.

use std::collections::BTreeMap;

use prony_plan::BodyComparison;
use prony_record::Severity;
use prony_record::finding::{
    BodiesDecoded, BodiesMayDiffer, BytesDiffer, DifferingLevels, EffectsWithheld,
    ResponseDifference, SentDifferences, UnexpectedStatus,
};
use prony_stats::{Design, Evaluation, FactorEffect, Levels};

use super::experiment_finding::ExperimentFinding;
use super::responses::{self, ResponseDigests};
use super::trial_error::CommonFailure;
use super::trial_result::TrialResult;

/// Maximum fraction of the checked requests that may have an unexpected status. Beyond it, nothing
/// is compared. The `errors` finding has the same limit.
const UNEXPECTED_SHARE_MAX: f64 = 0.05;

/// Returns all findings about the responses of the variants. `rule` determines which differences
/// between bodies are allowed.
pub(crate) fn compare_responses(
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

/// Returns the first unexpected status if all responses of all variants have one. In that case,
/// nothing can be compared.
pub(crate) fn all_failed(responses: &[ResponseDigests]) -> Option<CommonFailure> {
    let is_failing = |of_variant: &ResponseDigests| {
        let unexpected = responses::unexpected(of_variant).len();
        unexpected > 0 && unexpected == of_variant.digests.len()
    };
    if !responses.iter().all(is_failing) {
        return None;
    }
    let first = responses.first()?.digests.values().next()?;
    Some(CommonFailure::Status {
        request: first.url_or_request().to_owned(),
        status: first.status.unwrap_or_default(),
        expected: first.expected_statuses.clone().unwrap_or_default(),
        tls_expected: first.tls_expected.clone(),
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
    let mut found: Vec<(Severity, UnexpectedStatus, Vec<usize>)> = Vec::new();
    for (variant, of_variant) in responses.iter().enumerate() {
        let unexpected = responses::unexpected(of_variant);
        let Some(first) = unexpected.first() else {
            continue;
        };
        let checked = of_variant.digests.len();
        let severity = if unexpected.len() as f64 / checked as f64 > UNEXPECTED_SHARE_MAX {
            Severity::Error
        } else {
            Severity::Warning
        };
        // Compare requests without their hosts, because ports differ between variants.
        let figures = UnexpectedStatus {
            variants: Vec::new(),
            request: first.request.clone(),
            status: first.status,
            unexpected: unexpected.len() as u64,
            checked: checked as u64,
            expected: first.expected_statuses.clone().unwrap_or_default(),
            tls_expected: first.tls_expected.clone(),
        };
        match found.iter_mut().find(|(_, known, _)| *known == figures) {
            Some((_, _, variants)) => variants.push(variant),
            None => found.push((severity, figures, vec![variant])),
        }
    }
    let found = found.into_iter().map(|(severity, mut figures, variants)| {
        if let Some(first) = responses::unexpected(&responses[variants[0]]).first() {
            first.url_or_request().clone_into(&mut figures.request);
        }
        if variants.len() < responses.len() {
            figures.variants = variants.iter().map(|&variant| name(variant)).collect();
        }
        ExperimentFinding::about(variants, severity, &figures)
    });
    found.collect()
}

fn bytes_differ(
    responses: &[ResponseDigests],
    (one, other): (usize, usize),
    name: &dyn Fn(usize) -> String,
    rule: BodyComparison,
) -> Option<ExperimentFinding> {
    let difference = responses::difference(&responses[one], &responses[other], rule)?;
    let figures = BytesDiffer {
        variant: Some(name(one)),
        baseline: Some(name(other)),
        difference: Some(difference),
        changing: Vec::new(),
    };
    Some(ExperimentFinding::about(
        vec![one],
        Severity::Error,
        &figures,
    ))
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
    let figures = BytesDiffer {
        variant: None,
        baseline: None,
        difference: None,
        changing: changing.into_iter().map(str::to_owned).collect(),
    };
    (!figures.changing.is_empty()).then(|| ExperimentFinding::of_all(Severity::Note, &figures))
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
    let mut differences = Vec::new();
    let mut variants = Vec::new();
    for &(one, other) in allowed {
        let mut of_pair =
            responses::as_sent_differences(&responses[one], &responses[other]).into_iter();
        let Some(first) = of_pair.next() else {
            continue;
        };
        differences.push(SentDifferences {
            variant: name(one),
            baseline: name(other),
            first,
            more: of_pair.len() as u64,
        });
        variants.push(one);
    }
    if differences.is_empty() {
        return None;
    }
    Some(match rule {
        BodyComparison::MayDiffer => {
            let differ = BodiesMayDiffer { differences };
            ExperimentFinding::about(variants, Severity::Note, &differ)
        }
        _ => {
            let decoded = BodiesDecoded { differences };
            ExperimentFinding::about(variants, Severity::Note, &decoded)
        }
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
    let mut reported: BTreeMap<String, DifferingLevels> = BTreeMap::new();
    for effect in evaluation.effects.iter().filter(|it| distorted(it)) {
        for (factor, level) in &effect.levels {
            let against = effect.against.get(factor).cloned().unwrap_or_default();
            let step = (factor.as_str(), level.as_str(), against.as_str());
            if let Some(difference) = step_difference(&responses, design, step, rule) {
                reported.entry(factor.clone()).or_insert(DifferingLevels {
                    factor: factor.clone(),
                    level: level.clone(),
                    against,
                    difference,
                });
            }
        }
    }
    if reported.is_empty() {
        return None;
    }
    evaluation.withhold_effects(distorted);
    let withheld = EffectsWithheld {
        levels: reported.into_values().collect(),
    };
    Some(ExperimentFinding::of_all(Severity::Note, &withheld))
}

/// Returns the first difference in responses between variants that differ only in the level of one
/// factor.
fn step_difference(
    responses: &[ResponseDigests],
    design: &Design,
    (factor, level, against): (&str, &str, &str),
    rule: BodyComparison,
) -> Option<ResponseDifference> {
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
