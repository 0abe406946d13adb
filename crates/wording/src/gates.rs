//! Sentences about gates.

use prony_record::{measure::Amount, number};
use prony_stats::gate::{
    GateBasis, GateJudgement, GateNumbers, GateResult, GateScale, Observable, TrialUnit,
};

use crate::change::Change;
use crate::comparisons::reason;
use crate::statement::{counted, numbered};

/// Returns the results of gates, with their sentences.
pub fn gate_results(judged: Vec<GateJudgement>) -> Vec<GateResult> {
    judged.into_iter().map(result).collect()
}

fn result(judged: GateJudgement) -> GateResult {
    let numbers = judged.numbers;
    GateResult {
        text: sentence(&judged),
        gate: judged.gate,
        name: judged.name,
        measure: judged.measure,
        ruling: judged.ruling,
        scale: numbers.map(|numbers| numbers.scale),
        value: numbers
            .map(|numbers| numbers.value)
            .filter(|value| value.is_finite()),
        low: numbers.and_then(|numbers| Some(numbers.interval?.low)),
        high: numbers.and_then(|numbers| Some(numbers.interval?.high)),
        limit: numbers.map(|numbers| numbers.limit),
    }
}

fn sentence(judged: &GateJudgement) -> String {
    let subject = subject(&judged.measure, &judged.name);
    match (&judged.basis, &judged.numbers) {
        (GateBasis::Verdict(text), _) => text.clone(),
        (GateBasis::NoReference, _) => format!("{subject}: the other run has no matching variant"),
        (GateBasis::Withheld(because), _) => {
            let because = reason(because, &judged.measure, [&judged.name, "its baseline"]);
            format!("{subject}: withheld: {because}")
        }
        (GateBasis::NoRequests, _) => format!("{subject}: no request completed"),
        (GateBasis::NotMeasured { unit, trials }, _) => match &trials[..] {
            [] => format!("{subject}: not measured"),
            trials => format!(
                "{subject}: not measured in {}",
                numbered(noun(*unit), trials)
            ),
        },
        (
            GateBasis::BeyondEveryLimit {
                variant,
                unit,
                count,
                all,
            },
            _,
        ) => {
            let units = match all {
                1 => String::new(),
                all => format!(" in {count} of {all} {}s", noun(*unit)),
            };
            let subject = self::subject(&judged.measure, variant);
            format!("{subject}: beyond every limit{units}, because too many requests failed")
        }
        (
            GateBasis::Counted {
                count,
                whole,
                is_share,
                limit,
            },
            _,
        ) => of_count(&subject, (*count, *whole), *is_share, *limit),
        (
            GateBasis::Value {
                observable,
                trials,
                unit,
            },
            Some(numbers),
        ) => fixed(&subject, observable, numbers, &units(*trials, *unit)),
        (
            GateBasis::Relative {
                observable,
                against,
                factor,
                trials,
                unit,
            },
            Some(numbers),
        ) => {
            let units = units(*trials, *unit);
            relative(&subject, against, observable, *factor, numbers, &units)
        }
        (GateBasis::Value { .. } | GateBasis::Relative { .. }, None) => String::new(),
    }
}

/// Subject of every sentence about a gate: `p99 of new`, or `p99` for a load.
fn subject(observable: &str, variant: &str) -> String {
    match variant {
        "" => observable.to_owned(),
        variant => format!("{observable} of {variant}"),
    }
}

fn noun(unit: TrialUnit) -> &'static str {
    match unit {
        TrialUnit::Block => "block",
        TrialUnit::Load => "load",
    }
}

/// Returns `8 blocks`.
fn units(trials: usize, unit: TrialUnit) -> String {
    counted(u32::try_from(trials).unwrap_or(u32::MAX), noun(unit))
}

/// Returns `95% interval 58.0 ms to 64.8 ms, 8 blocks`.
fn basis(numbers: &GateNumbers, units: &str, shown: impl Fn(f64) -> String) -> String {
    match numbers.interval {
        Some(interval) => format!(
            "95% interval {} to {}, {units}",
            shown(interval.low),
            shown(interval.high)
        ),
        None => format!("{units}, no interval"),
    }
}

/// Returns `failed of new is 0.4% (40 of 10,000 requests); the limit is 0.1%`.
fn of_count(subject: &str, (count, whole): (u64, u64), is_share: bool, limit: f64) -> String {
    if is_share {
        format!(
            "{subject} is {} ({} of {} requests); the limit is {}",
            Amount::Share(count as f64 / whole as f64),
            number::count(count),
            number::count(whole),
            number::trimmed(&Amount::Share(limit).to_string())
        )
    } else {
        format!(
            "{subject} is {}; the limit is {}",
            number::count(count),
            Amount::Number(limit)
        )
    }
}

/// Returns `p99 of new is 61.3 ms (95% interval 58.0 ms to 64.8 ms, 8 blocks); the limit is 50 ms`.
fn fixed(subject: &str, observable: &Observable, numbers: &GateNumbers, units: &str) -> String {
    let shown = |value| observable.shown(value);
    let GateNumbers { value, limit, .. } = *numbers;
    let (figure, limit_text) = (shown(value), shown(limit));
    // After rounding, the value may look equal to the limit, which would seem to contradict the
    // ruling.
    let apart = match figure == limit_text {
        true if value > limit => ", just above the limit",
        true if value < limit => ", just below the limit",
        _ => "",
    };
    format!(
        "{subject} is {figure}{apart} ({}); the limit is {}",
        basis(numbers, units, shown),
        number::trimmed(&limit_text)
    )
}

/// Returns `p99 of new is +8.1% against old (95% interval +6.2% to +10.1%, 8 blocks); the limit is
/// +5%`.
fn relative(
    subject: &str,
    against: &str,
    observable: &Observable,
    factor: f64,
    numbers: &GateNumbers,
    units: &str,
) -> String {
    if numbers.scale == GateScale::Ratio {
        let ends = numbers.interval.map(|it| (it.low, it.high));
        let change = Change::of_ratio(numbers.value, ends);
        let basis = match change.signed_range() {
            Some(range) => format!("95% interval {range}, {units}"),
            None => format!("{units}, no interval"),
        };
        let limit = Change::of_ratio(numbers.limit, None).signed();
        return format!(
            "{subject} is {} against {against} ({basis}); the limit is {}",
            change.signed(),
            number::trimmed(&limit)
        );
    }
    let signed = |value: f64| {
        let plus = if value > 0.0 { "+" } else { "" };
        format!("{plus}{}", observable.shown(value))
    };
    let times = match factor {
        1.0 => String::new(),
        factor => format!("{factor} times "),
    };
    let figure = signed(numbers.value);
    let limit = signed(numbers.limit);
    format!(
        "{subject} is {figure} against {times}{against} ({}); the limit is {limit}",
        basis(numbers, units, signed)
    )
}
