//! Tests response times against a server that freezes at known times. A simple queue model computes
//! the true values, which the load must report within the histogram's resolution.

use prony_record::{Nanos, Outcome, Record, Summary};

use super::*;
use crate::values::pacing::{ArrivalSchedule, Arrivals, ScheduleEnd};

const SERVICE: Nanos = ms(2);

/// Returns the time at which a server processes a request that arrives at `now`. The server is
/// frozen for the last second of every five.
fn thawed(now: Nanos) -> Nanos {
    let every = Nanos::from_secs(5).0;
    let within = now.0 % every;
    if within < Nanos::from_secs(4).0 {
        now
    } else {
        Nanos(now.0 - within + every)
    }
}

fn freezing() -> Box<dyn Server> {
    responding(|request| {
        let after = thawed(request.now).since(request.now) + SERVICE;
        reply([(after, Step::Send(OK.to_vec()))])
    })
}

/// Model of a first-come-first-served queue with one server per connection.
struct QueueModel {
    ok_ns: Vec<u64>,
    at_least_ns: Vec<u64>,
    timeouts: u64,
    unfinished: u64,
    unstarted: u64,
}

fn truth(arrivals: &[Nanos], connections: usize, timeout: Nanos, end: Nanos) -> QueueModel {
    let mut free_at = vec![Nanos::ZERO; connections];
    let mut truth = QueueModel {
        ok_ns: Vec::new(),
        at_least_ns: Vec::new(),
        timeouts: 0,
        unfinished: 0,
        unstarted: 0,
    };
    for &due in arrivals {
        let slot = free_at.iter_mut().min().unwrap();
        let start = due.max(*slot);
        if start >= end {
            truth.unstarted += 1;
            truth.at_least_ns.push((end - due).0);
            continue;
        }
        let responded = thawed(start) + SERVICE;
        let given_up = start + timeout;
        *slot = responded.min(given_up);
        if *slot >= end {
            truth.unfinished += 1;
            truth.at_least_ns.push((end - due).0);
        } else if given_up < responded {
            truth.timeouts += 1;
            truth.at_least_ns.push((given_up - due).0);
        } else {
            truth.ok_ns.push((responded - due).0);
        }
    }
    truth
}

impl QueueModel {
    fn quantile_us(&self, quantile: f64) -> f64 {
        let mut all = [&self.ok_ns[..], &self.at_least_ns[..]].concat();
        all.sort_unstable();
        let rank = (quantile * all.len() as f64).ceil().max(1.0) as usize;
        all[rank - 1] as f64 / 1e3
    }

    fn check(&self, record: &Record) {
        let count = |outcome| record.outcomes.get(&outcome).copied().unwrap_or(0);
        assert_eq!(count(Outcome::Ok), self.ok_ns.len() as u64);
        assert_eq!(count(Outcome::Timeout), self.timeouts);
        assert_eq!(count(Outcome::Unfinished), self.unfinished);
        assert_eq!(count(Outcome::Unstarted), self.unstarted);
        assert_eq!(record.totals.censored, self.at_least_ns.len() as u64);
        for (quantile, name, seen) in figures(&record.response_time_us) {
            let true_us = self.quantile_us(quantile);
            // A histogram reports the upper limit of a bucket, which is at most 0.1% above the true
            // value.
            let ratio = seen / true_us;
            assert!(
                (0.999_999..=1.001).contains(&ratio),
                "{name}: reported {seen} µs, expected {true_us} µs"
            );
        }
    }
}

