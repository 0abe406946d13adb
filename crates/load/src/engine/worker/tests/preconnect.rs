//! Tests of connections that are opened before the load begins.

use crate::carrier::ByteTransport;
use std::cell::Cell;

use prony_record::Outcome;

use super::*;

/// A server defined by two functions. `connect` returns the result of the n-th connection attempt,
/// counted from 0, and `greet` returns the first steps on that connection. The server responds to
/// requests after 1 ms.
struct Host<C, G> {
    taken: Cell<u64>,
    connect: C,
    greet: G,
}

impl<C, G> Server for Host<C, G>
where
    C: Fn(u64) -> Connect,
    G: Fn(u64) -> Vec<(Nanos, Step)>,
{
    fn connect(&mut self, _now: Nanos) -> Connect {
        let number = self.taken.get();
        self.taken.set(number + 1);
        (self.connect)(number)
    }

    fn greet(&mut self, connection: u64) -> Vec<(Nanos, Step)> {
        (self.greet)(connection)
    }

    fn response(&mut self, request: &ReceivedRequest) -> Reply {
        if request.bytes.starts_with(b"PROXY") && !request.bytes.ends_with(b"\r\n\r\n") {
            return Reply::default();
        }
        reply([(ms(1), Step::Send(OK.to_vec()))])
    }
}

fn host(
    connect: impl Fn(u64) -> Connect + 'static,
    greet: impl Fn(u64) -> Vec<(Nanos, Step)> + 'static,
) -> Box<dyn Server> {
    Box::new(Host {
        taken: Cell::new(0),
        connect,
        greet,
    })
}

/// Creates a server that determines the result of each connection attempt with a function.
fn taking(connect: impl Fn(u64) -> Connect + 'static) -> Box<dyn Server> {
    host(connect, |_| Vec::new())
}

fn prepared(words: &str, server: Box<dyn Server>, until: PreconnectWait) -> Outcomes {
    simulate_prepared(
        spec(words),
        vec![server],
        until,
        Nanos::ZERO,
        &Control::new(1),
    )
}

/// Returns the times of the connection attempts before the load began.
fn connects_before(outcomes: &Outcomes) -> Vec<Nanos> {
    let log = outcomes.logs[0].borrow();
    let before = log.before.as_ref();
    before.map_or_else(Vec::new, |before| before.connects.clone())
}

/// Returns the times at which the requests of the load arrived.
fn requests(outcomes: &Outcomes) -> Vec<Nanos> {
    let log = outcomes.logs[0].borrow();
    log.requests.iter().map(|(at, _)| *at).collect()
}

const A_SECOND: PreconnectWait = PreconnectWait {
    maintained: Nanos::from_millis(900),
    started: Nanos::from_millis(100),
};

#[test]
fn the_first_request_of_a_preconnected_connection_needs_no_connect() {
    for words in ["-n 400 -c 40", "-n 900 -c 300", "-n 40 -c 40 -r 1000000"] {
        let outcomes = prepared(words, taking(|_| Connect::Accept(ms(30))), A_SECOND);
        let connections = outcomes.record.load.connections as usize;
        let request = outcomes.record.totals.started;
        assert_eq!(outcomes.all(), [(Outcome::Ok, request)], "{words}");
        assert_eq!(connects_before(&outcomes).len(), connections, "{words}");
        assert_eq!(outcomes.connects(), 0, "{words}");
        let log = outcomes.logs[0].borrow();
        let before = log.before.as_ref().unwrap();
        assert!(before.requests.is_empty() && before.closes.is_empty());
        drop(log);
        let totals = &outcomes.record.totals;
        assert_eq!(
            totals.connections_opened, 0,
            "preconnected connections must not count as opened by the load"
        );
        assert_eq!(totals.started, totals.ok);
        assert!(outcomes.record.response_time_us.max < 1_100.0);
        assert_eq!(outcomes.finding("connections-late"), None);
        if words.contains("-r") {
            continue;
        }
        let first = requests(&outcomes)[..connections].to_vec();
        assert_eq!(first, vec![Nanos::ZERO; connections], "{words}");
    }
}

