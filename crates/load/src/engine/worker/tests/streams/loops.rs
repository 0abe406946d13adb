//! Tests of closed and open loops over streams: requests in flight, start times and response times.

use prony_record::Outcome;

use super::server::{GET, POST, settings};
use super::*;
use crate::values::pacing::{ArrivalSchedule, Arrivals, ScheduleEnd};

#[test]
fn a_closed_loop_keeps_every_stream_busy() {
    let (outcomes, seen) = load("-c 3 --streams 4 -d 1s", steady(ms(10)));
    let seen = seen.borrow();
    // One request per connection starts immediately. All others start together when SETTINGS have
    // arrived.
    for round in 0..100 {
        assert_eq!(seen.at(ms(10 * round)), 12, "{round}");
    }
    assert_eq!(seen.calls.len(), 1200);
    assert!((0..3).all(|connection| seen.on(connection) == 400));
    assert_eq!(outcomes.count(Outcome::Ok), 1188);
    assert_eq!(outcomes.count(Outcome::Unfinished), 12);
    let record = &outcomes.record;
    assert_eq!(record.negotiated.http.as_deref(), Some("2"));
    assert_eq!(record.totals.connections_opened, 3);
    assert_eq!(record.totals.body_bytes_in, 2 * 1188);
    // All bytes of the frames are counted: 10 bytes for the head and 11 for the body.
    assert!(record.totals.bytes_in >= 21 * 1188);
    assert_us(record.response_time_us.min, 10_000);
    assert_us(record.response_time_us.max, 10_000);
    assert_us(record.service_time_us.max, 10_000);
    assert!(!has_finding(&outcomes, "streams-limited"));
    assert_eq!(seen.acks, 3);
}

#[test]
fn the_first_request_includes_the_connect_and_the_others_start_with_settings() {
    let server = steady(ms(10))
        .connecting(|_| Connect::Accept(ms(3)))
        .greeting(|_| after(ms(2), settings(&[])));
    let (outcomes, seen) = load("-c 1 --streams 4 -n 8", server);
    let seen = seen.borrow();
    let starts: Vec<_> = seen.calls.iter().map(|call| call.now).collect();
    assert_eq!(starts, [3, 5, 5, 5, 13, 15, 15, 15].map(ms));
    let record = &outcomes.record;
    assert_eq!(outcomes.all(), [(Outcome::Ok, 8)]);
    assert_us(record.response_time_us.max, 13_000);
    assert_us(record.response_time_us.p50, 10_000);
    assert_us(record.service_time_us.max, 10_000);
    assert_us(record.connect_time_us.max, 3_000);
    assert_eq!(record.totals.elapsed_s, 0.025);
}

#[test]
fn a_slow_stream_does_not_block_others() {
    // Every tenth response takes 100 ms, the others 1 ms.
    let server = ScriptedH2Server::new(|call| {
        let service = match call.number % 10 {
            0 => ms(100),
            _ => ms(1),
        };
        after(service, ok(call.stream))
    });
    let (outcomes, _) = load("-c 1 --streams 20 -n 1000", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1000)]);
    let times = &outcomes.record.response_time_us;
    assert_us(times.p50, 1_000);
    assert_us(times.max, 100_000);
    // 100 requests are slow, and up to 20 of them are in flight at the same time.
    assert!(outcomes.record.totals.elapsed_s < 0.62);
}

#[test]
fn the_time_to_first_byte_is_measured_per_stream() {
    let server = ScriptedH2Server::new(|call| {
        let (stream, ends) = (call.stream, server::END_STREAM);
        vec![
            (ms(1), Step::Send(server::interim(stream))),
            (ms(4), Step::Send(server::head(stream, server::OK, 0))),
            (ms(6), Step::Send(server::data(stream, b"hello", 0))),
            // The body has an empty DATA frame, and ends with a padded one.
            (ms(6), Step::Send(server::data(stream, b"", 0))),
            (
                ms(7),
                Step::Send(server::frame(0, 0x8 | ends, stream, b"\x02xx\0\0")),
            ),
        ]
    });
    let (outcomes, _) = load("-c 2 --streams 3 -n 60 --expect-size 7", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 60)]);
    assert_us(outcomes.record.first_byte_us.max, 1_000);
    assert_us(outcomes.record.response_time_us.max, 7_000);
    assert_eq!(outcomes.record.totals.body_bytes_in, 60 * 7);
}

