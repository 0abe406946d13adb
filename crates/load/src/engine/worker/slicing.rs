//! A load in slices: it runs while other loads pause, and pauses while one of them runs.
//!
//! The worker's clock is the time within the load's own slices, so pacing, timers and the time
//! series need no special handling of slices. A slice has three parts:
//!
//! ```text
//!  begin ──settling──► from ──counted──► end ──drain──► the last request has finished
//! ```
//!
//! - The requests of the settling part are not counted: they warm up caches that other loads have
//!   evicted. The clock is set back for this part. The counted part then begins where the counted
//!   part of the previous slice ended. If a part of the previous drain belongs to the measured
//!   time, the counted part begins later by that amount.
//! - In the counted part, requests start as in any load.
//! - In the drain, no requests start. Requests in flight end, and are counted with their full
//!   times.
//!
//! No request is in flight between two slices, so setting the clock affects no request's times.
//! Timers of connections may be pending during the pause. They expire at the end of the pause,
//! which is usually longer than the timers.

use std::io;
use std::ops::ControlFlow;

use prony_record::Nanos;

use super::pace::{Pace, settling_pace};
use super::{COMPLETIONS_MAX, Worker, WorkerResult};
use crate::carrier::Transport;
use crate::engine::progress::{Control, Counter};
use crate::engine::slices::{LoadSlice, SliceReport};
use crate::socket::Sockets;

/// Maximum number of completions of an idle connection during a pause: unsolicited bytes, and the
/// end of the connection.
const COMPLETIONS_PER_IDLE_CONNECTION: u32 = 2;

/// A worker's source of slices.
pub(crate) trait SliceFeed<S> {
    /// Waits for the next slice, and sets the clock of the sockets to its start.
    ///
    /// # Errors
    ///
    /// Returns the time at which the load ends, if there are no more slices.
    fn next(&mut self, sockets: &mut S) -> Result<LoadSlice, Nanos>;

    /// Reports the results of a slice that has ended.
    fn ended(&mut self, report: SliceReport);
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Runs slices until there are no more, or until `control` stops the load.
    ///
    /// # Errors
    ///
    /// The system can't wait for events.
    pub(crate) fn run_in_slices(
        mut self,
        control: &Control,
        counter: &Counter,
        feed: &mut dyn SliceFeed<T::Sockets>,
    ) -> io::Result<WorkerResult> {
        counter.begin(&mut self.sink.recorder);
        self.meter.pause();
        let mut counted_until = Nanos::ZERO;
        let ended = loop {
            let slice = match feed.next(self.transport.sockets_mut()) {
                Ok(slice) => slice,
                Err(end) => break end.max(counted_until),
            };
            match self.run_slice(slice, counted_until, control, counter)? {
                ControlFlow::Continue(report) => feed.ended(report),
                ControlFlow::Break(ended) => break ended,
            }
            counted_until = slice.end();
        };
        counter.publish(&mut self.sink.recorder, ended, &self.meter);
        let mut result = self.finish(ended);
        counter.finish(&mut result.sink.recorder, result.utilization);
        Ok(result)
    }

    /// Runs one slice and returns its results. If the load ended in the slice, returns
    /// [`ControlFlow::Break`] with the time at which it ended.
    fn run_slice(
        &mut self,
        slice: LoadSlice,
        counted_before: Nanos,
        control: &Control,
        counter: &Counter,
    ) -> io::Result<ControlFlow<Nanos, SliceReport>> {
        let before = self.progress();
        self.sink.recorder.limit_series(slice.end());
        self.end_pause(slice.begin())?;
        if slice.settling > Nanos::ZERO && self.settle(slice, control, counter)? < slice.from {
            return Ok(ControlFlow::Break(slice.from));
        }
        let ended = self.run_counted_part(slice, counted_before, control, counter)?;
        let p99 = self.sink.recorder.response_time_quantile(0.99);
        if ended < slice.end() {
            self.meter.pause();
            return Ok(ControlFlow::Break(ended));
        }
        self.drain_slice(slice, control, counter)?;
        self.meter.pause();
        if control.is_stopped() {
            return Ok(ControlFlow::Break(slice.end()));
        }
        let after = self.progress();
        Ok(ControlFlow::Continue(SliceReport {
            ok: after.ok - before.ok,
            failed: after.failed - before.failed,
            ended: after.ended - before.ended,
            response_ns: after.response_ns - before.response_ns,
            drain: self.transport.sockets().now().since(slice.end()),
            p99,
        }))
    }

