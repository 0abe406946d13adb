//! Tests of requests whose response does not arrive in time, and of connections that may be dead.

use prony_record::Outcome;

use super::server::{goaway, limit, ping, reset, settings};
use super::*;
use crate::socket::simulated::SendTiming;

/// Creates a server that never responds to requests whose index satisfies `numbers`, and responds
/// to all others after 10 ms.
fn silent_to(numbers: impl Fn(u64) -> bool + 'static) -> ScriptedH2Server {
    ScriptedH2Server::new(move |call| {
        if numbers(call.number) {
            Vec::new()
        } else {
            after(ms(10), ok(call.stream))
        }
    })
}

#[test]
fn a_timeout_cancels_only_its_stream() {
    let words = "-c 1 --streams 4 -d 1s --timeout 100ms";
    let (outcomes, seen) = load(words, silent_to(|number| number == 5));
    assert_eq!(outcomes.count(Outcome::Timeout), 1);
    assert_eq!(outcomes.connects(), 1);
    let seen = seen.borrow();
    // Request 5 began at 10 ms, so it times out at 110 ms. Its slot is then used again.
    assert_eq!(seen.resets, [(ms(110), 0)]);
    assert_eq!((seen.at(ms(100)), seen.at(ms(110))), (3, 4));
    assert_eq!(outcomes.count(Outcome::Ok), 4 * 99 - 10);
    let times = &outcomes.record.response_time_us;
    assert_us(times.p90, 10_000);
    // The distribution includes requests that timed out, with the time until the timeout.
    assert_us(times.max, 100_000);
}

#[test]
fn a_late_response_is_ignored() {
    // The response arrives on a canceled stream, whose slot already has its next request.
    let server = ScriptedH2Server::new(|call| {
        let service = match call.number % 3 {
            0 => ms(150),
            _ => ms(7),
        };
        after(service, ok(call.stream))
    });
    let (outcomes, _) = load("-c 1 --streams 3 -n 90 --timeout 100ms", server);
    let expected = [(Outcome::Ok, 60), (Outcome::Timeout, 30)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.connects(), 1);
    assert_eq!(outcomes.record.totals.body_bytes_in, 2 * 60);
    assert_us(outcomes.record.service_time_us.max, 100_000);
}

#[test]
fn a_dead_connection_is_replaced_when_its_last_stream_has_timed_out() {
    // Each of two connections has four streams. The second connection dies in its second round.
    let dead = |call: &Call| call.connection == 1 && call.now >= ms(10);
    let server = ScriptedH2Server::new(move |call| {
        if dead(call) {
            Vec::new()
        } else {
            after(ms(10), ok(call.stream))
        }
    });
    let (outcomes, seen) = load("-c 2 --streams 4 -d 1s --timeout 200ms", server);
    let seen = seen.borrow();
    assert_eq!(outcomes.count(Outcome::Timeout), 4);
    assert_eq!(outcomes.connects(), 3);
    assert_eq!(outcomes.logs[0].borrow().connects[2], ms(210));
    assert_eq!(seen.on(1), 8);
    assert_eq!(seen.on(0), 400);
    assert_eq!(seen.on(2), 4 * 79);
}

#[test]
fn a_connection_that_becomes_active_again_keeps_its_streams() {
    // The first request begins at 0 and times out at 100 ms. Instead of a response, the server
    // sends a ping at 120 ms. The second request began later and is still in flight when the ping
    // arrives.
    let server = ScriptedH2Server::new(|call| match call.number {
        0 => after(ms(120), ping()),
        1 => after(ms(115), ok(call.stream)),
        _ => after(ms(10), ok(call.stream)),
    })
    .greeting(|_| after(Nanos::ZERO, settings(&[])));
    // The second request is due 50 ms after the first.
    let words = "-r 20 -c 1 --streams 2 -d 500ms --timeout 100ms";
    let (outcomes, seen) = load(words, server);
    let seen = seen.borrow();
    // The third request, due at 100 ms, waits because nothing has arrived since the first began. It
    // is sent after the ping at 120 ms.
    assert_eq!(outcomes.connects(), 1);
    assert_eq!(seen.at(ms(100)), 0);
    assert_eq!(seen.at(ms(120)), 1);
    // The second request times out at 150 ms. Its response at 165 ms is ignored.
    assert_eq!(outcomes.count(Outcome::Timeout), 2);
    assert_eq!(outcomes.count(Outcome::Ok), 8);
    assert_us(outcomes.record.response_time_us.p50, 10_000);
    assert_eq!(outcomes.record.generator.late_us.max, 0.0);
}

#[test]
fn a_silent_server_times_out_all_requests() {
    let server = ScriptedH2Server::new(|_| Vec::new()).greeting(|_| Vec::new());
    let (outcomes, seen) = load("-c 2 --streams 4 -n 10 --timeout 100ms", server);
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 10)]);
    // Until SETTINGS arrive, a connection carries only one request at a time. Here, SETTINGS never
    // arrive, so each request needs a new connection.
    assert_eq!(outcomes.connects(), 10);
    assert_eq!(seen.borrow().calls.len(), 10);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.5);
}