#[test]
fn trailers_and_heads_without_a_body_end_responses() {
    let server = ScriptedH2Server::new(|call| {
        let stream = call.stream;
        let response = match call.number % 3 {
            0 => server::head(stream, server::OK, server::END_STREAM),
            1 => [
                server::head(stream, server::OK, 0),
                server::data(stream, b"hi", 0),
                server::trailers(stream),
            ]
            .concat(),
            _ => server::head(stream, server::FAILED, server::END_STREAM),
        };
        after(ms(1), response)
    });
    let (outcomes, _) = load("-c 2 --streams 3 -n 60", server);
    let expected = [(Outcome::Ok, 40), (Outcome::UnexpectedStatus, 20)];
    assert_eq!(outcomes.all(), expected);
    assert_eq!(outcomes.record.status[&500], 20);
}

#[test]
fn a_request_count_is_exact_for_any_number_of_streams() {
    for (n, connections, streams, workers) in [
        (1, 1, 100, 1),
        (7, 3, 2, 3),
        (5, 2, 100, 2),
        (1000, 8, 16, 3),
        (999, 5, 7, 5),
    ] {
        let words = format!("--http 2 -n {n} -c {connections} --streams {streams}");
        let servers: Vec<_> = (0..workers).map(|_| steady(ms(1))).collect();
        let seen: Vec<_> = servers.iter().map(ScriptedH2Server::seen).collect();
        let servers = servers
            .into_iter()
            .map(|it| -> Box<dyn Server> { Box::new(it) });
        let outcomes = simulate(&spec(&words), servers.collect());
        assert_eq!(outcomes.all(), [(Outcome::Ok, n)], "{words}");
        let sent: usize = seen.iter().map(|seen| seen.borrow().calls.len()).sum();
        assert_eq!(sent as u64, n, "{words}");
    }
}

#[test]
fn a_request_count_excludes_the_warm_up() {
    // Eight streams complete a request every 10 ms. The warm-up of 45 ms ends during the fifth
    // round.
    let (outcomes, seen) = load("-n 100 -c 2 --streams 4 --warmup 45ms", steady(ms(10)));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(seen.borrow().calls.len(), 100 + 8 * 5);
    let words = "-n 100 -r 1000 -c 2 --streams 4 --warmup 45ms";
    let (outcomes, seen) = load(words, steady(ms(1)));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    assert_eq!(seen.borrow().calls.len(), 145);
}

#[test]
fn arrivals_wait_for_a_free_stream_and_none_is_lost() {
    // With eight streams and 20 ms per request, the server handles 400 of the 1000 requests that
    // are due per second.
    let (outcomes, seen) = load("-r 1000 -c 2 --streams 4 -d 1s", steady(ms(20)));
    let seen = seen.borrow();
    let record = &outcomes.record;
    // SETTINGS arrive immediately, so no request has to wait for them.
    let mut free_at = [Nanos::ZERO; 8];
    let (mut ok, mut unfinished, mut longest) = (0, 0, 0);
    for (number, due) in schedule(1000.0, Nanos::from_secs(1))
        .into_iter()
        .enumerate()
    {
        let stream = free_at.iter_mut().min().unwrap();
        let start = due.max(*stream);
        if start >= Nanos::from_secs(1) {
            break;
        }
        assert_eq!(seen.calls[number].now, start, "{number}");
        *stream = start + ms(20);
        if *stream < Nanos::from_secs(1) {
            ok += 1;
            longest = longest.max(stream.since(due).0 / 1000);
        } else {
            unfinished += 1
        }
    }
    assert_eq!(outcomes.count(Outcome::Ok), ok);
    assert_eq!(outcomes.count(Outcome::Unfinished), unfinished);
    assert_eq!(record.totals.started + record.totals.unstarted, 1000);
    assert!(record.response_time_us.max >= longest as f64);
    // The server is slow, but the generator is never late.
    assert_eq!(record.generator.late_us.max, 0.0);
    assert!(!has_finding(&outcomes, "streams-limited"));
}

