//! The bottleneck of a variant, as far as telemetry shows it: full cores, the generator, a full
//! link, or the schedule of an open loop. If none of these was the bottleneck, requests waited for
//! something else.

use prony_record::{FindingId, Record, Throttling};
use prony_stats::{Bottleneck, BottleneckKind, CoreParties, Metric};
use prony_wording::limits::{self, GeneratorLimit, Limit, UsedCores, Waits};

use crate::runner::TrialResult;
use crate::runner::resource_use::{CoreUse, ResourceUse};

/// Minimum utilization at which cores or a link count as full. The rest is lost to context switches
/// and to the resolution of the kernel's clock ticks.
const FULL_SHARE: f64 = 0.9;
/// Minimum share of the periods of a CPU quota in which a service was stopped, for the quota to count
/// as the limit.
const THROTTLED_SHARE: f64 = 0.5;
/// Minimum CPU time of other processes and guests, in percent of one core, at which they count as a
/// cause of full cores.
const NEIGHBORS_PERCENT: f64 = 5.0;
/// Minimum CPU time of other processes and guests, in percent of one core, at which they may have
/// kept requests waiting although no core was full.
const CROWDED_PERCENT: f64 = 20.0;
/// Minimum fraction of its schedule that an open loop must complete to count as limited by the
/// schedule.
const SCHEDULE_KEPT_SHARE: f64 = 0.99;

/// Returns the bottleneck in one variant's trials. Utilizations are medians over the trials. The
/// usage by party is that of the median trial, so its parts add up.
pub(crate) fn limit_of(name: &str, trials: &[&TrialResult]) -> Bottleneck {
    let (kind, limit) = limit_of_trials(trials);
    Bottleneck {
        name: name.to_owned(),
        kind,
        text: limits::sentence(name, &limit),
    }
}

fn limit_of_trials(trials: &[&TrialResult]) -> (BottleneckKind, Limit) {
    let records: Vec<&Record> = trials.iter().filter_map(|t| t.record.as_ref()).collect();
    if let Some(limit) = generator(&records) {
        return (BottleneckKind::Generator, limit);
    }
    if let Some(limit) = schedule(&records) {
        return (BottleneckKind::Schedule, limit);
    }
    if let Some(limit) = quota(trials) {
        return (BottleneckKind::ServerCores, limit);
    }
    let shares = trials.iter().filter_map(|t| t.resources.link_share);
    if let Some(used_share) = median(shares).filter(|&share| share >= FULL_SHARE) {
        return (BottleneckKind::Link, Limit::Link { used_share });
    }
    let is_watched = trials.iter().any(|t| t.telemetry.services_cores > 0);
    let machines: Vec<CoreParties> = trials.iter().filter_map(|t| machine(t)).collect();
    let (Some(machine), true) = (middle(machines), is_watched) else {
        return (BottleneckKind::Unknown, Limit::NoTelemetry);
    };
    let mut groups = groups(trials);
    let full = groups
        .iter()
        .position(|it| it.parties.used_share() >= FULL_SHARE);
    if let Some(place) = full {
        let cores = groups.swap_remove(place);
        let kind = bottleneck_of_full_cores(&cores.parties);
        return (
            kind,
            Limit::FullCores {
                cores,
                is_machine: false,
            },
        );
    }
    if machine.used_share() >= FULL_SHARE {
        let kind = bottleneck_of_full_cores(&machine);
        let cores = UsedCores::of_all(machine);
        return (
            kind,
            Limit::FullCores {
                cores,
                is_machine: true,
            },
        );
    }
    nothing_full(groups, machine, trials)
}

/// Classifies fully used cores. The services are the bottleneck, unless other processes used part
/// of the CPU time.
fn bottleneck_of_full_cores(parties: &CoreParties) -> BottleneckKind {
    if parties.lost_percent() < NEIGHBORS_PERCENT {
        BottleneckKind::ServerCores
    } else {
        BottleneckKind::Machine
    }
}

/// Returns the bottleneck for the case that no core was saturated: either other processes kept
/// the services off the CPU, or requests waited for something that telemetry doesn't cover.
fn nothing_full(
    mut groups: Vec<UsedCores>,
    machine: CoreParties,
    trials: &[&TrialResult],
) -> (BottleneckKind, Limit) {
    if groups.is_empty() {
        groups.push(UsedCores::of_all(machine.clone()));
    }
    let is_crowded = |parties: &CoreParties| parties.lost_percent() >= CROWDED_PERCENT;
    let crowded = groups.iter().position(|it| is_crowded(&it.parties));
    if let Some(crowded) = crowded {
        let limit = Limit::CrowdedCores { groups, crowded };
        return (BottleneckKind::Machine, limit);
    }
    let waits = match () {
        () if has_delayed_acks(trials) => Waits::DelayedAcks,
        () if is_crowded(&machine) => Waits::Neighbors(machine),
        () => Waits::Unknown {
            has_disk: writes_to_disk(trials),
        },
    };
    (BottleneckKind::Waiting, Limit::Waiting { groups, waits })
}

/// Returns true if at least half of the loads have the finding about delayed acknowledgments.
pub(crate) fn has_delayed_acks(trials: &[&TrialResult]) -> bool {
    let has = |trial: &&&TrialResult| {
        let mut findings = trial.record.iter().flat_map(|record| &record.findings);
        findings.any(|finding| finding.id == FindingId::DelayedAcks)
    };
    !trials.is_empty() && 2 * trials.iter().filter(has).count() >= trials.len()
}

