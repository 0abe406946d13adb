//! Checks that viewers see the results that agents sent.

use std::sync::Arc;

use prony_record::{Exchange, FindingId, MeasuredPart, Outcome, RandomSequence, Recorder};
use serde_json::json;

use super::*;
use crate::coordinator::collector::ResultCollector;
use crate::link::NatsMessage;
use crate::wire::ResultMessage;

const WARMUP: Nanos = Nanos::from_secs(1);

/// Returns the manifest of a run on two agents, of which `b` has three of the four workers.
fn manifest() -> RunManifest {
    let part = |first: u32, workers: u32| {
        json!({
            "instance": "i", "system": "Linux", "clock": null,
            "stretch": { "first": first, "workers": workers, "of": 4 },
        })
    };
    let load = LoadInfo {
        url: "http://127.0.0.1:9/".to_owned(),
        warmup_s: WARMUP.as_secs_f64(),
        rate_per_s: Some(100.0),
        ..LoadInfo::default()
    };
    let manifest = json!({
        "schema": "prony.run/1", "version": "0", "run": "r1", "made_at": "", "url": null,
        "load": load, "seed": 1, "clock_bound_ns": 1, "start": 5,
        "parts": { "a": part(0, 1), "b": part(1, 3) },
    });
    serde_json::from_value(manifest).unwrap()
}

/// Returns one delta for each of `halves` half seconds of an agent's load. Each contains a few
/// requests, which `seed` determines.
fn recorded(halves: u64, seed: u64) -> Vec<Delta> {
    let mut recorder = Recorder::new(MeasuredPart::EndedFrom(WARMUP));
    recorder.watch();
    let mut random = RandomSequence::new(seed);
    let mut all = Vec::new();
    for half in 0..halves {
        let begin = WARMUP + Nanos::from_millis(500 * half);
        for n in 1..=20 {
            let random = random.next_u64();
            let (took, is_ok) = (Nanos(random >> 38), !random.is_multiple_of(7));
            let ended = begin + Nanos::from_millis(20 * n);
            recorder.started();
            let sent = ended.since(took);
            let exchange = Exchange {
                intended: sent.since(Nanos(random >> 40)),
                sent,
                first_byte: Some(ended),
                ended,
                status: Some(if is_ok { 200 } else { 503 }),
                bytes_in: random >> 50,
                body_bytes_in: 13,
                bytes_out: 40,
                is_settling: false,
                entry: 0,
            };
            let outcome = if is_ok {
                Outcome::Ok
            } else {
                Outcome::UnexpectedStatus
            };
            recorder.ended(&exchange, outcome);
        }
        recorder.started();
        recorder.passed(begin + Nanos::from_millis(500));
        let mut delta = Box::default();
        recorder.hand_over(&mut delta);
        all.push(*delta);
    }
    all
}

fn message(manifest: &RunManifest, agent: &str, sequence: u64, delta: &Delta) -> NatsMessage {
    let agent: AgentName = agent.parse().unwrap();
    let message = ResultMessage {
        run: manifest.run.clone(),
        agent: agent.clone(),
        sequence,
        packed: EncodedDelta::of(delta),
        end: None,
    };
    NatsMessage {
        subject: agent.results_subject(&manifest.run),
        reply: None,
        payload: serde_json::to_vec(&message).unwrap().into(),
    }
}

fn messages(manifest: &RunManifest, agent: &str, deltas: &[Delta]) -> Vec<NatsMessage> {
    let numbered = (0..).zip(deltas);
    numbered
        .map(|(sequence, delta)| message(manifest, agent, sequence, delta))
        .collect()
}

#[test]
fn viewers_see_the_ledgers_sum_in_any_order_and_with_duplicates() {
    let manifest = manifest();
    let (a, b) = (recorded(12, 3), recorded(12, 8));
    let mut sent = messages(&manifest, "a", &a);
    sent.extend(messages(&manifest, "b", &b));
    let mut whole = Delta::default();
    a.iter().chain(&b).for_each(|delta| whole.merge(delta));
    for (step, look_every) in [(1, 1), (7, 5), (11, 24), (13, 1_000)] {
        let feed = Arc::new(Feed::default());
        feed.follow();
        feed.prepare(&manifest);
        feed.begin(&manifest.load, Instant::now(), None);
        let mut collector = ResultCollector::new(&manifest).with_feed(Some(&feed));
        let mut taken = Delta::default();
        let two_rounds = 0..2 * sent.len();
        for turn in two_rounds {
            collector.take(&manifest, &sent[turn * step % sent.len()]);
            if turn % look_every == 0 {
                taken.merge(&feed.take());
                // Any thread may call this at any time.
                feed.so_far();
            }
        }
        taken.merge(&feed.take());
        assert!(taken == whole);
        assert!(whole == collector.ledger.total());
        let mut expected = whole.clone();
        expected.drop_series();
        let so_far = feed.so_far();
        assert_eq!(so_far.delta, expected);
        assert_eq!((so_far.in_flight, feed.ended()), (24, 480));
        assert_eq!(feed.take(), Delta::default());
        let record = feed.record_so_far().unwrap();
        assert_eq!((record.totals.started, record.totals.elapsed_s), (504, 6.0));
        assert_eq!(feed.findings()[0].id, FindingId::Errors);
    }
}

