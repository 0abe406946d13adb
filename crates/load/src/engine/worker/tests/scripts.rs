//! Tests of scripts in the worker: the steps of virtual users, and the calls that a script
//! receives.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::*;
use crate::request::Request;
use crate::request::script::{RequestEnd, ResponseView, UserStep};

/// A script's calls as text, in order.
type Journal = Rc<RefCell<Vec<String>>>;

/// A script that takes the steps of users from a function and records each call in a journal.
struct TestScript<F> {
    next: F,
    journal: Journal,
}

impl<F: FnMut(u32, Nanos) -> UserStep> Script for TestScript<F> {
    fn next(&mut self, user: u32, now: Nanos) -> UserStep {
        (self.next)(user, now)
    }

    fn responded(&mut self, user: u32, response: &ResponseView<'_>) {
        let (head, body) = (
            String::from_utf8_lossy(response.head),
            String::from_utf8_lossy(response.body),
        );
        let line = format!(
            "{user} {} {} {head:?} {body:?} {}",
            response.request.method(),
            response.status,
            response.length
        );
        self.journal.borrow_mut().push(line);
    }

    fn ended(&mut self, user: u32, end: &RequestEnd<'_>) {
        let line = format!(
            "{user} {} {} {:?} {:?}",
            end.request.url(),
            end.outcome.name(),
            end.exchange.ended,
            end.connect
        );
        self.journal.borrow_mut().push(line);
    }

    fn finish(self: Box<Self>) {
        self.journal.borrow_mut().push("finished".to_owned());
    }
}

const ALL: CaptureSpec = CaptureSpec {
    ends: true,
    heads: true,
    body_bytes: 64,
};

/// Runs a script. Returns the results of the load and the script's journal.
fn run_script(
    spec: &LoadSpec,
    server: Box<dyn Server>,
    next: impl FnMut(u32, Nanos) -> UserStep,
) -> (Outcomes, Vec<String>) {
    let journal = Journal::default();
    let script = TestScript {
        next,
        journal: journal.clone(),
    };
    let outcomes = simulate_script(spec, server, script, ALL);
    let lines = journal.borrow().clone();
    (outcomes, lines)
}

fn made(spec: &LoadSpec, method: &str, url: &str, body: &str) -> Arc<Request> {
    let headers = [("X-One".to_owned(), "1".to_owned())];
    let request = spec
        .writer()
        .request(method, url, &headers, body.as_bytes());
    request.unwrap()
}

#[test]
fn a_user_thinks_sends_its_own_request_and_leaves() {
    let spec = spec("-c 1 -d 10s");
    let mut steps = vec![
        UserStep::Leave,
        UserStep::Rest(ms(300)),
        UserStep::Request(made(&spec, "POST", "/own?x", "body")),
        UserStep::Listed,
        UserStep::Rest(ms(100)),
    ];
    let server = steady(ms(5), OK);
    let (outcomes, journal) = run_script(&spec, server, |_, _| steps.pop().unwrap());
    // Think times don't count as response time, and the load ends when all users have left.
    assert_eq!(outcomes.all(), [(Outcome::Ok, 2)]);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.41);
    assert!((outcomes.record.response_time_us.max - 5000.0).abs() < 10.0);
    assert_eq!(outcomes.connects(), 1);
    let log = outcomes.logs[0].borrow();
    let sent: Vec<_> = log
        .requests
        .iter()
        .map(|(at, bytes)| (*at, String::from_utf8_lossy(bytes).into_owned()))
        .collect();
    assert_eq!(sent[0].0, ms(100));
    assert!(sent[0].1.starts_with("GET / HTTP/1.1\r\n"), "{}", sent[0].1);
    assert_eq!(sent[1].0, ms(105));
    let own = &sent[1].1;
    assert!(
        own.starts_with("POST /own?x HTTP/1.1\r\nHost: 127.0.0.1:1\r\n"),
        "{own}"
    );
    assert!(
        own.contains("\r\nX-One: 1\r\n") && own.ends_with("\r\n\r\nbody"),
        "{own}"
    );
    let head = "\"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\"";
    assert_eq!(
        journal,
        [
            format!("0 GET 200 {head} \"hi\" 2"),
            "0 http://127.0.0.1:1/ ok Nanos(105000000) Some(Nanos(0))".to_owned(),
            format!("0 POST 200 {head} \"hi\" 2"),
            "0 http://127.0.0.1:1/own?x ok Nanos(110000000) None".to_owned(),
            "finished".to_owned(),
        ]
    );
}