    /// Handles everything that happened since the previous slice, before any request starts. This
    /// includes events on connections and expired timers. Stored times that are later than the
    /// slice's start are set back to it.
    fn end_pause(&mut self, begin: Nanos) -> io::Result<()> {
        // An end of zero prevents requests from starting.
        self.end = Nanos::ZERO;
        let completions = self.connections.len() * COMPLETIONS_PER_IDLE_CONNECTION;
        for _ in 0..=completions / COMPLETIONS_MAX {
            self.transport.sockets_mut().wait(Nanos::ZERO)?;
            self.reap(self.transport.sockets().cached_now());
        }
        self.expire_timers(begin);
        for slot in &mut self.dispatcher.slots {
            slot.free_since = slot.free_since.min(begin);
        }
        for index in 0..self.connections.len() {
            if let Some(session) = self.connections[index].session_mut() {
                session.last_heard = session.last_heard.min(begin);
            }
        }
        self.dispatcher.eligible_since = begin;
        Ok(())
    }

    /// Runs the settling part. Returns the end of this part, or an earlier time if the load ended
    /// before that.
    fn settle(
        &mut self,
        slice: LoadSlice,
        control: &Control,
        counter: &Counter,
    ) -> io::Result<Nanos> {
        let settling = settling_pace(self.spec, self.shard, slice.begin());
        let pace = std::mem::replace(&mut self.dispatcher.pace, settling);
        self.dispatcher.is_settling = true;
        self.sink.recorder.settle(true);
        self.end = slice.from;
        let settled = self.run_to_end(control, counter);
        self.dispatcher.pace = pace;
        self.dispatcher.is_settling = false;
        self.sink.recorder.settle(false);
        settled
    }

    /// Runs the counted part. Returns the end of this part, or an earlier time if the load ended
    /// before that.
    fn run_counted_part(
        &mut self,
        slice: LoadSlice,
        counted_before: Nanos,
        control: &Control,
        counter: &Counter,
    ) -> io::Result<Nanos> {
        if counted_before == Nanos::ZERO {
            // Requests that were due before the first slice are skipped, because otherwise they
            // would all start now.
            self.dispatcher.skip_schedule_until(slice.from);
        }
        self.meter.resume(counted_before, slice.from, slice.end());
        let now = self.transport.sockets().now();
        self.meter.gap(slice.from, now);
        self.dispatcher.eligible_since = match self.dispatcher.pace {
            // A late start must not count as wait time for connections that are already open.
            Pace::Closed { .. } | Pace::OneAtATime { .. } => now,
            Pace::Open(_) | Pace::Recorded(_) => slice.from,
        };
        self.end = slice.end();
        self.run_to_end(control, counter)
    }

    /// Waits until no request is in flight.
    fn drain_slice(
        &mut self,
        slice: LoadSlice,
        control: &Control,
        counter: &Counter,
    ) -> io::Result<()> {
        self.meter.drain();
        let mut now = self.transport.sockets().now();
        // If the ramp is not over, the next slice opens the remaining connections.
        self.end_hold(now);
        let mut polled = now;
        loop {
            counter.publish(&mut self.sink.recorder, slice.end(), &self.meter);
            self.run_timers(polled);
            if self.ramp.is_some() {
                self.end_ramp_if_due(now);
            }
            if self.dispatcher.has_deferred() {
                self.resume_deferred(now);
            }
            self.send_dirty();
            if self.dispatcher.pending_count == 0 || control.is_stopped() {
                return Ok(());
            }
            #[cfg(test)]
            self.assert_sound();
            let until = self.wake_without_starts_at(now);
            self.wait(until)?;
            polled = self.transport.sockets().cached_now();
            self.meter.waited(now, until, polled);
            let turn = self.reap(polled);
            now = self.transport.sockets().now();
            self.meter.gap(turn.read, now);
        }
    }

    /// Returns the load's counts so far, as a report.
    fn progress(&self) -> SliceReport {
        let recorder = &self.sink.recorder;
        let (ok, response_ns) = recorder.succeeded();
        SliceReport {
            ok,
            failed: recorder.failed_count(),
            ended: recorder.ended_count(),
            response_ns,
            ..SliceReport::default()
        }
    }
}
