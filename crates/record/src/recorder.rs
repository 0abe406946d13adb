//! The recorder of one worker: counts, histograms and time series of its requests.
//!
//! In an open loop, a request belongs to the measured part if it was *due* in it; in a closed loop, if
//! it *ended* (or was in flight) in it. The rate of a closed loop then counts the requests that the
//! server completed in that time, and the percentiles of an open loop contain no backlog of the
//! warm-up. If a count of requests ends a closed loop, its requests belong to the measured part if
//! they were due after the warm-up, so that exactly that many are measured.
//!
//! In an interleaved load, requests that started in the settling part of a slice do not belong to the
//! measured part, and the load's clock does not count that part: see [`Recorder::settle`].

use crate::fast_histogram::FastHistogram;
use crate::series::SliceCounts;
use crate::{Delta, Distribution, Nanos, Outcome, OutcomeCounts, SLICE};

/// Young requests in flight at the end count without a time if the measured part is at least this many
/// times as long as the p99.
const MEASURED_TO_P99_MIN: u64 = 10;

/// The rule by which requests belong to the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredPart {
    /// Open loop, or a count of requests: the intended start is at or after this time.
    DueFrom(Nanos),
    /// Closed loop with a duration: the end is at or after this time.
    EndedFrom(Nanos),
}

impl MeasuredPart {
    fn start(self) -> Nanos {
        match self {
            MeasuredPart::DueFrom(start) | MeasuredPart::EndedFrom(start) => start,
        }
    }

    fn includes(self, exchange: &Exchange) -> bool {
        match self {
            MeasuredPart::DueFrom(start) => exchange.intended >= start,
            MeasuredPart::EndedFrom(start) => exchange.ended >= start,
        }
    }
}

/// The times and sizes of one request. All times count from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// The time at which the request was due; in a closed loop, at which its request slot became free.
    pub intended: Nanos,
    /// The time at which its first byte was passed to the socket; if that never happened, the start of
    /// its connect.
    pub sent: Nanos,
    /// The time of the first byte of the response, if there was one.
    pub first_byte: Option<Nanos>,
    /// The time of the last byte of the response, or of the failure.
    pub ended: Nanos,
    /// Status of the final response, if one was read.
    pub status: Option<u16>,
    /// HTTP bytes received, above TLS.
    pub bytes_in: u64,
    /// Bytes of the response body among them.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, above TLS.
    pub bytes_out: u64,
    /// It started in the settling part of a slice.
    pub is_settling: bool,
}

impl Exchange {
    /// True if intended start, send, first byte and end are in this order.
    pub fn is_in_order(&self) -> bool {
        let first_byte = self.first_byte.unwrap_or(self.ended);
        self.intended <= self.sent && self.sent <= first_byte && first_byte <= self.ended
    }
}

/// A completed TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsHandshake {
    /// Time from its first byte until a request can be sent.
    pub took: Nanos,
    /// It resumed the session of an earlier connection.
    pub resumed: bool,
}

/// Counts, histograms and time series of one worker. It allocates memory only at the end of a slice,
/// never for a request.
#[derive(Debug, Clone)]
pub struct Recorder {
    measured: MeasuredPart,
    /// The current slice.
    slice: Delta,
    /// Requests whose response time, service time and time to first byte are equal, as for most requests
    /// of a closed loop. They are recorded once and distributed at the end of the slice.
    equal_times: FastHistogram,
    slice_end: Nanos,
    slices_ended: usize,
    /// Requests in flight at the end that are younger than this count without a time: see
    /// [`Recorder::stop_at`].
    untimed_below: Nanos,
    /// Sum of all finished slices.
    total: Delta,
    /// Finished slices that were not handed over yet, if the load is watched.
    untaken: Option<Box<Delta>>,
    /// Requests that succeeded or failed, including those of the warm-up.
    ended: u64,
    /// Failed requests of the measured part.
    failed: u64,
    /// Successful requests of the measured part, and the sum of their response times in nanoseconds.
    succeeded: (u64, u128),
    /// The load is in the settling part of a slice.
    is_settling: bool,
    /// The time series does not advance beyond this time.
    series_limit: Nanos,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new(measured: MeasuredPart) -> Recorder {
        Recorder {
            measured,
            slice: Delta::default(),
            equal_times: FastHistogram::default(),
            slice_end: measured.start() + SLICE,
            slices_ended: 0,
            untimed_below: Nanos::ZERO,
            total: Delta::default(),
            untaken: None,
            ended: 0,
            failed: 0,
            succeeded: (0, 0),
            is_settling: false,
            series_limit: Nanos::MAX,
        }
    }

    /// Begins or ends the settling part of a slice. Its requests have [`Exchange::is_settling`].
    pub fn settle(&mut self, is_settling: bool) {
        self.is_settling = is_settling;
    }

    /// Sets the end of the current slice of an interleaved load. Requests that end later count as if
    /// they had ended in the slice, because the load's clock goes back to its end.
    pub fn limit_series(&mut self, slice_end: Nanos) {
        self.series_limit = Nanos(slice_end.0.saturating_sub(1));
    }

