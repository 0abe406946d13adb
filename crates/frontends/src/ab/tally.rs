//! What is counted of each request, by the load's workers each for itself.

use std::sync::{Mutex, MutexGuard, OnceLock};

use prony_load::script::{CaptureSpec, Director, RequestEnd, ResponseView, Script, Users};
use prony_record::{Exchange, Nanos, Outcome};

use super::arguments::Arguments;
use super::times::{Row, Times};
use super::trace::Trace;
use crate::head::texts;

/// The first whole answer of the load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct First {
    /// Its body's length, in bytes.
    pub(super) length: u64,
    /// What its field Server says, up to a space.
    pub(super) server: String,
}

/// Requests that failed, in ab's four kinds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Failed {
    /// No connection, TLS included.
    pub(super) connect: u64,
    /// Nothing, or not all, was received: a reset, a close without an answer, a timeout.
    pub(super) receive: u64,
    /// The body is not as long as it should be, or as it was promised.
    pub(super) length: u64,
    /// The answer is not HTTP.
    pub(super) exceptions: u64,
}

impl Failed {
    /// All of them.
    pub(super) fn all(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

/// The counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    /// Requests that ended, in whatever way.
    pub(super) complete: u64,
    /// Those of them that failed.
    pub(super) failed: Failed,
    /// Whole answers with another status than 2xx.
    pub(super) non_2xx: u64,
    /// Whole answers with such a status and of the right length.
    pub(super) successful: u64,
    /// Answers after which the connection stayed open.
    pub(super) kept_alive: u64,
    /// How long they took: those that were answered, and those that were given up.
    pub(super) times: Times,
    /// The same, one by one, where they are to be written.
    pub(super) rows: Vec<Row>,
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.complete += other.complete;
        self.failed.connect += other.failed.connect;
        self.failed.receive += other.failed.receive;
        self.failed.length += other.failed.length;
        self.failed.exceptions += other.failed.exceptions;
        self.non_2xx += other.non_2xx;
        self.successful += other.successful;
        self.kept_alive += other.kept_alive;
        self.times.merge(&other.times);
        self.rows.extend(other.rows);
    }
}

/// Gives each worker its count, and has the whole at the end.
#[derive(Debug)]
pub(super) struct Watch {
    rules: Rules,
    trace: Trace,
    first: OnceLock<First>,
    whole: Mutex<Tally>,
}

/// What is counted how.
#[derive(Debug, Clone, Copy)]
struct Rules {
    /// The length that each body must have; where nothing is said, that of the first.
    length: Option<u64>,
    any_length: bool,
    keepalive: bool,
    keeps_rows: bool,
}

impl Watch {
    /// Over a load with these arguments.
    pub(super) fn new(arguments: &Arguments) -> Watch {
        Watch {
            rules: Rules {
                length: arguments.expected_size,
                any_length: arguments.any_length,
                keepalive: arguments.keepalive,
                keeps_rows: arguments.gnuplot.is_some(),
            },
            trace: Trace::new(arguments.verbosity),
            first: OnceLock::new(),
            whole: Mutex::default(),
        }
    }

    /// The first whole answer, if there was one.
    pub(super) fn first(&self) -> Option<&First> {
        self.first.get()
    }

    /// What the workers that are done have counted, once.
    pub(super) fn take(&self) -> Tally {
        std::mem::take(&mut *self.whole())
    }

    /// What an answer of this length and with these fields is worth.
    fn weigh(&self, user: u32, status: u16, length: u64, head: &[u8]) -> Answered {
        let rules = self.rules;
        let first = self.first.get_or_init(|| First {
            length,
            server: software(head),
        });
        Answered {
            user,
            status,
            is_as_long: rules.any_length || length == rules.length.unwrap_or(first.length),
            stays: rules.keepalive && says_keep_alive(head),
        }
    }

    fn whole(&self) -> MutexGuard<'_, Tally> {
        // A worker that panicked has added its count wholly or not at all.
        self.whole
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Director for Watch {
    fn script(&self, _users: Users) -> Result<Box<dyn Script + '_>, String> {
        Ok(Box::new(Counter {
            watch: self,
            tally: Tally::default(),
            answered: None,
        }))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: true,
            heads: true,
            body_bytes: self.trace.body_bytes(),
        }
    }
}

/// One worker's count.
struct Counter<'a> {
    watch: &'a Watch,
    tally: Tally,
    /// The answer whose end comes next.
    answered: Option<Answered>,
}

