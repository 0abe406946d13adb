//! Sentences about a capacity.

use prony_record::number;

use super::estimate::CapacityEstimate;
use super::goal::Goal;
use super::outcome::BoundReason;
use prony_record::goals_phrase;

/// Returns the estimate as a sentence. `readings` describes the values of the goals in the last
/// probe.
pub fn estimated(estimate: &CapacityEstimate, goals: &[Goal], readings: &str) -> String {
    let goals = listed(goals);
    match estimate {
        CapacityEstimate::Capacity {
            per_s, interval, ..
        } => {
            let interval = interval.map_or(String::new(), |interval| {
                let figure = number::rate_figure;
                format!(
                    " (95% interval: {} to {})",
                    figure(interval.low),
                    figure(interval.high)
                )
            });
            format!("Capacity at {goals}: {}{interval}", number::rate(*per_s))
        }
        CapacityEstimate::AtLeast { per_s, reason } => {
            let reason = match reason {
                BoundReason::GeneratorSaturated => {
                    "At higher rates, the load generator was saturated."
                }
                BoundReason::RateMax => "This is the highest permitted rate.",
                BoundReason::ProbesMax => {
                    "The search ended before it found a rate that fails the goals."
                }
            };
            format!("Capacity at {goals}: ≥ {}. {reason}", number::rate(*per_s))
        }
        CapacityEstimate::Below { per_s } => format!(
            "Capacity at {goals}: less than {}. At lower rates, probes of this length have too few \
             requests to judge the goals; probes twice as long can judge half the rate.",
            number::rate(*per_s)
        ),
        CapacityEstimate::Unmet { per_s } => {
            let rate = number::rate_figure(*per_s);
            let noun = match rate.as_str() {
                "1.00" | "1" => "1 request".to_owned(),
                rate => format!("{rate} requests"),
            };
            let readings = readings.replace(" is ", " was ");
            format!("{goals}: not met even at {noun} a second: {readings}")
        }
    }
}

/// Returns the bracket of an unfinished search as a clause: `between 7,000 and 9,500 req/s`.
pub fn between(bracket: (Option<f64>, Option<f64>)) -> String {
    match bracket {
        (Some(met), Some(unmet)) => format!(
            "between {} and {}",
            number::rate_figure(met.min(unmet)),
            number::rate(unmet.max(met))
        ),
        (Some(met), None) => format!("at least {}", number::rate(met)),
        (None, Some(unmet)) => format!("less than {}", number::rate(unmet)),
        (None, None) => "nothing is known yet".to_owned(),
    }
}

fn listed(goals: &[Goal]) -> String {
    let goals: Vec<String> = goals.iter().map(Goal::to_string).collect();
    goals_phrase(&goals)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Interval;

    #[test]
    fn an_estimate_is_one_sentence() {
        let goals = [
            Goal::parse("p99<50ms").unwrap(),
            Goal::parse("failed < 0.1%").unwrap(),
        ];
        let interval = Some(Interval {
            low: 8_120.4,
            high: 8_699.0,
        });
        for (estimate, sentence) in [
            (
                CapacityEstimate::Capacity {
                    per_s: 8_410.0,
                    interval,
                    searches: 5,
                },
                "Capacity at p99 < 50 ms and failed < 0.1%: 8,410 req/s (95% interval: 8,120 to 8,699)",
            ),
            (
                CapacityEstimate::AtLeast {
                    per_s: 9_000.0,
                    reason: BoundReason::GeneratorSaturated,
                },
                "Capacity at p99 < 50 ms and failed < 0.1%: ≥ 9,000 req/s. At higher rates, the \
                 load generator was saturated.",
            ),
            (
                CapacityEstimate::Unmet { per_s: 1.0 },
                "p99 < 50 ms and failed < 0.1%: not met even at 1 request a second: p99 was 80.0 ms",
            ),
        ] {
            assert_eq!(estimated(&estimate, &goals, "p99 is 80.0 ms"), sentence);
        }
    }

    #[test]
    fn a_bracket_is_a_clause() {
        for (bracket, clause) in [
            (
                (Some(7_000.0), Some(9_500.0)),
                "between 7,000 and 9,500 req/s",
            ),
            ((Some(7_000.0), None), "at least 7,000 req/s"),
            ((None, Some(9_500.0)), "less than 9,500 req/s"),
            ((None, None), "nothing is known yet"),
        ] {
            assert_eq!(between(bracket), clause);
        }
    }
}
