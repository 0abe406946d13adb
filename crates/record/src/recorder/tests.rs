//! Checks counts, histograms and time series of requests with known times.

use super::*;

fn exchange(intended_ms: u64, sent_ms: u64, ended_ms: u64) -> Exchange {
    Exchange {
        intended: Nanos::from_millis(intended_ms),
        sent: Nanos::from_millis(sent_ms),
        first_byte: Some(Nanos::from_millis(ended_ms)),
        ended: Nanos::from_millis(ended_ms),
        status: Some(200),
        bytes_in: 100,
        body_bytes_in: 13,
        bytes_out: 50,
        is_settling: false,
        entry: 0,
    }
}

fn recorded(measured: MeasuredPart, requests: &[(Exchange, Outcome)], end_ms: u64) -> Recorder {
    let mut recorder = Recorder::new(measured);
    for (exchange, outcome) in requests {
        if *outcome != Outcome::Unstarted {
            recorder.started();
        }
        recorder.ended(exchange, *outcome);
    }
    recorder.finish(Nanos::from_millis(end_ms));
    recorder
}

#[test]
fn a_closed_loop_measures_what_ends_after_the_warm_up() {
    let requests = [
        (exchange(0, 0, 900), Outcome::Ok),
        (exchange(900, 900, 1100), Outcome::Ok),
        (exchange(1100, 1100, 1900), Outcome::Ok),
    ];
    let from = MeasuredPart::EndedFrom(Nanos::from_secs(1));
    let recorder = recorded(from, &requests, 2000);
    assert_eq!(recorder.started_count(), 2);
    assert_eq!(recorder.outcomes().get(Outcome::Ok), 2);
}

#[test]
fn an_open_loop_measures_what_is_due_after_the_warm_up() {
    let requests = [
        (exchange(990, 1100, 1200), Outcome::Ok),
        (exchange(1000, 1000, 1050), Outcome::Ok),
        (exchange(1500, 1500, 2000), Outcome::Unstarted),
    ];
    let from = MeasuredPart::DueFrom(Nanos::from_secs(1));
    let recorder = recorded(from, &requests, 2000);
    assert_eq!(recorder.started_count(), 1);
    assert_eq!(recorder.outcomes().get(Outcome::Unstarted), 1);
    assert_eq!(recorder.response_time().count(), 2);
    assert_eq!(recorder.response_time().censored(), 1);
    assert_eq!(recorder.service_time().censored(), 0);
}

#[test]
fn requests_in_flight_at_a_closed_loops_end_are_bounds_only_beyond_the_p99() {
    let ends = |measured, service_ms: u64, ages_ms: &[u64]| {
        let mut recorder = Recorder::new(measured);
        let complete = (0..1000 / service_ms).map(|n| n * service_ms);
        for begin in complete {
            recorder.started();
            let exchange = exchange(begin, begin, begin + service_ms);
            recorder.ended(&exchange, Outcome::Ok);
        }
        recorder.stop_at(Nanos::from_millis(1000));
        for age in ages_ms {
            recorder.started();
            let begun = 1000 - age;
            recorder.ended(&exchange(begun, begun, 1000), Outcome::Unfinished);
        }
        recorder.finish(Nanos::from_millis(1000));
        assert_eq!(
            recorder.outcomes().get(Outcome::Unfinished),
            ages_ms.len() as u64
        );
        let total = recorder.total();
        assert_eq!(
            total.response_time.censored(),
            total.service_time.censored()
        );
        total.response_time.censored()
    };
    let closed = MeasuredPart::EndedFrom(Nanos::ZERO);
    assert_eq!(ends(closed, 90, &[0, 30, 89]), 0);
    assert_eq!(ends(closed, 90, &[0, 30, 89, 120, 900]), 2);
    // Either the p99 is more than a tenth of the measured part, or there is no p99.
    assert_eq!(ends(closed, 125, &[0, 30]), 2);
    assert_eq!(ends(closed, 2_000, &[0, 30]), 2);
    // The schedule of an open loop does not depend on the server, and a load with a number of
    // requests has no fixed end time.
    assert_eq!(ends(MeasuredPart::DueFrom(Nanos::ZERO), 90, &[0, 30]), 2);
}

#[test]
fn equal_and_different_times_end_in_the_same_distributions() {
    let from = MeasuredPart::EndedFrom(Nanos::ZERO);
    let mut late_first_byte = exchange(0, 0, 30);
    late_first_byte.first_byte = Some(Nanos::from_millis(10));
    let requests = [
        (exchange(0, 0, 20), Outcome::Ok),
        (exchange(0, 5, 25), Outcome::Ok),
        (late_first_byte, Outcome::Ok),
    ];
    let recorder = recorded(from, &requests, 700);
    assert_eq!(recorder.response_time().count(), 3);
    assert_eq!(recorder.service_time().count(), 3);
    assert_eq!(recorder.first_byte().count(), 3);
    assert!((recorder.first_byte().summary().min / 10_000.0 - 1.0).abs() < 0.002);
}

