//! What set a variant's speed, as far as it was watched: full cores, the generator, a full link, the
//! schedule of an open loop; or none of them, when requests waited for something else.

use prony_record::Record;
use prony_stats::{Limit, LimitKind};
use serde::{Deserialize, Serialize};

use crate::plan::Resolved;
use crate::runner::TrialResult;
use crate::runner::links::{self, Crossing};
use crate::telemetry::Summary;

/// Cores, or a link, that are used to this share have nothing left: the rest is what switching and
/// the kernel's ticks make of a full one.
const FULL: f64 = 0.9;
/// Strangers that use more than this, percent of one core, share in what a full machine does.
const STRANGERS_PERCENT: f64 = 5.0;
/// An open loop that answered this share of its schedule was limited by nothing else.
const KEPT: f64 = 0.99;

/// Cores that the same services may use, and how much of them was used.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreUse {
    /// The services.
    pub services: Vec<String>,
    /// How many cores; 0 where they may use all.
    pub cores: usize,
    /// CPU of these services, percent of one core; with that of the load, where it may use one of
    /// these cores too.
    pub percent: f64,
    /// Whether the load may use them too.
    pub with_load: bool,
}

/// What else a trial was watched for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// The cores of services that are tied to some; services that share any count together.
    pub tied: Vec<CoreUse>,
    /// Cores of the machine.
    pub machine_cores: usize,
    /// CPU of the machine that nobody used, percent of one core.
    pub idle_percent: f64,
    /// How much of its link's rate the fuller direction carried, as a share; none without a link
    /// that is limited.
    #[serde(default)]
    pub link_share: Option<f64>,
}

/// A core with its machine's name: those of different machines have the same numbers.
type CoreOf<'a> = (Option<&'a str>, usize);

