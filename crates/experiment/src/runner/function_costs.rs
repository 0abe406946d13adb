//! Sampling profiles of a trial: stored in the trial's folder, and converted to CPU time per request
//! by function.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use prony_machine::host::Host;
use prony_machine::telemetry::TelemetrySummary;
use prony_plan::ResolvedVariant;
use prony_record::finding::{ProfileLimited, Subject};
use prony_record::sampling::{SampledFunction, SamplingEvent, SamplingProfile, WaitReason};
use prony_record::{Finding, Record, Severity};
use prony_stats::{
    CostKind, Design, Evaluation, FunctionCost, FunctionTable, ServiceCosts, TrialCosts,
    function_table,
};

use super::trial_error::TrialError;
use super::trial_result::{TrialResult, TrialTelemetry};
use super::values;

/// Maximum number of functions of a service that a trial's result lists. The others count as not
/// sampled.
const FUNCTIONS_MAX: usize = 2_000;

/// Sampling profiles of a trial's services, by name, and findings about their limits.
#[derive(Debug, Default)]
pub(super) struct TrialProfiles {
    profiles: BTreeMap<String, SamplingProfile>,
    pub(super) findings: Vec<Finding>,
}

impl TrialProfiles {
    /// Takes the profiles from the host, and stores them in the trial's folder. The services must
    /// still be running.
    pub(super) fn take(
        host: &mut dyn Host,
        resolved: &ResolvedVariant,
        folder: &Path,
    ) -> Result<Self, TrialError> {
        let mut taken = Self::default();
        for service in &resolved.services {
            let name = &service.spec.name;
            let limits = match host.take_profile(name) {
                None => continue,
                Some(Err(refused)) => vec![refused.to_string()],
                Some(Ok(profile)) => {
                    let limits = profile.notes.iter().map(ToString::to_string).collect();
                    store(&profile, &folder.join(format!("{name}.sampling.json")))?;
                    taken.profiles.insert(name.clone(), profile);
                    limits
                }
            };
            taken.findings.extend(limits.into_iter().map(|reason| {
                let subject = Subject::Service(name.clone());
                Finding::about(subject, Severity::Note, &ProfileLimited { reason })
            }));
        }
        Ok(taken)
    }

    /// Returns the costs per request of the functions of each service. The CPU time of servers that
    /// prony did not start is that of their samples.
    pub(super) fn costs(
        &self,
        summary: Option<&TelemetrySummary>,
        telemetry: &TrialTelemetry,
        record: &Record,
    ) -> BTreeMap<String, ServiceCosts> {
        let costs_of = |(name, profile): (&String, &SamplingProfile)| {
            let measured = telemetry
                .services
                .get(name)
                .and_then(|it| it.cpu_us_per_request);
            let (cpu_us_per_request, cpu_s) = match measured {
                Some(us) => (us, summary?.services.get(name)?.cpu_s),
                None => sampled_cpu(profile, record)?,
            };
            Some((
                name.clone(),
                service_costs(profile, cpu_us_per_request, cpu_s),
            ))
        };
        self.profiles.iter().filter_map(costs_of).collect()
    }

    /// Returns the time for which the threads of each service waited per request, by function and
    /// reason.
    pub(super) fn waits(&self, record: &Record) -> BTreeMap<String, ServiceCosts> {
        let waits_of = |(name, profile): (&String, &SamplingProfile)| {
            (profile.wait_seconds > 0.0).then_some(())?;
            // As many microseconds pass per request as threads wait at the same time, times the
            // duration of a request's share of the load.
            let us = |threads: f64| values::cpu_us_per_request(record, 100.0 * threads);
            let waiting = profile.waiting_threads();
            let all = us(waiting.values().sum())?;
            let in_requests = waiting.into_iter();
            let in_requests =
                in_requests.filter(|(it, _)| it.waits_for != Some(WaitReason::Requests));
            let costs = in_requests.map(|(it, threads)| (it, us(threads).unwrap_or_default()));
            Some((name.clone(), listed(profile, all, costs)))
        };
        self.profiles.iter().filter_map(waits_of).collect()
    }
}

/// Lists the functions with the largest costs.
fn listed<'a>(
    profile: &SamplingProfile,
    us_per_request: f64,
    costs: impl Iterator<Item = (&'a SampledFunction, f64)>,
) -> ServiceCosts {
    let cost = |(function, us_per_request): (&SampledFunction, f64)| FunctionCost {
        function: function.clone(),
        us_per_request,
    };
    let mut functions: Vec<FunctionCost> = costs.map(cost).collect();
    functions.sort_by(|a, b| b.us_per_request.total_cmp(&a.us_per_request));
    functions.truncate(FUNCTIONS_MAX);
    ServiceCosts {
        us_per_request,
        samples: profile.samples,
        functions,
    }
}

