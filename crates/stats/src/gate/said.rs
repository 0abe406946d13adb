//! What a gate saw, as a sentence.

use super::GateScale;
use super::judge::Numbers;
use super::quantity::Quantity;
use crate::comparison::Effect;
use crate::metric::Metric;
use crate::sentence::Change;

/// The numbers, and out of how much they come.
pub(super) struct Basis {
    pub(super) numbers: Numbers,
    pub(super) trials: usize,
    pub(super) unit: &'static str,
}

impl Basis {
    /// `95% interval 58 ms to 64.8 ms, 8 blocks`.
    fn text(&self, shown: impl Fn(f64) -> String) -> String {
        let plural = if self.trials == 1 { "" } else { "s" };
        let counted = format!("{} {}{plural}", self.trials, self.unit);
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

/// `failed of new is 0.4% (40 of 10000 requests); the limit is 0.1%`.
pub(super) fn counted(
    subject: &str,
    (count, whole): (u64, u64),
    is_share: bool,
    limit: f64,
) -> String {
    use prony_record::condition::Amount;
    match is_share {
        true => format!(
            "{subject} is {} ({count} of {whole} requests); the limit is {}",
            Amount::Share(count as f64 / whole as f64),
            Amount::Share(limit)
        ),
        false => format!(
            "{subject} is {count}; the limit is {}",
            Amount::Number(limit)
        ),
    }
}

/// `p99 of new is 61.3 ms (95% interval 58 ms to 64.8 ms, 8 blocks); the limit is 50 ms`.
pub(super) fn fixed(subject: &str, quantity: &Quantity, basis: &Basis) -> String {
    let shown = |value| quantity.shown(value);
    let figure = shown(basis.numbers.value);
    let limit = shown(basis.numbers.limit);
    format!(
        "{subject} is {figure} ({}); the limit is {limit}",
        basis.text(shown)
    )
}

/// `p99 of new is +8.1% against old (95% interval +6.2% to +10.1%, 8 blocks); the limit is +5.0%`.
pub(super) fn relative(
    subject: &str,
    against: &str,
    quantity: &Quantity,
    factor: f64,
    basis: &Basis,
) -> String {
    let numbers = &basis.numbers;
    if numbers.scale == GateScale::Ratio {
        let shown = |value: f64| percent(value, numbers);
        let figure = shown(numbers.value);
        let limit = shown(numbers.limit);
        return format!(
            "{subject} is {figure} against {against} ({}); the limit is {limit}",
            basis.text(shown)
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

/// A ratio as a change in percent, with as many decimals as the interval deserves.
fn percent(ratio: f64, numbers: &Numbers) -> String {
    let effect = |ratio: f64| Effect {
        ratio: Some(ratio),
        difference: None,
        low: numbers.interval.map(|interval| interval.low),
        high: numbers.interval.map(|interval| interval.high),
    };
    // A ratio reads alike on every metric that has one.
    let change = Change::of(Metric::RatePerS, &effect(ratio));
    change.map_or_else(String::new, |change| change.signed())
}
