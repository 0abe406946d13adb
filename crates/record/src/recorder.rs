//! What a worker writes down while the load runs.
//!
//! A request belongs to the measured part of an open-loop load if it was *due* in it, and to that of
//! a closed-loop load if it *ended* (or was still running) in it: so a rate counts what the server
//! completed within the window, and a percentile never mixes in a backlog of the warm-up. Where a
//! count ends a closed loop, too, those belong that were due after the warm-up: exactly so many.

use crate::series::SliceCounts;
use crate::starts::Starts;
use crate::tally::Tally;
use crate::{Distribution, Nanos, Outcome, OutcomeCounts, SLICE};

/// Which requests belong to the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measured {
    /// Open loop, or a count of requests: those whose intended start is not before this moment.
    DueFrom(Nanos),
    /// Closed loop by time: those that end not before this moment.
    EndedFrom(Nanos),
}

impl Measured {
    fn start(self) -> Nanos {
        match self {
            Measured::DueFrom(start) | Measured::EndedFrom(start) => start,
        }
    }

    fn includes(self, exchange: &Exchange) -> bool {
        match self {
            Measured::DueFrom(start) => exchange.intended >= start,
            Measured::EndedFrom(start) => exchange.ended >= start,
        }
    }
}

/// One request from its intended start to its end. All moments count from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// When it was due; in a closed loop, when the connection's slot was free.
    pub intended: Nanos,
    /// When its first byte was handed to the socket; where that never happened, when its connect
    /// began.
    pub sent: Nanos,
    /// When the first byte of the answer came, if one did.
    pub first_byte: Option<Nanos>,
    /// When the last byte came, or the failure.
    pub ended: Nanos,
    /// The status of the final answer, where one was read.
    pub status: Option<u16>,
    /// HTTP bytes received for it, above TLS.
    pub bytes_in: u64,
    /// Bytes of the answer's body among them.
    pub body_bytes_in: u64,
    /// HTTP bytes sent for it, above TLS.
    pub bytes_out: u64,
}

/// A TLS handshake that was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handshake {
    /// From its first byte to the moment at which a request can be sent.
    pub took: Nanos,
    /// It went on from an earlier connection's session.
    pub resumed: bool,
}

/// Counts, histograms and time series of one worker. It allocates when a half second ends, never
/// for a request.
#[derive(Debug, Clone)]
pub struct Recorder {
    measured: Measured,
    started: u64,
    unmeasured: u64,
    /// Successes and failures.
    measured_ends: u64,
    outcomes: OutcomeCounts,
    statuses: Box<[u64; STATUSES]>,
    pub(crate) retried: u64,
    pub(crate) connections_opened: u64,
    pub(crate) bytes_in: u64,
    pub(crate) body_bytes_in: u64,
    pub(crate) bytes_out: u64,
    times: Times,
    pub(crate) connect: Distribution,
    pub(crate) tls: Distribution,
    pub(crate) tls_resumed: u64,
    pub(crate) starts: Starts,
    slice_end: Nanos,
    slice: SliceCounts,
    pub(crate) slices: Vec<SliceCounts>,
}

/// One place for each three-digit status.
const STATUSES: usize = 1000;

/// Response, service and first-byte times. On most requests of a closed loop the three are one
/// value, which is then recorded once and shared out when a slice ends.
#[derive(Debug, Clone, Default)]
struct Times {
    /// This slice: response = service = first byte.
    same: Tally,
    /// This slice: response time where it differs.
    response: Distribution,
    /// The whole load.
    response_total: Distribution,
    service_total: Distribution,
    first_byte_total: Distribution,
}

impl Times {
    fn end_slice(&mut self, slice: &mut SliceCounts) {
        let mut times = [
            &mut self.response,
            &mut self.service_total,
            &mut self.first_byte_total,
        ];
        self.same.take(|time, count| {
            for times in &mut times {
                times.record_many(time, count);
            }
        });
        if self.response.count() > 0 {
            slice.keep_times(&self.response);
            self.response_total.merge(&self.response);
            self.response.clear();
        }
    }
}

impl Recorder {
    /// An empty recorder.
    pub fn new(measured: Measured) -> Recorder {
        Recorder {
            measured,
            started: 0,
            unmeasured: 0,
            measured_ends: 0,
            outcomes: OutcomeCounts::default(),
            statuses: Box::new([0; STATUSES]),
            retried: 0,
            connections_opened: 0,
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            times: Times::default(),
            connect: Distribution::new(),
            tls: Distribution::new(),
            tls_resumed: 0,
            starts: Starts::default(),
            slice_end: measured.start() + SLICE,
            slice: SliceCounts::default(),
            slices: Vec::new(),
        }
    }

    /// A request's connect or send began.
    #[inline]
    pub fn started(&mut self) {
        self.started += 1;
    }

    /// Open loop: a request that was due at `intended` was started at `actual`, in the order of the
    /// schedule. It was possible from `free_since` on, when its connection was free: what the request
    /// had to wait for a connection is not the generator's lateness.
    #[inline]
    pub fn started_by_schedule(&mut self, intended: Nanos, free_since: Nanos, actual: Nanos) {
        if intended >= self.measured.start() {
            let late = actual.since(intended.max(free_since));
            self.starts.record(intended, actual, late);
        }
    }

