//! Combines all agents' results into one record.

use std::collections::BTreeMap;

use prony_experiment::abort;
use prony_record::finding::LossReason;
use prony_record::{
    Delta, DeltaTotals, FleetAgent, FleetUse, Generator, Nanos, Negotiated, Outcome, Record,
    Throttling,
};

use super::clock_recheck::ClockRecheck;
use super::collector::{ReceivedPart, ResultCollector};
use super::start_times::first_start;
use super::{findings, schedule, summary};
use crate::names::AgentName;
use crate::wire::{EndReason, PartEnd, RunManifest};

/// Builds the record of a run. Its counts and histograms are exact sums of the agents' results.
pub(super) fn build(
    manifest: &RunManifest,
    collector: &ResultCollector,
    after: &ClockRecheck,
) -> Record {
    let mut all = collector.ledger.total();
    let in_flight = count_unfinished(&mut all, collector);
    let ends = || {
        collector
            .parts
            .values()
            .filter_map(|part| part.end.as_ref())
    };
    let span = span(collector, &all);
    let offered = schedule::offered(manifest, collector, span);
    let mut record = Record::build(manifest.load.clone(), &all, span, offered);
    record.keep_entry_histograms(&all.entries);
    let began = ends().map(|end| end.started_at.as_str());
    let began = began.filter(|began| !began.is_empty()).min();
    record.started_at = began.unwrap_or(&manifest.made_at).to_owned();
    record.seed = manifest.seed;
    combine(&mut record.generator, ends().map(|end| &end.generator));
    record.negotiated = ends()
        .map(|end| &end.negotiated)
        .find(|it| **it != Negotiated::default())
        .cloned()
        .unwrap_or_default();
    record.quic = ends()
        .filter_map(|end| end.quic.clone())
        .reduce(|mut sum, quic| {
            sum.merge(&quic);
            sum
        });
    record.sources = summary::sources(ends().filter_map(|end| end.sources.as_ref()));
    for idle in ends().filter_map(|end| end.idle.as_ref()) {
        record.idle.get_or_insert_default().merge(idle);
    }
    for used in ends().filter_map(|end| end.websocket.as_ref()) {
        record.websocket.get_or_insert_default().merge(used);
    }
    record.addresses = summary::sources(ends().filter_map(|end| end.addresses.as_ref()));
    let fleet = fleet(manifest, collector);
    record.findings = findings::all_findings(manifest, collector, in_flight, after);
    record.fleet = Some(fleet);
    abort::note(manifest.aborted.clone(), &mut record);
    record
}

/// Counts requests in flight at lost agents as unfinished, so that every started request has an
/// outcome. Returns their number for each agent.
fn count_unfinished(all: &mut Delta, collector: &ResultCollector) -> BTreeMap<AgentName, u64> {
    let mut in_flight = BTreeMap::new();
    for name in collector
        .parts
        .keys()
        .filter(|name| !collector.agrees(name))
    {
        let Some(delta) = collector.ledger.agent(name.as_str()) else {
            continue;
        };
        let count = delta.in_flight();
        all.outcomes.add_many(Outcome::Unfinished, count);
        in_flight.insert(name.clone(), count);
    }
    if !in_flight.is_empty() {
        // Only lost agents have requests in flight, and these were just counted.
        all.entries.end_in_flight();
        all.journeys.end_under_way();
    }
    in_flight
}

/// Returns the measured part: from the earliest start of an agent's measured part to the latest
/// end.
fn span(collector: &ResultCollector, all: &Delta) -> (Nanos, Nanos) {
    let reported = |part: &ReceivedPart| {
        let (begin, end) = part.end.as_ref()?.span;
        // If a part was stopped during its warm-up, it has no measured part.
        (begin < end).then_some((Nanos(begin), Nanos(end)))
    };
    let spans = collector
        .parts
        .values()
        .filter_map(reported)
        .chain(all.span);
    spans
        .reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))
        .unwrap_or((Nanos::ZERO, Nanos::ZERO))
}

/// Combines the data about the agents' generators: adds up CPU time and memory, and keeps the
/// largest value of each worker share, such as the busy share.
fn combine<'a>(generator: &mut Generator, parts: impl Iterator<Item = &'a Generator>) {
    for part in parts {
        generator.cpu_user_s += part.cpu_user_s;
        generator.cpu_system_s += part.cpu_system_s;
        generator.max_rss_bytes = generator.max_rss_bytes.saturating_add(part.max_rss_bytes);
        match (&mut generator.xdp, &part.xdp) {
            (Some(sum), Some(xdp)) => sum.merge(xdp),
            (own, Some(xdp)) => *own = Some(xdp.clone()),
            (_, None) => {}
        }
        generator.busy_share = generator.busy_share.max(part.busy_share);
        generator.awake_share = generator.awake_share.max(part.awake_share);
        generator.queue_share = generator.queue_share.max(part.queue_share);
        generator.starved_share = generator.starved_share.max(part.starved_share);
        generator.stalls = match (generator.stalls, part.stalls) {
            (Some(one), Some(other)) => Some(one.longer(other)),
            (one, other) => one.or(other),
        };
        let throttling = generator.throttling.into_iter().chain(part.throttling);
        generator.throttling = throttling.reduce(Throttling::worse);
    }
}

