//! Tests of loads whose targets refuse every connection attempt.

use prony_record::Outcome;

use super::*;

fn refusing_with(errno: i32) -> Box<dyn Server> {
    Box::new(FunctionServer {
        connect: move |_| Connect::Fail(Nanos::ZERO, errno),
        response: |_: &ReceivedRequest| Reply::default(),
    })
}

fn refusing() -> Box<dyn Server> {
    refusing_with(libc::ECONNREFUSED)
}

/// A server that refuses all connection attempts before time `at` and accepts them afterwards.
fn refusing_until(at: Nanos) -> Box<dyn Server> {
    Box::new(FunctionServer {
        connect: move |now| {
            if now >= at {
                Connect::Accept(Nanos::ZERO)
            } else {
                Connect::Fail(Nanos::ZERO, libc::ECONNREFUSED)
            }
        },
        response: |_: &ReceivedRequest| reply([(ms(1), Step::Send(OK.to_vec()))]),
    })
}

#[test]
fn a_load_that_is_refused_for_over_a_second_ends() {
    for words in [
        "-d 10s -c 1",
        "-d 10s -c 300",
        "-n 100 -c 2",
        "-d 10s -r 100 -c 2",
        "-d 10s -r 0.5 -c 1",
        "-d 10s --warmup 5s -c 2",
    ] {
        let outcomes = load(words, refusing());
        let text = outcomes.finding("nothing-listens").unwrap();
        assert!(
            text.starts_with("Nothing is listening on 127.0.0.1:1: "),
            "{text}"
        );
        assert!(text.contains("refused") && text.contains("--wait-for-server"));
        let elapsed = outcomes.record.totals.elapsed_s;
        assert!(elapsed <= 2.05, "{words}: {elapsed}");
        let last = *outcomes.logs[0].borrow().connects.last().unwrap();
        assert!(last <= ms(2_050), "{words}: {last:?}");
    }
}

#[test]
fn a_shorter_load_also_reports_that_nothing_listens() {
    let outcomes = load("-n 1 -c 1", refusing());
    assert_eq!(outcomes.all(), [(Outcome::ConnectRefused, 1)]);
    let text = outcomes.finding("nothing-listens").unwrap();
    assert!(
        text.contains("the only connection attempt was refused"),
        "{text}"
    );
}

#[test]
fn a_missing_unix_socket_counts_as_a_refusal() {
    let mut spec = spec("-d 10s -c 1 --unix /nonexistent/app.sock");
    spec.span.requests = None;
    let outcomes = simulate(&spec, vec![refusing_with(libc::ENOENT)]);
    let text = outcomes.finding("nothing-listens").unwrap();
    assert!(text.contains("on /nonexistent/app.sock: "), "{text}");
    assert!(outcomes.record.totals.elapsed_s <= 1.2);
}

#[test]
fn a_server_that_comes_up_within_a_second_is_loaded() {
    let outcomes = load("-d 5s -c 1", refusing_until(ms(900)));
    assert_eq!(outcomes.finding("nothing-listens"), None);
    assert_eq!(outcomes.record.totals.elapsed_s, 5.0);
    assert!(outcomes.count(Outcome::Ok) > 3_000);
}

#[test]
fn refusals_among_other_failures_do_not_end_a_load() {
    let mut connects = 0;
    let server = Box::new(FunctionServer {
        connect: move |_| {
            connects += 1;
            if connects == 5 {
                Connect::Fail(Nanos::ZERO, libc::EHOSTUNREACH)
            } else {
                Connect::Fail(Nanos::ZERO, libc::ECONNREFUSED)
            }
        },
        response: |_: &ReceivedRequest| Reply::default(),
    });
    let outcomes = load("-d 10s -c 1", server);
    assert_eq!(outcomes.record.totals.elapsed_s, 10.0);
    assert_eq!(outcomes.finding("nothing-listens"), None);
}

#[test]
fn a_worker_that_reached_its_target_prevents_the_early_end() {
    let spec = spec("-d 5s -c 2");
    let outcomes = simulate(&spec, vec![steady(ms(1), OK), refusing()]);
    assert_eq!(outcomes.record.totals.elapsed_s, 5.0);
    assert_eq!(outcomes.finding("nothing-listens"), None);
    let last = *outcomes.logs[1].borrow().connects.last().unwrap();
    assert!(last > ms(4_000));
}

#[test]
fn an_early_end_applies_to_all_workers() {
    let spec = spec("-d 5s -c 2");
    // The workers of a simulation run in sequence, so the first worker ends the load before the
    // second begins.
    let outcomes = simulate(&spec, vec![refusing(), refusing()]);
    assert!(outcomes.record.totals.elapsed_s <= 1.2);
    assert!(outcomes.logs[1].borrow().connects.len() <= 1);
    assert!(outcomes.finding("nothing-listens").is_some());
}
