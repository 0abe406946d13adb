//! Collects data about each request during the load: the times of its stages if there is a
//! response, otherwise the reason for its failure.

use std::collections::BTreeMap;

use prony_load::script::{
    CaptureSpec, Director, FailureCause, RequestEnd, Script, UserStep, Users,
};
use prony_record::{Exchange, Nanos, Outcome};

use crate::tally::{LoadTally, Tally, TimeSummary};

/// Go's reason for a redirect beyond the limit, which counts requests rather than redirects.
const REDIRECT_LIMIT: &str = "stopped after 10 redirects";

/// Data of one response, for `-o csv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CsvRow {
    pub(super) response: Nanos,
    pub(super) dial: Nanos,
    pub(super) wait: Nanos,
    pub(super) read: Nanos,
    pub(super) status: u16,
    /// Time from the start of the load until the request was due.
    pub(super) offset: Nanos,
}

/// Data about all requests, with and without a response.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct CollectedRequests {
    /// Times from when a request was due until the end of its complete response, with any status.
    pub(super) response: TimeSummary,
    /// Times of the connect and the TLS handshake; zero on a reused connection.
    pub(super) dial: TimeSummary,
    /// Times from the first byte sent to the first byte received.
    pub(super) wait: TimeSummary,
    /// Times from the first to the last byte received.
    pub(super) read: TimeSummary,
    pub(super) body_bytes: u64,
    pub(super) failures: BTreeMap<(Outcome, Option<String>), u64>,
    /// Rows of the CSV; empty unless requested.
    pub(super) rows: Vec<CsvRow>,
}

impl CollectedRequests {
    pub(super) fn response(&mut self, exchange: &Exchange, dial: Nanos, keeps_row: bool) {
        let first_byte = exchange.first_byte.unwrap_or(exchange.ended);
        let row = CsvRow {
            response: exchange.ended.since(exchange.intended),
            dial,
            wait: first_byte.since(exchange.sent),
            read: exchange.ended.since(first_byte),
            status: exchange.status.unwrap_or_default(),
            offset: exchange.intended,
        };
        self.response.add(row.response);
        self.dial.add(row.dial);
        self.wait.add(row.wait);
        self.read.add(row.read);
        self.body_bytes += exchange.body_bytes_in;
        if keeps_row {
            self.rows.push(row);
        }
    }

    fn failure(&mut self, outcome: Outcome, reason: Option<&str>) {
        let why = (outcome, reason.map(str::to_owned));
        *self.failures.entry(why).or_default() += 1;
    }
}

impl Tally for CollectedRequests {
    fn merge(&mut self, other: CollectedRequests) {
        self.response.merge(other.response);
        self.dial.merge(other.dial);
        self.wait.merge(other.wait);
        self.read.merge(other.read);
        self.body_bytes += other.body_bytes;
        for (why, count) in other.failures {
            *self.failures.entry(why).or_default() += count;
        }
        self.rows.extend(other.rows);
    }
}

/// Collects the data about requests from all workers.
pub(super) struct HeyWatch {
    keeps_rows: bool,
    /// Time after which no more requests are started. Requests that are in flight then are
    /// completed.
    until: Option<Nanos>,
    /// Number of hey's workers. The engine may have more virtual users, which stay idle.
    workers: u64,
    gathered: LoadTally<CollectedRequests>,
}

impl HeyWatch {
    /// Creates a collector without data.
    pub(super) fn new(keeps_rows: bool, until: Option<Nanos>, workers: u64) -> HeyWatch {
        HeyWatch {
            keeps_rows,
            until,
            workers,
            gathered: LoadTally::default(),
        }
    }

    /// Returns the data of the whole load. The rows are in the order in which the responses
    /// arrived.
    pub(super) fn noted(self) -> CollectedRequests {
        let mut noted = self.gathered.take();
        noted.rows.sort_by_key(|row| row.offset + row.response);
        noted
    }
}

impl Director for HeyWatch {
    fn script(&self, _users: Users) -> Result<Box<dyn Script + '_>, String> {
        Ok(Box::new(WorkerRecorder {
            watch: self,
            noted: CollectedRequests::default(),
        }))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: true,
            ..CaptureSpec::default()
        }
    }
}

/// Collects the data about the requests of one worker.
struct WorkerRecorder<'a> {
    watch: &'a HeyWatch,
    noted: CollectedRequests,
}

impl Script for WorkerRecorder<'_> {
    fn next(&mut self, user: u32, now: Nanos) -> UserStep {
        let is_over = self.watch.until.is_some_and(|until| now >= until);
        if is_over || u64::from(user) >= self.watch.workers {
            UserStep::Leave
        } else {
            UserStep::Listed
        }
    }

    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        if end.outcome == Outcome::Ok {
            let dial = end.connect.unwrap_or_default() + end.tls.unwrap_or_default();
            self.noted
                .response(end.exchange, dial, self.watch.keeps_rows);
        } else {
            let reason = match end.cause {
                Some(FailureCause::RedirectLimit) => Some(REDIRECT_LIMIT),
                _ => end.reason,
            };
            self.noted.failure(end.outcome, reason);
        }
    }

    fn finish(self: Box<Self>) {
        self.watch.gathered.add(self.noted);
    }
}
