//! Pipelined batches of requests, as sent by scripts.

use super::*;
use crate::request::script::{RequestEnd, ResponseView, UserStep};

/// A script that sends one batch after another and records each call in a journal.
struct Sender {
    batch: std::sync::Arc<crate::request::Request>,
    journal: Rc<RefCell<Vec<String>>>,
}

impl Script for Sender {
    fn next(&mut self, _user: u32, _now: Nanos) -> UserStep {
        UserStep::Request(self.batch.clone())
    }

    fn responded(&mut self, _user: u32, response: &ResponseView<'_>) {
        let lines = String::from_utf8_lossy(response.head).lines().count();
        let body = String::from_utf8_lossy(response.body).into_owned();
        let text = format!("{} {lines} {body} {}", response.status, response.length);
        self.journal.borrow_mut().push(text);
    }

    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        let text = format!("{} {:?}", end.outcome.name(), end.exchange.status);
        self.journal.borrow_mut().push(text);
    }
}

const ALL: CaptureSpec = CaptureSpec {
    ends: true,
    heads: true,
    body_bytes: 64,
};

/// Sends batches of three requests over one connection. Returns the results and the journal.
fn batches(
    words: &str,
    method: &str,
    response: impl FnMut(&ReceivedRequest) -> Reply + 'static,
) -> (Outcomes, Vec<String>) {
    let spec = spec(&format!("-c 1 {words}"));
    let writer = spec.writer();
    let three = format!("{method} / HTTP/1.1\r\nHost: h\r\n\r\n").repeat(3);
    let journal = Rc::default();
    let script = Sender {
        batch: writer.batch(writer.raw(method, three.into_bytes()), 3),
        journal: Rc::clone(&journal),
    };
    let outcomes = simulate_script(&spec, responding(response), script, ALL);
    let lines = journal.borrow().clone();
    (outcomes, lines)
}

const ONE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na";
const TWO: &str =
    "HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbb\r\n0\r\n\r\n";
const THREE: &str = "HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 3\r\n\r\nccc";

const SHOWN: [&str; 3] = ["200 2 a 1", "404 2 bb 2", "200 3 ccc 3"];

#[test]
fn each_response_is_captured_for_any_split() {
    let all = format!("{ONE}{TWO}{THREE}").into_bytes();
    for cut in 1..all.len() {
        let all = all.clone();
        let (outcomes, journal) = batches("-n 2 --expect-status 100-999", "GET", move |_| {
            let (first, rest) = all.split_at(cut);
            reply([
                (ms(1), Step::Send(first.to_vec())),
                (ms(2), Step::Send(rest.to_vec())),
            ])
        });
        assert_eq!(outcomes.all(), [(Outcome::Ok, 2)], "cut at {cut}");
        assert_eq!(outcomes.connects(), 1);
        let once = [&SHOWN[..], &["ok Some(200)"]].concat();
        assert_eq!(journal, [&once[..], &once[..]].concat(), "cut at {cut}");
        // The elapsed time runs from the first byte sent to the end of the last response.
        assert_eq!(outcomes.record.totals.elapsed_s, 0.004);
        assert_eq!(outcomes.record.totals.body_bytes_in, 12);
        assert_eq!(outcomes.record.totals.bytes_in, 2 * all_length());
    }
}

fn all_length() -> u64 {
    (ONE.len() + TWO.len() + THREE.len()) as u64
}

#[test]
fn an_unexpected_response_fails_the_batch() {
    let (outcomes, journal) = batches("-n 1", "GET", |_| {
        reply([(ms(1), Step::Send(format!("{ONE}{TWO}{THREE}").into()))])
    });
    assert_eq!(outcomes.all(), [(Outcome::UnexpectedStatus, 1)]);
    assert_eq!(journal.len(), 4);
}

#[test]
fn responses_to_head_have_no_bodies() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".repeat(3);
    let (outcomes, journal) = batches("-n 1", "HEAD", move |_| {
        reply([(ms(1), Step::Send(head.clone().into_bytes()))])
    });
    assert_eq!(outcomes.all(), [(Outcome::Ok, 1)]);
    assert_eq!(journal[..3], ["200 2  0", "200 2  0", "200 2  0"]);
}

#[test]
fn complete_responses_of_a_failed_batch_are_captured() {
    let closing = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na";
    let until_close = "HTTP/1.1 200 OK\r\n\r\nrest";
    for (sent, outcome, shown) in [
        (format!("{ONE}{TWO}"), Outcome::ClosedEarly, 2),
        (format!("{ONE}HTTP/1.1 2"), Outcome::Truncated, 1),
        (format!("{ONE}nonsense"), Outcome::Protocol, 1),
        (format!("{ONE}{closing}"), Outcome::ClosedEarly, 2),
        (format!("{ONE}{until_close}"), Outcome::ClosedEarly, 2),
        (format!("{ONE}{TWO}{THREE}{ONE}"), Outcome::Protocol, 2),
        (String::new(), Outcome::ClosedEarly, 0),
    ] {
        let (outcomes, journal) = batches("-n 1 --expect-status 100-999", "GET", move |_| {
            reply([
                (ms(1), Step::Send(sent.clone().into_bytes())),
                (ms(2), Step::Close),
            ])
        });
        assert_eq!(outcomes.all(), [(outcome, 1)]);
        assert_eq!(journal.len(), shown + 1, "{journal:?}");
        let last = format!("{} None", outcome.name());
        assert_eq!(journal.last(), Some(&last));
    }
}

#[test]
fn a_batch_with_a_partial_response_is_not_retried() {
    // The server responds to the first batch completely. It then sends only one response to the
    // next batch, and resets the connection.
    let mut number = 0;
    let (outcomes, journal) = batches("-n 2 --expect-status 100-999", "GET", move |_| {
        number += 1;
        match number {
            1 => reply([(ms(1), Step::Send(format!("{ONE}{TWO}{THREE}").into()))]),
            _ => reply([
                (ms(1), Step::Send(ONE.into())),
                (ms(2), Step::Fail(libc::ECONNRESET)),
            ]),
        }
    });
    assert_eq!(outcomes.count(Outcome::Reset), 1);
    assert_eq!(outcomes.record.totals.retried, 0);
    assert_eq!(journal[4..], ["200 2 a 1", "reset None"]);
    // A batch that is lost before any response is retried.
    let mut number = 0;
    let (outcomes, _) = batches("-n 2 --expect-status 100-999", "GET", move |_| {
        number += 1;
        match number {
            2 => reply([(ms(1), Step::Close)]),
            _ => reply([(ms(1), Step::Send(format!("{ONE}{TWO}{THREE}").into()))]),
        }
    });
    assert_eq!(outcomes.all(), [(Outcome::Ok, 2)]);
    assert_eq!(outcomes.record.totals.retried, 1);
}

#[test]
fn the_end_of_the_load_keeps_complete_responses() {
    let (outcomes, journal) = batches("-d 5ms", "GET", |_| {
        reply([(ms(1), Step::Send(format!("{ONE}{ONE}").into()))])
    });
    assert_eq!(outcomes.count(Outcome::Unfinished), 1);
    assert_eq!(journal, ["200 2 a 1", "200 2 a 1", "unfinished None"]);
}
