//! Search for the highest rate that a tool sustains. This module does no I/O.

/// Rate of the first probe, in requests per second.
const FIRST_RATE: u32 = 8_000;

/// Lowest rate that is tried, in requests per second.
const RATE_MIN: u32 = 250;

/// Highest rate that is tried, in requests per second. No single core can send this many requests.
const RATE_MAX: u32 = 1_024_000;

/// Number of bisections between the highest rate that was sustained and the lowest that was missed.
/// After three, these rates differ by 9%.
const BISECTIONS: u32 = 3;

/// Finds the highest rate for which `keeps` returns true: first by doubling, then by bisection on a
/// logarithmic scale. A missed rate is tried once more, because other work on the machine may have
/// delayed the tool. Returns `None` if even the lowest rate fails.
pub(super) fn highest(mut keeps: impl FnMut(u32) -> bool) -> Option<u32> {
    let mut keeps = |rate| keeps(rate) || keeps(rate);
    let (mut kept, mut missed) = (None, None);
    let mut rate = FIRST_RATE;
    while kept.is_none() || missed.is_none() {
        if !(RATE_MIN..=RATE_MAX).contains(&rate) {
            return kept;
        }
        if keeps(rate) {
            kept = Some(rate);
            rate = rate.saturating_mul(2);
        } else {
            missed = Some(rate);
            rate /= 2;
        }
    }
    let (mut kept, mut missed) = (kept?, missed?);
    for _ in 0..BISECTIONS {
        let between = (f64::from(kept) * f64::from(missed)).sqrt().round() as u32;
        if keeps(between) {
            kept = between
        } else {
            missed = between
        }
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_found_is_at_most_a_tenth_below_the_highest() {
        for limit in [300, 5_000, 8_000, 30_000, 99_999, 700_000] {
            let found = highest(|rate| rate <= limit).unwrap();
            assert!(found <= limit, "{found} of {limit}");
            assert!(
                f64::from(found) >= f64::from(limit) / 1.1,
                "{found} of {limit}"
            );
        }
        assert_eq!(highest(|_| false), None);
        assert!(highest(|_| true).is_some());
    }

    #[test]
    fn one_disturbed_probe_does_not_count() {
        let mut probes = 0;
        let found = highest(|rate| {
            probes += 1;
            probes % 2 == 0 && rate <= 40_000
        });
        assert!(found.is_some_and(|rate| rate > 36_000), "{found:?}");
    }
}
