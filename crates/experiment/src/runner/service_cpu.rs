//! CPU time per request by service. An experiment's evaluation has one number per metric and trial,
//! so each service is evaluated separately, as if its CPU time were that of all services.

use std::collections::{BTreeMap, BTreeSet};

use prony_stats::{Design, Evaluation, Metric, Trials, Values, VerdictDocument, evaluate};

use super::trial_result::TrialResult;

/// The evaluation of each service's CPU time per request, by the service's name. Empty if there are
/// fewer than two services, because the metric of all services then says the same.
pub(crate) type ServiceEvaluations = BTreeMap<String, Evaluation>;

/// Evaluates the CPU time of each service. The services share the error rate.
pub(crate) fn evaluations(
    design: &Design,
    whole: &Evaluation,
    results: &[TrialResult],
) -> ServiceEvaluations {
    let names = results.iter().flat_map(|it| it.telemetry.services.keys());
    let names: BTreeSet<&String> = names.collect();
    if names.len() < 2 {
        return ServiceEvaluations::new();
    }
    let shared = Design {
        alpha: design.alpha / names.len() as f64,
        ..design.clone()
    };
    let evaluated = names.into_iter().filter_map(|name| {
        let cpu_us = |it: &TrialResult| it.telemetry.services.get(name)?.cpu_us_per_request;
        Some((
            name.clone(),
            evaluation_of(&shared, whole, results, cpu_us)?,
        ))
    });
    evaluated.collect()
}

/// Evaluates a value of each trial, in the place of the server's CPU time per request.
pub(crate) fn evaluation_of(
    design: &Design,
    whole: &Evaluation,
    results: &[TrialResult],
    value: impl Fn(&TrialResult) -> Option<f64>,
) -> Option<Evaluation> {
    let mut trials = Trials::new();
    for result in results {
        let value = value(result).map(|value| (Metric::ServerCpuUsPerRequest, value));
        let values: Values = value.into_iter().collect();
        // Blocks are complete without the variants that were ruled out.
        for variant in 0..design.variants.len() {
            if !results.iter().any(|it| it.variant == variant) {
                trials.add(result.block, variant, Values::new());
            }
        }
        trials.add(result.block, result.variant, values);
    }
    evaluate(design, &trials, &whole.looks).ok()
}

/// Adds the CPU time per request by service to each variant.
pub(crate) fn add(document: VerdictDocument, services: &ServiceEvaluations) -> VerdictDocument {
    let mut variants = document.variants;
    for (name, evaluation) in services {
        for (variant, of_service) in variants.iter_mut().zip(&evaluation.variants) {
            if let Some(cpu) = of_service.metrics.get(&Metric::ServerCpuUsPerRequest) {
                variant
                    .service_cpu_us_per_request
                    .insert(name.clone(), *cpu);
            }
        }
    }
    VerdictDocument {
        variants,
        ..document
    }
}