#[derive(Debug, Clone, Copy)]
struct Answered {
    user: u32,
    status: u16,
    is_as_long: bool,
    stays: bool,
}

impl Script for Counter<'_> {
    fn answered(&mut self, user: u32, answer: &ResponseView<'_>) {
        let watch = self.watch;
        self.answered = Some(watch.weigh(user, answer.status, answer.length, answer.head));
        watch.trace.answered(answer);
    }

    fn ended(&mut self, user: u32, end: &RequestEnd<'_>) {
        let answered = self
            .answered
            .take()
            .filter(|answered| answered.user == user);
        if matches!(end.outcome, Outcome::Unfinished | Outcome::Unstarted) {
            return;
        }
        self.tally.count(end.outcome, answered);
        self.watch.trace.ended(end);
        let connect = end.connect.unwrap_or_default() + end.tls.unwrap_or_default();
        if let Some(row) = times(end.outcome, end.exchange, connect) {
            self.tally.times.add(&row);
            if self.watch.rules.keeps_rows {
                self.tally.rows.push(row);
            }
        }
    }

    fn finish(self: Box<Self>) {
        self.watch.whole().merge(self.tally);
    }
}

impl Tally {
    fn count(&mut self, outcome: Outcome, answered: Option<Answered>) {
        self.complete += 1;
        let failed = match (outcome, answered) {
            (Outcome::Ok, Some(answered)) => {
                self.kept_alive += u64::from(answered.stays);
                let is_2xx = answered.status / 100 == 2;
                self.non_2xx += u64::from(!is_2xx);
                if answered.is_as_long {
                    self.successful += u64::from(is_2xx);
                    return;
                }
                &mut self.failed.length
            }
            (outcome, _) => match kind(outcome) {
                Kind::None => return,
                Kind::Connect => &mut self.failed.connect,
                Kind::Receive => &mut self.failed.receive,
                Kind::Length => &mut self.failed.length,
                Kind::Exception => &mut self.failed.exceptions,
            },
        };
        *failed += 1;
    }
}

/// Under which of ab's words a failure stands.
enum Kind {
    None,
    Connect,
    Receive,
    Length,
    Exception,
}

fn kind(outcome: Outcome) -> Kind {
    match outcome {
        Outcome::Ok | Outcome::Unfinished | Outcome::Unstarted => Kind::None,
        Outcome::Dns
        | Outcome::ConnectRefused
        | Outcome::ConnectTimeout
        | Outcome::ConnectUnreachable
        | Outcome::ConnectFailed
        | Outcome::NoLocalPort
        | Outcome::TooManyFiles
        | Outcome::Tls => Kind::Connect,
        Outcome::Reset | Outcome::ClosedEarly | Outcome::Timeout => Kind::Receive,
        Outcome::UnexpectedSize | Outcome::Truncated => Kind::Length,
        Outcome::UnexpectedStatus
        | Outcome::UnexpectedBody
        | Outcome::Protocol
        | Outcome::Redirect => Kind::Exception,
    }
}

/// The times of a request that says something about them: one that was answered, if only in part,
/// or for whose answer or connection the client waited until it gave up. A refusal or a reset,
/// which may come at once, would make the server look quick.
fn times(outcome: Outcome, exchange: &Exchange, connect: Nanos) -> Option<Row> {
    let start = exchange.intended;
    match outcome {
        Outcome::ConnectTimeout => Some(Row {
            start,
            connect: exchange.ended.since(start),
            processing: None,
            waiting: None,
        }),
        Outcome::Ok | Outcome::UnexpectedSize | Outcome::Truncated | Outcome::Timeout => {
            let first_byte = exchange.first_byte.unwrap_or(exchange.ended);
            Some(Row {
                start,
                connect,
                processing: Some(exchange.ended.since(exchange.sent)),
                waiting: Some(first_byte.since(exchange.sent)),
            })
        }
        _ => None,
    }
}

/// The value of Server up to its first space: `nginx/1.22.1`.
fn software(head: &[u8]) -> String {
    let server = texts(head).find(|(name, _)| name.eq_ignore_ascii_case("server"));
    let value = server.map_or("", |(_, value)| value);
    value
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Whether the server says that the connection stays: an answer to HTTP/1.0 must
/// (RFC 9112 §C.2.2).
fn says_keep_alive(head: &[u8]) -> bool {
    texts(head).any(|(name, value)| {
        name.eq_ignore_ascii_case("connection")
            && value
                .split(',')
                .any(|token| token.trim().eq_ignore_ascii_case("keep-alive"))
    })
}

#[cfg(test)]
mod tests;
