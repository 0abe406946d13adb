//! Counts requests in ab's categories. Each worker of the load has its own counter.

use std::sync::OnceLock;

use prony_load::response_head::texts;
use prony_load::script::{CaptureSpec, Director, RequestEnd, ResponseView, Script, Users};
use prony_record::{Exchange, Nanos, Outcome};

use super::arguments::AbArguments;
use super::times::{ColumnTimes, RequestTimes};
use super::trace::VerboseTrace;
use crate::tally::{LoadTally, Tally};

/// First complete response of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FirstResponse {
    /// Length of the body in bytes.
    pub(super) length: u64,
    /// Value of the Server header, up to the first space.
    pub(super) server: String,
}

/// Numbers of failed requests in ab's four categories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FailureCounts {
    /// Requests for which the connection or the TLS handshake failed.
    pub(super) connect: u64,
    /// Requests whose response is missing or incomplete because of a reset, a closed connection, or
    /// a timeout.
    pub(super) receive: u64,
    /// Requests whose response body has an unexpected length, or is shorter than its
    /// Content-Length.
    pub(super) length: u64,
    /// Requests whose response is not valid HTTP.
    pub(super) exceptions: u64,
}

impl FailureCounts {
    /// Returns the number of all failed requests.
    pub(super) fn all(&self) -> u64 {
        self.connect + self.receive + self.length + self.exceptions
    }
}

/// Counts and times of a load's requests.
#[derive(Debug, Clone, Default)]
pub(super) struct AbTally {
    /// Number of requests that finished, with any outcome.
    pub(super) complete: u64,
    /// Number of failed requests, by category.
    pub(super) failed: FailureCounts,
    /// Number of complete responses with a status other than 2xx.
    pub(super) non_2xx: u64,
    /// Number of complete 2xx responses with the right length.
    pub(super) successful: u64,
    /// Number of responses after which the connection stayed open.
    pub(super) kept_alive: u64,
    /// Times of all requests that received a response or timed out.
    pub(super) times: ColumnTimes,
    /// Times of the individual requests, if they are needed for `-g`.
    pub(super) rows: Vec<RequestTimes>,
}

impl Tally for AbTally {
    fn merge(&mut self, other: AbTally) {
        self.complete += other.complete;
        self.failed.connect += other.failed.connect;
        self.failed.receive += other.failed.receive;
        self.failed.length += other.failed.length;
        self.failed.exceptions += other.failed.exceptions;
        self.non_2xx += other.non_2xx;
        self.successful += other.successful;
        self.kept_alive += other.kept_alive;
        self.times.merge(other.times);
        self.rows.extend(other.rows);
    }
}

/// Director of a load that creates a counter for each worker and adds up the counts.
#[derive(Debug)]
pub(super) struct AbWatch {
    rules: CountingRules,
    trace: VerboseTrace,
    first: OnceLock<FirstResponse>,
    whole: LoadTally<AbTally>,
}

/// Settings that all counters share.
#[derive(Debug, Clone, Copy)]
struct CountingRules {
    /// Required length of bodies. If it is `None`, all bodies must be as long as the first one.
    length: Option<u64>,
    any_length: bool,
    keepalive: bool,
    keeps_rows: bool,
}

impl AbWatch {
    /// Creates the counters for a load with these arguments.
    pub(super) fn new(arguments: &AbArguments) -> AbWatch {
        AbWatch {
            rules: CountingRules {
                length: arguments.expected_size,
                any_length: arguments.any_length,
                keepalive: arguments.keepalive,
                keeps_rows: arguments.gnuplot.is_some(),
            },
            trace: VerboseTrace::new(arguments.verbosity),
            first: OnceLock::new(),
            whole: LoadTally::default(),
        }
    }

    /// Returns the first complete response, if there was one.
    pub(super) fn first(&self) -> Option<&FirstResponse> {
        self.first.get()
    }

    /// Returns the sum of the counts of all workers that have ended.
    pub(super) fn take(&self) -> AbTally {
        self.whole.take()
    }

    /// Classifies a response by its length and headers.
    fn classify(&self, user: u32, status: u16, length: u64, head: &[u8]) -> JudgedResponse {
        let rules = self.rules;
        let first = self.first.get_or_init(|| FirstResponse {
            length,
            server: software(head),
        });
        JudgedResponse {
            user,
            status,
            is_as_long: rules.any_length || length == rules.length.unwrap_or(first.length),
            stays: rules.keepalive && says_keep_alive(head),
        }
    }
}