#[test]
fn a_stalled_draining_connection_times_out() {
    // The GOAWAY at 60 ms causes two requests to be refused. It allows the two that began at 10 ms
    // to finish, but the server never responds to them.
    let server = ScriptedH2Server::new(|call| match call.number {
        0 | 1 => after(ms(10), ok(call.stream)),
        2 | 3 => after(ms(60), ok(call.stream)),
        4 | 5 => Vec::new(),
        6 => after(Nanos::ZERO, goaway(11, 0)),
        7 => Vec::new(),
        _ => after(ms(10), ok(call.stream)),
    });
    let (outcomes, seen) = load("-c 1 --streams 4 -n 20 --timeout 100ms", server);
    let expected = [(Outcome::Ok, 18), (Outcome::Timeout, 2)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.totals.retried, 2);
    assert_eq!(outcomes.logs[0].borrow().connects, [ms(0), ms(60)]);
    let seen = seen.borrow();
    assert_eq!([60, 70, 100, 110].map(|at| seen.at(ms(at))), [4, 2, 2, 4]);
}

#[test]
fn a_waiting_request_is_sent_when_a_timeout_frees_a_stream() {
    // Three requests get no response. The request that began at 60 ms is refused, because the
    // server now allows only two streams, and then waits for a free stream.
    let server = ScriptedH2Server::new(|call| match call.number {
        0..3 => Vec::new(),
        3 => after(ms(60), ok(call.stream)),
        4 => after(ms(1), [limit(2), reset(call.stream, 7)].concat()),
        _ => after(ms(10), ok(call.stream)),
    });
    let words = "-c 1 --streams 4 -n 40 --timeout 100ms";
    let (outcomes, seen) = load(words, server);
    let expected = [(Outcome::Ok, 37), (Outcome::Timeout, 3)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.totals.retried, 1);
    assert_eq!(outcomes.connects(), 1);
    // From 100 ms on, two requests are in flight at a time.
    let seen = seen.borrow();
    assert!((10..20).all(|round| seen.at(ms(10 * round)) == 2));
}

#[test]
fn a_request_that_waits_for_a_stream_times_out_alone() {
    // When the request times out, no request is in flight and the server allows no streams. The
    // connection nevertheless stays usable.
    let server = ScriptedH2Server::new(|call| match call.number {
        0 => after(ms(1), ok(call.stream)),
        1 => {
            let mut steps = after(ms(1), [limit(0), reset(call.stream, 7)].concat());
            steps.extend(after(ms(150), limit(5)));
            steps
        }
        _ => after(ms(10), ok(call.stream)),
    });
    let words = "-c 1 --streams 1 -n 10 --timeout 100ms";
    let (outcomes, _) = load(words, server);
    let expected = [(Outcome::Ok, 9), (Outcome::Timeout, 1)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.connects(), 1);
    // The next request waits from the timeout at 101 ms to the new limit at 151 ms.
    assert_us(outcomes.record.service_time_us.max, 100_000);
    assert_us(outcomes.record.response_time_us.p90, 60_000);
}

#[test]
fn requests_that_wait_for_a_connection_time_out() {
    // After GOAWAY, three of four requests wait for a second connection, which is never
    // established.
    let mut connects = 0;
    let server = ScriptedH2Server::new(|call| match call.number {
        1 => after(ms(1), goaway(1, 0)),
        0 => after(ms(20), ok(call.stream)),
        _ => Vec::new(),
    })
    .connecting(move |_| {
        connects += 1;
        match connects {
            1 => Connect::Accept(Nanos::ZERO),
            _ => Connect::Never,
        }
    });
    let words = "-c 1 --streams 4 -n 4 --timeout 100ms --connect-timeout 5s";
    let (outcomes, _) = load(words, server);
    let expected = [(Outcome::Ok, 1), (Outcome::Timeout, 3)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.1);
}

#[test]
fn a_send_that_is_never_accepted_is_a_timeout() {
    let server = steady(ms(10)).taking(|connection| match connection {
        0 => SendTiming::Never,
        _ => SendTiming::AtOnce,
    });
    let words = "-c 1 --streams 4 -n 40 --timeout 100ms";
    let (outcomes, _) = load(words, server);
    // The server reads only the first request of the connection.
    assert_eq!(
        outcomes.count(Outcome::Ok) + outcomes.count(Outcome::Timeout),
        40
    );
    assert!(
        outcomes.count(Outcome::Timeout) >= 3,
        "{:?}",
        outcomes.all()
    );
    assert!(outcomes.record.totals.elapsed_s < 2.0);
}

#[test]
fn a_failed_send_on_a_silent_connection_is_a_timeout_and_a_new_connection() {
    for responses in [false, true] {
        let server = ScriptedH2Server::new(move |call| {
            if responses || call.connection > 0 {
                after(ms(10), ok(call.stream))
            } else {
                Vec::new()
            }
        })
        .taking(|connection| match connection {
            0 => SendTiming::Fail(ms(1), libc::EPIPE),
            _ => SendTiming::AtOnce,
        });
        let (outcomes, _) = load("-c 1 --streams 4 -n 40 --timeout 100ms", server);
        // Bytes that were sent after the failed send never reached the server.
        let timeouts = 4 - u64::from(responses);
        assert_eq!(outcomes.count(Outcome::Timeout), timeouts);
        assert_eq!(outcomes.count(Outcome::Ok), 40 - timeouts);
        assert_eq!(outcomes.connects(), 2);
    }
}
