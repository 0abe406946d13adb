//! Coalesced waits, which continue until several responses have arrived.

use prony_record::Nanos;

use super::Dispatcher;
use crate::socket::WaitBatch;

/// Minimum number of requests in flight for coalescing responses.
const COALESCE_REQUESTS_MIN: u32 = 16;
/// Divisor for the maximum delay of a response, which is 1/20 of the average latency.
const COALESCE_LATENCY_PART: u64 = 20;
/// Minimum time of a coalesced wait. If the time would be shorter, waits are not coalesced.
const COALESCE_TIME_MIN: Nanos = Nanos::from_micros(8);
/// Divisor for the weight of a new latency in the moving average.
const EWMA_PARTS: i64 = 64;

impl Dispatcher {
    /// Records the latency of a response.
    pub(in crate::worker) fn note_latency(&mut self, took: Nanos) {
        let (took, average) = (took.0 as i64, self.ewma_latency.0 as i64);
        self.ewma_latency = Nanos((average + (took - average) / EWMA_PARTS) as u64);
    }

    /// Returns the limits on the next coalesced wait, which lasts up to `time_max`. Returns `None`
    /// if coalescing is not worthwhile.
    ///
    /// Servers send many responses on one connection in several small segments. A client that
    /// handles each segment immediately wakes up for each one. It then sends one request at a time,
    /// which also wakes the server each time. Both sides then spend their time on wake-ups. In a
    /// closed loop with many requests in flight, responses are therefore handled in batches, and
    /// each response is delayed by at most 5% of the average latency. Only backends for which this
    /// saves time gather HTTP/1 responses; others never record their latency.
    #[inline]
    pub(in crate::worker) fn wait_batch(&self, time_max: Nanos) -> Option<WaitBatch> {
        let max_wait = Nanos(self.ewma_latency.0 / COALESCE_LATENCY_PART).min(time_max);
        let pays = max_wait >= COALESCE_TIME_MIN && self.pending_count >= COALESCE_REQUESTS_MIN;
        (pays && self.is_saturating).then_some(WaitBatch {
            max_completions: self.pending_count,
            max_wait,
        })
    }
}
