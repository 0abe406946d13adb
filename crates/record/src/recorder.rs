//! The recorder of one worker: counts, histograms and time series of its requests.
//!
//! In an open loop, a request belongs to the measured part if it was *due* in it; in a closed loop,
//! if it *ended* in it or was in flight at its end. The rate of a closed loop therefore counts the
//! requests that the server completed in the measured part, and the percentiles of an open loop
//! contain no backlog from the warm-up. If a closed loop ends after a number of requests, the
//! requests due after the warm-up belong to the measured part, so exactly that number is measured.
//!
//! In an interleaved load, requests that started in the settling part of a slice do not belong to
//! the measured part, and the load's clock does not count that part: see [`Recorder::settle`].

use crate::entries::{DenseTimes, EntryDeltas};
use crate::events::{ArrivedEvents, StreamedEvents, UntimedBelow};
use crate::fast_histogram::FastHistogram;
use crate::journeys::{Journey, JourneyEnd};
use crate::{Delta, Distribution, HALF_SECOND, Nanos, Outcome, OutcomeCounts, TlsGroup};

/// Minimum ratio of the measured part to the p99 at which young requests have no time: requests
/// that are in flight at the end of the load, and younger than the p99, are then counted without a
/// response time.
const MEASURED_TO_P99_MIN: u64 = 10;

/// Rule that decides which requests belong to the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredPart {
    /// Requests whose intended start is at or after this time. Used for open loops and for loads
    /// that end after a number of requests.
    DueFrom(Nanos),
    /// Requests that end at or after this time. Used for closed loops with a duration.
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

/// Times and sizes of one request. All times count from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Time at which the request was due. In a closed loop, its request slot became free at this
    /// time.
    pub intended: Nanos,
    /// Time at which the first byte was passed to the socket, or the start of the connection
    /// attempt if no byte was sent.
    pub sent: Nanos,
    /// Time of the first byte of the response, if there was one.
    pub first_byte: Option<Nanos>,
    /// Time at which the last byte of the response arrived or the request failed.
    pub ended: Nanos,
    /// Status of the final response, if received.
    pub status: Option<u16>,
    /// HTTP bytes received, not counting TLS.
    pub bytes_in: u64,
    /// Bytes of the response body, included in `bytes_in`.
    pub body_bytes_in: u64,
    /// HTTP bytes sent, not counting TLS.
    pub bytes_out: u64,
    /// True if the request started in the settling part of a slice.
    pub is_settling: bool,
    /// Index of the request's entry in the load's list; ignored if no entries are counted.
    pub entry: u32,
}

impl Exchange {
    /// Returns true if the intended start, the send, the first byte and the end are in
    /// chronological order.
    pub fn is_in_order(&self) -> bool {
        let first_byte = self.first_byte.unwrap_or(self.ended);
        self.intended <= self.sent && self.sent <= first_byte && first_byte <= self.ended
    }
}

/// A completed TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsHandshake {
    /// Time from the first byte of the handshake until a request could be sent.
    pub took: Nanos,
    /// True if the handshake resumed the session of an earlier connection.
    pub resumed: bool,
    /// Group of the key exchange; `None` for a session resumed without a key exchange.
    pub group: Option<TlsGroup>,
    /// True if the server asked for another key share with a HelloRetryRequest.
    pub hello_retried: bool,
}

/// Counts, histograms and time series of one worker. It allocates memory only at the end of a
/// half second, never during a request.
#[derive(Debug, Clone)]
pub struct Recorder {
    measured: MeasuredPart,
    /// Counts and times of the current half second.
    half_second: Delta,
    /// Times of the requests whose response time, service time and time to first byte are equal, as
    /// for most requests of a closed loop. They are recorded once, and copied to all three
    /// distributions at the end of the half second.
    equal_times: FastHistogram,
    /// Response times by entry in the current half second. They are moved to the entries at the end
    /// of the half second.
    entry_times: DenseTimes,
    half_second_end: Nanos,
    half_seconds_ended: usize,
    /// Age below which requests in flight at the end count without a time; see
    /// [`Recorder::stop_at`].
    untimed_below: Nanos,
    /// The same for the times of events.
    untimed_events_below: UntimedBelow,
    /// Sum of all finished half seconds.
    total: Delta,
    /// Sum of the finished half seconds that have not been handed over yet. `None` if the load has
    /// no viewer.
    untaken: Option<Box<Delta>>,
    /// The same for the times of unfinished journeys.
    untimed_journeys_below: Nanos,
    /// Requests that succeeded or failed, including those of the warm-up.
    ended: u64,
    /// Failed requests in the measured part.
    failed: u64,
    /// Number of successful requests in the measured part, and the sum of their response times in
    /// nanoseconds.
    succeeded: (u64, u128),
    /// True during the settling part of a slice.
    is_settling: bool,
    /// Time beyond which the time series does not advance.
    series_limit: Nanos,
}