fn fleet(manifest: &RunManifest, collector: &ResultCollector) -> FleetUse {
    let us = |ns: f64| ns.round() / 1e3;
    let mut agents = Vec::new();
    for (name, part) in &manifest.parts {
        let gathered = collector.parts.get(name);
        let end = gathered.and_then(|it| it.end.as_ref());
        let delta = collector.ledger.agent(name.as_str());
        let count = |of: fn(&DeltaTotals) -> u64| delta.map_or(0, of);
        let speed = delta.map_or_else(AgentSpeed::default, |delta| AgentSpeed::of(delta, end));
        agents.push(FleetAgent {
            ok_per_s: speed.ok_per_s,
            p99_us: speed.p99_us,
            p99_at_least: speed.p99_at_least,
            cpu_percent: speed.cpu_percent,
            start_skew_us: None,
            name: name.to_string(),
            system: part.system.clone(),
            workers: part.shard.workers,
            connections: part.shard.part(manifest.load.connections.into()),
            started: count(|it| it.started.saturating_sub(it.unmeasured)),
            ok: count(|it| it.outcomes.get(Outcome::Ok)),
            failed: count(|it| it.outcomes.failed()),
            clock_offset_us: part.clock.map(|clock| us(clock.ns as f64)),
            clock_bound_us: part.clock.map(|clock| us(clock.bound_ns as f64)),
            first_start_us: first_start(manifest, part, end).map(|ns| us(ns as f64)),
            ended_because: match (end, gathered.and_then(|it| it.lost)) {
                (Some(end), None) => end.reason.as_str(),
                (None, Some(LossReason::LeftBehind)) => EndReason::Stopped.as_str(),
                _ => "lost",
            }
            .to_owned(),
        });
    }
    let start_times = || agents.iter().filter_map(|agent| agent.first_start_us);
    let (least, most) = (
        start_times().reduce(f64::min),
        start_times().reduce(f64::max),
    );
    let begun = start_times().count();
    for agent in &mut agents {
        let skew = agent.first_start_us.zip(least);
        agent.start_skew_us = skew.map(|(first, least)| us((first - least) * 1e3));
    }
    let bounds = agents.iter().filter_map(|agent| agent.clock_bound_us);
    FleetUse {
        run: manifest.run.to_string(),
        start_skew_us: match (least, most, begun) {
            (Some(least), Some(most), 2..) => Some(us((most - least) * 1e3)),
            _ => None,
        },
        clock_bound_us: bounds.fold(0.0, f64::max),
        agents,
    }
}

/// Request rate, 99th percentile and CPU use of one agent's share of the load.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct AgentSpeed {
    ok_per_s: Option<f64>,
    p99_us: Option<f64>,
    p99_at_least: bool,
    cpu_percent: Option<f64>,
}

impl AgentSpeed {
    fn of(counted: &DeltaTotals, end: Option<&PartEnd>) -> AgentSpeed {
        let reported = end.map(|end| (Nanos(end.span.0), Nanos(end.span.1)));
        let reported = reported.filter(|(begin, end)| begin < end);
        let measured_s = reported
            .or(counted.span)
            .map(|(begin, end)| end.since(begin).as_secs_f64())
            .filter(|measured_s| *measured_s > 0.0);
        let cpu_s = end.map(|end| end.generator.cpu_user_s + end.generator.cpu_system_s);
        let tenths = |value: f64| (value * 10.0).round() / 10.0;
        let ok = counted.outcomes.get(Outcome::Ok) as f64;
        let times = end.and_then(|end| end.response_time_us.as_ref());
        let times = times.filter(|times| times.p99 > 0.0);
        AgentSpeed {
            ok_per_s: measured_s.map(|measured_s| tenths(ok / measured_s)),
            p99_us: times.map(|times| times.p99),
            p99_at_least: times.is_some_and(|it| it.at_least.iter().any(|name| name == "p99")),
            cpu_percent: cpu_s
                .zip(measured_s)
                .map(|(cpu_s, measured_s)| tenths(100.0 * cpu_s / measured_s)),
        }
    }
}