#[test]
fn merging_two_workers_equals_one_worker_that_sends_all() {
    let from = MeasuredPart::EndedFrom(Nanos::ZERO);
    let one = [
        (exchange(0, 0, 20), Outcome::Ok),
        (exchange(20, 20, 700), Outcome::Reset),
    ];
    let two = [
        (exchange(0, 3, 900), Outcome::Timeout),
        (exchange(0, 0, 1200), Outcome::Ok),
    ];
    let mut merged = recorded(from, &one, 1300);
    merged.merge(&recorded(from, &two, 1300));
    let all: Vec<_> = one.iter().chain(&two).copied().collect();
    let whole = recorded(from, &all, 1300);
    assert_eq!(merged.outcomes(), whole.outcomes());
    assert_eq!(merged.started_count(), whole.started_count());
    assert_eq!(
        merged.response_time().summary(),
        whole.response_time().summary()
    );
    assert_eq!(
        merged.service_time().summary(),
        whole.service_time().summary()
    );
    let ok = |r: &Recorder| {
        r.total
            .series
            .iter()
            .map(|s| (s.ok, s.failed))
            .collect::<Vec<_>>()
    };
    assert_eq!(ok(&merged), ok(&whole));
    assert_eq!(ok(&whole), [(1, 0), (0, 2), (1, 0)]);
}

/// Records requests of every kind, one every few milliseconds, with a long gap in the middle.
fn mixed(measured: MeasuredPart, seed: u64, each: &mut dyn FnMut(&mut Recorder, u64)) -> Recorder {
    let mut recorder = Recorder::new(measured);
    recorder.watch();
    let mut random = crate::RandomSequence::new(seed);
    let mut next = |below: u64| (random.next_u64() >> 33) % below;
    let mut now = 0;
    for n in 0..400 {
        now += next(12) + 1500 * u64::from(n == 200);
        let outcome = Outcome::ALL[next(40) as usize % Outcome::ALL.len()];
        let outcome = [outcome, Outcome::Ok][usize::from(next(3) > 0)];
        let due = now.saturating_sub(next(300));
        let mut request = exchange(due, due + next(2) * 5, now);
        request.status = [None, Some(200), Some(503)][next(3) as usize];
        request.first_byte = Some(Nanos::from_millis(now - next(2).min(now)));
        if outcome != Outcome::Unstarted {
            recorder.started();
            recorder.started_by_schedule(request.intended, request.intended, request.sent);
        }
        let tls = TlsHandshake {
            took: Nanos(next(9_000)),
            resumed: next(2) == 0,
            group: [None, Some(crate::TlsGroup::of("X25519"))][next(2) as usize],
            hello_retried: next(2) == 0,
        };
        let at = Nanos::from_millis(now);
        recorder.connection_opened(at, Nanos(next(7_000)), Some(tls).filter(|_| next(2) > 0));
        recorder.retried(at);
        recorder.ended(&request, outcome);
        each(&mut recorder, now);
    }
    recorder.finish(Nanos::from_millis(now + 120));
    recorder
}

/// Encodes a delta as JSON and decodes it again.
fn send(delta: &Delta) -> crate::EncodedDelta {
    let text = serde_json::to_string(&crate::EncodedDelta::of(delta)).unwrap();
    serde_json::from_str(&text).unwrap()
}

#[test]
fn handed_over_deltas_add_up_to_the_whole() {
    for warm_up in [0, 700] {
        let mut sum = Box::<Delta>::default();
        let mut unpacked = Box::<Delta>::default();
        let mut whole = Box::<Delta>::default();
        for worker in 0..3u64 {
            let mut pieces = 0;
            let mut into = Box::<Delta>::default();
            let measured = match worker {
                0 => MeasuredPart::EndedFrom(Nanos::from_millis(warm_up)),
                _ => MeasuredPart::DueFrom(Nanos::from_millis(warm_up)),
            };
            let mut each = |recorder: &mut Recorder, now: u64| {
                // One worker hands over its data immediately, the other one only rarely.
                if recorder.has_news() && now.is_multiple_of(1 + worker * 7) {
                    recorder.hand_over(&mut into);
                    pieces += 1;
                    if worker < 2 {
                        sum.merge(&into);
                        send(&into).add_to(&mut unpacked).unwrap();
                        into.clear();
                    }
                }
            };
            let mut recorder = mixed(measured, worker + 7, &mut each);
            recorder.hand_over(&mut into);
            assert!(!recorder.has_news() && pieces > 1, "{pieces}");
            sum.merge(&into);
            send(&into).add_to(&mut unpacked).unwrap();
            whole.merge(recorder.total());
        }
        assert_eq!(sum, whole);
        assert_eq!(unpacked, whole);
        assert_eq!(sum.in_flight(), 0);
        let record = |all: &Delta| {
            let span = all.span.unwrap();
            let record = crate::Record::build(crate::LoadInfo::default(), all, span, Some(9));
            record.totals.check().unwrap();
            record.to_json()
        };
        assert_eq!(record(&sum), record(&whole));
    }
}

#[test]
fn watching_a_load_does_not_change_its_record() {
    let from = MeasuredPart::EndedFrom(Nanos::from_millis(300));
    let unwatched = mixed(from, 3, &mut |_, _| {});
    let watched = mixed(from, 3, &mut |recorder, now| {
        recorder.passed(Nanos::from_millis(now));
        recorder.hand_over(&mut Box::default());
    });
    assert_eq!(watched.total(), unwatched.total());
}
