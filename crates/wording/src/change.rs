//! Formatting of changes: unit, digits and sign of an effect.
//!
//! Sentences, tables and charts all use this module, so they print a change in the same way. A
//! ratio is printed as a percentage (`−3.1%`), or as a factor (`3.8 ×`) if the estimate or an end
//! of its interval is above +100%. A difference of shares is printed in percentage points, and a
//! difference of counts as a plain number. Sentences that state a direction ("3.1% slower") use
//! unsigned numbers, and only if the interval excludes zero. All other changes are signed.
//!
//! The decimals of a figure follow from the figure, not from the width of its interval, so it is
//! printed in the same way everywhere, and the percentages of a column have one decimal each.

use prony_record::number;

use prony_stats::{Effect, Metric, Scale, Unit};

/// Maximum number of decimals of a change that is too small for the decimals of its form.
const DECIMALS_MAX: usize = 6;

/// Unit in which a change is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ChangeForm {
    /// Percent of the baseline.
    Percent,
    /// Multiple of the baseline.
    Factor,
    /// Percentage points.
    Points,
    /// Plain number.
    Count,
}

/// An effect, rounded for display.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    mid: f64,
    ends: Option<(f64, f64)>,
    form: ChangeForm,
}

impl Change {
    /// Rounds `effect` for display. Returns `None` if it has no estimate.
    pub fn of(metric: Metric, effect: &Effect) -> Option<Change> {
        let estimate = effect.estimate()?;
        let ends = effect.low.zip(effect.high);
        Some(match (metric.scale(), metric.unit()) {
            (Scale::Ratio, _) => Change::of_ratio(estimate, ends),
            (Scale::Difference, Unit::Share) => Change::scaled(estimate, ends, ChangeForm::Points),
            (Scale::Difference, _) => Change::scaled(estimate, ends, ChangeForm::Count),
        })
    }

    /// Rounds a ratio for display, with the ends of its interval if it has one.
    pub fn of_ratio(ratio: f64, ends: Option<(f64, f64)>) -> Change {
        let highest = ends.map_or(ratio, |(_, high)| high.max(ratio));
        let form = if highest > number::FACTOR_FORM_ABOVE {
            ChangeForm::Factor
        } else {
            ChangeForm::Percent
        };
        Change::scaled(ratio, ends, form)
    }

    fn scaled(estimate: f64, ends: Option<(f64, f64)>, form: ChangeForm) -> Change {
        let scaled = |value: f64| match form {
            ChangeForm::Percent => 100.0 * (value - 1.0),
            ChangeForm::Points => 100.0 * value,
            ChangeForm::Factor | ChangeForm::Count => value,
        };
        Change {
            mid: scaled(estimate),
            ends: ends.map(|(low, high)| (scaled(low), scaled(high))),
            form,
        }
    }

    /// Returns the value that means "no change": 1 for a factor, otherwise 0.
    fn none(&self) -> f64 {
        match self.form {
            ChangeForm::Factor => 1.0,
            ChangeForm::Percent | ChangeForm::Points | ChangeForm::Count => 0.0,
        }
    }

    /// Returns true if the variant's value is below its baseline's.
    pub fn is_less(&self) -> bool {
        self.mid < self.none()
    }

    /// Returns true if variant and baseline had exactly the same value in every block.
    pub fn is_none_at_all(&self) -> bool {
        let none = self.none();
        self.mid == none && self.ends.is_none_or(|ends| ends == (none, none))
    }

    /// Returns true if the interval excludes "no change", so a direction can be stated.
    pub fn is_one_sided(&self) -> bool {
        let none = self.none();
        self.ends
            .is_some_and(|(low, high)| low > none || high < none)
    }

    /// Returns true if the change is printed as a multiple of the baseline.
    pub fn is_factor(&self) -> bool {
        self.form == ChangeForm::Factor
    }

    /// Returns the change without its sign, for a sentence that names the direction: `3.1%`, `3.8
    /// ×`.
    pub fn amount(&self) -> String {
        self.figure(self.mid.abs())
    }