impl Recorder {
    /// Creates an empty recorder.
    pub fn new(measured: MeasuredPart) -> Recorder {
        Recorder {
            measured,
            half_second: Delta::default(),
            equal_times: FastHistogram::default(),
            entry_times: DenseTimes::default(),
            half_second_end: measured.start() + HALF_SECOND,
            half_seconds_ended: 0,
            untimed_below: Nanos::ZERO,
            untimed_journeys_below: Nanos::ZERO,
            untimed_events_below: UntimedBelow::default(),
            total: Delta::default(),
            untaken: None,
            ended: 0,
            failed: 0,
            succeeded: (0, 0),
            is_settling: false,
            series_limit: Nanos::MAX,
        }
    }

    /// Enables counting by entry. Requests with a higher entry number are counted in the last of
    /// the `entries` entries.
    pub fn count_entries(&mut self, entries: usize) {
        self.half_second.entries = EntryDeltas::new(entries);
        self.entry_times = DenseTimes::new(entries);
    }

    /// Begins or ends the settling part of a slice. Requests that start in the settling part must
    /// have [`Exchange::is_settling`] set.
    pub fn settle(&mut self, is_settling: bool) {
        self.is_settling = is_settling;
    }

    /// Sets the end of the current slice of an interleaved load. Requests that end later are
    /// counted as if they had ended in the slice, because the load's clock is set back to the end
    /// of the slice.
    pub fn limit_series(&mut self, half_second_end: Nanos) {
        self.series_limit = Nanos(half_second_end.0.saturating_sub(1));
    }

    /// Returns true if `now` belongs to the measured part.
    #[inline]
    pub fn is_measured_at(&self, now: Nanos) -> bool {
        now >= self.measured.start() && !self.is_settling
    }

    /// Starts keeping finished half seconds for [`Recorder::hand_over`].
    pub fn watch(&mut self) {
        self.untaken = Some(Box::default());
    }

    /// Records that a request began to connect or to send.
    #[inline]
    pub fn started(&mut self) {
        self.started_entry(0);
    }

    /// Records that a request began to connect or to send. `entry` is the number of the request's
    /// entry.
    #[inline]
    pub fn started_entry(&mut self, entry: u32) {
        self.half_second.started += 1;
        if let Some(entry) = self.half_second.entries.get_mut(entry) {
            entry.started += 1;
        }
    }

    /// Records a start in an open loop, in the order of the schedule. The request was due at
    /// `intended` and started at `actual`; its connection had been free since `free_since`.
    /// Lateness counts from the later of `intended` and `free_since`, because waiting for a
    /// connection is not the generator's fault.
    #[inline]
    pub fn started_by_schedule(&mut self, intended: Nanos, free_since: Nanos, actual: Nanos) {
        if intended >= self.measured.start() {
            let late = actual.since(intended.max(free_since));
            self.half_second.starts.record(intended, actual, late);
        }
    }

    /// Records a start in a closed loop with think times. The virtual user's pause ended at `due`.
    pub fn started_after_pause(&mut self, due: Nanos, actual: Nanos) {
        if due >= self.measured.start() {
            self.half_second.starts.late.record(actual.since(due));
        }
    }

