//! One record out of all agents' parts.

use std::collections::BTreeMap;

use prony_load::{Arrivals, End, Schedule, Share};
use prony_record::{
    Delta, Finding, FleetAgent, FleetUse, Generator, Nanos, Negotiated, Outcome, Record, Severity,
};

use super::gathering::{Gathering, Lost, Part};
use super::sums;
use crate::clock::Offset;
use crate::division::Stretch;
use crate::messages::{Because, Manifest, PartEnd};
use crate::names::AgentName;

/// The record of a run: counts and histograms are the sums of what the agents sent, to the last bucket.
/// `after` is each agent's clock after the load, where it was compared again.
pub(super) fn record(
    manifest: &Manifest,
    gathering: &Gathering,
    after: &BTreeMap<AgentName, Offset>,
) -> Record {
    let mut all = gathering.ledger.total();
    let under_way = settle(&mut all, gathering);
    let ends = || {
        gathering
            .parts
            .values()
            .filter_map(|part| part.end.as_ref())
    };
    let offered = manifest.load.rate_per_s.map(|_| {
        let offered: u64 = ends().filter_map(|end| end.offered).sum();
        // Of those that are lost only what was begun is known.
        let begun = gathering
            .parts
            .iter()
            .filter(|(_, part)| part.end.is_none());
        let begun = begun.filter_map(|(name, _)| gathering.ledger.agent(name.as_str()));
        offered + begun.map(|delta| delta.started).sum::<u64>()
    });
    let span = span(gathering, &all);
    let mut record = Record::build(manifest.load.clone(), &all, span, offered);
    let began = ends().map(|end| end.started_at.as_str()).min();
    record.started_at = began.unwrap_or(&manifest.made_at).to_owned();
    record.seed = manifest.seed;
    combine(&mut record.generator, ends().map(|end| &end.generator));
    record.negotiated = ends()
        .map(|end| &end.negotiated)
        .find(|it| **it != Negotiated::default())
        .cloned()
        .unwrap_or_default();
    record.sources = sums::sources(ends().filter_map(|end| end.sources.as_ref()));
    let fleet = fleet(manifest, gathering);
    record.findings = findings(manifest, gathering, under_way, after);
    record.fleet = Some(fleet);
    record
}

/// Counts what was under way at agents that are lost as unfinished, and says how many those are at each:
/// what has begun is accounted for, always.
fn settle(all: &mut Delta, gathering: &Gathering) -> BTreeMap<AgentName, u64> {
    let mut under_way = BTreeMap::new();
    for name in gathering
        .parts
        .keys()
        .filter(|name| !gathering.agrees(name))
    {
        let Some(delta) = gathering.ledger.agent(name.as_str()) else {
            continue;
        };
        let count = delta.in_flight();
        all.outcomes.add_many(Outcome::Unfinished, count);
        under_way.insert(name.clone(), count);
    }
    under_way
}

/// The measured part, from the first agent's begin to the last one's end.
fn span(gathering: &Gathering, all: &Delta) -> (Nanos, Nanos) {
    let told = |part: &Part| {
        let (begin, end) = part.end.as_ref()?.span;
        // One that was stopped before it has none.
        (begin < end).then_some((Nanos(begin), Nanos(end)))
    };
    let spans = gathering.parts.values().filter_map(told).chain(all.span);
    spans
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        .unwrap_or((Nanos::ZERO, Nanos::ZERO))
}

/// What the load cost all machines: CPU and memory added up, shares those of the worker with most.
fn combine<'a>(generator: &mut Generator, parts: impl Iterator<Item = &'a Generator>) {
    for part in parts {
        generator.cpu_user_s += part.cpu_user_s;
        generator.cpu_system_s += part.cpu_system_s;
        generator.max_rss_bytes = generator.max_rss_bytes.saturating_add(part.max_rss_bytes);
        generator.busy_share = generator.busy_share.max(part.busy_share);
        generator.awake_share = generator.awake_share.max(part.awake_share);
        generator.queue_share = generator.queue_share.max(part.queue_share);
        generator.starved_share = generator.starved_share.max(part.starved_share);
    }
}

