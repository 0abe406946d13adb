//! What a worker writes down while the load runs.
//!
//! A request belongs to the measured part of an open-loop load if it was *due* in it, and to that of
//! a closed-loop load if it *ended* (or was still running) in it: so a rate counts what the server
//! completed within the window, and a percentile never mixes in a backlog of the warm-up. Where a
//! count ends a closed loop, too, those belong that were due after the warm-up: exactly so many.

use crate::series::SliceCounts;
use crate::tally::Tally;
use crate::{Delta, Distribution, Nanos, Outcome, OutcomeCounts, SLICE};

/// Requests in flight at the end may count without a time where the measured part is at least so many
/// times as long as p99.
const YOUNG_PART: u64 = 10;

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

impl Exchange {
    /// Whether no moment of it is before one that causes it.
    pub fn is_in_order(&self) -> bool {
        let first_byte = self.first_byte.unwrap_or(self.ended);
        self.intended <= self.sent && self.sent <= first_byte && first_byte <= self.ended
    }
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
    /// This slice's.
    slice: Delta,
    /// On most requests of a closed loop response, service and first-byte time are one value, which is
    /// then recorded once and shared out when a slice ends.
    same: Tally,
    slice_end: Nanos,
    slices_ended: usize,
    /// Requests in flight at the end that are younger count without a time: see [`Recorder::stop_at`].
    young: Nanos,
    /// All slices that have ended.
    total: Delta,
    /// Those that nobody has taken yet, if somebody wants them.
    untaken: Option<Box<Delta>>,
    /// Requests that succeeded or failed, in or before the measured part.
    ended: u64,
    /// Failures of the measured part.
    failed: u64,
}

impl Recorder {
    /// An empty recorder.
    pub fn new(measured: Measured) -> Recorder {
        Recorder {
            measured,
            slice: Delta::default(),
            same: Tally::default(),
            slice_end: measured.start() + SLICE,
            slices_ended: 0,
            young: Nanos::ZERO,
            total: Delta::default(),
            untaken: None,
            ended: 0,
            failed: 0,
        }
    }

    /// From now on each slice that ends is kept for [`Recorder::hand_over`], too.
    pub fn watch(&mut self) {
        self.untaken = Some(Box::default());
    }

    /// A request's connect or send began.
    #[inline]
    pub fn started(&mut self) {
        self.slice.started += 1;
    }

