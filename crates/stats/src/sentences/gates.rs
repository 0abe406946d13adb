//! Sentences about gates.

use prony_record::{measure::Amount, number};

use crate::change::Change;
use crate::estimate::Interval;
use crate::gate_result::GateScale;
use crate::quantity::Quantity;

/// Numbers on which a ruling is based.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GateNumbers {
    pub(crate) scale: GateScale,
    pub(crate) value: f64,
    pub(crate) interval: Option<Interval>,
    pub(crate) limit: f64,
}

/// Numbers on which a ruling is based, with the number of trials that they come from.
pub(crate) struct GateBasis {
    pub(crate) numbers: GateNumbers,
    pub(crate) trials: usize,
    pub(crate) unit: &'static str,
}

impl GateBasis {
    /// Returns `95% interval 58.0 ms to 64.8 ms, 8 blocks`.
    fn text(&self, shown: impl Fn(f64) -> String) -> String {
        let counted = counted_units(self.trials, self.unit);
        match self.numbers.interval {
            Some(interval) => format!(
                "95% interval {} to {}, {counted}",
                shown(interval.low),
                shown(interval.high)
            ),
            None => format!("{counted}, no interval"),
        }
    }
}

/// Subject of every sentence about a gate: `p99 of new`, or `p99` for a load.
pub(crate) fn subject(quantity: &str, variant: &str) -> String {
    if variant.is_empty() {
        quantity.to_owned()
    } else {
        format!("{quantity} of {variant}")
    }
}

/// Sentence for a stored run that has no matching variant.
pub(crate) fn no_reference(subject: &str) -> String {
    format!("{subject}: the other run has no matching variant")
}

/// Sentence for a quantity whose verdict the run itself withheld. `reason` completes the sentence.
pub(crate) fn withheld(subject: &str, reason: &str) -> String {
    format!("{subject}: withheld: {reason}")
}

/// Sentence for a share without a denominator, because no request completed.
pub(crate) fn no_requests(subject: &str) -> String {
    format!("{subject}: no request completed")
}

/// Returns `p99 of new: not measured in block 3`, or `p99 of new: not measured` if `numbers` is
/// empty.
pub(crate) fn not_measured(subject: &str, unit: &str, numbers: &[String]) -> String {
    if numbers.is_empty() {
        format!("{subject}: not measured")
    } else {
        format!("{subject}: not measured in {unit} {}", numbers.join(", "))
    }
}

/// Returns `p99 of new: beyond every limit in 3 of 5 blocks, because too many requests failed`.
pub(crate) fn beyond_every_limit(subject: &str, unit: &str, count: usize, all: usize) -> String {
    let units = if all == 1 {
        String::new()
    } else {
        format!(" in {count} of {all} {unit}s")
    };
    format!("{subject}: beyond every limit{units}, because too many requests failed")
}

/// Returns `failed of new is 0.4% (40 of 10,000 requests); the limit is 0.1%`.
pub(crate) fn counted(
    subject: &str,
    (count, whole): (u64, u64),
    is_share: bool,
    limit: f64,
) -> String {
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
pub(crate) fn fixed(subject: &str, quantity: &Quantity, basis: &GateBasis) -> String {
    let shown = |value| quantity.shown(value);
    let GateNumbers { value, limit, .. } = basis.numbers;
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
        basis.text(shown),
        number::trimmed(&limit_text)
    )
}

/// Returns `p99 of new is +8.1% against old (95% interval +6.2% to +10.1%, 8 blocks); the limit is
/// +5%`.
pub(crate) fn relative(
    subject: &str,
    against: &str,
    quantity: &Quantity,
    factor: f64,
    basis: &GateBasis,
) -> String {
    let numbers = &basis.numbers;
    if numbers.scale == GateScale::Ratio {
        let ends = numbers.interval.map(|it| (it.low, it.high));
        let change = Change::of_ratio(numbers.value, ends);
        let unit = counted_units(basis.trials, basis.unit);
        let basis = match change.signed_range() {
            Some(range) => format!("95% interval {range}, {unit}"),
            None => format!("{unit}, no interval"),
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
        format!("{plus}{}", quantity.shown(value))
    };
    let times = match factor {
        1.0 => String::new(),
        factor => format!("{factor} times "),
    };
    let figure = signed(numbers.value);
    let limit = signed(numbers.limit);
    format!(
        "{subject} is {figure} against {times}{against} ({}); the limit is {limit}",
        basis.text(signed)
    )
}

fn counted_units(number: usize, noun: &str) -> String {
    super::counted(u32::try_from(number).unwrap_or(u32::MAX), noun)
}
