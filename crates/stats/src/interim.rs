//! Estimates between two looks, for a live display.

use crate::comparison::Effect;
use crate::design::{Design, DesignError};
use crate::estimate::{self, Estimate};
use crate::metric::Metric;
use crate::pairing;
use crate::trials::Trials;

/// Interim estimate of one comparison in the family. It must not be used for decisions, because its
/// error rate exceeds 5% if it is examined after every block.
#[derive(Debug, Clone, PartialEq)]
pub struct InterimEstimate {
    /// Name of the variant in sentences.
    pub name: String,
    /// Name of the variant's baseline in sentences.
    pub against_name: String,
    /// Metric of the comparison.
    pub metric: Metric,
    /// Estimate from the blocks in which both variants have a value. The 95% interval is computed
    /// as if this were the only look. The interval is absent if there are too few blocks.
    pub effect: Effect,
}

/// Returns an estimate for every comparison of the family, in the order of
/// [`crate::Evaluation::comparisons`]. Spends no error rate and gives no verdicts.
///
/// # Errors
///
/// Returns an error if the design contradicts itself.
pub fn interim_estimates(
    design: &Design,
    trials: &Trials,
) -> Result<Vec<InterimEstimate>, DesignError> {
    let blocks = trials.complete(design.variants.len());
    let mut glances = Vec::new();
    for pair in design.pairs()? {
        for &metric in &design.family {
            let values = pairing::present(&blocks, pair, metric);
            let mean = (!values.is_empty()).then(|| estimate::mean(&values));
            let interval = Estimate::from_blocks(&values).map(|it| it.interval(design.alpha));
            glances.push(InterimEstimate {
                name: design.name_of(pair.variant),
                against_name: design.name_of(pair.against),
                metric,
                effect: Effect::on(metric.scale(), mean, interval),
            });
        }
    }
    Ok(glances)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trials::Values;
    use crate::{Factor, Levels};

    fn design() -> Design {
        let level = |name: &str| Levels::from([("socket".to_owned(), name.to_owned())]);
        Design {
            factors: vec![Factor {
                name: "socket".to_owned(),
                levels: vec!["tcp".to_owned(), "unix".to_owned()],
            }],
            variants: vec![level("tcp"), level("unix")],
            baseline: level("unix"),
            margin: 0.02,
            family: vec![Metric::RatePerS],
            blocks_min: 5,
            blocks_max: 12,
            alpha: 0.05,
            goals: Vec::new(),
        }
    }

    fn rate(per_s: f64) -> Values {
        [(Metric::RatePerS, per_s)].into_iter().collect()
    }

    #[test]
    fn intervals_come_with_the_blocks_and_tighten() {
        let mut trials = Trials::new();
        let mut widths = Vec::new();
        for block in 1..=8u32 {
            let noise = if block % 2 == 0 { 1.01 } else { 0.99 };
            trials.add(block, 0, rate(800.0 * noise));
            // An incomplete block yields no estimate.
            let half = interim_estimates(&design(), &trials).unwrap();
            assert_eq!(half[0].effect.ratio.is_none(), block == 1);
            trials.add(block, 1, rate(1000.0));
            let seen = interim_estimates(&design(), &trials).unwrap();
            let [one] = &seen[..] else {
                panic!("{seen:?}");
            };
            assert_eq!((&*one.name, &*one.against_name), ("tcp", "unix"));
            assert!((one.effect.ratio.unwrap() - 0.8).abs() < 0.01);
            widths.extend(one.effect.high.zip(one.effect.low).map(|(h, l)| h - l));
        }
        assert!(
            widths.len() > 3 && widths.last() < widths.first(),
            "{widths:?}"
        );
    }
}