    /// A connection was opened, which took so long, and after it, if there is TLS, its handshake.
    /// Tells whether it belongs to the measured part.
    pub fn connection_opened(
        &mut self,
        now: Nanos,
        connect: Nanos,
        tls: Option<Handshake>,
    ) -> bool {
        if now < self.measured.start() {
            return false;
        }
        self.connections_opened += 1;
        self.connect.record(connect);
        if let Some(tls) = tls {
            self.tls.record(tls.took);
            self.tls_resumed += u64::from(tls.resumed);
        }
        true
    }

    /// A request that a reused connection lost is being sent once more.
    pub fn retried(&mut self, now: Nanos) {
        if now >= self.measured.start() {
            self.retried += 1;
        }
    }

    /// A request ended; tells whether it belongs to the measured part. Requests that had started
    /// are told apart from unstarted ones by `outcome`.
    #[inline]
    pub fn ended(&mut self, exchange: &Exchange, outcome: Outcome) -> bool {
        while exchange.ended >= self.slice_end {
            self.end_slice();
        }
        if !self.measured.includes(exchange) {
            self.unmeasured += u64::from(outcome != Outcome::Unstarted);
            return false;
        }
        self.outcomes.add(outcome);
        self.bytes_in += exchange.bytes_in;
        self.body_bytes_in += exchange.body_bytes_in;
        self.bytes_out += exchange.bytes_out;
        self.slice.bytes_in += exchange.bytes_in;
        if let Some(status) = exchange.status {
            self.statuses[usize::from(status) % STATUSES] += 1;
        }
        if outcome == Outcome::Ok {
            self.measured_ends += 1;
            self.slice.ok += 1;
            self.success(exchange);
        } else {
            self.measured_ends += u64::from(outcome.is_failure());
            self.slice.failed += u64::from(outcome.is_failure());
            if outcome.is_censored() {
                let times = &mut self.times;
                times
                    .response_total
                    .record_at_least(exchange.ended.since(exchange.intended));
                // What never began may be served at once: its wait bounds no service time.
                if outcome != Outcome::Unstarted {
                    times
                        .service_total
                        .record_at_least(exchange.ended.since(exchange.sent));
                }
            }
        }
        true
    }

    #[inline]
    fn success(&mut self, exchange: &Exchange) {
        let response = exchange.ended.since(exchange.intended);
        let service = exchange.ended.since(exchange.sent);
        let first_byte = exchange
            .first_byte
            .map_or(service, |at| at.since(exchange.sent));
        if response == service && service == first_byte {
            self.times.same.record(response);
        } else {
            self.times.response.record(response);
            self.times.service_total.record(service);
            self.times.first_byte_total.record(first_byte);
        }
    }

    fn end_slice(&mut self) {
        let mut slice = std::mem::take(&mut self.slice);
        self.times.end_slice(&mut slice);
        self.slices.push(slice);
        self.slice_end = self.slice_end + SLICE;
    }

    /// Ends the load at `end`: the last, possibly shorter, slice is closed. Nothing may be recorded
    /// afterwards.
    pub fn finish(&mut self, end: Nanos) {
        while end >= self.slice_end {
            self.end_slice();
        }
        self.end_slice();
    }

    /// Adds what another worker of the same load recorded; both must be finished.
    pub fn merge(&mut self, other: &Recorder) {
        self.started += other.started;
        self.unmeasured += other.unmeasured;
        self.measured_ends += other.measured_ends;
        self.outcomes.merge(&other.outcomes);
        for (mine, theirs) in self.statuses.iter_mut().zip(other.statuses.iter()) {
            *mine += theirs;
        }
        self.retried += other.retried;
        self.connections_opened += other.connections_opened;
        self.bytes_in += other.bytes_in;
        self.body_bytes_in += other.body_bytes_in;
        self.bytes_out += other.bytes_out;
        self.times.response_total.merge(&other.times.response_total);
        self.times.service_total.merge(&other.times.service_total);
        self.times
            .first_byte_total
            .merge(&other.times.first_byte_total);
        self.connect.merge(&other.connect);
        self.tls.merge(&other.tls);
        self.tls_resumed += other.tls_resumed;
        self.starts.merge(&other.starts);
        let longest = self.slices.len().max(other.slices.len());
        self.slices.resize_with(longest, SliceCounts::default);
        for (mine, theirs) in self.slices.iter_mut().zip(&other.slices) {
            mine.merge(theirs);
        }
    }

    /// Requests of the measured part whose connect or send began. Counted at their starts, not as
    /// a sum of their ends, so that the identity in [`crate::Totals::check`] can fail.
    pub fn started_count(&self) -> u64 {
        self.started - self.unmeasured
    }

    /// How the requests of the measured part ended.
    pub fn outcomes(&self) -> &OutcomeCounts {
        &self.outcomes
    }

    /// Requests that ended so far, in or before the measured part: for a progress line.
    pub fn ended_count(&self) -> u64 {
        self.unmeasured + self.measured_ends
    }