/// Runs a preconnected load that begins `late` after its start time.
fn late(words: &str, late: Nanos) -> Record {
    let mut spec = spec(words);
    spec.open_before_start();
    let control = Control::new(1);
    let shard = Shard { worker: 0, of: 1 };
    let slots = spec.connections_max(shard) as usize;
    let sockets = SimulatedSockets::new(slots, taking(|_| Connect::Accept(ms(1))));
    let mut worker = Worker::new(&spec, shard, ByteTransport(sockets));
    worker.preconnect(&control).unwrap();
    let mut worker = worker.restart();
    worker.start_clock(|sockets| {
        sockets.start_clock();
        sockets.pass(late);
    });
    let worked = worker.run(&control, &Counter::default());
    assert_eq!(worked.sink.first_start, Some(late));
    merge(&spec, vec![worked], SystemTime::UNIX_EPOCH)
        .unwrap()
        .record
}

#[test]
fn a_late_start_does_not_count_as_wait_in_a_closed_loop() {
    let record = late("-n 400 -c 40", ms(2_000));
    assert_eq!(record.totals.ok, 400);
    let longest_us = record.response_time_us.max;
    assert!(longest_us < 1_100.0, "{longest_us}");
    // In an open loop, requests that were due before the late start had to wait.
    let record = late("-n 400 -c 40 -r 100", ms(2_000));
    assert_eq!(record.totals.ok, 400);
    let longest_us = record.response_time_us.max;
    assert!(longest_us > 1_900_000.0, "{longest_us}");
}

#[test]
fn connections_are_opened_in_batches() {
    let outcomes = prepared(
        "-n 900 -c 400",
        taking(|number| Connect::Accept(ms(number % 3 + 1))),
        PreconnectWait::default(),
    );
    let mut at_once = std::collections::BTreeMap::new();
    for at in connects_before(&outcomes) {
        *at_once.entry(at).or_insert(0u32) += 1;
    }
    assert_eq!(at_once.len(), 25, "{at_once:?}");
    assert!(at_once.values().all(|lot| *lot == 16), "{at_once:?}");
}

#[test]
fn connects_in_flight_are_bounded() {
    // No connection attempt succeeds, so the next batch begins only after a pause.
    let outcomes = prepared("-d 1s -c 2000", taking(|_| Connect::Never), A_SECOND);
    let before = connects_before(&outcomes);
    let by = |end: Nanos| before.iter().filter(|at| **at < end).count();
    assert_eq!((by(ms(200)), by(ms(300)), by(ms(400))), (256, 512, 768));
}

#[test]
fn no_more_connections_are_opened_than_there_are_requests() {
    for (words, opened) in [
        ("-n 7 -c 40", 7),
        ("-n 7 -c 40 -r 100", 7),
        // Requests of the warm-up don't count towards `-n`.
        ("-n 7 -c 40 --warmup 10ms", 40),
    ] {
        let outcomes = prepared(words, taking(|_| Connect::Accept(ms(1))), A_SECOND);
        assert_eq!(outcomes.count(Outcome::Ok), 7, "{words}");
        assert_eq!(connects_before(&outcomes).len(), opened, "{words}");
        assert_eq!(outcomes.connects(), 0, "{words}");
    }
}

#[test]
fn preconnecting_needs_keepalive_and_a_single_target() {
    let outcomes = prepared(
        "-n 40 -c 4 --no-keepalive",
        taking(|_| Connect::Accept(ms(1))),
        A_SECOND,
    );
    assert_eq!(outcomes.all(), [(Outcome::Ok, 40)]);
    assert!(connects_before(&outcomes).is_empty());
    assert_eq!(outcomes.connects(), 40);

    let mut two = spec("-n 40 -c 4");
    two.targets.push(two.targets[0].clone());
    two.requests.push(two.requests[0].clone());
    two.requests[1].target = 1;
    let servers = vec![taking(|_| Connect::Accept(ms(1)))];
    let outcomes = simulate_prepared(two, servers, A_SECOND, Nanos::ZERO, &Control::new(1));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 40)]);
    assert!(connects_before(&outcomes).is_empty());
}