#[test]
fn without_a_follower_nothing_is_queued() {
    let manifest = manifest();
    let (feed, now) = started_feed(&manifest);
    add(&feed, "a", 8, now);
    assert_eq!(feed.so_far().delta.half_seconds().count(), 0);
    assert_eq!(feed.so_far().delta.started, 8 * 21);
    assert_eq!(feed.take(), Delta::default());
}

#[test]
fn refused_messages_are_not_shown() {
    let (manifest, feed) = (manifest(), Arc::new(Feed::default()));
    feed.prepare(&manifest);
    let mut collector = ResultCollector::new(&manifest).with_feed(Some(&feed));
    let delta = &recorded(1, 1)[0];
    let stranger = message(&manifest, "c", 0, delta);
    let mut another_name = message(&manifest, "a", 0, delta);
    another_name
        .subject
        .clone_from(&message(&manifest, "b", 0, delta).subject);
    let mut nonsense = message(&manifest, "a", 0, delta);
    nonsense.payload = b"{}".to_vec().into();
    for message in [stranger, another_name, nonsense] {
        collector.take(&manifest, &message);
    }
    assert_eq!(feed.so_far().delta, Delta::default());
    assert_eq!((feed.ended(), feed.complete_until()), (0, Nanos::ZERO));
    assert_eq!(feed.record_so_far(), None, "the run has not started");
}

/// Returns the feed of a run that has just started, and the time of the start.
fn started_feed(manifest: &RunManifest) -> (Feed, Instant) {
    let (feed, now) = (Feed::default(), Instant::now());
    feed.prepare(manifest);
    assert!(
        feed.agents()
            .iter()
            .all(|(_, state)| *state == AgentState::Preparing)
    );
    feed.begin(&manifest.load, now, None);
    (feed, now)
}

/// Adds results of an agent for `halves` half seconds.
fn add(feed: &Feed, name: &str, halves: u64, now: Instant) {
    let mut all = Delta::default();
    recorded(halves, 5)
        .iter()
        .for_each(|delta| all.merge(delta));
    let (packed, mut counted) = (EncodedDelta::of(&all), DeltaTotals::default());
    packed.count_into(&mut counted);
    feed.add(&name.parse().unwrap(), &packed, &counted, now);
}

#[test]
fn quiet_and_lost_agents_do_not_delay_complete_until() {
    let manifest = manifest();
    let (feed, began) = started_feed(&manifest);
    let after = |seconds: u64| began + Duration::from_secs(seconds);
    let name = |name: &str| name.parse::<AgentName>().unwrap();
    add(&feed, "a", 8, after(5));
    assert_eq!(
        feed.complete_at(after(3)),
        Nanos::ZERO,
        "b has sent nothing"
    );
    assert_eq!(feed.complete_at(after(5)), Nanos::from_secs(5));
    assert_eq!(
        feed.agents_at(after(5)),
        [
            (name("a"), AgentState::Loading),
            (name("b"), AgentState::Quiet(Duration::from_secs(5)))
        ]
    );
    add(&feed, "b", 4, after(6));
    assert_eq!(feed.complete_at(after(6)), Nanos::from_secs(3));
    // A quarter of the load has results up to 5 s, the rest up to 3 s.
    assert_eq!(feed.so_far().reaches, Nanos::from_millis(3_500));
    assert_eq!(feed.so_far().in_flight, 12);
    feed.is_now(&name("b"), AgentState::Lost);
    assert_eq!(feed.complete_at(after(6)), Nanos::from_secs(5));
    assert_eq!(feed.so_far().in_flight, 8);
    // Once no agent is running anymore, the results are complete.
    feed.is_now(&name("a"), AgentState::Ended);
    assert_eq!(feed.complete_at(after(60)), Nanos::from_secs(5));
}

#[test]
fn the_start_of_a_run_follows_from_its_messages() {
    let manifest = manifest();
    let (feed, now) = started_feed(&manifest);
    let later = now + Duration::from_secs(60);
    add(&feed, "a", 8, later);
    assert_eq!(feed.begun().unwrap().at, now, "the announced start is kept");
    add(&feed, "b", 200, later);
    assert_eq!(
        feed.begun().unwrap().at,
        later - Duration::from_secs(101),
        "results can't reach into the future"
    );
    assert!(!feed.is_stopped());
    feed.stop();
    assert!(feed.is_stopped());
}

#[test]
fn impossible_half_seconds_are_refused() {
    let mut manifest = manifest();
    manifest.load.duration_s = Some(2.0);
    let all = recorded(130, 5);
    let mut collector = ResultCollector::new(&manifest);
    collector.take(&manifest, &message(&manifest, "a", 0, &all[3]));
    let started = |collector: &ResultCollector| collector.ledger.agent("a").map(|all| all.started);
    assert_eq!(started(&collector), Some(all[3].started));
    collector.take(&manifest, &message(&manifest, "a", 1, &all[129]));
    assert_eq!(started(&collector), Some(all[3].started));
    // The end of a load can't be predicted if only a number of requests limits it.
    manifest.load.duration_s = None;
    let mut collector = ResultCollector::new(&manifest);
    collector.take(&manifest, &message(&manifest, "a", 1, &all[129]));
    assert_eq!(started(&collector), Some(all[129].started));
}