/// Returns the CPU time per request in microseconds, and the CPU time in seconds, of all samples.
fn sampled_cpu(profile: &SamplingProfile, record: &Record) -> Option<(f64, f64)> {
    if profile.event != SamplingEvent::CpuClock || profile.seconds <= 0.0 {
        return None;
    }
    let cpu_s = profile.weight as f64 / 1e9;
    let percent = 100.0 * cpu_s / profile.seconds;
    Some((values::cpu_us_per_request(record, percent)?, cpu_s))
}

fn store(profile: &SamplingProfile, path: &Path) -> Result<(), TrialError> {
    let text = serde_json::to_string(profile).unwrap_or_default();
    fs::write(path, text + "\n").map_err(TrialError::file(path))
}

/// Divides the CPU time per request of a service among its functions. Samples of CPU time that are
/// missing, such as those of processes that end quickly, remain unattributed. Cycles have no fixed
/// duration, so they only divide the whole CPU time.
fn service_costs(profile: &SamplingProfile, cpu_us_per_request: f64, cpu_s: f64) -> ServiceCosts {
    let whole = match profile.event {
        SamplingEvent::CpuClock => cpu_s * 1e9,
        SamplingEvent::Cycles => profile.weight as f64,
    };
    let us_per_weight = if whole > 0.0 {
        cpu_us_per_request / whole
    } else {
        0.0
    };
    let weights = profile.self_weights().into_iter();
    let costs = weights.map(|(function, weight)| (function, weight as f64 * us_per_weight));
    listed(profile, cpu_us_per_request, costs)
}

/// Compares the costs of each service that has a profile, by kind.
pub(super) fn tables<const KINDS: usize>(
    design: &Design,
    evaluation: &Evaluation,
    results: &[TrialResult],
    kinds: [CostKind; KINDS],
) -> [Vec<FunctionTable>; KINDS] {
    kinds.map(|kind| {
        let services: BTreeSet<&String> =
            results.iter().flat_map(|it| it.functions.keys()).collect();
        let table_of = |service: &String| {
            let costs = results.iter().filter_map(|result| {
                let costs = match kind {
                    CostKind::Cpu => result.functions.get(service)?.clone(),
                    CostKind::CpuOfModules => result.functions.get(service)?.of_modules(),
                    CostKind::Waiting => result.waits.get(service)?.clone(),
                };
                Some((result, costs))
            });
            let costs: Vec<(&TrialResult, ServiceCosts)> = costs.collect();
            let trials = costs.iter().map(|(result, costs)| TrialCosts {
                block: result.block,
                variant: result.variant,
                costs,
            });
            let trials: Vec<TrialCosts<'_>> = trials.collect();
            function_table(design, &evaluation.looks, service, kind, &trials)
        };
        services.into_iter().filter_map(table_of).collect()
    })
}

#[cfg(test)]
mod tests {
    use prony_record::sampling::SAMPLING_SCHEMA;

    use super::*;

    fn profile(event: SamplingEvent) -> SamplingProfile {
        let function = |name: &str| SampledFunction::new(name, "web");
        SamplingProfile {
            schema: SAMPLING_SCHEMA.to_owned(),
            event,
            rate_hz: 199,
            seconds: 2.0,
            samples: 9,
            weight: 900_000_000,
            notes: Vec::new(),
            functions: vec![function("main"), function("work")],
            stacks: vec![(vec![0, 1], 600_000_000), (vec![0], 300_000_000)],
            wait_seconds: 0.0,
            waits: Vec::new(),
        }
    }

    #[test]
    fn cpu_time_without_samples_is_attributed_to_no_function() {
        let costs = service_costs(&profile(SamplingEvent::CpuClock), 50.0, 1.0);
        let us: Vec<f64> = costs.functions.iter().map(|it| it.us_per_request).collect();
        assert_eq!(us, [30.0, 15.0]);
        assert_eq!(costs.functions[0].function.name, "work");
        let costs = service_costs(&profile(SamplingEvent::Cycles), 60.0, 1.0);
        let us: f64 = costs.functions.iter().map(|it| it.us_per_request).sum();
        assert!((us - 60.0).abs() < 1e-9);
        assert_eq!(
            service_costs(&profile(SamplingEvent::CpuClock), 0.0, 0.0).functions[0].us_per_request,
            0.0
        );
    }
}