#[test]
fn a_refused_preconnect_is_retried_when_a_request_is_due() {
    let server = taking(|number| match number {
        0..10 => Connect::Fail(ms(1), libc::ECONNREFUSED),
        _ => Connect::Accept(ms(5)),
    });
    let outcomes = prepared("-n 400 -c 40", server, A_SECOND);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 400)]);
    let again = outcomes.logs[0].borrow().connects.clone();
    assert_eq!(again, vec![Nanos::ZERO; 10]);
    assert_eq!(outcomes.record.totals.connections_opened, 10);
    let finding = outcomes.finding("connections-late").unwrap();
    assert!(finding.starts_with("10 of 40 connections"), "{finding}");
    assert!(
        finding.contains("connect_refused: Connection refused (os error 111) (10×)"),
        "{finding}"
    );
}

#[test]
fn a_server_that_is_down_fails_requests_as_without_preconnecting() {
    let outcomes = prepared(
        "-n 28 -c 4",
        taking(|_| Connect::Fail(Nanos::ZERO, libc::ECONNREFUSED)),
        A_SECOND,
    );
    assert_eq!(outcomes.all(), [(Outcome::ConnectRefused, 28)]);
    assert_eq!(connects_before(&outcomes).len(), 4);
    assert_eq!(
        outcomes.finding("errors").unwrap().matches("(28×)").count(),
        1
    );
}

#[test]
fn hundreds_of_refused_connections_are_opened_in_batches() {
    let server = taking(|number| match number {
        0..300 => Connect::Fail(ms(1), libc::ECONNREFUSED),
        _ => Connect::Accept(ms(5)),
    });
    let outcomes = prepared("-n 900 -c 310", server, A_SECOND);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 900)]);
    let again = outcomes.logs[0].borrow().connects.clone();
    assert_eq!(again.len(), 300);
    assert_eq!(again.iter().filter(|at| **at == Nanos::ZERO).count(), 16);
}

#[test]
fn a_server_may_close_connections_before_the_start() {
    let timeout = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
    let endings = [
        vec![(ms(500), Step::Close)],
        vec![(ms(500), Step::Fail(libc::ECONNRESET))],
        vec![
            (ms(500), Step::Send(timeout.to_vec())),
            (ms(500), Step::Close),
        ],
    ];
    // The close arrives before the load's start, at the start, or while the first request is being
    // sent.
    let looks = [(900, 100), (100, 900), (0, 499)];
    for ending in endings {
        for (maintained, started) in looks {
            let greeting = ending.clone();
            let server = host(
                |_| Connect::Accept(ms(1)),
                move |number| match number {
                    0..10 => greeting.clone(),
                    _ => Vec::new(),
                },
            );
            let until = PreconnectWait {
                maintained: ms(maintained),
                started: ms(started),
            };
            let outcomes = prepared("-n 400 -c 40", server, until);
            let case = format!("{ending:?} {maintained} {started}");
            let is_race = maintained < 500;
            if is_race && matches!(ending[0].1, Step::Send(_)) {
                // Bytes that arrive after the request was sent are its response.
                assert!(outcomes.count(Outcome::Ok) >= 380, "{case}");
                continue;
            }
            assert_eq!(outcomes.all(), [(Outcome::Ok, 400)], "{case}");
            assert_eq!(outcomes.connects(), 10, "{case}");
            let totals = &outcomes.record.totals;
            assert_eq!(totals.retried, if is_race { 10 } else { 0 }, "{case}");
            let finding = outcomes.finding("connections-late").unwrap_or("");
            assert_eq!(
                finding.starts_with("10 of 40"),
                !is_race,
                "{case}: {finding}"
            );
        }
    }
}

