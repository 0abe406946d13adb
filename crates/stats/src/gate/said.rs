//! What a gate saw, as a sentence.

use prony_record::{condition::Amount, number};

use super::GateScale;
use super::judge::Numbers;
use super::quantity::Quantity;
use crate::change::Change;
use crate::comparison::Effect;
use crate::metric::Metric;

/// The numbers, and out of how much they come.
pub(super) struct Basis {
    pub(super) numbers: Numbers,
    pub(super) trials: usize,
    pub(super) unit: &'static str,
}

impl Basis {
    /// `95% interval 58.0 ms to 64.8 ms, 8 blocks`.
    fn text(&self, shown: impl Fn(f64) -> String) -> String {
        let counted = plural(self.trials, self.unit);
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

/// `failed of new is 0.4% (40 of 10,000 requests); the limit is 0.1%`.
pub(super) fn counted(
    subject: &str,
    (count, whole): (u64, u64),
    is_share: bool,
    limit: f64,
) -> String {
    match is_share {
        true => format!(
            "{subject} is {} ({} of {} requests); the limit is {}",
            Amount::Share(count as f64 / whole as f64),
            number::count(count),
            number::count(whole),
            number::trimmed(&Amount::Share(limit).to_string())
        ),
        false => format!(
            "{subject} is {}; the limit is {}",
            number::count(count),
            Amount::Number(limit)
        ),
    }
}

/// `p99 of new is 61.3 ms (95% interval 58.0 ms to 64.8 ms, 8 blocks); the limit is 50 ms`.
pub(super) fn fixed(subject: &str, quantity: &Quantity, basis: &Basis) -> String {
    let shown = |value| quantity.shown(value);
    let Numbers { value, limit, .. } = basis.numbers;
    let (figure, limit_text) = (shown(value), shown(limit));
    // Two that print alike and differ would contradict the ruling.
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

/// `p99 of new is +8.1% against old (95% interval +6.2% to +10.1%, 8 blocks); the limit is +5%`.
pub(super) fn relative(
    subject: &str,
    against: &str,
    quantity: &Quantity,
    factor: f64,
    basis: &Basis,
) -> String {
    let numbers = &basis.numbers;
    if numbers.scale == GateScale::Ratio
        && let Some(change) = change(numbers.value, numbers.interval.map(|it| (it.low, it.high)))
    {
        let unit = plural(basis.trials, basis.unit);
        let basis = match change.signed_range() {
            Some(range) => format!("95% interval {range}, {unit}"),
            None => format!("{unit}, no interval"),
        };
        let limit = self::change(numbers.limit, None).map_or(String::new(), |it| it.signed());
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

/// A ratio as every output prints it.
fn change(ratio: f64, ends: Option<(f64, f64)>) -> Option<Change> {
    let effect = Effect {
        ratio: Some(ratio),
        difference: None,
        low: ends.map(|ends| ends.0),
        high: ends.map(|ends| ends.1),
    };
    // A ratio reads alike on every metric that has one.
    Change::of(Metric::RatePerS, &effect)
}

/// "8 blocks".
fn plural(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}
