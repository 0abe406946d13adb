//! The bottleneck of a variant, as far as telemetry shows it: full cores, the generator, a full
//! link, or the schedule of an open loop. If none of these was the bottleneck, requests waited for
//! something else.

use prony_record::{FindingId, Record, Throttling};
use prony_stats::{Bottleneck, BottleneckKind, Metric};

use crate::runner::TrialResult;
use crate::runner::resource_use::{CoreParties, CoreUse, ResourceUse};

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
    let (kind, text) = of(trials);
    Bottleneck {
        name: name.to_owned(),
        kind,
        text: format!("{name}: {text}"),
    }
}

fn of(trials: &[&TrialResult]) -> (BottleneckKind, String) {
    let records: Vec<&Record> = trials.iter().filter_map(|t| t.record.as_ref()).collect();
    if let Some(text) = generator(&records) {
        return (BottleneckKind::Generator, text);
    }
    if let Some(text) = schedule(&records) {
        return (BottleneckKind::Schedule, text);
    }
    if let Some(text) = quota(trials) {
        return (BottleneckKind::ServerCores, text);
    }
    let shares = trials.iter().filter_map(|t| t.resources.link_share);
    if let Some(share) = median(shares).filter(|&share| share >= FULL_SHARE) {
        let text = format!("a link was full ({:.0}% of its rate).", share * 100.0);
        return (BottleneckKind::Link, text);
    }
    let is_watched = trials.iter().any(|t| t.telemetry.services_cores > 0);
    let machines: Vec<CoreParties> = trials.iter().filter_map(|t| machine(t)).collect();
    let (Some(machine), true) = (middle(machines), is_watched) else {
        let text = "prony did not start the server, so it has no telemetry of the server.";
        return (BottleneckKind::Unknown, text.to_owned());
    };
    let groups = groups(trials);
    let mut full = groups.iter().map(|(who, parties)| (who.as_str(), parties));
    if let Some((who, parties)) = full.find(|(_, parties)| parties.used_share() >= FULL_SHARE) {
        let were = if parties.cores == 1 { "was" } else { "were" };
        let text = format!("{} {were} full: {}.", cores(parties), used_by(who, parties));
        return (bottleneck_of_full_cores(parties), text);
    }
    if machine.used_share() >= FULL_SHARE {
        let text = format!(
            "{} were full: {}.",
            cores(&machine),
            used_by("services", &machine)
        );
        return (bottleneck_of_full_cores(&machine), text);
    }
    nothing_full(&groups, &machine, trials)
}

/// Classifies fully used cores. The services are the bottleneck, unless other processes used part
/// of the CPU time.
fn bottleneck_of_full_cores(parties: &CoreParties) -> BottleneckKind {
    match parties.lost_percent() < NEIGHBORS_PERCENT {
        true => BottleneckKind::ServerCores,
        false => BottleneckKind::Machine,
    }
}

