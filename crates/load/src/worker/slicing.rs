//! A load in slices: it runs while other loads pause, and pauses while one of them runs.
//!
//! The worker's clock is the time within the load's own slices, so that pacing, timers and the time
//! series know nothing of slices. A slice has three parts:
//!
//! ```text
//!  begin ──settling──► from ──counted──► end ──drain──► the last request has ended
//! ```
//!
//! Requests of the settling part are not counted: they warm up caches that other loads have evicted.
//! The clock begins a settling part early enough that the counted part begins where the last one ended.
//! During the drain no requests start. Its requests are counted with their full times.

use std::io;

use prony_record::Nanos;

use super::pace::settling_pace;
use super::redirects::LOOKUP_POLL_INTERVAL;
use super::{SLEEP_MAX, Worker, WorkerResult};
use crate::progress::{Control, Counter};
use crate::slices::{LoadSlice, SliceReport};
use crate::socket::Sockets;

/// A worker's source of slices.
pub(crate) trait SliceFeed<S> {
    /// Waits for the next slice, and sets the clock of the sockets to its begin.
    ///
    /// # Errors
    ///
    /// The time at which the load ends, if there are no more slices.
    fn next(&mut self, sockets: &mut S) -> Result<LoadSlice, Nanos>;

    /// Reports the end of the slice.
    fn ended(&mut self, report: SliceReport);
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// Runs slices until there are no more, or until `control` stops the load.
    ///
    /// # Errors
    ///
    /// The system's waiting fails.
    pub(crate) fn run_in_slices(
        mut self,
        control: &Control,
        counter: &Counter,
        feed: &mut dyn SliceFeed<S>,
    ) -> io::Result<WorkerResult> {
        counter.begin(&mut self.sink.recorder);
        self.meter.pause();
        let mut counted_until = Nanos::ZERO;
        let ended = loop {
            let slice = match feed.next(&mut self.sockets) {
                Ok(slice) => slice,
                Err(end) => break end,
            };
            let (ended, report) = self.slice(slice, counted_until, control, counter)?;
            let is_over = ended.is_some();
            counted_until = slice.end();
            if is_over || control.is_stopped() {
                break ended.unwrap_or(counted_until);
            }
            feed.ended(report);
        };
        counter.publish(&mut self.sink.recorder, ended, &self.meter);
        let mut result = self.finish(ended);
        counter.finish(&mut result.sink.recorder, result.utilization);
        Ok(result)
    }

    /// Runs one slice. Returns the time at which the load ended in it, if it did.
    fn slice(
        &mut self,
        slice: LoadSlice,
        counted_until: Nanos,
        control: &Control,
        counter: &Counter,
    ) -> io::Result<(Option<Nanos>, SliceReport)> {
        let before = self.progress();
        self.dispatcher.eligible_since = slice.begin();
        self.sink.recorder.limit_series(slice.end());
        self.look_before_start()?;
        if slice.settling > Nanos::ZERO {
            self.settle(slice, control, counter)?;
        }
        self.meter.resume(slice.from.since(counted_until));
        self.end = slice.end();
        let ended = self.run_to_end(control, counter)?;
        self.meter.pause();
        if control.is_stopped() || ended < slice.end() {
            return Ok((Some(ended), SliceReport::default()));
        }
        self.drain_slice(control, counter)?;
        let drained = self.sockets.now();
        let recorder = &self.sink.recorder;
        let after = self.progress();
        let report = SliceReport {
            ok: after.ok - before.ok,
            failed: after.failed - before.failed,
            ended: after.ended - before.ended,
            response_ns: after.response_ns - before.response_ns,
            drain: drained.since(slice.end()),
            p99: recorder.response_time().quantile(0.99).0,
        };
        Ok((None, report))
    }

    /// Handles what happened to connections since the last slice, before requests start on them.
    fn look_before_start(&mut self) -> io::Result<()> {
        self.end = Nanos::ZERO;
        let now = self.sockets.now();
        self.sockets.wait(now)?;
        self.reap(now);
        Ok(())
    }

    fn settle(&mut self, slice: LoadSlice, control: &Control, counter: &Counter) -> io::Result<()> {
        let settling = settling_pace(self.spec, self.shard, slice.begin());
        let pace = std::mem::replace(&mut self.dispatcher.pace, settling);
        self.dispatcher.is_settling = true;
        self.sink.recorder.settle(true);
        self.end = slice.from;
        let settled = self.run_to_end(control, counter);
        self.dispatcher.pace = pace;
        self.dispatcher.is_settling = false;
        self.sink.recorder.settle(false);
        settled.map(drop)
    }

    /// Waits until no request is in flight.
    fn drain_slice(&mut self, control: &Control, counter: &Counter) -> io::Result<()> {
        let mut polled = self.sockets.now();
        while self.dispatcher.pending_count > 0 && !control.is_stopped() {
            let now = self.sockets.now();
            counter.publish(&mut self.sink.recorder, now, &self.meter);
            self.run_timers(polled);
            if self.ramp.is_some() {
                self.end_ramp_if_due(now);
            }
            if self.dispatcher.has_deferred() {
                self.resume_deferred(now);
            }
            self.send_dirty();
            let until = self.drain_wake_at(now);
            self.sockets.wait(until)?;
            polled = self.sockets.cached_now();
            self.reap(polled);
        }
        self.send_dirty();
        Ok(())
    }

    fn drain_wake_at(&self, now: Nanos) -> Nanos {
        let ramp = self.ramp.as_ref();
        let ramp = ramp.map_or(Nanos::MAX, |ramp| ramp.wake_at(now));
        let redirects = self.redirects.as_ref();
        let sleep = match redirects.is_some_and(|redirects| redirects.is_looking_up) {
            true => LOOKUP_POLL_INTERVAL,
            false => SLEEP_MAX,
        };
        ramp.min(self.timers.next()).min(now + sleep)
    }

    /// Counts so far.
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