    /// Each status that came, and how often.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        (0u16..)
            .zip(self.statuses.iter().copied())
            .filter(|&(_, n)| n > 0)
    }

    /// Response times of all slices that have ended.
    pub fn response_time(&self) -> &Distribution {
        &self.times.response_total
    }

    /// Times of connects, over connections opened.
    pub fn connect_time(&self) -> &Distribution {
        &self.connect
    }

    /// Times of TLS handshakes, over connections opened.
    pub fn tls_time(&self) -> &Distribution {
        &self.tls
    }

    /// Service times of all slices that have ended.
    pub fn service_time(&self) -> &Distribution {
        &self.times.service_total
    }

    /// Times to the first byte of all slices that have ended.
    pub fn first_byte(&self) -> &Distribution {
        &self.times.first_byte_total
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(intended_ms: u64, sent_ms: u64, ended_ms: u64) -> Exchange {
        Exchange {
            intended: Nanos::from_millis(intended_ms),
            sent: Nanos::from_millis(sent_ms),
            first_byte: Some(Nanos::from_millis(ended_ms)),
            ended: Nanos::from_millis(ended_ms),
            status: Some(200),
            bytes_in: 100,
            body_bytes_in: 13,
            bytes_out: 50,
        }
    }

    fn recorded(measured: Measured, requests: &[(Exchange, Outcome)], end_ms: u64) -> Recorder {
        let mut recorder = Recorder::new(measured);
        for (exchange, outcome) in requests {
            if *outcome != Outcome::Unstarted {
                recorder.started();
            }
            recorder.ended(exchange, *outcome);
        }
        recorder.finish(Nanos::from_millis(end_ms));
        recorder
    }

    #[test]
    fn a_closed_loop_measures_what_ends_after_the_warm_up() {
        let requests = [
            (exchange(0, 0, 900), Outcome::Ok),
            (exchange(900, 900, 1100), Outcome::Ok),
            (exchange(1100, 1100, 1900), Outcome::Ok),
        ];
        let from = Measured::EndedFrom(Nanos::from_secs(1));
        let recorder = recorded(from, &requests, 2000);
        assert_eq!(recorder.started_count(), 2);
        assert_eq!(recorder.outcomes().get(Outcome::Ok), 2);
    }

    #[test]
    fn an_open_loop_measures_what_is_due_after_the_warm_up() {
        let requests = [
            (exchange(990, 1100, 1200), Outcome::Ok),
            (exchange(1000, 1000, 1050), Outcome::Ok),
            (exchange(1500, 1500, 2000), Outcome::Unstarted),
        ];
        let from = Measured::DueFrom(Nanos::from_secs(1));
        let recorder = recorded(from, &requests, 2000);
        assert_eq!(recorder.started_count(), 1);
        assert_eq!(recorder.outcomes().get(Outcome::Unstarted), 1);
        assert_eq!(recorder.response_time().count(), 2);
        assert_eq!(recorder.response_time().censored(), 1);
        assert_eq!(recorder.service_time().censored(), 0);
    }

    #[test]
    fn times_that_are_one_value_and_times_that_differ_end_in_the_same_distributions() {
        let from = Measured::EndedFrom(Nanos::ZERO);
        let mut late_first_byte = exchange(0, 0, 30);
        late_first_byte.first_byte = Some(Nanos::from_millis(10));
        let requests = [
            (exchange(0, 0, 20), Outcome::Ok),
            (exchange(0, 5, 25), Outcome::Ok),
            (late_first_byte, Outcome::Ok),
        ];
        let recorder = recorded(from, &requests, 700);
        assert_eq!(recorder.response_time().count(), 3);
        assert_eq!(recorder.service_time().count(), 3);
        assert_eq!(recorder.first_byte().count(), 3);
        assert!((recorder.first_byte().summary().min / 10_000.0 - 1.0).abs() < 0.002);
    }

    #[test]
    fn merging_two_workers_equals_one_that_did_it_all() {
        let from = Measured::EndedFrom(Nanos::ZERO);
        let one = [
            (exchange(0, 0, 20), Outcome::Ok),
            (exchange(20, 20, 700), Outcome::Reset),
        ];
        let two = [
            (exchange(0, 3, 900), Outcome::Timeout),
            (exchange(0, 0, 1200), Outcome::Ok),
        ];
        let mut merged = recorded(from, &one, 1300);
        merged.merge(&recorded(from, &two, 1300));
        let all: Vec<_> = one.iter().chain(&two).copied().collect();
        let whole = recorded(from, &all, 1300);
        assert_eq!(merged.outcomes(), whole.outcomes());
        assert_eq!(merged.started_count(), whole.started_count());
        assert_eq!(
            merged.response_time().summary(),
            whole.response_time().summary()
        );
        assert_eq!(
            merged.service_time().summary(),
            whole.service_time().summary()
        );
        let ok = |r: &Recorder| {
            r.slices
                .iter()
                .map(|s| (s.ok, s.failed))
                .collect::<Vec<_>>()
        };
        assert_eq!(ok(&merged), ok(&whole));
        assert_eq!(ok(&whole), [(1, 0), (0, 2), (1, 0)]);
    }
}
