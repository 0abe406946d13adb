//! Values from a trial's telemetry, for its result and its findings.

use std::collections::BTreeMap;

use prony_machine::telemetry::{HostSummary, ServiceSummary, TelemetrySummary};
use prony_plan::{ResolvedService, ResolvedVariant};
use prony_record::finding::{
    ServiceMemoryLimited, ServiceOutOfMemory, ServiceThrottled, Subject, TelemetryLost,
};
use prony_record::{Finding, Record, Severity};

use super::trial_result::{ServiceUse, TrialTelemetry};
use super::values;

/// Removes followed services that have no process from the summary, and returns a finding about
/// each. Otherwise, their usage would appear to be zero.
pub(super) fn unseen(
    resolved: &ResolvedVariant,
    summary: Option<&mut TelemetrySummary>,
) -> Vec<Finding> {
    let Some(summary) = summary else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for service in resolved.services.iter().filter(|it| it.remote.is_some()) {
        let (name, follow) = (&service.spec.name, &service.spec.follow);
        let has_none = |it: &ServiceSummary| it.processes_max == 0;
        if follow.is_empty() || !summary.services.get(name).is_some_and(has_none) {
            continue;
        }
        summary.services.remove(name);
        let file = follow.pid_file.as_ref();
        let file = file.map(|path| path.display().to_string());
        let paths: Vec<String> = follow.cgroup.clone().into_iter().chain(file).collect();
        let lost = TelemetryLost {
            reason: None,
            looked_in: paths,
        };
        let subject = Subject::Service(name.clone());
        findings.push(Finding::about(subject, Severity::Warning, &lost));
    }
    findings
}

/// Returns, for each service on another machine, the name of the agent that runs it.
pub(super) fn hosts(summary: &TelemetrySummary) -> BTreeMap<String, String> {
    let services = summary.services.iter();
    let hosts = services.filter_map(|(name, it)| Some((name.clone(), it.host.clone()?)));
    hosts.collect()
}

/// Returns the telemetry values from which findings are derived.
/// `record` is the trial's load, unless the trial is a capacity search.
pub(super) fn telemetry_values(
    summary: Option<&TelemetrySummary>,
    resolved: &ResolvedVariant,
    record: Option<&Record>,
) -> TrialTelemetry {
    let Some(summary) = summary else {
        return TrialTelemetry::default();
    };
    // Cores with the same number on different machines are different cores.
    let of = |service: &ResolvedService| {
        let host = service.host.clone();
        let cores = service.spec.cores.clone().into_iter();
        cores.map(move |core| (host.clone(), core))
    };
    let mut cores: Vec<_> = resolved.services.iter().flat_map(of).collect();
    let free = resolved
        .services
        .iter()
        .any(|service| service.spec.cores.is_empty());
    cores.sort_unstable();
    cores.dedup();
    let services = summary.services.values();
    // A server that prony did not start may run on this machine, where it can't be distinguished
    // from a foreign process.
    let remote = resolved
        .services
        .iter()
        .any(|service| service.remote.is_some());
    let most = |of: fn(&HostSummary) -> f64| summary.machines().map(of).fold(0.0, f64::max);
    let noisiest = summary
        .machines()
        .max_by(|a, b| a.foreign_percent.total_cmp(&b.foreign_percent));
    let top_foreign = noisiest.and_then(|machine| machine.foreign.first());
    let top_foreign = top_foreign.filter(|_| !remote);
    TrialTelemetry {
        services_percent: services
            .map(|s| s.cpu_user_percent + s.cpu_system_percent)
            .sum(),
        // The number of cores that an unpinned server would use is unknown, but at least one.
        services_cores: match (summary.services.is_empty(), free) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => cores.len(),
        },
        foreign_percent: if remote {
            0.0
        } else {
            most(|machine| machine.foreign_percent)
        },
        steal_percent: most(|machine| machine.steal_percent),
        top_foreign: top_foreign.map(|process| process.name.clone()),
        services: services_of(summary, record),
    }
}