    /// Open loop: a request that was due at `intended` was started at `actual`, in the order of the
    /// schedule. It was possible from `free_since` on, when its connection was free: what the request
    /// had to wait for a connection is not the generator's lateness.
    #[inline]
    pub fn started_by_schedule(&mut self, intended: Nanos, free_since: Nanos, actual: Nanos) {
        if intended >= self.measured.start() {
            let late = actual.since(intended.max(free_since));
            self.slice.starts.record(intended, actual, late);
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
        self.slice.connections_opened += 1;
        self.slice.connect_time.record(connect);
        if let Some(tls) = tls {
            self.slice.tls_time.record(tls.took);
            self.slice.tls_resumed += u64::from(tls.resumed);
        }
        true
    }

    /// A request that a reused connection lost is being sent once more.
    pub fn retried(&mut self, now: Nanos) {
        if now >= self.measured.start() {
            self.slice.retried += 1;
        }
    }

    /// A redirect is being followed within a request.
    pub fn redirected(&mut self, now: Nanos) {
        if now >= self.measured.start() {
            self.slice.redirected += 1;
        }
    }

    /// A request ended; tells whether it belongs to the measured part. Requests that had started
    /// are told apart from unstarted ones by `outcome`.
    #[inline]
    pub fn ended(&mut self, exchange: &Exchange, outcome: Outcome) -> bool {
        self.passed(exchange.ended);
        self.ended += u64::from(outcome == Outcome::Ok || outcome.is_failure());
        if !self.measured.includes(exchange) {
            self.slice.unmeasured += u64::from(outcome != Outcome::Unstarted);
            return false;
        }
        let slice = &mut self.slice;
        slice.outcomes.add(outcome);
        slice.bytes_in += exchange.bytes_in;
        slice.body_bytes_in += exchange.body_bytes_in;
        slice.bytes_out += exchange.bytes_out;
        if let Some(status) = exchange.status {
            slice.statuses.add(status);
        }
        if outcome == Outcome::Ok {
            self.success(exchange);
        } else {
            self.failed += u64::from(outcome.is_failure());
            let is_young = outcome == Outcome::Unfinished
                && exchange.ended.since(exchange.intended) < self.young;
            if outcome.is_censored() && !is_young {
                slice
                    .response_time
                    .record_at_least(exchange.ended.since(exchange.intended));
                // What never began may be served at once: its wait bounds no service time.
                if outcome != Outcome::Unstarted {
                    slice
                        .service_time
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
            self.same.record(response);
        } else {
            self.slice.response_time.record(response);
            self.slice.service_time.record(service);
            self.slice.first_byte.record(first_byte);
        }
    }

    /// Nothing will end before `moment` any more: the slices before it are closed. A request's end
    /// says so, too; whoever waits for slices may not want to wait for that.
    #[inline]
    pub fn passed(&mut self, moment: Nanos) {
        while moment >= self.slice_end {
            self.end_slice(self.slice_end);
        }
    }

    /// The load stops at `end`, and requests that are still in flight end as `Unfinished`.
    ///
    /// Every closed loop that ends by time has requests in flight then. Their ages are lower bounds of
    /// their response times, but those younger than the 99th percentile say nothing of the server: as
    /// bounds they would mark the percentiles of every healthy load. They count without a time, provided
    /// that the percentile is at most a tenth of the measured part, which bounds the bias
    /// (docs/method.md). A stall that is longer than the percentile stays visible.
    pub fn stop_at(&mut self, end: Nanos) {
        self.passed(end);
        let Measured::EndedFrom(start) = self.measured else {
            return;
        };
        self.share_out_same();
        let mut times = self.total.response_time.clone();
        times.merge(&self.slice.response_time);
        let (p99, _) = times.quantile(0.99);
        if p99.0.saturating_mul(YOUNG_PART) <= end.since(start).0 {
            self.young = p99;
        }
    }

    fn share_out_same(&mut self) {
        let slice = &mut self.slice;
        self.same.take(|time, count| {
            slice.response_time.record_many(time, count);
            slice.service_time.record_many(time, count);
            slice.first_byte.record_many(time, count);
        });
    }

    fn end_slice(&mut self, end: Nanos) {
        self.share_out_same();
        let slice = &mut self.slice;
        let begin = Nanos(self.slice_end.0 - SLICE.0);
        slice.span = Some((begin.min(end), end));
        let mut counts = SliceCounts {
            ok: slice.outcomes.get(Outcome::Ok),
            failed: slice.outcomes.failed(),
            bytes_in: slice.bytes_in,
            times: Vec::new(),
        };
        counts.keep_times(&slice.response_time);
        slice.series.begin(self.slices_ended, counts);
        self.total.merge(slice);
        if let Some(untaken) = &mut self.untaken {
            untaken.merge(slice);
        }
        slice.clear();
        self.slices_ended += 1;
        self.slice_end = self.slice_end + SLICE;
    }

    /// Ends the load at `end`: the last, possibly shorter, slice is closed. Nothing may be recorded
    /// afterwards.
    pub fn finish(&mut self, end: Nanos) {
        self.passed(end);
        self.end_slice(end);
    }

    /// Adds what another worker of the same load recorded; both must be finished.
    pub fn merge(&mut self, other: &Recorder) {
        self.total.merge(&other.total);
        self.ended += other.ended;
        self.failed += other.failed;
    }

    /// Whether slices have ended that [`Recorder::hand_over`] would hand over.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.untaken
            .as_ref()
            .is_some_and(|untaken| untaken.span.is_some())
    }

    /// Adds to `into` what the slices hold that have ended since the last time. `into` should be empty,
    /// as it then costs nothing.
    pub fn hand_over(&mut self, into: &mut Box<Delta>) {
        let Some(untaken) = &mut self.untaken else {
            return;
        };
        if into.span.is_none() {
            std::mem::swap(into, untaken);
        } else {
            into.merge(untaken);
        }
        untaken.clear();
    }

    /// All that was recorded in slices that have ended; of a finished load, all.
    pub fn total(&self) -> &Delta {
        &self.total
    }

    /// Requests of the measured part whose connect or send began. Counted at their starts, not as
    /// a sum of their ends, so that the identity in [`crate::Totals::check`] can fail.
    pub fn started_count(&self) -> u64 {
        self.total.started - self.total.unmeasured
    }

    /// How the requests of the measured part ended, in slices that have ended.
    pub fn outcomes(&self) -> &OutcomeCounts {
        &self.total.outcomes
    }

    /// Requests of the measured part that failed so far: for a progress line.
    pub fn failed_count(&self) -> u64 {
        self.failed
    }

    /// Requests that ended so far, in or before the measured part: for a progress line.
    pub fn ended_count(&self) -> u64 {
        self.ended
    }

    /// Each status that came, and how often, in slices that have ended.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.total.statuses.iter()
    }

    /// Response times of all slices that have ended.
    pub fn response_time(&self) -> &Distribution {
        &self.total.response_time
    }

    /// Times of connects, over connections opened.
    pub fn connect_time(&self) -> &Distribution {
        &self.total.connect_time
    }

    /// Times of TLS handshakes, over connections opened.
    pub fn tls_time(&self) -> &Distribution {
        &self.total.tls_time
    }

    /// Service times of all slices that have ended.
    pub fn service_time(&self) -> &Distribution {
        &self.total.service_time
    }

    /// Times to the first byte of all slices that have ended.
    pub fn first_byte(&self) -> &Distribution {
        &self.total.first_byte
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
    fn requests_in_flight_at_a_closed_loops_end_are_bounds_only_beyond_the_p99() {
        let ends = |measured, service_ms: u64, ages_ms: &[u64]| {
            let mut recorder = Recorder::new(measured);
            let complete = (0..1000 / service_ms).map(|n| n * service_ms);
            for begin in complete {
                recorder.started();
                let exchange = exchange(begin, begin, begin + service_ms);
                recorder.ended(&exchange, Outcome::Ok);
            }
            recorder.stop_at(Nanos::from_millis(1000));
            for age in ages_ms {
                recorder.started();
                let begun = 1000 - age;
                recorder.ended(&exchange(begun, begun, 1000), Outcome::Unfinished);
            }
            recorder.finish(Nanos::from_millis(1000));
            assert_eq!(
                recorder.outcomes().get(Outcome::Unfinished),
                ages_ms.len() as u64
            );
            let total = recorder.total();
            assert_eq!(
                total.response_time.censored(),
                total.service_time.censored()
            );
            total.response_time.censored()
        };
        let closed = Measured::EndedFrom(Nanos::ZERO);
        assert_eq!(ends(closed, 90, &[0, 30, 89]), 0);
        assert_eq!(ends(closed, 90, &[0, 30, 89, 120, 900]), 2);
        // The p99 is over a tenth of the measured part, or there is none.
        assert_eq!(ends(closed, 125, &[0, 30]), 2);
        assert_eq!(ends(closed, 2_000, &[0, 30]), 2);
        // A schedule goes on whatever the server does, and a count of requests is not ended by time.
        assert_eq!(ends(Measured::DueFrom(Nanos::ZERO), 90, &[0, 30]), 2);
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
            r.total
                .series
                .iter()
                .map(|s| (s.ok, s.failed))
                .collect::<Vec<_>>()
        };
        assert_eq!(ok(&merged), ok(&whole));
        assert_eq!(ok(&whole), [(1, 0), (0, 2), (1, 0)]);
    }

    /// Requests of every kind, one each few milliseconds, with nothing for a while in between.
    fn mixed(measured: Measured, seed: u64, each: &mut dyn FnMut(&mut Recorder, u64)) -> Recorder {
        let mut recorder = Recorder::new(measured);
        recorder.watch();
        let mut random = seed;
        let mut next = |below: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut now = 0;
        for n in 0..400 {
            now += next(12) + 1500 * u64::from(n == 200);
            let outcome = Outcome::ALL[next(40) as usize % Outcome::ALL.len()];
            let outcome = [outcome, Outcome::Ok][usize::from(next(3) > 0)];
            let due = now.saturating_sub(next(300));
            let mut request = exchange(due, due + next(2) * 5, now);
            request.status = [None, Some(200), Some(503)][next(3) as usize];
            request.first_byte = Some(Nanos::from_millis(now - next(2).min(now)));
            if outcome != Outcome::Unstarted {
                recorder.started();
                recorder.started_by_schedule(request.intended, request.intended, request.sent);
            }
            let tls = Handshake {
                took: Nanos(next(9_000)),
                resumed: next(2) == 0,
            };
            let at = Nanos::from_millis(now);
            recorder.connection_opened(at, Nanos(next(7_000)), Some(tls).filter(|_| next(2) > 0));
            recorder.retried(at);
            recorder.ended(&request, outcome);
            each(&mut recorder, now);
        }
        recorder.finish(Nanos::from_millis(now + 120));
        recorder
    }

    /// Packed, and through a text.
    fn send(delta: &Delta) -> crate::Packed {
        let text = serde_json::to_string(&crate::Packed::of(delta)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn what_was_handed_over_adds_up_to_the_whole_to_the_last_bucket() {
        for warm_up in [0, 700] {
            let mut sum = Box::<Delta>::default();
            let mut unpacked = Box::<Delta>::default();
            let mut whole = Box::<Delta>::default();
            for worker in 0..3u64 {
                let mut pieces = 0;
                let mut into = Box::<Delta>::default();
                let measured = match worker {
                    0 => Measured::EndedFrom(Nanos::from_millis(warm_up)),
                    _ => Measured::DueFrom(Nanos::from_millis(warm_up)),
                };
                let mut each = |recorder: &mut Recorder, now: u64| {
                    // Once as soon as there is something, once rarely.
                    if recorder.has_news() && now.is_multiple_of(1 + worker * 7) {
                        recorder.hand_over(&mut into);
                        pieces += 1;
                        if worker < 2 {
                            sum.merge(&into);
                            send(&into).add_to(&mut unpacked).unwrap();
                            into.clear();
                        }
                    }
                };
                let mut recorder = mixed(measured, worker + 7, &mut each);
                recorder.hand_over(&mut into);
                assert!(!recorder.has_news() && pieces > 1, "{pieces}");
                sum.merge(&into);
                send(&into).add_to(&mut unpacked).unwrap();
                whole.merge(recorder.total());
            }
            assert_eq!(sum, whole);
            assert_eq!(unpacked, whole);
            assert_eq!(sum.in_flight(), 0);
            let record = |all: &Delta| {
                let span = all.span.unwrap();
                let record = crate::Record::build(crate::LoadInfo::default(), all, span, Some(9));
                record.totals.check().unwrap();
                record.to_json()
            };
            assert_eq!(record(&sum), record(&whole));
        }
    }

    #[test]
    fn being_watched_changes_nothing() {
        let from = Measured::EndedFrom(Nanos::from_millis(300));
        let unlooked = mixed(from, 3, &mut |_, _| {});
        let looked = mixed(from, 3, &mut |recorder, now| {
            recorder.passed(Nanos::from_millis(now));
            recorder.hand_over(&mut Box::default());
        });
        assert_eq!(looked.total(), unlooked.total());
    }
}
