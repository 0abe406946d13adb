use super::super::arguments::{AbCommand, parse};
use super::*;
use prony_record::Exchange;

fn watch(words: &str) -> AbWatch {
    let words: Vec<_> = words.split(' ').map(Into::into).collect();
    match parse(&words) {
        Ok(AbCommand::Load(arguments)) => AbWatch::new(&arguments),
        other => panic!("{words:?}: {other:?}"),
    }
}

/// Test helper that counts a response without sending a request.
impl WorkerCounter<'_> {
    fn sees(&mut self, status: u16, length: u64, head: &str) {
        let responded = self.watch.classify(0, status, length, head.as_bytes());
        self.tally.count(Outcome::Ok, Some(responded));
    }
}

fn counter(watch: &AbWatch) -> WorkerCounter<'_> {
    WorkerCounter {
        watch,
        tally: AbTally::default(),
        last_response: None,
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\nserver: Foo/1.2 (bar)\r\nConnection: Keep-Alive\r\n";

#[test]
fn the_first_response_gives_length_and_name() {
    let watch = watch("h/");
    let mut counter = counter(&watch);
    for length in [5, 5, 7, 5, 0] {
        counter.sees(200, length, HEAD);
    }
    let tally = counter.tally;
    assert_eq!((tally.complete, tally.successful, tally.non_2xx), (5, 3, 0));
    assert_eq!(
        tally.failed,
        FailureCounts {
            length: 2,
            ..FailureCounts::default()
        }
    );
    let first = watch.first().unwrap();
    assert_eq!((first.length, first.server.as_str()), (5, "Foo/1.2"));
    // Without -k, requests don't ask for keep-alive.
    assert_eq!(tally.kept_alive, 0);
}

#[test]
fn lengths_may_differ_or_be_known_beforehand() {
    let any = watch("-l h/");
    let mut counter = self::counter(&any);
    counter.sees(200, 5, HEAD);
    counter.sees(200, 7, HEAD);
    assert_eq!(
        (counter.tally.successful, counter.tally.failed.all()),
        (2, 0)
    );
    let known = watch("--expect-size 7 h/");
    let mut counter = self::counter(&known);
    counter.sees(200, 5, HEAD);
    counter.sees(200, 7, HEAD);
    assert_eq!(
        (counter.tally.successful, counter.tally.failed.length),
        (1, 1)
    );
}

#[test]
fn other_statuses_are_neither_failures_nor_successes() {
    let watch = watch("h/");
    let mut counter = counter(&watch);
    for status in [200, 404, 302, 204] {
        counter.sees(status, 0, HEAD);
    }
    let tally = counter.tally;
    assert_eq!(
        (
            tally.complete,
            tally.failed.all(),
            tally.non_2xx,
            tally.successful
        ),
        (4, 0, 2, 2)
    );
}

#[test]
fn connections_that_stay_are_counted_with_k() {
    let watch = watch("-k h/");
    let mut counter = counter(&watch);
    for head in [
        HEAD,
        "HTTP/1.0 200 OK\r\nconnection: keep-alive\r\n",
        "HTTP/1.0 200 OK\r\nConnection: close\r\nKeep-Alive: timeout=5\r\n",
        "HTTP/1.1 200 OK\r\n",
    ] {
        counter.sees(200, 5, head);
    }
    assert_eq!(counter.tally.kept_alive, 2);
}

#[test]
fn each_request_is_counted_once_under_one_outcome() {
    let mut tally = AbTally::default();
    for &outcome in Outcome::ALL {
        tally.count(outcome, None);
    }
    // `Outcome::Ok` never occurs without a response, and requests that are cut off by the end of
    // the load are never counted here.
    let failures = Outcome::ALL
        .iter()
        .filter(|outcome| outcome.is_failure())
        .count() as u64;
    assert_eq!(tally.failed.all(), failures);
    assert_eq!(
        tally.failed,
        FailureCounts {
            connect: 8,
            receive: 4,
            length: 2,
            exceptions: 30
        }
    );
}

fn at(sent_ms: u64, first_byte_ms: Option<u64>, ended_ms: u64) -> Exchange {
    Exchange {
        intended: Nanos::from_millis(10),
        sent: Nanos::from_millis(sent_ms),
        first_byte: first_byte_ms.map(Nanos::from_millis),
        ended: Nanos::from_millis(ended_ms),
        status: None,
        bytes_in: 0,
        body_bytes_in: 0,
        bytes_out: 0,
        is_settling: false,
        entry: 0,
    }
}

#[test]
fn times_are_those_of_requests_that_were_served_or_waited_for() {
    let ms = Nanos::from_millis;
    let whole = request_times(Outcome::Ok, &at(15, Some(25), 30), ms(5)).unwrap();
    assert_eq!((whole.connect, whole.total()), (ms(5), ms(20)));
    assert_eq!(
        (whole.processing, whole.waiting),
        (Some(ms(15)), Some(ms(10)))
    );
    let given_up = request_times(Outcome::Timeout, &at(15, None, 1015), ms(5)).unwrap();
    assert_eq!(
        (given_up.waiting, given_up.total()),
        (Some(ms(1000)), ms(1005))
    );
    let unconnected =
        request_times(Outcome::ConnectTimeout, &at(10, None, 510), Nanos::ZERO).unwrap();
    assert_eq!(
        (unconnected.connect, unconnected.processing),
        (ms(500), None)
    );
    for quick in [
        Outcome::ConnectRefused,
        Outcome::Reset,
        Outcome::ClosedEarly,
        Outcome::Protocol,
    ] {
        assert_eq!(request_times(quick, &at(15, None, 16), ms(5)), None);
    }
}