/// Returns true if telemetry shows that the services wrote to disks.
pub(crate) fn writes_to_disk(trials: &[&TrialResult]) -> bool {
    let written = |trial: &&TrialResult| {
        let bytes = trial.values.get(&Metric::DiskWrittenBytesPerRequest);
        bytes.is_some_and(|&bytes| bytes > 0.0)
    };
    trials.iter().any(written)
}

/// Returns the usage of the machine by party in a trial. Trials that were stored by an older
/// version contain only sums.
fn machine(trial: &TrialResult) -> Option<CoreParties> {
    let resources: &ResourceUse = &trial.resources;
    if resources.machine_cores == 0 || resources.machine.is_some() {
        return resources.machine.clone();
    }
    let mut parties = CoreParties {
        cores: resources.machine_cores,
        services: trial.telemetry.services_percent,
        others: trial.telemetry.foreign_percent,
        stolen: trial.telemetry.steal_percent,
        idle: resources.idle_percent,
        ..CoreParties::default()
    };
    let known = parties.services + parties.lost_percent() + parties.idle;
    parties.load = (100.0 * parties.cores as f64 - known).max(0.0);
    Some(parties)
}

/// Returns the groups of pinned cores, busiest group first. Each has the names of its services and
/// the usage by party in the median trial.
fn groups(trials: &[&TrialResult]) -> Vec<UsedCores> {
    let Some(first) = trials.iter().find(|t| !t.resources.tied.is_empty()) else {
        return Vec::new();
    };
    let group = |(place, like): (usize, &CoreUse)| {
        let all = trials.iter().filter_map(|t| t.resources.tied.get(place));
        Some(UsedCores {
            services: like.services.join(", "),
            parties: middle(all.map(parties_of).collect())?,
        })
    };
    let groups = first.resources.tied.iter().enumerate();
    let mut all: Vec<_> = groups.filter_map(group).collect();
    all.sort_by(|a, b| b.parties.used_share().total_cmp(&a.parties.used_share()));
    all
}

/// Returns the usage of a group by party. If times per core are missing, the result distinguishes
/// only the services and the rest.
fn parties_of(used: &CoreUse) -> CoreParties {
    used.parties.clone().unwrap_or_else(|| CoreParties {
        cores: used.cores,
        services: used.percent,
        idle: (100.0 * used.cores as f64 - used.percent).max(0.0),
        ..CoreParties::default()
    })
}

/// Returns the element with the median usage.
fn middle(mut all: Vec<CoreParties>) -> Option<CoreParties> {
    all.sort_by(|a, b| a.used_share().total_cmp(&b.used_share()));
    let middle = all.len() / 2;
    (!all.is_empty()).then(|| all.swap_remove(middle))
}

/// Returns the generator as the limit, if at least half of the trials have a finding about the
/// generator's limit.
fn generator(records: &[&Record]) -> Option<Limit> {
    let saturated = |record: &&&Record| {
        let findings = record.findings.iter();
        let mut limits = findings.filter_map(|finding| finding.id.known());
        limits.any(FindingId::is_generator_limit)
    };
    let count = records.iter().filter(saturated).count();
    if records.is_empty() || 2 * count < records.len() {
        return None;
    }
    let throttling = records
        .iter()
        .filter_map(|record| record.generator.throttling);
    let throttling = throttling.filter(|it| it.throttled_periods > 0);
    let cause = match throttling.reduce(Throttling::worse) {
        Some(worst) => GeneratorLimit::Throttled(worst),
        None => GeneratorLimit::Busy {
            share: median(records.iter().map(|record| record.generator.busy_share))?,
        },
    };
    Some(Limit::Generator {
        limited: count,
        trials: records.len(),
        cause,
    })
}

/// Returns the CPU quota of a service as the limit, if the service was stopped in at least half of
/// the quota's periods.
fn quota(trials: &[&TrialResult]) -> Option<Limit> {
    let mut services = trials
        .iter()
        .flat_map(|trial| trial.telemetry.services.keys());
    services.find_map(|service| {
        let of_trial = |trial: &&TrialResult| trial.telemetry.services.get(service)?.throttling;
        let throttling: Vec<Throttling> = trials.iter().filter_map(of_trial).collect();
        let usual = median(throttling.iter().map(Throttling::share))?;
        let sum = throttling.into_iter().reduce(Throttling::and)?;
        (usual >= THROTTLED_SHARE).then(|| Limit::Quota {
            service: service.clone(),
            throttling: sum,
        })
    })
}

/// Returns the schedule of an open loop as the limit, if the load kept up with its schedule.
fn schedule(records: &[&Record]) -> Option<Limit> {
    let kept = |record: &&Record| Some(record.rate.ok_per_s / record.rate.offered_per_s?);
    let kept = median(records.iter().filter_map(kept));
    let kept = kept.filter(|&share| share >= SCHEDULE_KEPT_SHARE)?;
    let offered = median(records.iter().filter_map(|r| r.rate.offered_per_s))?;
    Some(Limit::Schedule {
        kept_share: kept.min(1.0),
        offered_per_s: offered,
    })
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    let upper = *values.get(values.len() / 2)?;
    Some(match values.len() % 2 {
        1 => upper,
        _ => f64::midpoint(upper, values[values.len() / 2 - 1]),
    })
}