#[test]
fn limits_apply_with_scripts() {
    let server = || steady(ms(1), OK);
    let (outcomes, journal) = run_script(&spec("-c 3 -n 20"), server(), |_, _| UserStep::Listed);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 20)]);
    assert_eq!(journal.len(), 41);
    let (outcomes, _) = run_script(&spec("-c 2 -d 100ms"), server(), |_, _| UserStep::Listed);
    assert_eq!(outcomes.record.totals.elapsed_s, 0.1);
    assert_eq!(outcomes.count(Outcome::Ok), 2 * 99);
    // An open loop follows its schedule and skips users that are thinking.
    let open = spec("-c 2 -d 1s -r 100");
    let (outcomes, _) = run_script(&open, server(), |user, _| match user {
        0 => UserStep::Rest(ms(10_000)),
        _ => UserStep::Listed,
    });
    assert_eq!(outcomes.record.totals.started, 100);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 100)]);
    // All users think forever. The duration still ends the load.
    let (outcomes, journal) =
        run_script(&spec("-c 2 -d 1s"), server(), |_, _| UserStep::Rest(ms(1)));
    assert_eq!(outcomes.record.totals.started, 0);
    assert_eq!((journal.len(), outcomes.record.totals.elapsed_s), (1, 1.0));
}

#[test]
fn heads_and_bodies_are_complete_for_any_split() {
    let pieces: &[&[u8]] = &[
        b"HTTP/1.1 100 Continue\r\nX: y\r\n\r\nHTT",
        b"P/1.1 404 No",
        b" such\r\nA: b\r\nTransfer-Encoding: chunked\r\n",
        b"\r\n3\r\nab",
        b"c\r\n2\r\nde\r\n0\r\n\r\n",
    ];
    let server = responding(move |_| Reply {
        steps: (0..)
            .zip(pieces)
            .map(|(n, piece)| (ms(n), Step::Send(piece.to_vec())))
            .collect(),
        ..Reply::default()
    });
    let (_, journal) = run_script(&spec("-c 1 -n 1"), server, |_, _| UserStep::Listed);
    let head = "HTTP/1.1 404 No such\\r\\nA: b\\r\\nTransfer-Encoding: chunked\\r\\n";
    assert_eq!(journal[0], format!("0 GET 404 \"{head}\" \"abcde\" 5"));
    assert!(journal[1].contains("unexpected_status"));
}

#[test]
fn new_targets_get_their_own_connections() {
    let words = "-c 1 -n 4 --resolve other.test:9:127.0.0.1";
    let spec = spec(words);
    let urls = ["/a", "http://other.test:9/b", "http://other.test:9/c", "/d"];
    let mut requests = urls.map(|url| made(&spec, "GET", url, "")).into_iter();
    let server = responding(|request| {
        let expected = match request.port {
            9 => ["GET /b", "GET /c"],
            _ => ["GET /a", "GET /d"],
        };
        assert!(
            expected
                .iter()
                .any(|line| request.bytes.starts_with(line.as_bytes()))
        );
        reply([(ms(1), Step::Send(OK.to_vec()))])
    });
    let (outcomes, _) = run_script(&spec, server, |_, _| {
        requests.next().map_or(UserStep::Leave, UserStep::Request)
    });
    assert_eq!(outcomes.all(), [(Outcome::Ok, 4)]);
    assert_eq!(outcomes.connects(), 3);
}

#[test]
fn raw_bytes_are_sent_unchanged() {
    let spec = spec("-c 1 -n 2");
    let writer = spec.writer();
    let raw = writer.raw("HEAD", b"HEAD /x HTTP/1.1\nodd: 1\r\n\r\n".to_vec());
    let server = responding(|request| {
        assert_eq!(request.bytes, b"HEAD /x HTTP/1.1\nodd: 1\r\n\r\n");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        reply([(ms(1), Step::Send(head.to_vec()))])
    });
    let (outcomes, _) = run_script(&spec, server, |_, _| UserStep::Request(raw.clone()));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 2)]);
    assert!(writer.raw_to("http://8.8.8.8/", "GET", Vec::new()).is_err());
    assert!(writer.request("GET", "http://8.8.8.8/", &[], b"").is_err());
    assert!(writer.request("B D", "/", &[], b"").is_err());
    let further = writer
        .raw_to("http://127.0.0.2/x", "GET", Vec::new())
        .unwrap();
    assert_eq!((further.url(), further.target), ("http://127.0.0.2/x", 1));
}