fn fleet(manifest: &Manifest, gathering: &Gathering) -> FleetUse {
    let us = |ns: f64| ns.round() / 1e3;
    let mut agents = Vec::new();
    for (name, part) in &manifest.parts {
        let gathered = gathering.parts.get(name);
        let end = gathered.and_then(|it| it.end.as_ref());
        let delta = gathering.ledger.agent(name.as_str());
        let count = |of: fn(&Delta) -> u64| delta.map_or(0, of);
        agents.push(FleetAgent {
            name: name.to_string(),
            system: part.system.clone(),
            workers: part.stretch.workers,
            connections: part.stretch.part(manifest.load.connections.into()),
            started: count(|it| it.started.saturating_sub(it.unmeasured)),
            ok: count(|it| it.outcomes.get(Outcome::Ok)),
            failed: count(|it| it.outcomes.failed()),
            clock_offset_us: part.clock.map(|clock| us(clock.ns as f64)),
            clock_bound_us: part.clock.map(|clock| us(clock.bound_ns as f64)),
            first_start_us: first_start(manifest, part, end).map(us),
            ended_because: match (end, gathered.and_then(|it| it.lost)) {
                (Some(end), None) => because(end.because),
                _ => "lost",
            }
            .to_owned(),
        });
    }
    let starts = || agents.iter().filter_map(|agent| agent.first_start_us);
    let (least, most) = (starts().reduce(f64::min), starts().reduce(f64::max));
    let bounds = agents.iter().filter_map(|agent| agent.clock_bound_us);
    FleetUse {
        run: manifest.run.to_string(),
        start_skew_us: match (least, most, starts().count()) {
            (Some(least), Some(most), 2..) => Some(us((most - least) * 1e3)),
            _ => None,
        },
        clock_bound_us: bounds.fold(0.0, f64::max),
        agents,
    }
}

/// When an agent's first request began after it was due, on the coordinator's clock, in nanoseconds.
fn first_start(
    manifest: &Manifest,
    part: &crate::messages::Part,
    end: Option<&PartEnd>,
) -> Option<f64> {
    let (_, first) = end?.began?;
    let (start, clock) = (manifest.start?, part.clock?);
    let due = start.saturating_add(first_due(manifest, part.stretch));
    Some(clock.here(first).saturating_sub(due) as f64)
}

/// When the first of an agent's requests is due, since the load's start, in nanoseconds: at once in a
/// closed loop, by the schedule in an open one.
fn first_due(manifest: &Manifest, stretch: Stretch) -> i64 {
    let Some(rate_per_s) = manifest.load.rate_per_s else {
        return 0;
    };
    let arrivals = match manifest.load.arrivals.as_deref() {
        Some("poisson") => Arrivals::Poisson,
        _ => Arrivals::Constant,
    };
    // Of its workers the first has the first arrival.
    let share = Share {
        worker: stretch.first.into(),
        of: stretch.of.into(),
    };
    let endless = End {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: Nanos(u64::MAX),
    };
    let schedule = Schedule::new(arrivals, rate_per_s, manifest.seed, share, endless);
    let due = schedule.peek().unwrap_or_default();
    i64::try_from(due.0).unwrap_or(i64::MAX)
}

fn because(because: Because) -> &'static str {
    match because {
        Because::Done => "done",
        Because::Stopped => "stopped",
        Because::LeaseEnded => "lease-ended",
        Because::Failed => "failed",
    }
}

/// What qualifies the figures: what is not whole, then what agents say.
fn findings(
    manifest: &Manifest,
    gathering: &Gathering,
    under_way: BTreeMap<AgentName, u64>,
    after: &BTreeMap<AgentName, Offset>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    findings.extend(without_coordinator(gathering));
    for (name, part) in &gathering.parts {
        findings.extend(agent_lost(
            name,
            part,
            gathering,
            under_way.get(name).copied(),
        ));
    }
    findings.extend(partial(gathering));
    let doubtful = manifest.parts.iter().filter_map(|(name, part)| {
        let disagreement = part.clock?.disagreement_ns(after.get(name)?);
        (disagreement > 0).then(|| clock_doubtful(name, disagreement))
    });
    findings.extend(doubtful);
    findings.extend(negotiation_differs(gathering));
    let told = gathering.parts.iter().filter_map(|(name, part)| {
        let end = part.end.as_ref()?;
        Some((name.as_str(), end.findings.as_slice()))
    });
    findings.extend(sums::findings(told, gathering.parts.len()));
    findings
}

/// Who ended its part because nobody renewed its lease.
fn without_coordinator(gathering: &Gathering) -> Option<Finding> {
    let is_so = |part: &Part| {
        let because = part.end.as_ref().map(|end| end.because);
        part.lost.is_none() && because == Some(Because::LeaseEnded)
    };
    let parts = gathering.parts.iter().filter(|(_, part)| is_so(part));
    let names: Vec<&str> = parts.map(|(name, _)| name.as_str()).collect();
    let names = match names.len() {
        0 => return None,
        all if all == gathering.parts.len() && all > 1 => format!("All {all} agents"),
        1 => format!("Agent {}", names[0]),
        _ => format!("Agents {}", names.join(", ")),
    };
    Some(Finding::new(
        "agent-lost",
        Severity::Error,
        format!(
            "{names} heard nothing of the coordinator for as long as the lease and stopped the load; \
             what was measured until then is counted."
        ),
    ))
}