    /// Returns the change with its sign: `−3.1%`, `+0.30 points`. A multiple of the baseline has no
    /// sign: `3.8 ×`.
    pub fn signed(&self) -> String {
        self.signed_figure(self.mid)
    }

    /// Returns the interval to print after an [`amount`](Self::amount): `2.2% to 4.0%`. It is
    /// signed if no direction can be stated.
    pub fn range(&self) -> Option<String> {
        let (low, high) = self.ends?;
        if !self.is_one_sided() {
            return self.signed_range();
        }
        let (near, far) = match self.form {
            ChangeForm::Factor => (low, high),
            _ if low > 0.0 => (low, high),
            _ => (-high, -low),
        };
        Some(self.joined(&self.figure(near), &self.figure(far)))
    }

    /// Returns the interval to print after [`signed`](Self::signed): `−4.0% to −2.2%`.
    pub fn signed_range(&self) -> Option<String> {
        let (low, high) = self.ends?;
        Some(self.joined(&self.signed_figure(low), &self.signed_figure(high)))
    }

    /// Returns the signed change and its interval: `−3.1% (−4.0% to −2.2%)`.
    pub fn with_interval(&self) -> String {
        match self.signed_range() {
            Some(range) => format!("{} ({range})", self.signed()),
            None => self.signed(),
        }
    }

    /// Joins both ends of an interval, with the unit only once: `2.2 to 4.0 points`.
    fn joined(&self, low: &str, high: &str) -> String {
        let without = |end: &str, unit: &str| end.trim_end_matches(unit).to_owned();
        match self.form {
            ChangeForm::Percent | ChangeForm::Count => format!("{low} to {high}"),
            ChangeForm::Factor => format!("{} to {high}", without(low, " ×")),
            ChangeForm::Points => format!(
                "{} to {}",
                without(low, " points"),
                without(high, " points")
            ),
        }
    }

    fn figure(&self, value: f64) -> String {
        let figure = number::fixed(value, self.decimals(value));
        match self.form {
            ChangeForm::Percent => format!("{figure}%"),
            ChangeForm::Factor => format!("{figure} ×"),
            ChangeForm::Points => format!("{figure} points"),
            ChangeForm::Count => figure,
        }
    }

    fn signed_figure(&self, value: f64) -> String {
        let figure = self.figure(value.abs());
        match self.form {
            ChangeForm::Factor => figure,
            _ => number::signed(value, figure),
        }
    }

    /// Returns the number of decimals of a figure: those of its form and, if a direction is
    /// established, more where it would otherwise be rounded to zero or to "no change".
    fn decimals(&self, value: f64) -> usize {
        let usual = match self.form {
            ChangeForm::Percent => 1,
            ChangeForm::Factor => usize::from(value.abs() < 9.95),
            // Shares have two significant digits, and counts three.
            ChangeForm::Points => digits_after_point(value, 2).clamp(1, DECIMALS_MAX),
            ChangeForm::Count => digits_after_point(value, 3).min(4),
        };
        if !self.is_one_sided() {
            return usual;
        }
        let is_told_apart = |&decimals: &usize| {
            let step = 0.5 * 0.1_f64.powi(decimals as i32);
            let differs = |from: f64| value == from || (value - from).abs() >= step;
            differs(0.0) && differs(self.none())
        };
        let mut decimals = usual..=DECIMALS_MAX;
        decimals.find(is_told_apart).unwrap_or(usual)
    }
}