#[test]
fn a_lost_request_of_a_script_is_sent_once_more() {
    let spec = spec("-c 1 -n 2");
    let own = made(&spec, "GET", "/again", "");
    let mut request = 0;
    let server = responding(move |_| {
        request += 1;
        match request {
            2 => reply([(ms(1), Step::Close)]),
            _ => reply([(ms(1), Step::Send(OK.to_vec()))]),
        }
    });
    let (outcomes, journal) = run_script(&spec, server, |_, _| UserStep::Request(own.clone()));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 2)]);
    assert_eq!(outcomes.record.totals.retried, 1);
    // The lost request was retried on the connection that the second request had opened.
    assert!(journal[3].ends_with("Some(Nanos(0))"), "{journal:?}");
}

#[test]
fn failures_and_interrupted_requests_are_reported() {
    let mut connects = 0;
    let server = Box::new(FunctionServer {
        connect: move |_| {
            connects += 1;
            match connects {
                1 => Connect::Fail(ms(1), libc::ECONNREFUSED),
                _ => Connect::Accept(ms(2)),
            }
        },
        response: |_: &ReceivedRequest| Reply::default(),
    });
    let (_, journal) = run_script(&spec("-c 1 -d 100ms"), server, |_, _| UserStep::Listed);
    assert_eq!(
        journal,
        [
            "0 http://127.0.0.1:1/ connect_refused Nanos(1000000) None",
            "0 http://127.0.0.1:1/ unfinished Nanos(100000000) Some(Nanos(2000000))",
            "finished",
        ]
    );
}

/// A script for random loads, which [`super::chaos`] runs.
pub(super) struct RandomScript {
    pub(super) requests: Vec<Arc<Request>>,
    pub(super) counts: Rc<RefCell<ScriptCounts>>,
    pub(super) random: prony_record::RandomSequence,
    pub(super) left: u32,
}

/// Counts of the calls that a script received.
#[derive(Debug, Default)]
pub(super) struct ScriptCounts {
    /// Users that have a request in flight. The value is true if the script has received the
    /// response.
    in_flight: BTreeMap<u32, bool>,
    pub(super) begun: u64,
    pub(super) ended: u64,
    pub(super) measured: BTreeMap<Outcome, u64>,
    pub(super) is_finished: bool,
}

impl Script for RandomScript {
    fn next(&mut self, user: u32, _now: Nanos) -> UserStep {
        let drawn = (self.random.next_u64() >> 40) as usize;
        let mut counts = self.counts.borrow_mut();
        let step = match drawn % 16 {
            0..6 => UserStep::Listed,
            6..11 => UserStep::Request(self.requests[drawn / 16 % self.requests.len()].clone()),
            11..15 => UserStep::Rest(Nanos((drawn % 50_000_000) as u64)),
            _ if self.left > 0 => {
                self.left -= 1;
                return UserStep::Leave;
            }
            _ => UserStep::Listed,
        };
        if !matches!(step, UserStep::Rest(_)) {
            assert!(counts.in_flight.insert(user, false).is_none());
            counts.begun += 1;
        }
        step
    }

    fn responded(&mut self, user: u32, response: &ResponseView<'_>) {
        let mut counts = self.counts.borrow_mut();
        assert_eq!(counts.in_flight.insert(user, true), Some(false));
        assert!(response.head.starts_with(b"HTTP/") && response.head.ends_with(b"\r\n"));
        assert!(response.body.len() as u64 == response.length.min(2));
    }

    fn ended(&mut self, user: u32, end: &RequestEnd<'_>) {
        let mut counts = self.counts.borrow_mut();
        use Outcome::{Ok, UnexpectedStatus};
        let is_whole = matches!(end.outcome, Ok | UnexpectedStatus);
        assert_eq!(counts.in_flight.remove(&user), Some(is_whole));
        assert_eq!(end.exchange.status.is_some(), is_whole);
        counts.ended += 1;
        if end.is_measured {
            *counts.measured.entry(end.outcome).or_default() += 1;
        }
    }

    fn finish(self: Box<Self>) {
        let mut counts = self.counts.borrow_mut();
        assert!(counts.in_flight.is_empty(), "{:?}", counts.in_flight);
        counts.is_finished = true;
    }
}
