//! Tests of the ramp: all connections are opened before the first request, unless that takes too
//! long.

use std::cell::Cell;

use prony_record::Outcome;

use super::*;

/// Creates a server that responds to requests after 1 ms. A function determines the result of the
/// n-th connection attempt, counted from 1.
fn taking(connect: impl Fn(u64) -> Connect + 'static) -> Box<dyn Server> {
    let taken = Cell::new(0);
    Box::new(FunctionServer {
        connect: move |_| {
            taken.set(taken.get() + 1);
            connect(taken.get())
        },
        response: |_: &ReceivedRequest| reply([(ms(1), Step::Send(OK.to_vec()))]),
    })
}

/// Returns the time of the first request, and the number of connection attempts before it.
fn first_request(outcomes: &Outcomes) -> (Nanos, usize) {
    let log = outcomes.logs[0].borrow();
    let first = log.requests.first().unwrap().0;
    (
        first,
        log.connects.iter().filter(|at| **at <= first).count(),
    )
}

#[test]
fn many_connections_are_open_before_the_first_request() {
    let server = taking(|number| Connect::Accept(ms(number / 10 + 1)));
    let outcomes = load("-n 900 -c 300", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 900)]);
    assert_eq!(outcomes.connects(), 300);
    // The last batch of connection attempts begins after 18 ms, each attempt takes up to 31 ms, and
    // the server gets 20 ms to accept them.
    assert_eq!(first_request(&outcomes), (ms(18 + 31 + 20), 300));
    // The response time consists of 1 to 31 ms to connect and 1 ms until the response. The wait for
    // the other connections doesn't count.
    let times = &outcomes.record.response_time_us;
    assert!(times.max < 32_100.0, "{}", times.max);
    assert!(times.p50 < 1_100.0, "{}", times.p50);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.072);
}

#[test]
fn held_requests_do_not_time_out() {
    // The first connection attempts succeed after 30 ms. Those of the second round begin as late as
    // 45 ms.
    let server = taking(|_| Connect::Accept(ms(30)));
    let outcomes = load("-n 1500 -c 500 --timeout 45ms", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1500)]);
    assert_eq!(first_request(&outcomes).0, ms(75 + 20));
}

/// A server that responds after 1 ms. It ends each of its first ten connections with the step
/// `last` if no request arrives for 5 ms.
struct IdleClosingServer {
    last: Step,
}

impl Server for IdleClosingServer {
    fn connect(&mut self, _now: Nanos) -> Connect {
        Connect::Accept(ms(1))
    }

    fn greet(&mut self, connection: u64) -> Vec<(Nanos, Step)> {
        match connection {
            0..10 => vec![(ms(5), self.last.clone())],
            _ => Vec::new(),
        }
    }

    fn response(&mut self, _asked: &ReceivedRequest) -> Reply {
        reply([(ms(1), Step::Send(OK.to_vec()))])
    }
}

#[test]
fn connections_closed_by_the_server_during_the_ramp_are_reopened() {
    let timeout = b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n";
    for last in [
        Step::Close,
        Step::Fail(libc::ECONNRESET),
        Step::Send(timeout.to_vec()),
    ] {
        let server = Box::new(IdleClosingServer { last: last.clone() });
        let outcomes = load("-n 900 -c 300", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 900)], "{last:?}");
        assert_eq!(outcomes.connects(), 310, "{last:?}");
        // The worker reconnects only once all requests have been released. Otherwise, it might
        // reconnect forever.
        let again = outcomes.logs[0].borrow().connects[300];
        assert_eq!(again, ms(18 + 1 + 20), "{last:?}");
        let longest = outcomes.record.response_time_us.max;
        assert!(longest < 3_010.0, "{last:?}: {longest} µs");
    }
}

#[test]
fn few_connections_and_open_loops_begin_at_once() {
    for words in [
        "-n 400 -c 200",
        "-n 900 -c 300 -r 1000",
        "-n 900 -c 300 --no-keepalive",
    ] {
        let server = taking(|number| Connect::Accept(ms(number % 100 + 1)));
        let outcomes = load(words, server);
        assert!(first_request(&outcomes).0 <= ms(2), "{words}");
    }
}

#[test]
fn a_hanging_connect_holds_the_others_only_briefly() {
    let server = taking(|number| match number {
        7 => Connect::Never,
        _ => Connect::Accept(ms(1)),
    });
    let outcomes = load("-n 900 -c 300 --connect-timeout 3s", server);
    assert_eq!(
        outcomes.all(),
        [(Outcome::Ok, 899), (Outcome::ConnectTimeout, 1)]
    );
    assert_eq!(first_request(&outcomes).0, ms(1500));
    assert_eq!(outcomes.record.totals.elapsed_s, 3.0);
}

#[test]
fn failed_connects_are_failed_requests() {
    let server = taking(|number| match number {
        1..=40 => Connect::Fail(ms(1), libc::ECONNREFUSED),
        _ => Connect::Accept(ms(20)),
    });
    let outcomes = load("-n 900 -c 300", server);
    assert_eq!(
        outcomes.all(),
        [(Outcome::Ok, 860), (Outcome::ConnectRefused, 40)]
    );
    // Only the first connection of each entry waits. Connections that replace a failed one don't.
    assert!(first_request(&outcomes).0 >= ms(20));
}

#[test]
fn a_load_may_end_before_all_connections_are_made() {
    let server = taking(|_| Connect::Accept(ms(500)));
    let outcomes = load("-d 90ms -c 1000", server);
    let totals = &outcomes.record.totals;
    // 256 connection attempts were in progress, which is the ramp's limit.
    assert_eq!((totals.started, totals.unfinished), (256, 256));
}

#[test]
fn pending_connects_do_not_delay_others() {
    let server = taking(|_| Connect::Never);
    let outcomes = load("-d 450ms -c 2000", server);
    let totals = &outcomes.record.totals;
    assert_eq!((totals.started, totals.unfinished), (1024, 1024));
}