fn services_of(
    summary: &TelemetrySummary,
    record: Option<&Record>,
) -> BTreeMap<String, ServiceUse> {
    let of_one = |(name, service): (&String, &ServiceSummary)| {
        let cpu_percent = service.cpu_user_percent + service.cpu_system_percent;
        let used = ServiceUse {
            cpu_percent,
            cpu_us_per_request: record.and_then(|it| values::cpu_us_per_request(it, cpu_percent)),
            throttling: service.throttling,
            memory_events: service.memory_events,
        };
        (name.clone(), used)
    };
    summary.services.iter().map(of_one).collect()
}

/// Minimum share of a quota's periods in which a service was stopped for a finding.
const THROTTLED_SHARE_MIN: f64 = 0.01;

/// Returns findings about services that used up the CPU quota of their control group.
pub(super) fn throttled(telemetry: &TrialTelemetry) -> Vec<Finding> {
    let of_one = |(name, used): (&String, &ServiceUse)| {
        let throttling = used
            .throttling
            .filter(|it| it.share() >= THROTTLED_SHARE_MIN)?;
        let subject = Subject::Service(name.clone());
        let throttled = ServiceThrottled { throttling };
        Some(Finding::about(subject, Severity::Warning, &throttled))
    };
    telemetry.services.iter().filter_map(of_one).collect()
}

/// Returns findings about services that reached the memory limit of their control group.
pub(super) fn memory_limited(telemetry: &TrialTelemetry) -> Vec<Finding> {
    let of_one = |(name, used): (&String, &ServiceUse)| {
        let events = used.memory_events?;
        let subject = Subject::Service(name.clone());
        if events.oom_kills > 0 {
            let out_of_memory = ServiceOutOfMemory { events };
            Some(Finding::about(subject, Severity::Error, &out_of_memory))
        } else if events.limit_hits > 0 {
            let limited = ServiceMemoryLimited { events };
            Some(Finding::about(subject, Severity::Warning, &limited))
        } else {
            None
        }
    };
    telemetry.services.iter().filter_map(of_one).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use prony_machine::profile::MachineProfile;
    use prony_plan::Plan;
    use prony_record::{FindingId, MemoryEvents};

    use super::*;

    const PLAN: &str = r#"
baseline = { connections = 1 }
[factors]
connections = [1, 2]
[service.web]
remote = "127.0.0.1:8080"
cgroup = "system.slice/web.service"
pid_file = "/run/web.pid"
[load]
target = "web"
connections = "{{ connections }}"
"#;

    #[test]
    fn a_service_without_a_process_has_no_figures() {
        let plan = Plan::from_str(PLAN, Path::new("plan.toml"), MachineProfile::this()).unwrap();
        let resolved = plan.resolve(0, &BTreeMap::new()).unwrap();
        let with = |processes_max: u64| {
            let service = ServiceSummary {
                processes_max,
                ..ServiceSummary::default()
            };
            let mut summary = TelemetrySummary {
                services: [("web".to_owned(), service)].into(),
                ..TelemetrySummary::default()
            };
            let findings = unseen(&resolved, Some(&mut summary));
            (findings, summary.services.len())
        };
        let (findings, services) = with(0);
        assert_eq!((findings.len(), services), (1, 0));
        let lost: TelemetryLost = findings[0].figures().unwrap();
        let paths = ["system.slice/web.service", "/run/web.pid"];
        assert_eq!(lost.looked_in, paths);
        assert_eq!(findings[0].subject, Subject::Service("web".to_owned()));
        assert_eq!(with(1), (Vec::new(), 1));
    }

    #[test]
    fn a_killed_process_outweighs_a_reached_limit() {
        let found = |limit_hits, oom_kills| {
            let used = ServiceUse {
                memory_events: Some(MemoryEvents {
                    limit_bytes: 1 << 20,
                    limit_hits,
                    oom_kills,
                }),
                ..ServiceUse::default()
            };
            let telemetry = TrialTelemetry {
                services: [("web".to_owned(), used)].into(),
                ..TrialTelemetry::default()
            };
            let findings = memory_limited(&telemetry);
            assert!(findings.len() <= 1);
            findings
                .first()
                .and_then(|it| FindingId::parse(it.id.as_str()))
        };
        assert_eq!(found(0, 0), None);
        assert_eq!(found(3, 0), Some(FindingId::ServiceMemoryLimited));
        assert_eq!(found(3, 1), Some(FindingId::ServiceOutOfMemory));
        assert_eq!(memory_limited(&TrialTelemetry::default()), []);
    }
}