fn figures(summary: &Summary) -> [(f64, &'static str, f64); 5] {
    [
        (0.5, "p50", summary.p50),
        (0.9, "p90", summary.p90),
        (0.99, "p99", summary.p99),
        (0.999, "p99.9", summary.p99_9),
        (1.0, "max", summary.max),
    ]
}

fn due(arrivals: Arrivals, rate: f64, seed: u64, end: Nanos) -> Vec<Nanos> {
    let whole = Shard { worker: 0, of: 1 };
    let until = ScheduleEnd {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: end,
    };
    ArrivalSchedule::new(arrivals, &rate.into(), seed, whole, until).collect()
}

#[test]
fn percentiles_behind_a_freezing_server_match_the_schedule() {
    let end = Nanos::from_secs(15);
    let outcomes = load("-r 1000 -c 16 -d 15s", freezing());
    let arrivals = due(Arrivals::Constant, 1000.0, 0, end);
    assert_eq!(arrivals.len(), 15_000);
    let truth = truth(&arrivals, 16, Nanos::from_secs(20), end);
    truth.check(&outcomes.record);
    let record = &outcomes.record;
    // The last freeze lasts until the load ends: 16 requests are in flight, and all others are
    // still waiting to start.
    assert_eq!((truth.unfinished, truth.unstarted), (16, 984));
    assert!(record.response_time_us.p99 > 900_000.0);
    // The requests that were cut off may have taken longer, so the high percentiles are lower
    // bounds. The median is exact.
    assert_eq!(
        record.response_time_us.at_least,
        ["p90", "p95", "p99", "p99_9"]
    );
    assert_eq!(record.rate.offered_per_s, Some(1000.0));
    // The service time, which other tools report, excludes the wait before the start.
    assert!(record.service_time_us.p99 < record.response_time_us.p90);
}

#[test]
fn requests_that_time_out_keep_their_rank_in_the_distribution() {
    for (timeout_ms, connections) in [(500, 16), (300, 40), (1000, 3), (37, 100)] {
        let end = Nanos::from_millis(14_500);
        let words = format!("-r 1000 -c {connections} -d 14500ms --timeout {timeout_ms}ms");
        let outcomes = load(&words, freezing());
        let arrivals = due(Arrivals::Constant, 1000.0, 0, end);
        let truth = truth(&arrivals, connections, ms(timeout_ms), end);
        assert!(truth.timeouts > 0);
        truth.check(&outcomes.record);
    }
}

#[test]
fn poisson_arrivals_wait_as_queueing_theory_predicts() {
    let end = Nanos::from_secs(12);
    let outcomes = load(
        "-r 2000 --arrivals poisson --seed 9 -c 5 -d 12s",
        freezing(),
    );
    let arrivals = due(Arrivals::Poisson, 2000.0, 9, end);
    truth(&arrivals, 5, Nanos::from_secs(20), end).check(&outcomes.record);
}

#[test]
fn more_workers_offer_the_same_load() {
    let end = Nanos::from_secs(15);
    let spec = spec("-r 1000 -c 16 -d 15s");
    let outcomes = simulate(&spec, vec![freezing(), freezing()]);
    // Each of the two workers has every second arrival and half of the connections. The merged
    // record must equal the combined record of the two queues.
    let whole = due(Arrivals::Constant, 1000.0, 0, end);
    let both: Vec<QueueModel> = (0..2)
        .map(|worker| {
            let own: Vec<_> = whole.iter().skip(worker).step_by(2).copied().collect();
            truth(&own, 8, Nanos::from_secs(20), end)
        })
        .collect();
    let merged = QueueModel {
        ok_ns: both.iter().flat_map(|t| t.ok_ns.clone()).collect(),
        at_least_ns: both.iter().flat_map(|t| t.at_least_ns.clone()).collect(),
        timeouts: both.iter().map(|t| t.timeouts).sum(),
        unfinished: both.iter().map(|t| t.unfinished).sum(),
        unstarted: both.iter().map(|t| t.unstarted).sum(),
    };
    merged.check(&outcomes.record);
}

#[test]
fn a_closed_loop_measures_from_the_free_slot_to_the_last_byte() {
    // Connecting takes 3 ms, the first byte of the response arrives 1 ms after the request, and the
    // last byte 2 ms later.
    let server = Box::new(FunctionServer {
        connect: |_| Connect::Accept(ms(3)),
        response: |_: &ReceivedRequest| {
            reply([
                (ms(1), Step::Send(OK_CLOSE[..20].to_vec())),
                (ms(3), Step::Send(OK_CLOSE[20..].to_vec())),
                (ms(3), Step::Close),
            ])
        },
    });
    let record = load("-n 50 -c 2 --no-keepalive", server).record;
    let close_to = |seen: f64, us: f64| assert!((us..us * 1.001).contains(&seen), "{seen} {us}");
    close_to(record.response_time_us.p50, 6_000.0);
    close_to(record.response_time_us.max, 6_000.0);
    close_to(record.service_time_us.max, 3_000.0);
    close_to(record.first_byte_us.max, 1_000.0);
    close_to(record.connect_time_us.max, 3_000.0);
    assert_eq!(record.totals.connections_opened, 50);
    // Each connection sends 25 requests in sequence.
    assert_eq!(record.totals.elapsed_s, 0.15);
}

#[test]
fn timestamps_of_a_request_are_ordered_even_with_a_slow_generator() {
    // The first byte arrives exactly 1 ms after the send, and the last byte exactly 3 ms after the
    // send. Handling each completion takes the generator some time.
    let response = |close: bool| {
        responding(move |_: &ReceivedRequest| {
            let text = if close { OK_CLOSE } else { OK };
            let mut steps = vec![
                (ms(1), Step::Send(text[..20].to_vec())),
                (ms(3), Step::Send(text[20..].to_vec())),
            ];
            if close {
                steps.push((ms(3), Step::Close));
            }
            Reply {
                steps,
                ..Reply::default()
            }
        })
    };
    for words in [
        "-n 400 -c 1",
        "-n 400 -c 7",
        "-n 400 -c 7 --no-keepalive",
        "-r 300 -c 40 -d 1s",
        "-r 300 -c 40 -d 1s --no-keepalive",
    ] {
        for cost in [0, 3_000, 40_000, 110_000] {
            let spec = spec(words);
            let servers = vec![response(!spec.transport.keepalive)];
            let record = simulate_costly(&spec, servers, Nanos(cost), &Control::new(1)).record;
            let (response, service) = (&record.response_time_us, &record.service_time_us);
            let with = format!("{words}, {cost} ns: {response:?} {service:?}");
            assert!(record.first_byte_us.min >= 999.0, "{with}");
            assert!(service.min >= 2_998.0, "{with}");
            // Every response-time percentile is at least as high as the service-time percentile,
            // because each response time includes its service time.
            let pairs = figures(response).into_iter().zip(figures(service));
            for ((.., response), (.., service)) in pairs {
                assert!(response >= service * 0.999, "{with}");
            }
            assert!(response.min >= service.min * 0.999, "{with}");
            if words == "-n 400 -c 1" {
                // On a kept-alive connection, a closed loop sends the next request as soon as the
                // response has arrived.
                assert!(response.p50 <= service.p50 * 1.001, "{with}");
            }
        }
    }
}
