//! Differences between two distributions of response times, by percentile, with a band that covers
//! all percentiles at the same time.
//!
//! The block is the unit: each block gives one log ratio per percentile. The band at each percentile
//! is the mean over the blocks plus or minus a multiple of its standard error. The multiple is the
//! same for all percentiles, and such that the band contains all true ratios together with a
//! probability of 95%: it is the 95% quantile of the largest |t| over the percentiles (Romano and
//! Wolf 2005, "Exact and approximate stepdown methods for multiple hypothesis testing"). Random
//! signs of whole blocks give that quantile, so the correlation between percentiles is preserved
//! (wild bootstrap: Davidson and Flachaire 2008, "The wild bootstrap, tamed at last").

use prony_record::{Distribution, RandomSequence};
use serde::{Deserialize, Serialize};

use crate::comparison::Verdict;
use crate::design::{Design, Levels, Pair};
use crate::estimate::{Estimate, critical};
use crate::evaluate::Evaluation;

/// The percentiles at which distributions are compared.
pub const PERCENTILES: [f64; 14] = [
    1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.9,
];

/// Minimum number of requests beyond a percentile in each trial, on its shorter side.
const BEYOND_MIN: f64 = 20.0;

/// Probability that the band misses a true ratio at any percentile.
const MISS: f64 = 0.05;

/// Minimum number of blocks for random signs. With fewer, there are too few patterns of signs, so
/// the band uses Bonferroni's inequality.
const SIGN_BLOCKS_MIN: usize = 5;

/// Maximum number of patterns of signs. If there are more, this many are drawn.
const PATTERNS_MAX: u64 = 2_048;

/// Smallest half-width of the band, as a logarithm, because histograms know times to 0.1%.
const HALF_WIDTH_MIN: f64 = 0.001;

/// Response times of a trial at [`PERCENTILES`] in microseconds; `None` where the trial has too few
/// requests beyond the percentile, or knows only a lower bound.
pub type PercentileTimes = [Option<f64>; PERCENTILES.len()];

/// Returns the response times of one trial at [`PERCENTILES`].
pub fn percentile_times(times: &Distribution) -> PercentileTimes {
    let count = times.count() as f64;
    PERCENTILES.map(|percentile| {
        let share = percentile / 100.0;
        if count * share.min(1.0 - share) < BEYOND_MIN {
            return None;
        }
        let (time, is_bound) = times.quantile(share);
        (!is_bound && time.0 > 0).then_some(time.0 as f64 / 1e3)
    })
}

/// Response times of one trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialTimes {
    /// Number of the block.
    pub block: u32,
    /// Index of the variant in the design.
    pub variant: usize,
    /// Response times at [`PERCENTILES`].
    pub times: PercentileTimes,
}

/// Direction of a difference between response times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeDirection {
    /// The variant's response times are longer.
    Longer,
    /// The variant's response times are shorter.
    Shorter,
}

/// Ratio of the response times at one percentile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct PercentileRatio {
    /// The percentile, from 0 to 100.
    pub percentile: f64,
    /// The variant's response time divided by its baseline's: the geometric mean over the blocks.
    pub ratio: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
}

impl PercentileRatio {
    /// Returns the direction of the difference, or `None` if the band contains 1.
    pub fn direction(&self) -> Option<TimeDirection> {
        if self.low > 1.0 {
            Some(TimeDirection::Longer)
        } else if self.high < 1.0 {
            Some(TimeDirection::Shorter)
        } else {
            None
        }
    }
}

/// Successive percentiles at which the band excludes 1 on the same side.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DifferingRange {
    /// The lowest of these percentiles.
    pub from: f64,
    /// The highest of these percentiles.
    pub to: f64,
    /// Direction of the difference.
    pub direction: TimeDirection,
}

