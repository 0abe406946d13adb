//! Waits that gather several HTTP/2 responses.

use prony_record::Nanos;

use super::{Dispatcher, Pace};
use crate::socket::WaitBatch;

/// With fewer requests in flight no response waits for others.
const COALESCE_REQUESTS_MIN: u32 = 16;
/// A response waits for others for 1/20 of the average latency...
const COALESCE_LATENCY_PART: u64 = 20;
/// ...at most this long, and not at all if that is shorter than the first value.
pub(super) const COALESCE_TIME: (Nanos, Nanos) = (Nanos::from_micros(8), Nanos::from_micros(50));
/// Weight of a new latency in the average: one part of this many.
const EWMA_PARTS: i64 = 64;

impl Dispatcher {
    /// Records the latency of an HTTP/2 response.
    pub(in crate::worker) fn note_latency(&mut self, took: Nanos) {
        let (took, average) = (took.0 as i64, self.ewma_latency.0 as i64);
        self.ewma_latency = Nanos((average + (took - average) / EWMA_PARTS) as u64);
    }

    /// The batch that a wait may gather, if gathering pays.
    ///
    /// Servers send many responses on one connection in several small segments. A client that takes
    /// each at once is woken for each, and sends one request at a time, so that the server is woken
    /// for each, too: both are busy with wake-ups. In a closed loop with many requests in flight,
    /// responses are taken in batches instead, each at most 5% later than it came.
    #[inline]
    pub(in crate::worker) fn wait_batch(&self) -> Option<WaitBatch> {
        let max_wait = Nanos(self.ewma_latency.0 / COALESCE_LATENCY_PART).min(COALESCE_TIME.1);
        let pays = max_wait >= COALESCE_TIME.0 && self.pending_count >= COALESCE_REQUESTS_MIN;
        (pays && matches!(self.pace, Pace::Closed { .. })).then_some(WaitBatch {
            max_completions: self.pending_count,
            max_wait,
        })
    }
}
