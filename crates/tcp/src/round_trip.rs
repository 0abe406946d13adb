//! The retransmission timeout, computed from measured round-trip times (RFC 6298).

/// Initial timeout, in nanoseconds (RFC 6298 §2.1).
const INITIAL_RTO: u64 = 1_000_000_000;
/// Minimum timeout, in nanoseconds. RFC 6298 §2.4 recommends 1 s; Linux uses this value, and RFC
/// 8961 §4 permits it because the timeout follows measured round trips.
const RTO_MIN: u64 = 200_000_000;
/// Maximum timeout, in nanoseconds (RFC 6298 §2.5).
const RTO_MAX: u64 = 60_000_000_000;

/// Estimate of the round-trip time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RoundTrip {
    /// Smoothed round-trip time in nanoseconds, capped at about 4 s; 0 before the first sample.
    smoothed: u32,
    /// Variation of the round-trip time in nanoseconds.
    variation: u32,
    /// Number of timeouts since the last acknowledgment of new data.
    backoffs: u8,
}

impl RoundTrip {
    pub(crate) const NEW: RoundTrip = RoundTrip {
        smoothed: 0,
        variation: 0,
        backoffs: 0,
    };

    /// Adds the round-trip time of a segment that was sent only once (Karn's algorithm).
    pub(crate) fn sample(&mut self, nanos: u64) {
        let sample = u32::try_from(nanos).unwrap_or(u32::MAX).max(1);
        if self.smoothed == 0 {
            self.smoothed = sample;
            self.variation = sample / 2;
        } else {
            let error = self.smoothed.abs_diff(sample);
            self.variation = self.variation - self.variation / 4 + error / 4;
            self.smoothed = (self.smoothed - self.smoothed / 8)
                .saturating_add(sample / 8)
                .max(1);
        }
    }

    /// Doubles the timeout after it has expired. Returns the number of consecutive expirations.
    pub(crate) fn back_off(&mut self) -> u8 {
        self.backoffs = self.backoffs.saturating_add(1);
        self.backoffs
    }

    /// Ends the backoff, because new data was acknowledged.
    pub(crate) fn progress(&mut self) {
        self.backoffs = 0;
    }

    /// Returns the current timeout, in nanoseconds.
    pub(crate) fn timeout(&self) -> u64 {
        let base = match self.smoothed {
            0 => INITIAL_RTO,
            smoothed => {
                let margin = (4 * u64::from(self.variation)).max(1_000_000);
                (u64::from(smoothed) + margin).max(RTO_MIN)
            }
        };
        base.saturating_mul(1 << self.backoffs.min(16)).min(RTO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_timeout_follows_rfc_6298() {
        let mut round_trip = RoundTrip::NEW;
        assert_eq!(round_trip.timeout(), INITIAL_RTO);
        round_trip.sample(400_000_000);
        assert_eq!(round_trip.timeout(), 400_000_000 + 4 * 200_000_000);
        round_trip.sample(400_000_000);
        assert_eq!(round_trip.timeout(), 400_000_000 + 4 * 150_000_000);
    }

    #[test]
    fn timeouts_double_up_to_a_minute_until_data_is_acknowledged() {
        let mut round_trip = RoundTrip::NEW;
        round_trip.sample(1_000);
        assert_eq!(round_trip.timeout(), RTO_MIN);
        round_trip.back_off();
        assert_eq!(round_trip.timeout(), 2 * RTO_MIN);
        for _ in 0..300 {
            round_trip.back_off();
        }
        assert_eq!(round_trip.timeout(), RTO_MAX);
        round_trip.progress();
        assert_eq!(round_trip.timeout(), RTO_MIN);
    }
}