#[test]
fn non_retryable_requests_are_not_retried() {
    let server = host(
        |_| Connect::Accept(ms(1)),
        |number| match number {
            0 => vec![(ms(500), Step::Close)],
            _ => Vec::new(),
        },
    );
    let until = PreconnectWait {
        maintained: ms(100),
        started: ms(399),
    };
    let outcomes = prepared("-n 40 -c 4 -X POST", server, until);
    assert_eq!(
        outcomes.all(),
        [(Outcome::Ok, 39), (Outcome::ClosedEarly, 1)]
    );
}

#[test]
fn a_pending_connect_delays_the_start_only_briefly() {
    let server = || {
        taking(|number| match number {
            0..3 => Connect::Never,
            _ => Connect::Accept(ms(1)),
        })
    };
    for (timeout, why) in [
        ("60s", "not established in time (3×)"),
        ("700ms", "connect_timeout: no connection within 700 ms (3×)"),
    ] {
        let words = format!("-n 400 -c 40 --connect-timeout {timeout}");
        let outcomes = prepared(&words, server(), A_SECOND);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 400)]);
        assert_eq!(outcomes.connects(), 3);
        let finding = outcomes.finding("connections-late").unwrap();
        assert!(finding.contains(why), "{finding}");
        // The load's clock starts only after the connect phase, so the pending connects don't
        // count.
        assert!(outcomes.record.totals.elapsed_s < 0.1);
    }
}

#[test]
fn stopping_the_load_does_not_wait_for_connections() {
    let control = std::sync::Arc::new(Control::new(1));
    let stopping = control.clone();
    let server = taking(move |number| {
        if number == 20 {
            stopping.stop();
        }
        Connect::Never
    });
    let spec = spec("-n 400 -c 40");
    let outcomes = simulate_prepared(
        spec,
        vec![server],
        PreconnectWait::default(),
        Nanos::ZERO,
        &control,
    );
    assert!(outcomes.all().is_empty());
    assert_eq!(outcomes.record.totals.started, 0);
    // The load was stopped while the second batch of connection attempts was in flight.
    let before = connects_before(&outcomes);
    assert_eq!(before.len(), 32);
    assert!(before.iter().all(|at| *at <= ms(1)));
}

#[test]
fn shards_of_a_load_each_open_their_own_connections() {
    let servers =
        || -> Vec<Box<dyn Server>> { (0..3).map(|_| taking(|_| Connect::Accept(ms(2)))).collect() };
    let outcomes = simulate_prepared(
        spec("-n 100 -c 7"),
        servers(),
        A_SECOND,
        Nanos::ZERO,
        &Control::new(1),
    );
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    let each: Vec<usize> = outcomes
        .logs
        .iter()
        .map(|log| log.borrow().before.as_ref().unwrap().connects.len())
        .collect();
    assert_eq!(each, [3, 2, 2]);
    assert_eq!(outcomes.connects(), 0);
}

#[test]
fn the_proxy_header_is_sent_first() {
    let outcomes = prepared(
        "-n 8 -c 4 --proxy-protocol v1",
        taking(|_| Connect::Accept(ms(2))),
        A_SECOND,
    );
    assert_eq!(outcomes.all(), [(Outcome::Ok, 8)]);
    let log = outcomes.logs[0].borrow();
    let before = &log.before.as_ref().unwrap().requests;
    assert_eq!(before.len(), 4);
    assert!(
        before
            .iter()
            .all(|(_, bytes)| bytes.starts_with(b"PROXY TCP4") && bytes.ends_with(b"\r\n"))
    );
    assert!(
        log.requests
            .iter()
            .all(|(_, bytes)| bytes.starts_with(b"GET"))
    );
}