/// Returns the number of decimals needed to show `digits` significant digits of `value`.
fn digits_after_point(value: f64, digits: i32) -> usize {
    if value == 0.0 || !value.is_finite() {
        return 0;
    }
    (digits - 1 - value.abs().log10().floor() as i32).max(0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(metric: Metric, by: f64, ends: Option<(f64, f64)>) -> Change {
        let effect = Effect {
            ratio: None,
            difference: Some(by),
            low: ends.map(|ends| ends.0),
            high: ends.map(|ends| ends.1),
        };
        Change::of(metric, &effect).unwrap()
    }

    #[test]
    fn signs_and_digits_follow_one_rule() {
        for (change, signed, range) in [
            (
                Change::of_ratio(0.969, Some((0.96, 0.978))),
                "−3.1%",
                "2.2% to 4.0%",
            ),
            (
                Change::of_ratio(0.86, Some((0.71, 1.04))),
                "−14.0%",
                "−29.0% to +4.0%",
            ),
            (
                Change::of_ratio(1.001, Some((1.0004, 1.0016))),
                "+0.1%",
                "0.04% to 0.2%",
            ),
            (
                Change::of_ratio(1.2, Some((1.003, 1.4))),
                "+20.0%",
                "0.3% to 40.0%",
            ),
            (
                Change::of_ratio(1.0, Some((0.9, 1.1))),
                "0.0%",
                "−10.0% to +10.0%",
            ),
            (
                Change::of_ratio(3.77, Some((3.6, 4.0))),
                "3.8 ×",
                "3.6 to 4.0 ×",
            ),
            (
                Change::of_ratio(1.8, Some((0.9, 3.6))),
                "1.8 ×",
                "0.9 to 3.6 ×",
            ),
            (
                Change::of_ratio(0.05, Some((0.04, 0.06))),
                "−95.0%",
                "94.0% to 96.0%",
            ),
            (
                Change::of_ratio(12_646.1, Some((9_000.0, 15_000.0))),
                "12,646 ×",
                "9,000 to 15,000 ×",
            ),
            (
                difference(
                    Metric::ConnectionsPerRequest,
                    -1.0003,
                    Some((-1.0005, -1.0001)),
                ),
                "−1.00",
                "1.00 to 1.00",
            ),
            (
                difference(Metric::FailedShare, 0.003, Some((0.001, 0.005))),
                "+0.30 points",
                "0.10 to 0.50",
            ),
            (
                difference(Metric::ConnectionsPerRequest, 0.98, Some((0.97, 0.99))),
                "+0.980",
                "0.970 to 0.990",
            ),
            (
                difference(Metric::ConnectionsPerRequest, -0.5, Some((-0.6, -0.4))),
                "−0.500",
                "0.400 to 0.600",
            ),
        ] {
            assert_eq!(
                (change.signed().as_str(), change.range().unwrap().as_str()),
                (signed, range)
            );
        }
        assert_eq!(Change::of_ratio(1877.8, None).amount(), "1,878 ×");
        assert!(Change::of_ratio(1.0, Some((1.0, 1.0))).is_none_at_all());
    }

    #[test]
    fn a_figure_has_the_same_decimals_whatever_its_interval() {
        for estimate in [1.3514, 1.42, 0.98, 0.5] {
            let alone = Change::of_ratio(estimate, None).signed();
            for half in [1e-4, 1e-3, 0.02, 0.3] {
                let ends = Some((estimate - half, estimate + half));
                assert_eq!(Change::of_ratio(estimate, ends).signed(), alone, "{half}");
            }
        }
    }

    #[test]
    fn an_interval_that_excludes_zero_is_never_printed_as_if_it_included_it() {
        for low in [1.4e-2, 3e-3, 1.2e-3, 4e-4, 1e-5] {
            for width in [0.0, 1e-3, 0.1, 0.5, 3.0, 300.0] {
                let change = Change::of_ratio(
                    1.0 + low + width / 2.0,
                    Some((1.0 + low, 1.0 + low + width)),
                );
                let range = change.range().unwrap();
                let near = range.split_once(" to ").unwrap().0;
                let none = if change.is_factor() { "1" } else { "0" };
                let digits = near.trim_end_matches(['%', '×', ' ']).trim_end_matches('0');
                assert_ne!(digits.trim_end_matches('.'), none, "{low} {width}: {range}");
            }
        }
    }
}
