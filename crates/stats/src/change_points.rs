//! Change points of a series: E-divisive with a permutation test.
//!
//! A split into the parts X (n values) and Y (m values) has the divergence
//! `mn/(m+n) · (2·E|X−Y| − E|X−X′| − E|Y−Y′|)` (Matteson and James, JASA 2014, with exponent 1 and
//! parts that are adjacent and complete). The split with the largest divergence is a change point
//! if few random orders of the same values have a split with a divergence as large. The series is
//! then divided there, and each part is searched in the same way, until no split is significant.

use prony_record::RandomSequence;

/// Probability that a series without a change gets a change point.
const ERROR_RATE: f64 = 0.002;

/// Number of random orders of a test.
const PERMUTATIONS: u32 = 1_999;

/// Minimum number of values on each side of a split.
const PART_MIN: usize = 2;

/// Maximum number of values that are searched; earlier ones are ignored.
pub const SERIES_MAX: usize = 500;

/// A split and its divergence.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Split {
    /// Index of the first value after the split.
    at: usize,
    divergence: f64,
}

/// Returns the indices of the first values after each change, in ascending order. The same series
/// always gives the same result.
pub fn change_points(values: &[f64]) -> Vec<usize> {
    let skipped = values.len().saturating_sub(SERIES_MAX);
    let mut found = Vec::new();
    let mut parts = vec![(skipped, values.len())];
    while let Some((start, end)) = parts.pop() {
        if let Some(at) = significant_split(&values[start..end]) {
            found.push(start + at);
            parts.extend([(start, start + at), (start + at, end)]);
        }
    }
    found.sort_unstable();
    found
}

/// Returns the best split, if it is significant.
fn significant_split(values: &[f64]) -> Option<usize> {
    let split = best_split(values)?;
    let exceeding_max = (ERROR_RATE * f64::from(PERMUTATIONS + 1)) as u32 - 1;
    let mut random = RandomSequence::new(values.len() as u64);
    let mut shuffled = values.to_vec();
    let mut exceeding = 0;
    for _ in 0..PERMUTATIONS {
        for index in (1..shuffled.len()).rev() {
            let other = (random.next_share() * (index + 1) as f64) as usize;
            shuffled.swap(index, other.min(index));
        }
        if best_split(&shuffled).is_some_and(|it| it.divergence >= split.divergence) {
            exceeding += 1;
        }
        // The result can't become significant again.
        if exceeding > exceeding_max {
            return None;
        }
    }
    Some(split.at)
}

/// Returns the split with the largest divergence; `None` if the series is too short or constant.
fn best_split(values: &[f64]) -> Option<Split> {
    let count = values.len();
    if count < 2 * PART_MIN {
        return None;
    }
    let distances = |value: f64, others: &[f64]| -> f64 {
        others.iter().map(|other| (value - other).abs()).sum()
    };
    // Sums of the distances within each part and between them. Moving one value from the right to
    // the left part changes them by its distances to both parts.
    let mut left = 0.0;
    let mut between = 0.0;
    let mut right: f64 = (0..count).map(|i| distances(values[i], &values[..i])).sum();
    let mut best: Option<Split> = None;
    for at in 1..count {
        let moved = values[at - 1];
        let to_left = distances(moved, &values[..at - 1]);
        let to_right = distances(moved, &values[at..]);
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        if at < PART_MIN || count - at < PART_MIN {
            continue;
        }
        let (n, m) = (at as f64, (count - at) as f64);
        let divergence = n * m / (n + m)
            * (2.0 * between / (n * m)
                - 2.0 * left / (n * (n - 1.0))
                - 2.0 * right / (m * (m - 1.0)));
        if divergence > best.map_or(0.0, |it| it.divergence) {
            best = Some(Split { at, divergence });
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Normal noise around the levels, each for a number of values.
    fn series(levels: &[(f64, usize)], seed: u64) -> Vec<f64> {
        let mut random = RandomSequence::new(seed);
        let mut normal = || {
            let (a, b) = (1.0 - random.next_share(), random.next_share());
            (-2.0_f64 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        };
        let levels = levels.iter();
        let levels = levels.flat_map(|&(level, count)| std::iter::repeat_n(level, count));
        levels.map(|level| level + normal()).collect()
    }

    #[test]
    fn at_most_one_of_100_flat_series_has_a_change_point() {
        for group in 0..3 {
            let with_change = (0..100).filter(|seed| {
                let values = series(&[(100.0, 100)], 1_000 * group + seed);
                !change_points(&values).is_empty()
            });
            assert!(with_change.count() <= 1);
        }
    }

    #[test]
    fn changes_are_found_where_they_are() {
        for seed in 0..10 {
            let values = series(&[(100.0, 40), (105.0, 30), (100.0, 30)], seed);
            let found = change_points(&values);
            assert_eq!(found.len(), 2, "{found:?}");
            assert!(
                found[0].abs_diff(40) <= 1 && found[1].abs_diff(70) <= 1,
                "{found:?}"
            );
        }
        // A change of the newest values, and long series.
        let values = series(&[(100.0, 30), (110.0, 4)], 1);
        assert_eq!(change_points(&values), [30]);
    }

    #[test]
    fn short_and_constant_series_have_no_change_points() {
        assert_eq!(change_points(&[]), [0; 0]);
        assert_eq!(change_points(&[1.0, 2.0, 9.0]), [0; 0]);
        assert_eq!(change_points(&[5.0; 50]), [0; 0]);
    }
}