/// Reads the capacity that a trial had out of its telemetry.
pub(crate) fn capacity(summary: &Summary, resolved: &Resolved) -> Capacity {
    let load_cores = resolved.load.flags.cores.as_ref();
    let load_is_here = resolved.load.agents.is_none();
    let load_percent = percent(summary.host.generator_cpu_s, summary.elapsed_s);
    let mut groups: Vec<(Vec<CoreOf<'_>>, CoreUse)> = Vec::new();
    for service in &resolved.services {
        let spec = &service.spec;
        let Some(seen) = summary.services.get(&spec.name) else {
            continue;
        };
        if spec.cores.is_empty() {
            continue;
        }
        let host = seen.host.as_deref();
        let own: Vec<_> = spec.cores.iter().map(|&core| (host, core)).collect();
        let mut cores = own.clone();
        let mut used = CoreUse {
            services: vec![spec.name.clone()],
            percent: seen.cpu_user_percent + seen.cpu_system_percent,
            ..CoreUse::default()
        };
        // What shares any core is one group: who is short of it can't be told from the sums.
        let touches = |of: &[_]| of.iter().any(|core| own.contains(core));
        let (joined, apart) = groups.into_iter().partition(|(of, _)| touches(of));
        groups = apart;
        for (of, other) in Vec::from_iter::<Vec<(Vec<_>, CoreUse)>>(joined) {
            cores.extend(of);
            used.percent += other.percent;
            used.services.splice(0..0, other.services);
        }
        cores.sort_unstable();
        cores.dedup();
        groups.push((cores, used));
    }
    let tied = groups.into_iter().map(|(cores, mut used)| {
        used.cores = cores.len();
        let is_here = load_is_here && cores.iter().any(|(host, _)| host.is_none());
        let is_loads = |core: &usize| cores.contains(&(None, *core));
        used.with_load = is_here && load_cores.is_none_or(|load| load.0.iter().any(is_loads));
        if used.with_load && load_cores.is_some() {
            used.percent += load_percent;
        }
        used
    });
    let machine = match summary.services.get(&resolved.load.service) {
        Some(_) => summary.machine_of(&resolved.load.service),
        None => &summary.host,
    };
    Capacity {
        tied: tied.collect(),
        machine_cores: machine.cores,
        idle_percent: percent(machine.cpu_idle_s, summary.elapsed_s),
        link_share: links::crossing(summary, resolved).and_then(Crossing::used_share),
    }
}

fn percent(cpu_s: f64, elapsed_s: f64) -> f64 {
    match elapsed_s > 0.0 {
        true => 100.0 * cpu_s / elapsed_s,
        false => 0.0,
    }
}

/// What limited the trials of one variant, by the median of each figure.
pub(super) fn of(name: &str, trials: &[&TrialResult]) -> Limit {
    let limit = |kind, text: String| Limit {
        name: name.to_owned(),
        kind,
        text: format!("{name}: {text}"),
    };
    let records: Vec<&Record> = trials.iter().filter_map(|t| t.record.as_ref()).collect();
    if let Some(text) = generator(&records) {
        return limit(LimitKind::Generator, text);
    }
    if let Some(text) = schedule(&records) {
        return limit(LimitKind::Schedule, text);
    }
    let shares = trials.iter().filter_map(|t| t.capacity.link_share);
    if let Some(share) = median(shares).filter(|&share| share >= FULL) {
        let text = format!("a link was full ({:.0}% of its rate).", share * 100.0);
        return limit(LimitKind::Link, text);
    }
    let watched = trials.iter().filter(|t| t.capacity.machine_cores > 0);
    let watched: Vec<&Capacity> = watched.map(|t| &t.capacity).collect();
    let is_watched = trials.iter().any(|t| t.telemetry.services_cores > 0);
    if watched.is_empty() || !is_watched {
        let text = "its server was not started here, so that nothing of it was watched.";
        return limit(LimitKind::Unknown, text.to_owned());
    }
    let tied = tied(&watched);
    if let Some((_, text)) = tied.iter().find(|(share, _)| *share >= FULL) {
        let text = format!("the cores were full: {text}.");
        return limit(LimitKind::ServerCores, text);
    }
    let machine = watched[0].machine_cores as f64;
    let idle = median(watched.iter().map(|c| c.idle_percent)).unwrap_or_default();
    let idle_share = idle / 100.0 / machine;
    let services = median(trials.iter().map(|t| t.telemetry.services_percent));
    let services = services.unwrap_or_default();
    let others = median(trials.iter().map(|t| t.telemetry.foreign_percent)).unwrap_or_default();
    if idle_share <= 1.0 - FULL {
        let kind = match tied.is_empty() && others < STRANGERS_PERCENT {
            true => LimitKind::ServerCores,
            false => LimitKind::Machine,
        };
        let text = format!(
            "all {machine} cores of the machine were full: the services used {services:.0}% of one, \
             and processes that have nothing to do with it {others:.0}%."
        );
        return limit(kind, text);
    }
    let used = match tied.is_empty() {
        true => format!("services {services:.0}% of one core, of {machine} cores"),
        false => {
            let each: Vec<&str> = tied.iter().map(|(_, text)| text.as_str()).collect();
            each.join("; ")
        }
    };
    let text = format!(
        "nothing that was watched was at its limit ({used}). Requests waited for something else: a \
         lock, a disk, a backend, a thread that is busy alone, or there were too few connections."
    );
    limit(LimitKind::Waiting, text)
}

/// The generator, where half of the trials found it at its limit.
fn generator(records: &[&Record]) -> Option<String> {
    let saturated = |record: &&&Record| {
        let mut findings = record.findings.iter();
        findings.any(|finding| finding.id == "generator-saturated")
    };
    let count = records.iter().filter(saturated).count();
    if records.is_empty() || 2 * count < records.len() {
        return None;
    }
    let busy = median(records.iter().map(|record| record.generator.busy_share))?;
    Some(format!(
        "the load generator was at its limit in {count} of {} trials (busiest worker at work for \
         {:.0}% of the time).",
        records.len(),
        busy * 100.0
    ))
}

/// The schedule of an open loop, where it was kept.
fn schedule(records: &[&Record]) -> Option<String> {
    let kept = |record: &&Record| Some(record.rate.ok_per_s / record.rate.offered_per_s?);
    let kept = median(records.iter().filter_map(kept)).filter(|&share| share >= KEPT)?;
    let offered = median(records.iter().filter_map(|r| r.rate.offered_per_s))?;
    Some(format!(
        "the schedule set the rate: of {offered:.0} requests a second {:.1}% were answered well.",
        kept.min(1.0) * 100.0
    ))
}

/// The groups of tied cores, each with the share used and a text, the fullest first.
fn tied(watched: &[&Capacity]) -> Vec<(f64, String)> {
    let Some(first) = watched.first() else {
        return Vec::new();
    };
    let group = |place: usize, like: &CoreUse| {
        let same = watched.iter().filter_map(|c| c.tied.get(place));
        let percent = median(same.map(|used| used.percent)).unwrap_or_default();
        let share = percent / 100.0 / like.cores.max(1) as f64;
        let who = like.services.join(", ");
        let load = match like.with_load {
            true => " and the load",
            false => "",
        };
        let of = match like.cores {
            1 => "its core".to_owned(),
            cores => format!("their {cores} cores"),
        };
        (share, format!("{who}{load} {:.0}% of {of}", share * 100.0))
    };
    let groups = first.tied.iter().enumerate();
    let mut all: Vec<(f64, String)> = groups.map(|(place, like)| group(place, like)).collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
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