    /// Returns true at times that belong to the measured part.
    #[inline]
    fn is_measured_at(&self, now: Nanos) -> bool {
        now >= self.measured.start() && !self.is_settling
    }

    /// Keeps each finished slice for [`Recorder::hand_over`] from now on.
    pub fn watch(&mut self) {
        self.untaken = Some(Box::default());
    }

    /// Records that the connect or send of a request began.
    #[inline]
    pub fn started(&mut self) {
        self.slice.started += 1;
    }

    /// Records a start in an open loop, in the order of the schedule. The request was due at `intended`
    /// and started at `actual`; its connection was free at `free_since`. The generator is late only
    /// from the later of the two: waiting for a connection is not its fault.
    #[inline]
    pub fn started_by_schedule(&mut self, intended: Nanos, free_since: Nanos, actual: Nanos) {
        if intended >= self.measured.start() {
            let late = actual.since(intended.max(free_since));
            self.slice.starts.record(intended, actual, late);
        }
    }

    /// Records an opened connection with the duration of its connect and its TLS handshake, if any.
    /// Returns whether it belongs to the measured part.
    pub fn connection_opened(
        &mut self,
        now: Nanos,
        connect: Nanos,
        tls: Option<TlsHandshake>,
    ) -> bool {
        if !self.is_measured_at(now) {
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

    /// Records that a request is sent again because a reused connection lost it.
    pub fn retried(&mut self, now: Nanos) {
        if self.is_measured_at(now) {
            self.slice.retried += 1;
        }
    }

    /// Records that a request follows a redirect.
    pub fn redirected(&mut self, now: Nanos) {
        if self.is_measured_at(now) {
            self.slice.redirected += 1;
        }
    }

    /// Records the end of a request and returns whether it belongs to the measured part.
    #[inline]
    pub fn ended(&mut self, exchange: &Exchange, outcome: Outcome) -> bool {
        self.passed(exchange.ended);
        self.ended += u64::from(outcome == Outcome::Ok || outcome.is_failure());
        if exchange.is_settling || !self.measured.includes(exchange) {
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
                && exchange.ended.since(exchange.intended) < self.untimed_below;
            if outcome.is_censored() && !is_young {
                slice
                    .response_time
                    .record_at_least(exchange.ended.since(exchange.intended));
                // The wait of an unstarted request is no lower bound of a service time.
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
        self.succeeded.0 += 1;
        self.succeeded.1 += u128::from(response.0);
        let first_byte = exchange
            .first_byte
            .map_or(service, |at| at.since(exchange.sent));
        if response == service && service == first_byte {
            self.equal_times.record(response);
        } else {
            self.slice.response_time.record(response);
            self.slice.service_time.record(service);
            self.slice.first_byte.record(first_byte);
        }
    }

    /// Closes the slices before `moment`; no request may end before it afterwards. The end of a request
    /// does the same, but may come late for a viewer that waits for slices.
    #[inline]
    pub fn passed(&mut self, moment: Nanos) {
        let moment = moment.min(self.series_limit);
        while moment >= self.slice_end {
            self.end_slice(self.slice_end);
        }
    }

    /// Announces that the load stops at `end`. Requests in flight must then be recorded as
    /// [`Outcome::Unfinished`].
    ///
    /// Every closed loop with a duration has requests in flight at its end. Their ages are lower bounds
    /// of their response times. Ages below the p99 say nothing about the server, and as lower bounds
    /// they would mark the percentiles of every healthy load. Such requests count without a time if the
    /// p99 is at most a tenth of the measured part, which bounds the bias (docs/method.md). A stall
    /// longer than the p99 stays visible.
    pub fn stop_at(&mut self, end: Nanos) {
        self.passed(end);
        let MeasuredPart::EndedFrom(start) = self.measured else {
            return;
        };
        let p99 = self.response_time_quantile(0.99);
        if p99.0.saturating_mul(MEASURED_TO_P99_MIN) <= end.since(start).0 {
            self.untimed_below = p99;
        }
    }

    /// The response time at `quantile` (0 to 1) of all requests so far, including those of the current
    /// slice. Zero if there are none.
    pub fn response_time_quantile(&mut self, quantile: f64) -> Nanos {
        self.distribute_equal_times();
        let mut times = self.total.response_time.clone();
        times.merge(&self.slice.response_time);
        times.quantile(quantile).0
    }

    fn distribute_equal_times(&mut self) {
        let slice = &mut self.slice;
        self.equal_times.take(|time, count| {
            slice.response_time.record_many(time, count);
            slice.service_time.record_many(time, count);
            slice.first_byte.record_many(time, count);
        });
    }

    fn end_slice(&mut self, end: Nanos) {
        self.distribute_equal_times();
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

    /// Ends the load and closes the last slice, which may be shorter. Nothing may be recorded
    /// afterwards.
    pub fn finish(&mut self, end: Nanos) {
        self.series_limit = Nanos::MAX;
        self.passed(end);
        self.end_slice(end);
    }

    /// Adds the recorder of another worker of the same load. Both must be finished.
    pub fn merge(&mut self, other: &Recorder) {
        self.total.merge(&other.total);
        self.ended += other.ended;
        self.failed += other.failed;
        self.succeeded.0 += other.succeeded.0;
        self.succeeded.1 += other.succeeded.1;
    }

    /// True if [`Recorder::hand_over`] has a slice to hand over.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.untaken
            .as_ref()
            .is_some_and(|untaken| untaken.span.is_some())
    }

    /// Adds the slices that ended since the last call to `into`. This costs nothing if `into` is empty.
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

    /// Sum of all finished slices: the whole load once it is finished.
    pub fn total(&self) -> &Delta {
        &self.total
    }

    /// Requests of the measured part whose connect or send began. Counted at their starts, not as
    /// a sum of their ends, so that the identity in [`crate::Totals::check`] can fail.
    pub fn started_count(&self) -> u64 {
        self.total.started - self.total.unmeasured
    }

    /// Requests of the measured part by outcome, in finished slices.
    pub fn outcomes(&self) -> &OutcomeCounts {
        &self.total.outcomes
    }

    /// Requests of the measured part that failed so far, for progress output.
    pub fn failed_count(&self) -> u64 {
        self.failed
    }

    /// Requests that ended so far, including those of the warm-up, for progress output.
    pub fn ended_count(&self) -> u64 {
        self.ended
    }

    /// Number of successful requests of the measured part so far, and the sum of their response times
    /// in nanoseconds.
    pub fn succeeded(&self) -> (u64, u128) {
        self.succeeded
    }

    /// Each status that occurred in finished slices, with its count.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.total.statuses.iter()
    }

    /// Response times of all finished slices.
    pub fn response_time(&self) -> &Distribution {
        &self.total.response_time
    }

    /// Durations of connects, over connections opened.
    pub fn connect_time(&self) -> &Distribution {
        &self.total.connect_time
    }

    /// Durations of TLS handshakes, over connections opened.
    pub fn tls_time(&self) -> &Distribution {
        &self.total.tls_time
    }

    /// Service times of all finished slices.
    pub fn service_time(&self) -> &Distribution {
        &self.total.service_time
    }

    /// Times to first byte of all finished slices.
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
            is_settling: false,
        }
    }

    fn recorded(measured: MeasuredPart, requests: &[(Exchange, Outcome)], end_ms: u64) -> Recorder {
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
        let from = MeasuredPart::EndedFrom(Nanos::from_secs(1));
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
        let from = MeasuredPart::DueFrom(Nanos::from_secs(1));
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
        let closed = MeasuredPart::EndedFrom(Nanos::ZERO);
        assert_eq!(ends(closed, 90, &[0, 30, 89]), 0);
        assert_eq!(ends(closed, 90, &[0, 30, 89, 120, 900]), 2);
        // The p99 is over a tenth of the measured part, or there is none.
        assert_eq!(ends(closed, 125, &[0, 30]), 2);
        assert_eq!(ends(closed, 2_000, &[0, 30]), 2);
        // A schedule continues whatever the server does, and a count of requests is not ended by time.
        assert_eq!(ends(MeasuredPart::DueFrom(Nanos::ZERO), 90, &[0, 30]), 2);
    }

    #[test]
    fn times_that_are_one_value_and_times_that_differ_end_in_the_same_distributions() {
        let from = MeasuredPart::EndedFrom(Nanos::ZERO);
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
        let from = MeasuredPart::EndedFrom(Nanos::ZERO);
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
    fn mixed(
        measured: MeasuredPart,
        seed: u64,
        each: &mut dyn FnMut(&mut Recorder, u64),
    ) -> Recorder {
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
            let tls = TlsHandshake {
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

    /// Encodes a delta as JSON and reads it again.
    fn send(delta: &Delta) -> crate::EncodedDelta {
        let text = serde_json::to_string(&crate::EncodedDelta::of(delta)).unwrap();
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn handed_over_deltas_add_up_to_the_whole() {
        for warm_up in [0, 700] {
            let mut sum = Box::<Delta>::default();
            let mut unpacked = Box::<Delta>::default();
            let mut whole = Box::<Delta>::default();
            for worker in 0..3u64 {
                let mut pieces = 0;
                let mut into = Box::<Delta>::default();
                let measured = match worker {
                    0 => MeasuredPart::EndedFrom(Nanos::from_millis(warm_up)),
                    _ => MeasuredPart::DueFrom(Nanos::from_millis(warm_up)),
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
    fn watching_a_load_does_not_change_its_record() {
        let from = MeasuredPart::EndedFrom(Nanos::from_millis(300));
        let unlooked = mixed(from, 3, &mut |_, _| {});
        let looked = mixed(from, 3, &mut |recorder, now| {
            recorder.passed(Nanos::from_millis(now));
            recorder.hand_over(&mut Box::default());
        });
        assert_eq!(looked.total(), unlooked.total());
    }
}
