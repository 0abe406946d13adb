//! What is noted of each request while the load runs: the stages of those that were answered, and
//! why the others were not.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prony_load::script::{CaptureSpec, Director, RequestEnd, Script, UserStep, Users};
use prony_record::{Exchange, Nanos, Outcome};

/// A stage of the answered requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    sum_ns: u128,
    pub(super) fastest: Nanos,
    pub(super) slowest: Nanos,
}

impl Default for Stage {
    fn default() -> Stage {
        Stage {
            sum_ns: 0,
            fastest: Nanos::MAX,
            slowest: Nanos::ZERO,
        }
    }
}

impl Stage {
    fn add(&mut self, time: Nanos) {
        self.sum_ns += u128::from(time.0);
        self.fastest = self.fastest.min(time);
        self.slowest = self.slowest.max(time);
    }

    fn merge(&mut self, other: Stage) {
        self.sum_ns += other.sum_ns;
        self.fastest = self.fastest.min(other.fastest);
        self.slowest = self.slowest.max(other.slowest);
    }

    /// The mean over so many requests, in seconds; not a number where there are none.
    pub(super) fn mean_s(&self, requests: u64) -> f64 {
        self.sum_ns as f64 / requests as f64 / 1e9
    }
}

/// One answered request, as a line of `-o csv` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) response: Nanos,
    pub(super) dial: Nanos,
    pub(super) wait: Nanos,
    pub(super) read: Nanos,
    pub(super) status: u16,
    /// Since the load began.
    pub(super) offset: Nanos,
}

/// The answered requests and the others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Noted {
    /// Whole answers, whatever their status.
    pub(super) answers: u64,
    /// From the moment at which a request was due to the end of its answer.
    pub(super) response: Stage,
    /// Connecting, and the TLS handshake; nothing on a connection that was there.
    pub(super) dial: Stage,
    /// From the first byte sent to the first one received.
    pub(super) wait: Stage,
    /// From there to the last one.
    pub(super) read: Stage,
    pub(super) body_bytes: u64,
    pub(super) failures: BTreeMap<(Outcome, Option<String>), u64>,
    /// Empty unless asked for.
    pub(super) rows: Vec<Row>,
}

impl Noted {
    /// Notes an answer.
    pub(super) fn answer(&mut self, exchange: &Exchange, dial: Nanos, keeps_row: bool) {
        let first_byte = exchange.first_byte.unwrap_or(exchange.ended);
        let row = Row {
            response: exchange.ended.since(exchange.intended),
            dial,
            wait: first_byte.since(exchange.sent),
            read: exchange.ended.since(first_byte),
            status: exchange.status.unwrap_or_default(),
            offset: exchange.intended,
        };
        self.answers += 1;
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

    fn merge(&mut self, other: Noted) {
        self.answers += other.answers;
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

/// Gathers what the workers noted.
pub(super) struct Watch {
    keeps_rows: bool,
    /// No request is begun from then on; those under way are waited for.
    until: Option<Nanos>,
    /// The engine's users may be more than hey's workers: those are too many.
    workers: u64,
    gathered: Mutex<Noted>,
}

impl Watch {
    /// Nothing noted so far.
    pub(super) fn new(keeps_rows: bool, until: Option<Nanos>, workers: u64) -> Watch {
        Watch {
            keeps_rows,
            until,
            workers,
            gathered: Mutex::default(),
        }
    }

    /// Everything, once the load is over; rows in the order in which their answers came.
    pub(super) fn noted(self) -> Noted {
        let gathered = self.gathered.into_inner();
        let mut noted = gathered.unwrap_or_else(PoisonError::into_inner);
        noted.rows.sort_by_key(|row| row.offset + row.response);
        noted
    }
}

impl Director for Watch {
    fn script(&self, _users: Users) -> Result<Box<dyn Script + '_>, String> {
        Ok(Box::new(Watcher {
            watch: self,
            noted: Noted::default(),
        }))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: true,
            ..CaptureSpec::default()
        }
    }
}

/// One worker's part of it.
struct Watcher<'a> {
    watch: &'a Watch,
    noted: Noted,
}

impl Script for Watcher<'_> {
    fn next(&mut self, user: u32, now: Nanos) -> UserStep {
        let is_over = self.watch.until.is_some_and(|until| now >= until);
        match is_over || u64::from(user) >= self.watch.workers {
            true => UserStep::Leave,
            false => UserStep::Listed,
        }
    }

    fn ended(&mut self, _user: u32, end: &RequestEnd<'_>) {
        if end.outcome == Outcome::Ok {
            let dial = end.connect.unwrap_or_default() + end.tls.unwrap_or_default();
            self.noted.answer(end.exchange, dial, self.watch.keeps_rows);
        } else {
            self.noted.failure(end.outcome, end.reason);
        }
    }

    fn finish(self: Box<Self>) {
        let gathered = self.watch.gathered.lock();
        // Another worker's panic ends the load; its own part is lost anyhow.
        let mut gathered = gathered.unwrap_or_else(PoisonError::into_inner);
        gathered.merge(self.noted);
    }
}
