//! Tests of servers and generators that freeze, connections that end between slices, and timeouts.

use super::*;
use crate::socket::simulated::SendTiming;

const SETTLING: Nanos = ms(20);
const LENGTH: Nanos = ms(250);
const PAUSE: Nanos = ms(600);
const FREEZE: Nanos = Nanos::from_secs(2);

fn twelve() -> Vec<Turn> {
    turns(12, SETTLING, LENGTH, PAUSE)
}

fn four() -> LoadSpec {
    spec("-c 4 --warmup 20ms")
}

/// Creates a server that responds after two milliseconds, except that it freezes for two seconds at
/// the time `at`.
fn freezing(at: Nanos) -> Box<dyn Server> {
    responding(move |asked| {
        let is_frozen = (at..at + FREEZE).contains(&asked.now);
        let thawed = if is_frozen { at + FREEZE } else { asked.now };
        let after = thawed - asked.now + ms(2);
        reply([(after, Step::Send(OK.to_vec()))])
    })
}

/// Real time at which the sixth slice starts, if the server ends each response within its slice.
const SIXTH_BEGIN: Nanos = ms(600 + 5 * (20 + 250 + 600));

#[test]
fn a_freeze_that_outlasts_its_slice_lengthens_the_drain() {
    for (after_begin, lost_in_slice) in [
        // Freezes that begin in the settling part, in the counted part, and at its end.
        (ms(5), ms(250)),
        (ms(120), ms(150)),
        (ms(268), ms(2)),
    ] {
        let at = SIXTH_BEGIN + after_begin;
        let sliced = simulate_slices(&four(), vec![freezing(at)], &twelve());
        let worker = &sliced.workers[0];
        assert_eq!(worker.begins[5], SIXTH_BEGIN);
        let thawed = at + FREEZE + ms(2);
        let end = SIXTH_BEGIN + SETTLING + LENGTH;
        for (number, report) in worker.reports.iter().enumerate() {
            let expected = if number == 5 {
                thawed - end
            } else {
                Nanos::ZERO
            };
            assert_eq!(report.drain, expected, "{number}");
            let most = expected.since(report.p99);
            assert_eq!(report.excess(&[]), most);
            assert!(number != 5 || most >= expected - ms(3), "{most}");
        }
        // The excess of the drain counts as measured time. The rate is therefore the same as in a
        // load without slices whose server freezes for the same time.
        let totals = &sliced.outcomes.record.totals;
        let expected = 2_000.0 * (3.0 - lost_in_slice.as_secs_f64());
        let ratio = totals.ok as f64 / expected;
        assert!((0.99..=1.01).contains(&ratio), "{after_begin} {ratio}");
        // A request of the settling part is not counted even if it waits until the freeze ends.
        let max_us = sliced.outcomes.record.response_time_us.max;
        let is_counted = after_begin > SETTLING;
        assert_eq!(max_us > 1_900_000.0, is_counted, "{after_begin} {max_us}");
    }
}

#[test]
fn a_freeze_between_two_slices_is_not_seen() {
    let at = SIXTH_BEGIN + ms(280);
    let whole_pause = turns(12, SETTLING, LENGTH, ms(2_600));
    let sliced = simulate_slices(&four(), vec![freezing(at)], &whole_pause);
    assert!(sliced.outcomes.record.response_time_us.max < 2_100.0);
}

/// Creates a server that performs `step` on each connection when `after` has passed since the
/// connection's first request.
fn stepping(after: Nanos, step: Step) -> Box<dyn Server> {
    responding(move |asked| {
        let mut steps = vec![(ms(2), Step::Send(OK.to_vec()))];
        if asked.number == 0 {
            steps.push((after, step.clone()));
        }
        Reply {
            steps,
            ..Reply::default()
        }
    })
}

#[test]
fn connections_that_end_between_slices_fail_no_request() {
    let ends = [
        Step::Close,
        Step::Fail(libc::ECONNRESET),
        Step::Send(b"HTTP/1.1 408 Request Timeout\r\n\r\n".to_vec()),
    ];
    for end in ends {
        for words in ["-c 4", "-c 4 -r 1000", "-c 4 -X POST"] {
            let spec = spec(&format!("{words} --warmup 20ms"));
            // The first request arrives at the start of the slice, and the connection ends in the
            // middle of the pause.
            let server = stepping(SETTLING + LENGTH + ms(300), end.clone());
            let sliced = simulate_slices(&spec, vec![server], &twelve());
            let totals = &sliced.outcomes.record.totals;
            assert_eq!((totals.failed, totals.retried), (0, 0), "{words} {end:?}");
            assert_eq!(sliced.outcomes.connects(), 4 * 12, "{words} {end:?}");
            assert!(sliced.outcomes.record.response_time_us.max < 10_000.0);
        }
    }
}

#[test]
fn connections_that_end_in_a_slice_are_retried_as_in_a_whole_load() {
    for end in [Step::Close, Step::Fail(libc::ECONNRESET)] {
        // The connection ends in the counted part of the next slice, with a request in flight.
        let after = SETTLING + LENGTH + PAUSE + SETTLING + ms(51);
        let server = || vec![stepping(after, end.clone())];
        let sliced = simulate_slices(&four(), server(), &twelve());
        let totals = &sliced.outcomes.record.totals;
        assert_eq!(totals.failed, 0);
        assert!(totals.retried >= 4 * 3, "{}", totals.retried);
        assert_eq!(totals.retried, totals.connections_opened);
    }
}

