//! The end of requests and of the load.

use prony_record::{Exchange, Nanos, Outcome};

use super::dispatcher::RequestPhase;
use super::pace::LoadCourse;
use super::redirects::{PastHops, RedirectStep};
use super::script_runner::EndedRequest;
use super::{Worker, WorkerResult};
use crate::carrier::{Carrier, Reason, ResponseProgress, Session, Transport};
use crate::exchange::RequestKind;
use crate::socket::{Close, Sockets};

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Handles a complete response to a slot's request. Ends the request or follows the redirect,
    /// in which case the request waits for its connection again. Returns true if the request
    /// finished.
    #[inline]
    pub(super) fn end_or_redirect(
        &mut self,
        slot: u32,
        outcome: Outcome,
        reason: Option<&Reason>,
        now: Nanos,
    ) -> bool {
        if self.inspects_responses
            && let Some(has_ended) = self.inspect_response(slot, now)
        {
            return has_ended;
        }
        let outcome = if self.spec.responses.statuses_by_form.is_empty() {
            outcome
        } else {
            self.judge_status(slot, outcome)
        };
        if self.journeys.is_some() && outcome == Outcome::Ok {
            let (outcome, reason) = self.read_step(slot);
            self.record_end(slot, outcome, reason.as_ref(), now);
            return true;
        }
        let tls_expected = match outcome {
            Outcome::UnexpectedStatus => {
                let connection = self.dispatcher.slot(slot).connection;
                let session = self.connections[connection].session();
                session.and_then(Session::tls_expected)
            }
            _ => None,
        };
        self.record_end(slot, outcome, reason.or(tls_expected.as_ref()), now);
        true
    }

    /// Stores the cookies of a complete response, follows its redirect, or passes it to the script.
    /// Returns `None` if the response is not a redirect that the load follows. Otherwise, returns
    /// true if the request has finished.
    fn inspect_response(&mut self, slot: u32, now: Nanos) -> Option<bool> {
        self.store_cookies(slot);
        match self.follow_redirect(slot, now) {
            RedirectStep::NotFollowed => {
                if self.script.is_some() {
                    self.show_response(slot);
                }
                None
            }
            RedirectStep::Followed => Some(false),
            RedirectStep::Failed(reason) => {
                self.record_end(slot, Outcome::Redirect, Some(&reason), now);
                Some(true)
            }
        }
    }

    /// Replaces the outcome of a complete response with `UnexpectedStatus` if the request's list
    /// entry doesn't expect the status.
    fn judge_status(&self, slot: u32, outcome: Outcome) -> Outcome {
        let taken = self.dispatcher.slot(slot);
        let entry = taken.pending().map_or(u32::MAX, |pending| pending.request);
        let rules = &self.spec.responses;
        // A script's own requests are not in the list.
        let form = self.spec.form_of(entry);
        let Some(expected) = rules.statuses_by_form.get(form as usize) else {
            return outcome;
        };
        let session = self.connections[taken.connection].session();
        let status = session.and_then(|session| session.carrier.received(taken.stream()).status);
        match status {
            Some(status) if !expected.contains(status) => Outcome::UnexpectedStatus,
            _ => outcome,
        }
    }

    /// Records the end of a slot's request. The caller frees or parks the slot.
    #[inline]
    pub(super) fn record_end(
        &mut self,
        slot: u32,
        outcome: Outcome,
        reason: Option<&Reason>,
        now: Nanos,
    ) {
        if self.script.is_some() {
            self.show_messages(slot);
        }
        self.take_back_unsent(slot);
        let taken = self.dispatcher.slot(slot);
        let (index, stream) = (taken.connection, taken.stream());
        let received = match (taken.phase(), self.connections[index].session()) {
            (Some(RequestPhase::InFlight), Some(session)) => {
                self.sink.refusals.sent_request_ended(outcome);
                session.carrier.received(stream)
            }
            _ => ResponseProgress::default(),
        };
        let Some((pending, own)) = self.dispatcher.end(slot) else {
            return;
        };
        self.timers.requests.clear(slot);
        let streamed = self.event_times.as_mut().map(|times| times.take(slot));
        let past = match &mut self.redirects {
            Some(redirects) => redirects.take_hops(slot),
            None => PastHops::default(),
        };
        let sent = pending.sent.unwrap_or(pending.begun.max(pending.intended));
        // A request may fail in the same turn of the loop in which it was sent or its response
        // began. The clock reading of that turn may then be older than the time of the send or of
        // the first byte.
        let (sent, ended) = match outcome {
            Outcome::Unfinished => (sent.min(now), now),
            _ => (sent, now.max(received.first_byte.unwrap_or(sent)).max(sent)),
        };
        let exchange = Exchange {
            intended: pending.intended,
            sent,
            first_byte: received.first_byte,
            ended,
            status: received.status.filter(|_| is_complete(outcome)),
            bytes_in: past.bytes_in + received.bytes,
            body_bytes_in: past.body_bytes_in + received.body_bytes,
            bytes_out: pending.bytes_out,
            is_settling: pending.is_settling,
            // After a redirect, the request still has the list index of the original request.
            entry: self.spec.entries.of_request(pending.request),
        };
        debug_assert!(exchange.is_in_order(), "{exchange:?}");
        let source = if self.sink.sources.is_counting() {
            self.source_of(index)
        } else {
            None
        };
        let is_measured = self
            .sink
            .request_ended(&exchange, outcome, reason, || source);
        if let Some(book) = &self.addresses
            && let Some(address) = book.index_of(index).filter(|_| is_measured)
        {
            self.sink.addresses.ended(address, outcome);
        }
        if let Some(streamed) = streamed {
            self.timers.gaps.clear(slot);
            let listed = || self.spec.requests.get(pending.request as usize);
            let kind = own.as_deref().or_else(listed).map(|it| it.kind);
            if is_measured && kind.is_none_or(RequestKind::may_stream) {
                let recorder = &mut self.sink.recorder;
                recorder.stream_ended(&exchange, outcome, streamed);
            }
        }
        if streamed.is_none() {
            let is_ok = is_measured && outcome == Outcome::Ok;
            self.sink.body_waits.ended(slot, &exchange, is_ok);
        }
        if let Some(script) = &mut self.script {
            let listed = || &self.spec.requests[pending.request as usize];
            let ended = EndedRequest {
                request: own.as_deref().unwrap_or_else(listed),
                exchange: &exchange,
                outcome,
                reason,
                is_measured,
            };
            script.request_ended(slot, &ended);
        }
        if let (Some(renderer), Some(own)) = (&mut self.renderer, own) {
            renderer.recycle(pending.request, own);
        }
        if self.journeys.is_some() {
            self.step_ended(slot, &exchange, outcome);
        }
        if let Some(think_times) = &mut self.think_times {
            think_times.request_ended(slot, exchange.ended);
        }
    }

    /// Ends the load at `ended`. Requests in flight are recorded as unfinished, and requests that
    /// are due but have not started as unstarted.
    pub(super) fn finish(mut self, ended: Nanos) -> WorkerResult {
        self.sink.recorder.stop_at(ended);
        // While a slice drains, the clock is already past the load's end.
        let cut_off = match self.course {
            LoadCourse::Whole => ended,
            LoadCourse::Slices => ended.max(self.transport.sockets().cached_now()),
        };
        for slot in 0..self.dispatcher.slots.len() as u32 {
            self.record_end(slot, Outcome::Unfinished, None, cut_off);
        }
        self.end_journeys(cut_off);
        self.close_websockets();
        for index in 0..self.connections.len() {
            // Connections are aborted, because otherwise the ports of a large load would stay in
            // TIME_WAIT and be unavailable to the next load.
            self.close(index, Close::Abort);
        }
        let counts = self.transport.sockets().counts();
        self.sink.quic = counts.quic;
        self.sink.handovers = self.replay.as_ref().map_or(0, |it| it.handovers);
        self.sink.xdp = counts.xdp;
        while let Some((due, request)) = self.dispatcher.take_unstarted(ended) {
            let request = self.journey_unstarted(due, ended).unwrap_or(request);
            let entry = self.spec.entries.of_request(request);
            let first = self.spec.requests.first().map(|it| it.kind);
            let is_streamed =
                self.event_times.is_some() && first.is_none_or(RequestKind::may_stream);
            self.sink.request_unstarted(entry, due, ended, is_streamed);
        }
        self.sink.recorder.finish(ended);
        if let Some(script) = self.script.take() {
            script.finish();
        }
        WorkerResult {
            utilization: self.meter.utilization(ended),
            sink: self.sink,
            ended,
        }
    }
}

/// Returns true if a complete response arrived, whether it met the expectations or not.
fn is_complete(outcome: Outcome) -> bool {
    use Outcome::{
        Call, Capture, NoEndMarker, Ok, StoppedEarly, UnexpectedBody, UnexpectedSize,
        UnexpectedStatus,
    };
    matches!(
        outcome,
        Ok | Capture
            | Call(_)
            | NoEndMarker
            | StoppedEarly
            | UnexpectedBody
            | UnexpectedSize
            | UnexpectedStatus
    )
}