fn schedule(rate: f64, end: Nanos) -> Vec<Nanos> {
    let until = ScheduleEnd {
        requests: u64::MAX,
        counted_from: Nanos::ZERO,
        at: end,
    };
    let whole = Shard { worker: 0, of: 1 };
    ArrivalSchedule::new(Arrivals::Constant, &rate.into(), 0, whole, until).collect()
}

#[test]
fn an_arrival_that_finds_no_stream_counts_its_wait() {
    // A request is due every 10 ms and takes 15 ms, so each request waits 5 ms longer than the
    // previous one.
    let (outcomes, _) = load("-r 100 -c 1 --streams 1 -n 20", steady(ms(15)));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 20)]);
    let record = &outcomes.record;
    assert_us(record.response_time_us.min, 15_000);
    assert_us(record.response_time_us.max, 15_000 + 19 * 5_000);
    assert_us(record.service_time_us.max, 15_000);
    assert_eq!(record.generator.late_us.max, 0.0);
}

#[test]
fn an_open_loop_waits_for_settings_without_being_late() {
    let server = steady(ms(1))
        .connecting(|_| Connect::Accept(ms(30)))
        .greeting(|_| after(ms(50), settings(&[])));
    let (outcomes, seen) = load("-r 1000 -c 1 --streams 100 -n 300", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 300)]);
    let seen = seen.borrow();
    // One request is sent when the connect ends, and all waiting requests when SETTINGS have
    // arrived.
    assert_eq!(
        (seen.at(ms(30)), seen.at(ms(80)), seen.at(ms(81))),
        (1, 80, 1)
    );
    assert_eq!(outcomes.record.generator.late_us.max, 0.0);
    assert_us(outcomes.record.response_time_us.max, 80_000);
}

#[test]
fn url_lists_over_two_servers_keep_their_connections() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    let lines = "http://127.0.0.1:1/a\nhttp://127.0.0.1:2/b POST body\n";
    std::fs::write(&file, lines).unwrap();
    for words in [
        "-c 2 --streams 8 -n 400",
        "-c 4 --streams 3 -n 400 --order random --seed 7",
        "-c 1 --streams 5 -n 400",
        "-c 3 --streams 4 -n 400 -r 2000",
    ] {
        let server = steady(ms(2)).connecting(|_| Connect::Accept(ms(5)));
        let words = format!("{words} --urls {}", file.display());
        let (outcomes, seen) = load(&words, server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 400)], "{words}");
        for call in &seen.borrow().calls {
            let method = [GET, POST][usize::from(call.port) - 1];
            assert_eq!(call.method, method, "{words}: {call:?}");
            assert_eq!(call.body, [0, 4][usize::from(call.port) - 1]);
        }
        assert_eq!(outcomes.record.generator.late_us.max, 0.0, "{words}");
    }
}