/// A variant's distribution of response times, compared with its baseline's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DistributionDifference {
    /// Levels of the variant.
    pub levels: Levels,
    /// Levels of the variant's baseline.
    pub against: Levels,
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
    /// Number of blocks.
    pub blocks: u32,
    /// Ratios with a band that contains all true ratios together with a probability of 95%, in the
    /// order of the percentiles.
    pub percentiles: Vec<PercentileRatio>,
    /// Percentiles that differ, in ascending order; empty if the band contains 1 at all of them.
    pub ranges: Vec<DifferingRange>,
    /// The difference in a sentence, composed from the other fields; empty until then.
    pub text: String,
}

/// Compares each variant with its baseline. Omits pairs with a withheld verdict, and pairs with
/// too few blocks or without a percentile that is known in all trials.
pub fn compare_distributions(
    design: &Design,
    evaluation: &Evaluation,
    trials: &[TrialTimes],
) -> Vec<DistributionDifference> {
    let pairs = design.pairs().unwrap_or_default();
    let of_pair = |&pair: &Pair| of_pair(design, evaluation, trials, pair);
    pairs.iter().filter_map(of_pair).collect()
}

fn of_pair(
    design: &Design,
    evaluation: &Evaluation,
    trials: &[TrialTimes],
    pair: Pair,
) -> Option<DistributionDifference> {
    let levels = &design.variants[pair.variant];
    let against = &design.variants[pair.against];
    let is_withheld = evaluation.comparisons.iter().any(|it| {
        it.verdict == Verdict::Withheld && it.levels == *levels && it.against == *against
    });
    if is_withheld {
        return None;
    }
    let times_of = |block: u32, variant: usize| {
        let mut trials = trials.iter();
        trials.find(|it| it.block == block && it.variant == variant)
    };
    let blocks: Option<Vec<(&TrialTimes, &TrialTimes)>> = (1..=evaluation.blocks)
        .map(|block| {
            Some((
                times_of(block, pair.variant)?,
                times_of(block, pair.against)?,
            ))
        })
        .collect();
    let blocks = blocks?;
    // A percentile that is missing in a trial is omitted altogether: blocks without it may be those
    // in which a variant was slow.
    let known = (0..PERCENTILES.len()).filter_map(|place| {
        let logs: Option<Vec<f64>> = blocks
            .iter()
            .map(|(of, to)| Some((of.times[place]? / to.times[place]?).ln()))
            .collect();
        Some((PERCENTILES[place], logs?))
    });
    let (percentiles, logs): (Vec<f64>, Vec<Vec<f64>>) = known.unzip();
    let ratios = band(&logs)?;
    let ratios = percentiles.into_iter().zip(ratios);
    let percentiles: Vec<PercentileRatio> = ratios
        .map(|(percentile, (mean, reach))| PercentileRatio {
            percentile,
            ratio: mean.exp(),
            low: (mean - reach).exp(),
            high: (mean + reach).exp(),
        })
        // JSON can't represent larger numbers, and they are no measurement.
        .filter(|it| it.low > 0.0 && it.high.is_finite())
        .collect();
    Some(DistributionDifference {
        levels: levels.clone(),
        against: against.clone(),
        name: design.name_of(pair.variant),
        against_name: design.name_of(pair.against),
        blocks: evaluation.blocks,
        ranges: differing_ranges(&percentiles),
        percentiles,
        text: String::new(),
    })
}

fn differing_ranges(percentiles: &[PercentileRatio]) -> Vec<DifferingRange> {
    let runs = percentiles.chunk_by(|a, b| a.direction() == b.direction());
    let range = |run: &[PercentileRatio]| {
        Some(DifferingRange {
            from: run.first()?.percentile,
            to: run.last()?.percentile,
            direction: run.first()?.direction()?,
        })
    };
    runs.filter_map(range).collect()
}

/// Returns the mean and the half-width of the band for each series of one log ratio per block.
/// Returns `None` without series or with too few blocks.
fn band(series: &[Vec<f64>]) -> Option<Vec<(f64, f64)>> {
    let estimates: Option<Vec<Estimate>> = series
        .iter()
        .map(|logs| Estimate::from_blocks(logs))
        .collect();
    let estimates = estimates.filter(|it| !it.is_empty())?;
    let multiple = simultaneous_critical(series, &estimates);
    let reach = |it: &Estimate| (multiple * it.error()).max(HALF_WIDTH_MIN);
    Some(estimates.iter().map(|it| (it.mean, reach(it))).collect())
}

