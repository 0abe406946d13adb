//! Ratios within each rotation, with their median and range.

use std::collections::BTreeMap;

use super::tool::Tool;

/// Measurements from one run of a tool.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Run {
    /// User and system time of the generator per request counted by the server, in microseconds.
    pub(super) cpu_us: f64,
    /// Requests per second, counted by the server.
    pub(super) rate_per_s: f64,
    /// Peak memory of the generator, in MiB.
    pub(super) memory_mib: f64,
    /// 99th percentile of start lateness in microseconds; `None` if the tool doesn't report it.
    pub(super) late_p99_us: Option<f64>,
    /// Requests counted by the server divided by scheduled requests; `None` without a fixed rate.
    pub(super) kept: Option<f64>,
}

/// Measured quantity that a table shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// CPU time of the generator per request.
    Cost,
    /// Requests per second that the server counted.
    Rate,
}

impl Measure {
    fn of(self, run: &Run) -> f64 {
        match self {
            Measure::Cost => run.cpu_us,
            Measure::Rate => run.rate_per_s,
        }
    }
}

/// Runs of one rotation, at most one for each tool. Failed runs are omitted.
pub(super) type Rotation = BTreeMap<Tool, Run>;

/// Median and range of values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Median and range of the values; `None` if there are none.
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut values: Vec<f64> = values.into_iter().filter(|v| v.is_finite()).collect();
        values.sort_by(f64::total_cmp);
        let (&min, &max) = (values.first()?, values.last()?);
        let middle = values.len() / 2;
        let median = if values.len() % 2 == 1 {
            values[middle]
        } else {
            (values[middle - 1] + values[middle]) / 2.0
        };
        Some(Spread { median, min, max })
    }
}

/// Returns the ratio of a tool's measure to the reference's, over all rotations in which both ran.
pub(super) fn ratio(
    rotations: &[Rotation],
    measure: Measure,
    tool: Tool,
    reference: Tool,
) -> Option<Spread> {
    Spread::of(ratios(rotations, measure, tool, reference))
}

/// The ratio of a tool's measure to the reference's in each rotation in which both ran.
pub(super) fn ratios(
    rotations: &[Rotation],
    measure: Measure,
    tool: Tool,
    reference: Tool,
) -> impl Iterator<Item = f64> {
    rotations.iter().filter_map(move |rotation| {
        let of = |t| rotation.get(&t).map(|run| measure.of(run));
        Some(of(tool)? / of(reference)?)
    })
}

/// Median and range of one value over all runs of a tool.
pub(super) fn figure(
    rotations: &[Rotation],
    tool: Tool,
    of: impl Fn(&Run) -> Option<f64>,
) -> Option<Spread> {
    Spread::of(rotations.iter().filter_map(|r| of(r.get(&tool)?)))
}

/// Geometric mean of ratios with its 95% interval, by Student's t on their logarithms; `None` with
/// fewer than two ratios.
pub(super) fn interval(ratios: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let logs: Vec<f64> = ratios.into_iter().map(f64::ln).collect();
    let freedom = logs.len().checked_sub(1)?;
    let quantile = T_97_5.get(freedom.checked_sub(1)?).unwrap_or(&2.042);
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / freedom as f64 / logs.len() as f64).sqrt();
    Some(Spread {
        median: mean.exp(),
        min: (mean - quantile * error).exp(),
        max: (mean + quantile * error).exp(),
    })
}

/// Quantiles at 97.5% of Student's t with 1, 2, … degrees of freedom.
const T_97_5: [f64; 24] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064,
];

/// Shuffles `items` in an order that depends only on the state of `numbers`.
pub(super) fn shuffle<T>(items: &mut [T], numbers: &mut RandomNumbers) {
    for last in (1..items.len()).rev() {
        let other = numbers.next() % (last as u64 + 1);
        items.swap(last, other as usize);
    }
}

/// Pseudorandom numbers from a seed: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub(super) struct RandomNumbers(pub(super) u64);

impl RandomNumbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn run(cpu_us: f64) -> Run {
        Run {
            cpu_us,
            rate_per_s: 1e6 / cpu_us,
            memory_mib: 5.0,
            late_p99_us: None,
            kept: None,
        }
    }

    fn rotation(runs: &[(Tool, f64)]) -> Rotation {
        runs.iter().map(|&(tool, cpu)| (tool, run(cpu))).collect()
    }

    #[test]
    fn a_drift_that_both_share_is_not_in_the_ratio() {
        let rotations = [
            rotation(&[(Tool::Floor, 10.0), (Tool::Wrk, 12.0)]),
            rotation(&[(Tool::Floor, 16.0), (Tool::Wrk, 17.6)]),
            rotation(&[(Tool::Floor, 8.0), (Tool::Wrk, 10.4)]),
        ];
        let cost = ratio(&rotations, Measure::Cost, Tool::Wrk, Tool::Floor).unwrap();
        for (value, expected) in [(cost.median, 1.2), (cost.min, 1.1), (cost.max, 1.3)] {
            assert!((value - expected).abs() < 1e-9, "{cost:?}");
        }
        let rate = ratio(&rotations, Measure::Rate, Tool::Wrk, Tool::Floor).unwrap();
        assert!((rate.median - 1.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn a_rotation_that_lacks_one_result_gives_no_ratio() {
        let rotations = [
            rotation(&[(Tool::Floor, 10.0)]),
            rotation(&[(Tool::Wrk, 10.0)]),
            rotation(&[(Tool::Floor, 10.0), (Tool::Wrk, 15.0)]),
        ];
        let cost = ratio(&rotations, Measure::Cost, Tool::Wrk, Tool::Floor).unwrap();
        assert_eq!((cost.min, cost.max), (1.5, 1.5));
        assert_eq!(
            ratio(&rotations, Measure::Cost, Tool::Ab, Tool::Floor),
            None
        );
    }

    #[test]
    fn the_middle_of_an_even_number_lies_between_two() {
        let spread = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.min, spread.median, spread.max), (1.0, 2.5, 4.0));
        assert_eq!(Spread::of([f64::NAN]), None);
    }

    #[test]
    fn an_interval_is_that_of_students_t_on_logarithms() {
        let found = interval([1.0f64.exp(), 2.0f64.exp(), 3.0f64.exp()]).unwrap();
        let half = 4.303 * (1.0f64 / 3.0).sqrt();
        for (value, log) in [
            (found.median, 2.0),
            (found.min, 2.0 - half),
            (found.max, 2.0 + half),
        ] {
            assert!((value.ln() - log).abs() < 1e-9, "{found:?}");
        }
        assert_eq!(interval([1.0]), None);
    }

    #[test]
    fn orders_are_permutations_that_follow_the_seed() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..10).collect();
            shuffle(&mut items, &mut RandomNumbers(seed));
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..10).collect::<Vec<u32>>());
        let firsts: std::collections::BTreeSet<u32> = (0..200).map(|s| order(s)[0]).collect();
        assert_eq!(firsts.len(), 10);
    }
}
