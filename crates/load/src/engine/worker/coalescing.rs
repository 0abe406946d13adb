//! Coalesced waits, which continue until several responses have arrived.
//!
//! A client that handles each response as it arrives sleeps between them. The server then pays for
//! a wake-up of the client with each response, and for one of its own with each request. On a
//! machine that both share, this costs up to a third of the server's rate. A closed loop with many
//! requests in flight therefore gathers responses and sends the next requests together. A response
//! waits for others for at most 5% of the latency of a fast response.

use prony_record::Nanos;

use crate::request::protocols::Http;
use crate::socket::WaitBatch;
use crate::spec::{LoadSpec, LoopModel};

/// Minimum number of requests in flight for coalescing responses.
const REQUESTS_MIN: u32 = 16;
/// Divisor for the maximum delay of a response: the delay is at most 1/20 of the fast latency.
const LATENCY_PARTS: u64 = 20;
/// Number of waits that a request with its own connection needs, and that may each be coalesced:
/// for the connection, the TLS handshake and the response.
const WAITS_PER_CONNECTION: u64 = 3;
/// Minimum time of a coalesced wait. If the time would be shorter, waits are not coalesced.
const TIME_MIN: Nanos = Nanos::from_micros(8);
/// Maximum time of a coalesced wait for connections with one request in flight each.
const TIME_MAX: Nanos = Nanos::from_micros(50);
/// Maximum time of a coalesced wait for connections with several requests in flight, and for QUIC.
/// Responses that arrive on a connection within this time are acknowledged together. The next
/// requests then share a segment or datagram, so the server also handles them together.
const SHARED_TIME_MAX: Nanos = Nanos::from_millis(1);
/// Number of requests in flight on different connections per response that a wait gathers. The
/// server still has the others to work on while the client handles the batch.
const REQUESTS_PER_RESPONSE: u32 = 4;
/// Maximum number of responses on different connections that a wait gathers. Waiting for more saves
/// nothing, because a wake-up is then a small part of the work.
const RESPONSES_MAX: u32 = 32;
/// Divisor for the change of the fast latency by one response. A slower response raises it by one
/// part, and a faster one lowers it by nine, so one response in ten is faster than it.
const FAST_PARTS: u64 = 640;
const FAST_FALL: u64 = 9;

/// The decision how long a worker's waits last.
pub(super) struct Coalescing {
    /// True for a closed loop without think times, which always has a request due.
    is_on: bool,
    /// True if a connection may have several requests in flight. Their responses arrive in many
    /// small pieces, so a wait gathers for its whole time.
    is_multiplexed: bool,
    time_max: Nanos,
    /// Number of waits that may delay one request.
    waits_per_request: u64,
    /// Estimate of the 10th percentile of the latency; zero before the first response.
    fast_latency: Nanos,
}

impl Coalescing {
    pub(super) fn new(spec: &LoadSpec) -> Coalescing {
        let is_closed = matches!(spec.model, LoopModel::Closed);
        let transport = &spec.transport;
        let protocols = transport.protocols;
        let is_multiplexed = protocols.streams > 1;
        Coalescing {
            is_on: is_closed && spec.think.is_none() && transport.coalesces,
            is_multiplexed,
            time_max: if is_multiplexed || protocols.http == Http::Three {
                SHARED_TIME_MAX
            } else {
                TIME_MAX
            },
            waits_per_request: if transport.keepalive {
                1
            } else {
                WAITS_PER_CONNECTION
            },
            fast_latency: Nanos::ZERO,
        }
    }

    /// Records the latency of a response.
    #[inline]
    pub(super) fn note_latency(&mut self, took: Nanos) {
        let fast = &mut self.fast_latency.0;
        let part = *fast / FAST_PARTS + 1;
        *fast = match (*fast, took.0) {
            (0, took) => took,
            (fast, took) if took > fast => fast + part,
            (fast, _) => fast.saturating_sub(FAST_FALL * part).max(1),
        };
    }

    /// Returns the limits on the next wait, with this number of requests in flight. Returns `None`
    /// if coalescing is not worthwhile.
    #[inline]
    pub(super) fn batch(&self, in_flight: u32) -> Option<WaitBatch> {
        let max_wait = self.fast_latency.0 / (LATENCY_PARTS * self.waits_per_request);
        let max_wait = Nanos(max_wait).min(self.time_max);
        let pays = max_wait >= TIME_MIN && in_flight >= REQUESTS_MIN;
        let max_completions = if self.is_multiplexed {
            in_flight
        } else {
            (in_flight / REQUESTS_PER_RESPONSE).min(RESPONSES_MAX)
        };
        (self.is_on && pays).then_some(WaitBatch {
            max_completions,
            max_wait,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::worker::tests::spec;

    /// Returns the limits on a wait with 64 requests in flight, after responses with latencies of
    /// 1 ms.
    fn batch_of(words: &str) -> Option<WaitBatch> {
        let mut coalescing = Coalescing::new(&spec(words));
        (0..100).for_each(|_| coalescing.note_latency(Nanos::from_millis(1)));
        coalescing.batch(64)
    }

    #[test]
    fn only_closed_loops_with_many_requests_in_flight_gather_responses() {
        let batch = batch_of("-c 64").unwrap();
        assert_eq!(batch.max_completions, 16);
        assert!((48_000..=50_000).contains(&batch.max_wait.0), "{batch:?}");
        // Responses on streams arrive in pieces, which are not counted.
        let streams = batch_of("-c 16 --http 2 --streams 4").unwrap();
        assert_eq!(streams.max_completions, 64);
        for words in ["-c 64 -r 100", "-c 64 --think 1ms", "-c 64 --no-coalescing"] {
            assert_eq!(batch_of(words), None, "{words}");
        }
        let few = Coalescing {
            fast_latency: Nanos::from_millis(1),
            ..Coalescing::new(&spec("-c 15"))
        };
        assert_eq!(few.batch(15), None);
        assert_eq!(few.batch(1024).unwrap().max_completions, 32);
    }

    #[test]
    fn a_request_with_its_own_connection_is_not_delayed_more_than_others() {
        let [kept, own] = ["-c 64", "-c 64 --no-keepalive"].map(|words| batch_of(words).unwrap());
        assert!(own.max_wait.0 * 3 <= kept.max_wait.0);
    }

    #[test]
    fn the_delay_is_bounded_by_the_fast_responses_of_a_mixed_load() {
        let mut coalescing = Coalescing::new(&spec("-c 64"));
        for number in 0..100_000u32 {
            let is_fast = number.wrapping_mul(2_654_435_761) >> 30 == 0;
            let took = if is_fast { 400 } else { 100_000 };
            coalescing.note_latency(Nanos::from_micros(took));
        }
        let wait = coalescing.batch(64).unwrap().max_wait;
        assert!((18_000..=22_000).contains(&wait.0), "{wait:?}");
    }

    #[test]
    fn extreme_latencies_leave_the_estimate_valid() {
        let mut coalescing = Coalescing::new(&spec("-c 64"));
        for took in [0, 0, u64::MAX / 2, 0, 1, u64::MAX / 2] {
            coalescing.note_latency(Nanos(took));
            coalescing.batch(64);
        }
    }
}