/// Returns the value that the largest |t| of all series exceeds with probability [`MISS`]. It is
/// between the critical value of a single t and that of Bonferroni's inequality, which holds for any
/// correlation.
fn simultaneous_critical(series: &[Vec<f64>], estimates: &[Estimate]) -> f64 {
    let freedom = estimates[0].blocks - 1;
    let bonferroni = critical(MISS / series.len() as f64, freedom);
    if series[0].len() < SIGN_BLOCKS_MIN {
        return bonferroni;
    }
    critical_of_signs(series, estimates).clamp(critical(MISS, freedom), bonferroni)
}

/// Returns the quantile of the largest |t| over all patterns of signs of the blocks' deviations
/// from the mean. If there are too many patterns, it is that of a sample, which is always the same.
fn critical_of_signs(series: &[Vec<f64>], estimates: &[Estimate]) -> f64 {
    let blocks = series[0].len();
    let varying = series.iter().zip(estimates);
    // Series without a deviation have no t.
    let varying = varying.filter(|(_, estimate)| estimate.deviation > 0.0);
    let scaled: Vec<Vec<f64>> = varying
        .map(|(logs, it)| {
            let scaled = logs.iter().map(|log| (log - it.mean) / it.deviation);
            scaled.collect()
        })
        .collect();
    // Opposite patterns have the same |t|, so the last block keeps its sign.
    let all = 1_u64.checked_shl(blocks as u32 - 1);
    let all = all.filter(|&all| all <= PATTERNS_MAX);
    let mut random = RandomSequence::new(blocks as u64);
    let mut signs = vec![1.0; blocks];
    let mut largest: Vec<f64> = (0..all.unwrap_or(PATTERNS_MAX))
        .map(|pattern| {
            for (place, sign) in signs.iter_mut().enumerate().take(blocks - 1) {
                let is_negative = match all {
                    Some(_) => pattern >> place & 1 == 1,
                    None => random.next_share() < 0.5,
                };
                *sign = if is_negative { -1.0 } else { 1.0 };
            }
            let all = scaled.iter().map(|values| t_of_signs(values, &signs));
            all.fold(0.0, f64::max)
        })
        .collect();
    largest.sort_by(f64::total_cmp);
    let place = (largest.len() as f64 * (1.0 - MISS)).ceil() as usize;
    largest[place.max(1) - 1]
}

/// Returns |t| of values with the given signs. The values have a mean of 0 and a standard deviation
/// of 1.
fn t_of_signs(values: &[f64], signs: &[f64]) -> f64 {
    let blocks = values.len() as f64;
    let signed = values.iter().zip(signs).map(|(value, sign)| value * sign);
    let mean = signed.sum::<f64>() / blocks;
    let variance = (1.0 - mean * mean * blocks / (blocks - 1.0)).max(f64::MIN_POSITIVE);
    mean.abs() / (variance / blocks).sqrt()
}

#[cfg(test)]
mod tests {
    use prony_record::Nanos;

    use super::*;