impl Director for AbWatch {
    fn script(&self, _users: Users) -> Result<Box<dyn Script + '_>, String> {
        Ok(Box::new(WorkerCounter {
            watch: self,
            tally: AbTally::default(),
            last_response: None,
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

/// Counter of one worker.
struct WorkerCounter<'a> {
    watch: &'a AbWatch,
    tally: AbTally,
    /// Classified response of the request whose end will be reported next.
    last_response: Option<JudgedResponse>,
}

#[derive(Debug, Clone, Copy)]
struct JudgedResponse {
    user: u32,
    status: u16,
    is_as_long: bool,
    stays: bool,
}

impl Script for WorkerCounter<'_> {
    fn responded(&mut self, user: u32, response: &ResponseView<'_>) {
        let watch = self.watch;
        self.last_response =
            Some(watch.classify(user, response.status, response.length, response.head));
        watch.trace.responded(response);
    }

    fn ended(&mut self, user: u32, end: &RequestEnd<'_>) {
        let last_response = self
            .last_response
            .take()
            .filter(|response| response.user == user);
        if matches!(end.outcome, Outcome::Unfinished | Outcome::Unstarted) {
            return;
        }
        self.tally.count(end.outcome, last_response);
        self.watch.trace.ended(end);
        let connect = end.connect.unwrap_or_default() + end.tls.unwrap_or_default();
        if let Some(row) = request_times(end.outcome, end.exchange, connect) {
            self.tally.times.add(&row);
            if self.watch.rules.keeps_rows {
                self.tally.rows.push(row);
            }
        }
    }

    fn finish(self: Box<Self>) {
        self.watch.whole.add(self.tally);
    }
}

impl AbTally {
    fn count(&mut self, outcome: Outcome, last_response: Option<JudgedResponse>) {
        self.complete += 1;
        let failed = match (outcome, last_response) {
            (Outcome::Ok, Some(response)) => {
                self.kept_alive += u64::from(response.stays);
                let is_2xx = response.status / 100 == 2;
                self.non_2xx += u64::from(!is_2xx);
                if response.is_as_long {
                    self.successful += u64::from(is_2xx);
                    return;
                }
                &mut self.failed.length
            }
            (outcome, _) => match failure_kind(outcome) {
                FailureKind::None => return,
                FailureKind::Connect => &mut self.failed.connect,
                FailureKind::Receive => &mut self.failed.receive,
                FailureKind::Length => &mut self.failed.length,
                FailureKind::Exception => &mut self.failed.exceptions,
            },
        };
        *failed += 1;
    }
}

/// ab's categories of failures.
enum FailureKind {
    None,
    Connect,
    Receive,
    Length,
    Exception,
}

fn failure_kind(outcome: Outcome) -> FailureKind {
    match outcome {
        Outcome::Ok | Outcome::Unfinished | Outcome::Unstarted => FailureKind::None,
        Outcome::Dns
        | Outcome::ConnectRefused
        | Outcome::ConnectTimeout
        | Outcome::ConnectUnreachable
        | Outcome::ConnectFailed
        | Outcome::NoLocalPort
        | Outcome::TooManyFiles
        | Outcome::Tls => FailureKind::Connect,
        Outcome::Reset | Outcome::ClosedEarly | Outcome::Timeout | Outcome::Stalled => {
            FailureKind::Receive
        }
        Outcome::UnexpectedSize | Outcome::Truncated => FailureKind::Length,
        Outcome::UnexpectedStatus
        | Outcome::UnexpectedBody
        | Outcome::Capture
        | Outcome::Call(_)
        | Outcome::StoppedEarly
        | Outcome::NoEndMarker
        | Outcome::Protocol
        | Outcome::Redirect => FailureKind::Exception,
    }
}

/// Returns the times of a request that received at least part of a response, or timed out. Other
/// failures have no times, because refusals and resets can be very quick and would make the server
/// look fast.
fn request_times(outcome: Outcome, exchange: &Exchange, connect: Nanos) -> Option<RequestTimes> {
    let start = exchange.intended;
    match outcome {
        Outcome::ConnectTimeout => Some(RequestTimes {
            start,
            connect: exchange.ended.since(start),
            processing: None,
            waiting: None,
        }),
        Outcome::Ok | Outcome::UnexpectedSize | Outcome::Truncated | Outcome::Timeout => {
            let first_byte = exchange.first_byte.unwrap_or(exchange.ended);
            Some(RequestTimes {
                start,
                connect,
                processing: Some(exchange.ended.since(exchange.sent)),
                waiting: Some(first_byte.since(exchange.sent)),
            })
        }
        _ => None,
    }
}

/// Returns the Server header up to its first space, such as `nginx/1.22.1`.
fn software(head: &[u8]) -> String {
    let server = texts(head).find(|(name, _)| name.eq_ignore_ascii_case("server"));
    let value = server.map_or("", |(_, value)| value);
    value
        .split_whitespace()
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Returns true if the headers of a response state that the connection stays open. In a response to
/// HTTP/1.0, this must be explicit (RFC 9112, section C.2.2).
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