fn agent_lost(
    name: &AgentName,
    part: &Part,
    gathering: &Gathering,
    under_way: Option<u64>,
) -> Option<Finding> {
    let why = part.lost?;
    let until = gathering.ledger.agent(name.as_str()).and_then(|it| it.span);
    let until = match until {
        Some((_, end)) => format!(
            "What it measured until {:.1} s is counted",
            end.as_secs_f64()
        ),
        None => "Nothing that it measured has come".to_owned(),
    };
    let missing = match gathering.ledger.missing(name.as_str()) {
        0 => String::new(),
        1 => ", but for 1 message that is missing in between".to_owned(),
        n => format!(", but for {n} messages that are missing in between"),
    };
    let unfinished = match under_way.unwrap_or(0) {
        0 => String::new(),
        n => format!("; {n} requests under way then count as unfinished, without a time"),
    };
    let keeps = match part.lost {
        Some(Lost::Restarted | Lost::Silent | Lost::Missing | Lost::ServerAway) => {
            " Its own file may hold more: `prony fleet collect` brings that in when it is back."
        }
        _ => "",
    };
    Some(Finding::new(
        "agent-lost",
        Severity::Error,
        format!("Agent {name} {why}. {until}{missing}{unfinished}.{keeps}"),
    ))
}

fn partial(gathering: &Gathering) -> Option<Finding> {
    let is_part = |part: &Part, name: &AgentName| {
        let because = part.end.as_ref().map(|end| end.because);
        part.lost.is_some()
            || !gathering.agrees(name)
            || matches!(because, Some(Because::LeaseEnded | Because::Failed))
    };
    let parts = gathering.parts.iter();
    let lacking: Vec<&str> = parts
        .filter(|(name, part)| is_part(part, name))
        .map(|(name, _)| name.as_str())
        .collect();
    let refused: u64 = gathering.parts.values().map(|part| part.refused).sum();
    if lacking.is_empty() && refused == 0 {
        return None;
    }
    let mut text = format!(
        "The parts of {} of {} agents are not whole",
        lacking.len(),
        gathering.parts.len()
    );
    if !lacking.is_empty() {
        text += &format!(" ({})", lacking.join(", "));
    }
    if refused > 0 {
        text += &format!("; {refused} messages could not be counted");
    }
    text += ". The load was lighter than asked for, and the figures are of what was measured.";
    Some(Finding::new("partial", Severity::Error, text))
}

fn clock_doubtful(name: &AgentName, disagreement_ns: u64) -> Finding {
    Finding::new(
        "clock-doubtful",
        Severity::Warning,
        format!(
            "Agent {name}: its clock after the load differs from before by {:.3} ms more than drift \
             and both errors explain. It was set, or its machine slept: when its part began, and the \
             skew of the start, are doubtful.",
            disagreement_ns as f64 / 1e6
        ),
    )
}

/// What one agent agreed on with the server and another did not.
fn negotiation_differs(gathering: &Gathering) -> Option<Finding> {
    let mut seen: Vec<(&Negotiated, &AgentName)> = Vec::new();
    for (name, part) in &gathering.parts {
        let Some(end) = part.end.as_ref() else {
            continue;
        };
        let negotiated = &end.negotiated;
        // A resumed session tells no group; it is not another agreement.
        let alike = |other: &Negotiated| {
            (&other.http, &other.tls, &other.cipher, &other.alpn)
                == (
                    &negotiated.http,
                    &negotiated.tls,
                    &negotiated.cipher,
                    &negotiated.alpn,
                )
        };
        if *negotiated != Negotiated::default() && !seen.iter().any(|(other, _)| alike(other)) {
            seen.push((negotiated, name));
        }
    }
    if seen.len() < 2 {
        return None;
    }
    let each = seen.iter().map(|(negotiated, name)| {
        let parts = [&negotiated.http, &negotiated.tls, &negotiated.cipher];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        format!("{name}: {}", parts.join(" "))
    });
    let each: Vec<String> = each.collect();
    Some(Finding::new(
        "negotiation-differs",
        Severity::Warning,
        format!(
            "Not all agents agreed on the same with the server ({}): their requests did not cost the \
             same. Name what is to be spoken with --http, --tls-min, --tls-max or --ciphers.",
            each.join("; ")
        ),
    ))
}