    fn normal(random: &mut RandomSequence) -> f64 {
        let radius = (-2.0 * (1.0 - random.next_share()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.next_share()).cos()
    }

    /// Log ratios of equal distributions by percentile and block: each block has a common part, a
    /// part that grows toward the tail, and one of each percentile alone.
    fn equal_distributions(random: &mut RandomSequence, blocks: usize) -> Vec<Vec<f64>> {
        let mut series = vec![Vec::new(); PERCENTILES.len()];
        for _ in 0..blocks {
            let (common, tail) = (normal(random), normal(random));
            for (logs, percentile) in series.iter_mut().zip(PERCENTILES) {
                let tail = 2.0 * (percentile / 100.0).powi(4) * tail;
                logs.push(common + tail + 0.4 * normal(random));
            }
        }
        series
    }

    #[test]
    fn the_band_covers_all_percentiles_together() {
        for (blocks, experiments) in [(3, 2_000), (5, 2_000), (6, 2_000), (8, 2_000), (15, 2_000)] {
            let mut random = RandomSequence::new(blocks as u64);
            let covers = (0..experiments).filter(|_| {
                let series = equal_distributions(&mut random, blocks);
                let band = band(&series).unwrap();
                band.iter().all(|(mean, reach)| mean.abs() <= *reach)
            });
            let share = covers.count() as f64 / f64::from(experiments);
            assert!((0.93..0.98).contains(&share), "{blocks} blocks: {share}");
        }
    }

    #[test]
    fn the_multiple_is_between_those_of_one_percentile_and_bonferroni() {
        let mut random = RandomSequence::new(3);
        let one: Vec<f64> = (0..10).map(|_| normal(&mut random)).collect();
        let equal = vec![one.clone(); PERCENTILES.len()];
        let estimates: Vec<Estimate> = equal
            .iter()
            .flat_map(|it| Estimate::from_blocks(it))
            .collect();
        // Series that are equal are one comparison.
        let multiple = simultaneous_critical(&equal, &estimates);
        assert!(
            (multiple / critical(MISS, 9) - 1.0).abs() < 0.1,
            "{multiple}"
        );
        let few: Vec<Vec<f64>> = equal.iter().map(|it| it[..4].to_vec()).collect();
        let estimates: Vec<Estimate> = few
            .iter()
            .flat_map(|it| Estimate::from_blocks(it))
            .collect();
        assert_eq!(
            simultaneous_critical(&few, &estimates),
            critical(MISS / PERCENTILES.len() as f64, 3)
        );
    }

    #[test]
    fn blocks_without_spread_have_a_band_of_the_histograms_resolution() {
        let band = band(&vec![vec![0.0; 7]; 3]).unwrap();
        assert_eq!(band, [(0.0, HALF_WIDTH_MIN); 3]);
    }

    /// Returns a trial's times: exponential, with a speed of the block, and with a longer tail from
    /// p90 on.
    fn trial_times(random: &mut RandomSequence, tail: f64) -> PercentileTimes {
        let mut times = Distribution::new();
        let speed = 1.0 + 0.01 * normal(random);
        for _ in 0..6_000 {
            let us = 1_000.0 - 800.0 * (1.0 - random.next_share()).ln();
            let beyond = if us > 2_842.0 { tail } else { 1.0 };
            times.record(Nanos((us * beyond * speed * 1e3) as u64));
        }
        percentile_times(&times)
    }

    #[test]
    fn a_longer_tail_is_found_in_the_tail_only() {
        let mut random = RandomSequence::new(11);
        let mut series = vec![Vec::new(); PERCENTILES.len() - 1];
        for _ in 0..8 {
            let (of, to) = (trial_times(&mut random, 1.3), trial_times(&mut random, 1.0));
            // 6 requests beyond p99.9 are too few.
            assert_eq!((of[13], to[13]), (None, None));
            for (place, logs) in series.iter_mut().enumerate() {
                logs.push((of[place].unwrap() / to[place].unwrap()).ln());
            }
        }
        let percentiles: Vec<PercentileRatio> = band(&series)
            .unwrap()
            .into_iter()
            .zip(PERCENTILES)
            .map(|((mean, reach), percentile)| PercentileRatio {
                percentile,
                ratio: mean.exp(),
                low: (mean - reach).exp(),
                high: (mean + reach).exp(),
            })
            .collect();
        let ranges = differing_ranges(&percentiles);
        let [range] = &ranges[..] else {
            panic!("{ranges:?}");
        };
        assert_eq!((range.from, range.to), (95.0, 99.0));
        assert_eq!(range.direction, TimeDirection::Longer);
        assert!(percentiles[12].low < 1.3 && percentiles[12].high > 1.3);
    }
}