#[test]
fn every_stream_of_two_servers_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("urls.txt");
    std::fs::write(&file, "http://127.0.0.1:1/\nhttp://127.0.0.1:2/\n").unwrap();
    let words = format!("-c 2 --streams 4 -n 80 --urls {}", file.display());
    // Connects take 5 ms, SETTINGS arrive 2 ms later, and responses take 10 ms.
    let server = steady(ms(10))
        .connecting(|_| Connect::Accept(ms(5)))
        .greeting(|_| after(ms(2), settings(&[])));
    let (outcomes, seen) = load(&words, server);
    let seen = seen.borrow();
    assert_eq!((seen.at(ms(5)), seen.at(ms(7))), (2, 6));
    assert_eq!(outcomes.connects(), 2);
    // If a request waits for SETTINGS, its clock starts when SETTINGS arrive.
    assert_us(outcomes.record.response_time_us.max, 15_000);
    assert_us(outcomes.record.response_time_us.p90, 10_000);
}

#[test]
fn bodies_are_sent_as_fast_as_the_windows_open() {
    let body = "x".repeat(20_000);
    let words = format!("-c 2 --streams 3 -n 30 --body {body}");
    // The window is 6,000 bytes, and is refilled 3 ms after the bytes were sent. A body needs four
    // windows.
    let server = steady(ms(1)).with_windows(6_000, Some(ms(3)));
    let (outcomes, seen) = load(&words, server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 30)]);
    assert!(seen.borrow().calls.iter().all(|call| call.body == 20_000));
    assert_us(outcomes.record.response_time_us.max, 3 * 3_000 + 1_000);
    assert!(outcomes.record.totals.bytes_out > 30 * 20_000);
}

#[test]
fn streams_share_the_window_of_the_connection() {
    let body = "x".repeat(50_000);
    let words = format!("-X POST -c 1 --streams 4 -n 8 --body {body}");
    let server = steady(ms(1)).with_windows(65_535, Some(ms(10)));
    let (outcomes, seen) = load(&words, server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 8)]);
    assert!(seen.borrow().calls.iter().all(|call| call.body == 50_000));
}

#[test]
fn a_window_that_never_opens_is_a_timeout() {
    let body = "x".repeat(70_000);
    let words = format!("-X POST -c 1 --streams 2 -n 4 --timeout 100ms --body {body}");
    let server = steady(ms(1)).with_windows(65_535, None);
    let (outcomes, seen) = load(&words, server);
    assert_eq!(outcomes.all(), [(Outcome::Timeout, 4)]);
    assert_eq!(seen.borrow().calls.len(), 0);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.2);
}

#[test]
fn a_response_before_the_end_of_the_request_ends_it() {
    // The server responds to the head of the request, and doesn't read the body.
    let server = steady(ms(1))
        .with_windows(1_000, None)
        .responding_to_heads();
    let body = "x".repeat(5_000);
    let (outcomes, seen) = load(&format!("-c 1 --streams 3 -n 30 --body {body}"), server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 30)]);
    // The first request is not reset because it was sent completely before SETTINGS arrived. The
    // last three are not reset because their responses ended the load.
    assert_eq!(seen.borrow().resets.len(), 30 - 1 - 3);
}

#[test]
fn many_connections_are_open_before_the_first_request() {
    let server = steady(ms(1)).connecting(|_| Connect::Accept(ms(10)));
    let (outcomes, seen) = load("-n 1800 -c 300 --streams 2", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1800)]);
    assert_eq!(outcomes.connects(), 300);
    let seen = seen.borrow();
    // The last batch of connection attempts begins after 18 ms and takes 10 ms, and the server gets
    // 20 ms to accept it.
    assert_eq!(seen.calls[0].now, ms(18 + 10 + 20));
    assert_eq!(seen.at(ms(48)), 600);
    // The response time of the first request on each connection includes the connect. No response
    // time includes the wait for other connections.
    let times = &outcomes.record.response_time_us;
    assert_us(times.max, 11_000);
    assert_us(times.p50, 1_000);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.051);
}