    /// Records an opened connection with its connect time and its TLS handshake, if any. Returns
    /// true if the connection belongs to the measured part.
    pub fn connection_opened(
        &mut self,
        now: Nanos,
        connect: Nanos,
        tls: Option<TlsHandshake>,
    ) -> bool {
        if !self.is_measured_at(now) {
            return false;
        }
        self.half_second.connections_opened += 1;
        self.half_second.connect_time.record(connect);
        if let Some(tls) = tls {
            self.half_second.tls_time.record(tls.took);
            self.half_second.tls_resumed += u64::from(tls.resumed);
            self.half_second.tls_hello_retries += u64::from(tls.hello_retried);
            if let Some(group) = tls.group {
                self.half_second.tls_groups.add(group);
            }
        }
        true
    }

    /// Records that a request is being sent again because a reused connection lost it.
    pub fn retried(&mut self, now: Nanos) {
        if self.is_measured_at(now) {
            self.half_second.retried += 1;
        }
    }

    /// Records that a request is following a redirect.
    pub fn redirected(&mut self, now: Nanos) {
        if self.is_measured_at(now) {
            self.half_second.redirected += 1;
        }
    }

    /// Records that a journey began.
    pub fn journey_begun(&mut self) {
        self.half_second.journeys.begun += 1;
    }

    /// Records the end of a journey.
    pub fn journey_ended(&mut self, journey: &Journey) {
        self.passed(journey.ended);
        let is_measured = match self.measured {
            MeasuredPart::DueFrom(start) => journey.intended >= start && !journey.is_settling,
            MeasuredPart::EndedFrom(start) => journey.ended >= start && !self.is_settling,
        };
        let half_second = &mut self.half_second;
        if !is_measured {
            let unmeasured = u64::from(journey.end != JourneyEnd::Unstarted);
            half_second.journeys.unmeasured += unmeasured;
            return;
        }
        half_second.journeys.add(journey.end);
        let is_bound = match journey.end {
            JourneyEnd::Completed => {
                half_second.journey_time.record(journey.time);
                false
            }
            JourneyEnd::Unfinished => journey.time >= self.untimed_journeys_below,
            JourneyEnd::Unstarted => true,
            JourneyEnd::Failed => false,
        };
        if is_bound {
            half_second.journey_time.record_at_least(journey.time);
        }
    }

    /// Records the end of a request. Returns true if the request belongs to the measured part.
    ///
    /// Always inlined, because an exchange that is passed through memory costs a stall.
    #[inline(always)]
    pub fn ended(&mut self, exchange: &Exchange, outcome: Outcome) -> bool {
        self.passed(exchange.ended);
        self.ended += u64::from(outcome == Outcome::Ok || outcome.is_failure());
        if exchange.is_settling || !self.measured.includes(exchange) {
            let unmeasured = u64::from(outcome != Outcome::Unstarted);
            self.half_second.unmeasured += unmeasured;
            if let Some(entry) = self.half_second.entries.get_mut(exchange.entry) {
                entry.unmeasured += unmeasured;
            }
            return false;
        }
        let half_second = &mut self.half_second;
        half_second.outcomes.add(outcome);
        half_second.bytes_in += exchange.bytes_in;
        half_second.body_bytes_in += exchange.body_bytes_in;
        half_second.bytes_out += exchange.bytes_out;
        if let Some(status) = exchange.status {
            half_second.statuses.add(status);
        }
        let mut is_bound = false;
        if outcome == Outcome::Ok {
            self.success(exchange);
        } else {
            is_bound = self.not_ok(*exchange, outcome);
        }
        if let Some(entry) = self.half_second.entries.get_mut(exchange.entry) {
            entry.outcomes.add(outcome);
            entry.bytes_in += exchange.bytes_in;
            entry.bytes_out += exchange.bytes_out;
            let response = exchange.ended.since(exchange.intended);
            if outcome == Outcome::Ok {
                self.entry_times.record(exchange.entry, response);
            } else if is_bound {
                entry.times.record_at_least(response);
            }
        }
        true
    }

    /// Records the end of a request that did not succeed. Returns true if its age is a lower bound of
    /// its response time.
    #[cold]
    fn not_ok(&mut self, exchange: Exchange, outcome: Outcome) -> bool {
        self.failed += u64::from(outcome.is_failure());
        let is_young = outcome == Outcome::Unfinished
            && exchange.ended.since(exchange.intended) < self.untimed_below;
        let is_bound = outcome.is_censored() && !is_young;
        if is_bound {
            let half_second = &mut self.half_second;
            half_second
                .response_time
                .record_at_least(exchange.ended.since(exchange.intended));
            // An unstarted request was never sent, so it has no service time.
            if outcome != Outcome::Unstarted {
                half_second
                    .service_time
                    .record_at_least(exchange.ended.since(exchange.sent));
            }
        }
        is_bound
    }