/// Returns the bottleneck for the case that no core was saturated: either other processes kept
/// the services off the CPU, or requests waited for something that telemetry doesn't cover.
fn nothing_full(
    groups: &[(String, CoreParties)],
    machine: &CoreParties,
    trials: &[&TrialResult],
) -> (BottleneckKind, String) {
    let own = match groups {
        [] => vec![("services", machine)],
        groups => groups.iter().map(|(who, it)| (who.as_str(), it)).collect(),
    };
    let used: Vec<String> = own
        .iter()
        .map(|(who, parties)| format!("{}: {}", cores(parties), used_by(who, parties)))
        .collect();
    let used = used.join("; ");
    let mut crowded = own.iter().map(|(_, parties)| *parties);
    if let Some(parties) = crowded.find(|parties| parties.lost_percent() >= CROWDED_PERCENT) {
        let text = format!(
            "{} on the same cores ({used}), so the services may have waited for a core. No other \
                measured resource was at its limit; a run on a quiet machine would tell more.",
            neighbors_used(parties)
        );
        return (BottleneckKind::Machine, text);
    }
    let disk = if writes_to_disk(trials) {
        "a disk, "
    } else {
        ""
    };
    if has_delayed_acks(trials) {
        let text = format!(
            "no measured resource was at its limit ({used}). Responses waited for delayed \
             acknowledgments (delayed-acks)."
        );
        return (BottleneckKind::Waiting, text);
    }
    let text = match machine.lost_percent() >= CROWDED_PERCENT {
        true => format!(
            "no measured resource was at its limit ({used}), but {} of this machine. All \
                processes share its memory and caches; a run on a quiet machine would tell more.",
            neighbors_used(machine)
        ),
        false => format!(
            "no measured resource was at its limit ({used}). Requests waited for something else (a \
             lock, {disk}a backend, a single busy thread), or there were too few connections."
        ),
    };
    (BottleneckKind::Waiting, text)
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
fn groups(trials: &[&TrialResult]) -> Vec<(String, CoreParties)> {
    let Some(first) = trials.iter().find(|t| !t.resources.tied.is_empty()) else {
        return Vec::new();
    };
    let group = |(place, like): (usize, &CoreUse)| {
        let all = trials.iter().filter_map(|t| t.resources.tied.get(place));
        let parties = middle(all.map(parties_of).collect())?;
        Some((like.services.join(", "), parties))
    };
    let groups = first.resources.tied.iter().enumerate();
    let mut all: Vec<_> = groups.filter_map(group).collect();
    all.sort_by(|(_, a), (_, b)| b.used_share().total_cmp(&a.used_share()));
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

/// Describes a set of cores: "core 0", "cores 0, 1 (200%)", "all 2 cores (200%)".
fn cores(parties: &CoreParties) -> String {
    let numbers: Vec<String> = parties.numbers.iter().map(usize::to_string).collect();
    let all = parties.cores * 100;
    match (numbers.as_slice(), parties.cores) {
        ([], 1) => "one core".to_owned(),
        ([], cores) => format!("all {cores} cores ({all}%)"),
        ([one], _) => format!("core {one}"),
        (several, _) => format!("cores {} ({all}%)", several.join(", ")),
    }
}

/// Describes the usage by party: "web 40%, the load 17%, other processes 41% (mostly yes, process
/// 123), idle 2%". The numbers are whole percents of one core and add up to 100 per core.
fn used_by(who: &str, parties: &CoreParties) -> String {
    let mostly = match parties.neighbors.first() {
        Some(busiest) => format!(" (mostly {}, process {})", busiest.name, busiest.pid),
        None => String::new(),
    };
    let parts = [
        (who, parties.services, ""),
        ("the load", parties.load, ""),
        ("interrupts", parties.interrupts, ""),
        ("other processes", parties.others, mostly.as_str()),
        ("other guests", parties.stolen, ""),
        ("idle", parties.idle, ""),
    ];
    let whole = whole_percents(parts.map(|(_, percent, _)| percent), parties.cores * 100);
    let shown = parts.iter().zip(whole).enumerate();
    let shown = shown.filter(|(index, (_, percent))| *index == 0 || *percent > 0);
    let texts = shown.map(|(_, ((who, _, more), percent))| format!("{who} {percent}%{more}"));
    texts.collect::<Vec<_>>().join(", ")
}

/// Rounds numbers so that they add up to `sum`. All are rounded down first, and then those with the
/// largest remainders are rounded up.
fn whole_percents<const N: usize>(parts: [f64; N], sum: usize) -> [usize; N] {
    let mut whole = parts.map(|part| part.max(0.0).floor() as usize);
    let mut order: Vec<usize> = (0..N).collect();
    order.sort_by(|&a, &b| parts[b].fract().total_cmp(&parts[a].fract()));
    let missing = sum.saturating_sub(whole.iter().sum());
    for &index in order.iter().take(missing) {
        whole[index] += 1;
    }
    whole
}

/// Describes the CPU time of other processes and guests: "other processes used 117% of a core
/// (mostly yes, process 123) and other guests 3%".
fn neighbors_used(parties: &CoreParties) -> String {
    let mostly = match parties.neighbors.first() {
        Some(busiest) => format!(" (mostly {}, process {})", busiest.name, busiest.pid),
        None => String::new(),
    };
    let guests = match parties.stolen >= 0.5 {
        true => format!(" and other guests {:.0}%", parties.stolen),
        false => String::new(),
    };
    format!(
        "other processes used {:.0}% of a core{mostly}{guests}",
        parties.others
    )
}

/// Describes the generator as the limit, if at least half of the trials have a finding about the
/// generator's limit.
fn generator(records: &[&Record]) -> Option<String> {
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
    if let Some(worst) = throttling.reduce(Throttling::worse) {
        return Some(format!(
            "the load generator was at its limit in {count} of {} trials (in one of them, it was {}).",
            records.len(),
            worst.text()
        ));
    }
    let busy = median(records.iter().map(|record| record.generator.busy_share))?;
    Some(format!(
        "the load generator was at its limit in {count} of {} trials (its busiest worker was busy for \
         {:.0}% of the time).",
        records.len(),
        busy * 100.0
    ))
}

/// Describes the CPU quota of a service as the limit, if the service was stopped in at least half of
/// the quota's periods.
fn quota(trials: &[&TrialResult]) -> Option<String> {
    let mut services = trials
        .iter()
        .flat_map(|trial| trial.telemetry.services.keys());
    services.find_map(|service| {
        let of_trial = |trial: &&TrialResult| trial.telemetry.services.get(service)?.throttling;
        let throttling: Vec<Throttling> = trials.iter().filter_map(of_trial).collect();
        let usual = median(throttling.iter().map(Throttling::share))?;
        let sum = throttling.into_iter().reduce(Throttling::and)?;
        (usual >= THROTTLED_SHARE).then(|| format!("service {service} was {}.", sum.text()))
    })
}

/// Describes the schedule of an open loop as the limit, if the load kept up with its schedule.
fn schedule(records: &[&Record]) -> Option<String> {
    let kept = |record: &&Record| Some(record.rate.ok_per_s / record.rate.offered_per_s?);
    let kept = median(records.iter().filter_map(kept));
    let kept = kept.filter(|&share| share >= SCHEDULE_KEPT_SHARE)?;
    let offered = median(records.iter().filter_map(|r| r.rate.offered_per_s))?;
    Some(format!(
        "the schedule set the rate: {:.1}% of {offered:.0} requests per second succeeded.",
        kept.min(1.0) * 100.0
    ))
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