#[test]
fn requests_rejected_during_the_ramp_are_retried() {
    // The first ten connections end during the ramp, or just before it ends at 39 ms.
    for (held_ms, last) in [
        (5, Step::Close),
        (37, Step::Close),
        (5, Step::Fail(libc::ECONNRESET)),
        (5, Step::Send(server::goaway(0, server::NO_ERROR))),
        // DATA on a stream that was never opened violates the protocol. The client waits 10 ms for
        // the server to close.
        (5, Step::Send(server::data(99, b"hi", 0))),
        (37, Step::Send(server::data(99, b"hi", 0))),
    ] {
        let name = format!("{held_ms} {last:?}");
        let server = steady(ms(1))
            .connecting(|_| Connect::Accept(ms(1)))
            .greeting(move |connection| {
                let mut steps = after(Nanos::ZERO, settings(&[]));
                if connection < 10 {
                    steps.push((ms(held_ms), last.clone()));
                }
                steps
            });
        let (outcomes, seen) = load("-n 1800 -c 300 --streams 2", server);
        assert_eq!(outcomes.count(Outcome::Ok), 1800, "{name}");
        assert_eq!(outcomes.connects(), 310, "{name}");
        assert_eq!(seen.borrow().calls[0].now, ms(18 + 1 + 20), "{name}");
        let longest = outcomes.record.response_time_us.max;
        assert!(longest < 13_000.0, "{name}: {longest} µs");
        // Reconnecting begins when the requests are released or when the old connection ends,
        // whichever is later.
        let again = outcomes.logs[0].borrow().connects[300];
        assert!(
            (39..=48).contains(&(again.0 / 1_000_000)),
            "{name}: {again:?}"
        );
    }
}

#[test]
fn streams_in_flight_at_the_end_are_unfinished() {
    let (outcomes, _) = load("-c 2 --streams 5 -d 25ms", steady(ms(10)));
    let expected = [(Outcome::Ok, 20), (Outcome::Unfinished, 10)];
    assert_eq!(outcomes.all(), expected);
    let words = "-r 1000 -c 1 --streams 5 -d 25ms";
    let (outcomes, _) = load(words, steady(ms(100)));
    let expected = [(Outcome::Unfinished, 5), (Outcome::Unstarted, 20)];
    assert_eq!(outcomes.all(), expected);
}

#[test]
fn an_interrupted_load_accounts_for_every_request() {
    let control = Rc::new(Control::new(1));
    let stopper = control.clone();
    let server = ScriptedH2Server::new(move |call| {
        if call.number == 37 {
            stopper.stop();
        }
        after(ms(10), ok(call.stream))
    });
    let spec = spec("--http 2 -c 2 --streams 5 -d 100s");
    let outcomes = simulate_costly(&spec, vec![Box::new(server)], Nanos::ZERO, &control);
    let expected = [(Outcome::Ok, 30), (Outcome::Unfinished, 10)];
    assert_eq!(outcomes.all(), expected);
    assert!(outcomes.record.totals.elapsed_s < 0.1);
}

#[test]
fn each_stream_follows_its_own_redirects() {
    // Some requests are redirected to the same host, and others to another host. All of them share
    // a connection.
    let server = ScriptedH2Server::new(|call| {
        let location = match (call.port, call.number % 4) {
            (1, 1) => Some("//127.0.0.1:9/other"),
            (1, 2) => Some("/same"),
            _ => None,
        };
        after(
            ms(10),
            match location {
                Some(location) => server::redirect(call.stream, location),
                None => ok(call.stream),
            },
        )
    });
    let (outcomes, seen) = load("-c 2 --streams 4 -n 200 --follow 30", server);
    let seen = seen.borrow();
    assert_eq!(outcomes.all(), [(Outcome::Ok, 200)]);
    let totals = &outcomes.record.totals;
    assert_eq!(seen.calls.len() as u64, 200 + totals.redirected);
    let elsewhere = seen.calls.iter().filter(|call| call.port == 9).count();
    assert!(elsewhere > 10 && totals.redirected as usize > elsewhere);
    // Each hop takes the time of at least one response.
    assert!(outcomes.record.response_time_us.max >= 20_000.0);
    assert!(outcomes.record.response_time_us.min >= 9_990.0);
}