    #[inline(always)]
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
            self.different_times(response, service, first_byte);
        }
    }

    #[inline(never)]
    fn different_times(&mut self, response: Nanos, service: Nanos, first_byte: Nanos) {
        self.half_second.response_time.record(response);
        self.half_second.service_time.record(service);
        self.half_second.first_byte.record(first_byte);
    }

    /// Records events of a streamed response that arrived together at `now`. `is_settling` is true if
    /// their request started in the settling part of a slice.
    pub fn events_arrived(&mut self, now: Nanos, is_settling: bool, arrived: ArrivedEvents) {
        self.passed(now);
        if self.is_measured_at(now) && !is_settling {
            self.half_second.events.arrived(arrived);
        }
    }

    /// Records the events of a request that belongs to the measured part, after
    /// [`Recorder::ended`].
    pub fn stream_ended(
        &mut self,
        exchange: &Exchange,
        outcome: Outcome,
        streamed: StreamedEvents,
    ) {
        let times = (exchange.intended, exchange.ended);
        let untimed = self.untimed_events_below;
        let events = &mut self.half_second.events;
        events.ended(times, outcome, streamed, untimed);
    }

    /// Closes the half seconds before `moment`. Afterwards, no request may end before `moment`. The
    /// end of a request also closes half seconds, but it may come too late for a viewer that is
    /// waiting for results.
    #[inline]
    pub fn passed(&mut self, moment: Nanos) {
        let moment = moment.min(self.series_limit);
        if moment >= self.half_second_end {
            self.end_half_seconds(moment);
        }
    }

    #[cold]
    fn end_half_seconds(&mut self, moment: Nanos) {
        while moment >= self.half_second_end {
            self.end_half_second(self.half_second_end);
        }
    }

    /// Prepares for the end of the load at `end`. Requests in flight must then be recorded as
    /// [`Outcome::Unfinished`].
    ///
    /// Every closed loop with a duration has requests in flight at its end. Their ages are lower
    /// bounds on their response times. Ages below the p99 say nothing about the server, and as
    /// lower bounds they would mark the percentiles of every healthy load. Such requests count
    /// without a time if the p99 is at most a tenth of the measured part, which bounds the bias
    /// (docs/method.md). A stall longer than the p99 stays visible.
    pub fn stop_at(&mut self, end: Nanos) {
        self.passed(end);
        let measured = end.since(self.measured.start());
        let p99_of = |of: fn(&Delta) -> &Distribution, recorder: &Recorder| {
            let mut times = of(&recorder.total).clone();
            times.merge(of(&recorder.half_second));
            let p99 = times.quantile(0.99).0;
            let is_short = p99.0.saturating_mul(MEASURED_TO_P99_MIN) <= measured.0;
            if is_short { p99 } else { Nanos::ZERO }
        };
        // Every load with a duration has unfinished journeys at its end: most wait for a pause to end.
        self.untimed_journeys_below = p99_of(|delta| &delta.journey_time, self);
        // Every stream is cut off in a gap, in an open loop, too.
        self.untimed_events_below.event_gap = p99_of(|delta| &delta.events.event_gap, self);
        if let MeasuredPart::EndedFrom(_) = self.measured {
            self.distribute_equal_times();
            self.untimed_below = p99_of(|delta| &delta.response_time, self);
            self.untimed_events_below.first_event = p99_of(|delta| &delta.events.first_event, self);
        }
    }

    /// Returns the response time at `quantile` (0 to 1) over all requests so far, including those
    /// of the current half second. Returns zero if there are no requests.
    pub fn response_time_quantile(&mut self, quantile: f64) -> Nanos {
        self.distribute_equal_times();
        let mut times = self.total.response_time.clone();
        times.merge(&self.half_second.response_time);
        times.quantile(quantile).0
    }

    fn distribute_equal_times(&mut self) {
        let half_second = &mut self.half_second;
        self.equal_times.take(|time, count| {
            half_second.response_time.record_many(time, count);
            half_second.service_time.record_many(time, count);
            half_second.first_byte.record_many(time, count);
        });
    }

    fn end_half_second(&mut self, end: Nanos) {
        self.distribute_equal_times();
        self.entry_times.take(self.half_second.entries.times_mut());
        let half_second = &mut self.half_second;
        let begin = Nanos(self.half_second_end.0 - HALF_SECOND.0);
        half_second.span = Some((begin.min(end), end));
        let counts = half_second.half_second_counts();
        half_second.series.begin(self.half_seconds_ended, counts);
        self.total.merge(half_second);
        if let Some(untaken) = &mut self.untaken {
            untaken.merge(half_second);
        }
        half_second.clear();
        self.half_seconds_ended += 1;
        self.half_second_end = self.half_second_end + HALF_SECOND;
    }

    /// Ends the load and closes the last half second, which may be shorter than the others. No
    /// event may be recorded afterwards.
    pub fn finish(&mut self, end: Nanos) {
        self.series_limit = Nanos::MAX;
        self.passed(end);
        self.end_half_second(end);
        self.entry_times = DenseTimes::default();
    }

    /// Adds another worker's recorder from the same load. Both recorders must be finished.
    pub fn merge(&mut self, other: &Recorder) {
        self.total.merge(&other.total);
        self.ended += other.ended;
        self.failed += other.failed;
        self.succeeded.0 += other.succeeded.0;
        self.succeeded.1 += other.succeeded.1;
    }

    /// Returns the time at which the current half second can be handed over, or [`Nanos::MAX`]
    /// (never) if the load has no viewer.
    #[inline]
    pub fn next_news(&self) -> Nanos {
        match self.untaken {
            Some(_) if self.half_second_end <= self.series_limit => self.half_second_end,
            _ => Nanos::MAX,
        }
    }

    /// Returns true if [`Recorder::hand_over`] has any half seconds to hand over.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.untaken
            .as_ref()
            .is_some_and(|untaken| untaken.span.is_some())
    }

    /// Adds all half seconds that have ended since the previous call to the delta `into`. The call
    /// is cheap if `into` is empty.
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

    /// Returns the sum of all finished half seconds. After [`Recorder::finish`], the sum covers the
    /// whole load.
    pub fn total(&self) -> &Delta {
        &self.total
    }

    /// Returns the number of requests in the measured part that began to connect or to send. Starts
    /// are counted independently of ends, which makes the check in [`crate::Totals::check`]
    /// meaningful.
    pub fn started_count(&self) -> u64 {
        self.total.started - self.total.unmeasured
    }

    /// Returns the requests in the measured part by outcome, in finished half seconds.
    pub fn outcomes(&self) -> &OutcomeCounts {
        &self.total.outcomes
    }

    /// Returns the number of failed requests in the measured part so far, for progress output.
    pub fn failed_count(&self) -> u64 {
        self.failed
    }

    /// Returns the number of requests that have finished, including those of the warm-up, for
    /// progress output.
    pub fn ended_count(&self) -> u64 {
        self.ended
    }

    /// Returns the number of successful requests in the measured part so far, and the sum of their
    /// response times in nanoseconds.
    pub fn succeeded(&self) -> (u64, u128) {
        self.succeeded
    }

    /// Returns each status that occurred in finished half seconds, with its count.
    pub fn statuses(&self) -> impl Iterator<Item = (u16, u64)> + '_ {
        self.total.statuses.iter()
    }

    /// Returns the response times of all finished half seconds.
    pub fn response_time(&self) -> &Distribution {
        &self.total.response_time
    }

    /// Returns the time to connect of each opened connection.
    pub fn connect_time(&self) -> &Distribution {
        &self.total.connect_time
    }

    /// Returns the durations of the TLS handshakes of opened connections.
    pub fn tls_time(&self) -> &Distribution {
        &self.total.tls_time
    }

    /// Returns the service times of all finished half seconds.
    pub fn service_time(&self) -> &Distribution {
        &self.total.service_time
    }

    /// Returns the times to first byte of all finished half seconds.
    pub fn first_byte(&self) -> &Distribution {
        &self.total.first_byte
    }
}

#[cfg(test)]
mod tests;