#[test]
fn connections_left_open_after_the_last_response_delay_nothing() {
    // The server announces the end of each connection, but never closes it.
    let server = steady(ms(2), OK_CLOSE);
    let sliced = simulate_slices(&four(), vec![server], &twelve());
    let oks: Vec<_> = sliced.reports().map(|it| it.ok).collect();
    // On each connection, the response takes 2 ms, and the client then waits 10 ms for the close.
    assert!(oks.iter().all(|ok| (80..=88).contains(ok)), "{oks:?}");
}

#[test]
fn timeouts_may_expire_in_the_drain() {
    for words in ["-c 4", "-c 20 -r 500", "-c 4 --no-keepalive"] {
        let spec = spec(&format!("{words} --timeout 300ms --warmup 20ms"));
        let server = responding(|asked| {
            if asked.number % 40 == 39 || asked.connection % 7 == 6 {
                Reply::default()
            } else {
                reply([(ms(2), Step::Send(OK.to_vec()))])
            }
        });
        let sliced = simulate_slices(&spec, vec![server], &twelve());
        let mut timeouts = 0;
        for (exchange, outcome) in sliced.counted() {
            if *outcome == Outcome::Timeout {
                timeouts += 1;
                assert_eq!(exchange.ended - exchange.sent, ms(300), "{words}");
            }
        }
        assert!(timeouts >= 12, "{words} {timeouts}");
        let drains: Vec<_> = sliced.reports().map(|report| report.drain).collect();
        assert!(
            drains.iter().all(|drain| *drain <= ms(300)),
            "{words} {drains:?}"
        );
    }
}

#[test]
fn connects_may_time_out_in_the_drain() {
    for connect in [Connect::Never, Connect::Fail(ms(400), libc::EHOSTUNREACH)] {
        let mut count = 0;
        let server = Box::new(FunctionServer {
            connect: move |_| {
                count += 1;
                if count % 200 == 0 {
                    connect
                } else {
                    Connect::Accept(ms(1))
                }
            },
            response: |_: &ReceivedRequest| {
                reply([(ms(2), Step::Send(OK_CLOSE.to_vec())), (ms(2), Step::Close)])
            },
        });
        let spec = spec("-c 4 --connect-timeout 400ms --warmup 20ms");
        let sliced = simulate_slices(&spec, vec![server], &twelve());
        let totals = &sliced.outcomes.record.totals;
        assert!(totals.ok > 100 && totals.failed >= 12, "{totals:?}");
        // The backoff ends with the pause, so each slice begins with a connection attempt.
        assert!(sliced.reports().all(|report| report.ok + report.failed > 0));
    }
}

#[test]
fn a_load_ends_if_all_connects_are_refused() {
    for (workers, words) in [(1, "-c 4"), (1, "-c 4 -r 100"), (3, "-c 6")] {
        let refusing = || -> Box<dyn Server> {
            Box::new(FunctionServer {
                connect: |_| Connect::Fail(Nanos::ZERO, libc::ECONNREFUSED),
                response: |_: &ReceivedRequest| Reply::default(),
            })
        };
        let spec = spec(&format!("{words} --warmup 20ms"));
        let servers = (0..workers).map(|_| refusing()).collect();
        let control = Control::new(workers);
        let sliced = simulate_slices_with(&spec, servers, &twelve(), &control, |it| it);
        sliced.check(false);
        assert!(sliced.outcomes.finding("nothing-listens").is_some());
        assert_eq!(sliced.outcomes.record.totals.ok, 0);
        let elapsed_s = sliced.outcomes.record.totals.elapsed_s;
        assert!((0.5..2.0).contains(&elapsed_s), "{elapsed_s}");
    }
}

#[test]
fn requests_that_the_socket_accepts_late_keep_their_connections() {
    let server = responding(|_| Reply {
        taken: SendTiming::After(ms(1)),
        steps: vec![(ms(2), Step::Send(OK.to_vec()))],
    });
    let sliced = simulate_slices(&four(), vec![server], &twelve());
    assert_eq!(sliced.outcomes.connects(), 4);
}

#[test]
fn a_generator_stopped_in_a_slice_is_reported() {
    // The generator stops in the settling part, in the counted part, or in the drain.
    for after_begin in [ms(5), ms(120), ms(268)] {
        let at = SIXTH_BEGIN + after_begin;
        let spec = spec("-c 4 --warmup 20ms");
        let server = vec![steady(ms(2), OK)];
        let sliced = simulate_slices_with(&spec, server, &twelve(), &Control::new(1), |sockets| {
            sockets.with_stop(at, FREEZE)
        });
        sliced.check(true);
        let stalls = sliced.outcomes.record.generator.stalls.unwrap();
        assert_eq!(stalls.count, 1, "{after_begin}");
        assert!((1.9..=2.0).contains(&stalls.total_s), "{stalls:?}");
    }
}

#[test]
fn a_pause_between_slices_is_not_a_stall() {
    let long = turns(12, SETTLING, LENGTH, Nanos::from_secs(60));
    let sliced = simulate_slices(&four(), vec![steady(ms(2), OK)], &long);
    assert!(sliced.outcomes.record.generator.stalls.is_none());
}
