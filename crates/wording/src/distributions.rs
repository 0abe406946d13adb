//! Sentences about differences between distributions of response times, by percentile.

use prony_stats::{DifferingRange, DistributionDifference, PercentileRatio, TimeDirection};

use crate::Change;

/// Composes the sentences of differences between distributions.
pub fn compose_distributions(differences: &mut [DistributionDifference]) {
    for difference in differences {
        difference.text = sentence(difference);
    }
}

/// Returns the name of a percentile: `p99.9`.
fn percentile_name(percentile: f64) -> String {
    format!("p{percentile}")
}

fn sentence(difference: &DistributionDifference) -> String {
    let DistributionDifference {
        name, against_name, ..
    } = difference;
    if difference.ranges.is_empty() {
        let (Some(first), Some(last)) = (
            difference.percentiles.first(),
            difference.percentiles.last(),
        ) else {
            return format!("The response times of {name} and {against_name} are not compared.");
        };
        let range = percentiles(first.percentile, last.percentile);
        return format!(
            "The response times of {name} and {against_name} are not distinguishable {range}."
        );
    }
    let ranges: Vec<String> = difference
        .ranges
        .iter()
        .enumerate()
        .map(|(place, range)| {
            let direction = match range.direction {
                TimeDirection::Longer => "longer",
                TimeDirection::Shorter => "shorter",
            };
            let largest = largest_change(difference, range);
            let percentiles = percentiles(range.from, range.to);
            let than = if place == 0 {
                format!(" than those of {against_name}")
            } else {
                String::new()
            };
            format!("{direction}{than} {percentiles}{largest}")
        })
        .collect();
    let same = difference.percentiles.iter();
    let same: Vec<f64> = same
        .filter(|it| it.direction().is_none())
        .map(|it| it.percentile)
        .collect();
    let rest = match (&difference.ranges[..], same.first(), same.last()) {
        // The other percentiles are all on one side of the only range.
        ([only], Some(&first), Some(&last)) if last < only.from || first > only.to => {
            format!(", and not distinguishable {}", percentiles(first, last))
        }
        (_, Some(_), _) => ", and not distinguishable at the other percentiles".to_owned(),
        (_, None, _) => String::new(),
    };
    format!(
        "The response times of {name} are {}{rest}.",
        ranges.join(", and ")
    )
}

/// Returns a range of percentiles: `from p90 to p99`, or `at p99`.
fn percentiles(from: f64, to: f64) -> String {
    if from == to {
        return format!("at {}", percentile_name(from));
    }
    format!("from {} to {}", percentile_name(from), percentile_name(to))
}

/// Returns the percentile of a range whose band is farthest from no change: ` (p99: 12.0% to 18.0%)`.
fn largest_change(difference: &DistributionDifference, range: &DifferingRange) -> String {
    let distance = |it: &PercentileRatio| it.low.ln().max(-it.high.ln());
    let inside = difference.percentiles.iter();
    let inside = inside.filter(|it| (range.from..=range.to).contains(&it.percentile));
    let Some(largest) = inside.max_by(|a, b| distance(a).total_cmp(&distance(b))) else {
        return String::new();
    };
    let change = Change::of_ratio(largest.ratio, Some((largest.low, largest.high)));
    let figures = change.range().unwrap_or_default();
    format!(" ({}: {figures})", percentile_name(largest.percentile))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(percentiles: &[(f64, f64)], ranges: &[(f64, f64, TimeDirection)]) -> String {
        let mut one = [DistributionDifference {
            levels: Default::default(),
            against: Default::default(),
            name: "new".to_owned(),
            against_name: "old".to_owned(),
            blocks: 5,
            percentiles: percentiles
                .iter()
                .map(|&(percentile, ratio)| PercentileRatio {
                    percentile,
                    ratio,
                    low: ratio - 0.02,
                    high: ratio + 0.02,
                })
                .collect(),
            ranges: ranges
                .iter()
                .map(|&(from, to, direction)| DifferingRange {
                    from,
                    to,
                    direction,
                })
                .collect(),
            text: String::new(),
        }];
        compose_distributions(&mut one);
        let [one] = one;
        one.text
    }

    #[test]
    fn a_sentence_names_where_the_distributions_differ() {
        use TimeDirection::{Longer, Shorter};
        let tail = [(50.0, 1.0), (90.0, 1.01), (99.0, 1.1), (99.9, 1.2)];
        assert_eq!(
            difference(&tail, &[(99.0, 99.9, Longer)]),
            "The response times of new are longer than those of old from p99 to p99.9 (p99.9: \
             18.0% to 22.0%), and not distinguishable from p50 to p90."
        );
        let both = [(50.0, 0.9), (90.0, 1.0), (99.0, 1.1)];
        assert_eq!(
            difference(&both, &[(50.0, 50.0, Shorter), (99.0, 99.0, Longer)]),
            "The response times of new are shorter than those of old at p50 (p50: 8.0% to 12.0%), \
             and longer at p99 (p99: 8.0% to 12.0%), and not distinguishable at the other \
             percentiles."
        );
        assert_eq!(
            difference(&both[..1], &[(50.0, 50.0, Shorter)]),
            "The response times of new are shorter than those of old at p50 (p50: 8.0% to 12.0%)."
        );
        assert_eq!(
            difference(&tail[..2], &[]),
            "The response times of new and old are not distinguishable from p50 to p90."
        );
        assert!(difference(&[], &[]).contains("not compared"));
    }
}
