//! Length and number of slices.

use std::time::Duration;

use prony_stats::Metric;

/// Default length of a slice. Variants with low request rates need longer slices.
pub const DEFAULT_SLICE: Duration = Duration::from_millis(250);
/// Minimum number of rounds in a block.
pub const ROUNDS_MIN: u32 = 4;
/// Ratio of a slice's length to the length of its settling part. The settling part is at the start
/// of the slice and isn't counted.
pub const SETTLING_PART: u32 = 10;
/// Minimum number of counted requests of each variant in a block if a percentile up to p99 gets a
/// verdict. With this number of requests, 10 are above p99.
pub const COUNTED_REQUESTS_MIN: u32 = 1_000;

/// Returns the minimum trial duration that yields enough requests for the given metrics at the
/// request rate of the slowest variant, rounded up to whole milliseconds. Returns `None` if any
/// duration is long enough.
pub fn minimum_duration(slowest_rate_per_s: f64, metrics: &[Metric]) -> Option<Duration> {
    let is_high = metrics.iter().any(|metric| metric.is_p99());
    is_high.then(|| time_of(COUNTED_REQUESTS_MIN, slowest_rate_per_s))
}

/// Returns the total time under load of an interleaved block: the warm-ups of all variants, plus
/// the duration and the settling parts of each variant. Draining between slices takes additional
/// time.
pub fn interleaved_time(warmups: &[Duration], duration: Duration) -> Duration {
    let variants = u32::try_from(warmups.len()).unwrap_or(u32::MAX);
    let each = duration.saturating_add(duration / SETTLING_PART);
    let slices = each.saturating_mul(variants);
    warmups
        .iter()
        .fold(slices, |sum, it| sum.saturating_add(*it))
}

/// Returns the time needed to send a number of requests at the given rate, rounded up to whole
/// milliseconds.
fn time_of(requests: u32, rate_per_s: f64) -> Duration {
    let milliseconds = (f64::from(requests) * 1e3 / rate_per_s.max(0.0)).ceil();
    // At a rate of zero, the time is infinite, and the conversion returns the largest integer.
    Duration::from_millis(milliseconds as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    #[test]
    fn a_judged_p99_needs_a_thousand_requests() {
        let judged = [Metric::RatePerS, Metric::P99Us];
        assert_eq!(minimum_duration(50_000.0, &judged), Some(ms(20)));
        assert_eq!(minimum_duration(300.0, &judged), Some(ms(3_334)));
        assert_eq!(minimum_duration(0.1, &judged), Some(ms(10_000_000)));
        for no_rate in [0.0, -1.0] {
            assert_eq!(minimum_duration(no_rate, &judged), Some(ms(u64::MAX)));
        }
        assert_eq!(
            minimum_duration(0.1, &[Metric::RatePerS, Metric::P50Us]),
            None
        );
        assert_eq!(minimum_duration(0.1, &[]), None);
    }

    #[test]
    fn the_time_of_a_block_is_its_warmups_plus_its_slices_and_settling_parts() {
        let time = interleaved_time(&[ms(300), ms(500)], ms(1_000));
        assert_eq!(time, ms(300 + 500 + 2 * 1_100));
        assert_eq!(interleaved_time(&[], ms(1_000)), Duration::ZERO);
        assert_eq!(interleaved_time(&[ms(1)], Duration::MAX), Duration::MAX);
    }
}
