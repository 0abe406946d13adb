//! Number formatting for display: common rules for units, digits and signs.

use serde::{Deserialize, Serialize};

use crate::RateStage;

/// Formats a whole number with commas between thousands: `1,234,567`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Formats `value` with `digits` significant digits and commas between thousands, never with an
/// exponent.
pub fn significant(value: f64, digits: i32) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = |v: f64| v.abs().log10().floor() as i32;
    let round = |v: f64, decimals: i32| (v * 10f64.powi(decimals)).round() / 10f64.powi(decimals);
    let rounded = round(value, digits - 1 - magnitude(value));
    // Rounding 999.6 to three digits gives 1,000, which has one more digit before the decimal
    // point.
    let decimals = (digits - 1 - magnitude(rounded)).max(0) as usize;
    fixed(rounded, decimals)
}

/// Formats `value` with `decimals` digits after the decimal point and commas between thousands.
pub fn fixed(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = format!("{:.decimals$}", value.abs());
    let sign = if value < 0.0 { "−" } else { "" };
    match text.split_once('.') {
        Some((whole, fraction)) => format!("{sign}{}.{fraction}", group(whole)),
        None => format!("{sign}{}", group(&text)),
    }
}

fn group(whole: &str) -> String {
    whole.parse().map_or_else(|_| whole.to_owned(), count)
}

/// Formats requests per second: `769 req/s`, `48,210 req/s`.
pub fn rate(per_s: f64) -> String {
    RateUnit::Requests.rate(per_s)
}

/// Subject of a rate: what begins or completes each second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateUnit {
    /// Requests.
    #[default]
    Requests,
    /// Journeys of virtual users.
    Journeys,
    /// Connections, in a load that only opens and closes them.
    Connections,
    /// Messages of WebSockets.
    Messages,
}

impl RateUnit {
    /// Formats a rate with its unit: `769 req/s`, `12.5 journeys/s`.
    pub fn rate(self, per_s: f64) -> String {
        format!("{} {}", rate_figure(per_s), self.per_s())
    }

    /// The unit of the rate.
    pub fn per_s(self) -> &'static str {
        match self {
            RateUnit::Requests => "req/s",
            RateUnit::Journeys => "journeys/s",
            RateUnit::Connections => "connections/s",
            RateUnit::Messages => "messages/s",
        }
    }

    /// The noun of what is counted, in the plural.
    pub fn noun(self) -> &'static str {
        match self {
            RateUnit::Requests => "requests",
            RateUnit::Journeys => "journeys",
            RateUnit::Connections => "connections",
            RateUnit::Messages => "messages",
        }
    }

    /// Returns true for requests, the usual unit.
    pub fn is_requests(&self) -> bool {
        *self == RateUnit::Requests
    }
}

/// Like [`rate`], without the unit.
pub fn rate_figure(per_s: f64) -> String {
    let digits = if per_s.abs() >= 1000.0 { 4 } else { 3 };
    significant(per_s, digits)
}

/// Formats the stages of a changing rate: `100 to 5,000 req/s over 30 s`, or `0 to 500 req/s over
/// 30 s, 500 for 5 min, to 0 over 10 s`.
pub fn rate_stages(stages: &[RateStage], unit: RateUnit) -> String {
    let mut parts: Vec<String> = Vec::new();
    // `before` is the rate at the end of the previous stage; `from` is the rate after any jumps
    // that follow that stage.
    let (mut before, mut from) = (None, 0.0);
    for stage in stages {
        let to = stage.rate_per_s;
        if stage.length_s > 0.0 {
            let length = span(stage.length_s);
            let unit = if parts.is_empty() {
                format!(" {}", unit.per_s())
            } else {
                String::new()
            };
            let figure = |per_s| trimmed(&rate_figure(per_s));
            let (start, end) = (figure(from), figure(to));
            parts.push(match before {
                _ if from == to => format!("{end}{unit} for {length}"),
                Some(before) if before == from => format!("to {end}{unit} over {length}"),
                _ => format!("{start} to {end}{unit} over {length}"),
            });
            before = Some(to);
        }
        from = to;
    }
    if parts.len() <= DESCRIBED_STAGES_MAX {
        return parts.join(", ");
    }
    let highest = stages.iter().map(|it| it.rate_per_s).fold(0.0, f64::max);
    let length_s: f64 = stages.iter().map(|it| it.length_s).sum();
    let (highest, length) = (trimmed(&unit.rate(highest)), span(length_s));
    format!("{} stages up to {highest} over {length}", parts.len())
}

/// Maximum number of stages that are listed individually.
const DESCRIBED_STAGES_MAX: usize = 6;

/// Formats a time given in microseconds, in a suitable unit: `870 µs`, `12.3 ms`, `1.23 s`.
pub fn time(us: f64) -> String {
    let rounds_below = |limit: f64| us.abs() < limit * 0.9995;
    if us == 0.0 {
        "0 µs".to_owned()
    } else if rounds_below(1e3) {
        format!("{} µs", significant(us, 3))
    } else if rounds_below(1e6) {
        format!("{} ms", significant(us / 1e3, 3))
    } else {
        format!("{} s", significant(us / 1e6, if us >= 1e9 { 4 } else { 3 }))
    }
}

/// Formats a duration given in seconds: `500 ms`, `10 s`, `4 min 5 s`, `1 h 2 min`.
pub fn span(seconds: f64) -> String {
    if !seconds.is_finite() || seconds < 0.0 {
        return "–".to_owned();
    }
    if seconds < 60.0 {
        // Durations are usually round numbers that a user chose: `10 s`, not `10.0 s`.
        return trimmed(&time(seconds * 1e6));
    }
    let whole = seconds.round() as u64;
    let (hours, minutes, rest) = (whole / 3600, whole / 60 % 60, whole % 60);
    match (hours, minutes, rest) {
        (0, m, 0) => format!("{m} min"),
        (0, m, s) => format!("{m} min {s} s"),
        (h, 0, _) => format!("{h} h"),
        (h, m, _) => format!("{h} h {m} min"),
    }
}

/// Formats bytes in binary multiples: `512 B`, `5.38 MiB`.
pub fn bytes(n: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n;
    let mut unit = 0;
    while value >= 1023.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", significant(value, 3), UNITS[unit])
}

/// Formats bytes per second in decimal multiples, as is usual for ciphers: `123 MB/s`, `8.10 GB/s`.
pub fn bytes_per_s(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.2} GB/s", n / 1e9),
        n => format!("{:.0} MB/s", n / 1e6),
    }
}

/// Formats bits per second in decimal multiples, as is usual for networks: `940 Mbit/s`.
pub fn bits_per_s(n: f64) -> String {
    const UNITS: [&str; 4] = ["bit/s", "kbit/s", "Mbit/s", "Gbit/s"];
    let mut value = n;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", significant(value, 3), UNITS[unit])
}

/// Formats a share from 0 to 1 as a percentage. The smaller of the share and its complement gets
/// two significant digits: `50%`, `3.3%` and `96.7%`, `0.68%` and `99.32%`. Two shares that make up
/// a total therefore add up to 100%, and a small number of failures never rounds to zero.
pub fn share(share: f64) -> String {
    const DECIMALS_MAX: f64 = 8.0;
    let percent = share * 100.0;
    let smaller = percent.min(100.0 - percent);
    if !percent.is_finite() {
        return "–".to_owned();
    }
    if smaller <= 0.0 {
        return format!("{percent:.0}%").replace("-0%", "0%");
    }
    // Floating-point arithmetic may have turned 0.001 into 0.000999….
    let magnitude = (smaller.log10() + 1e-9).floor();
    let decimals = (1.0 - magnitude).clamp(0.0, DECIMALS_MAX) as usize;
    format!("{percent:.decimals$}%")
}

/// Removes trailing zeros, because the values that users choose are usually round: `50 ms`, not
/// `50.0 ms`.
pub fn trimmed(figure: &str) -> String {
    let unit = figure.find(|c: char| !(c.is_ascii_digit() || matches!(c, '.' | ',' | '−' | '+')));
    let (number, unit) = figure.split_at(unit.unwrap_or(figure.len()));
    if !number.contains('.') {
        return figure.to_owned();
    }
    let number = number.trim_end_matches('0').trim_end_matches('.');
    format!("{number}{unit}")
}

/// Ratio above which a change is written as a factor, because the percentage would exceed 100%.
pub const FACTOR_FORM_ABOVE: f64 = 2.0;

/// Formats a ratio as a change: `−3.1%`, or `3.8 ×` above [`FACTOR_FORM_ABOVE`].
pub fn change(ratio: f64) -> String {
    if ratio > FACTOR_FORM_ABOVE {
        return format!("{} ×", fixed(ratio, usize::from(ratio < 9.95)));
    }
    let percent = 100.0 * (ratio - 1.0);
    signed(percent, format!("{}%", fixed(percent.abs(), 1)))
}

/// Puts the sign of `value` before the figure of its amount, unless the figure is zero.
pub fn signed(value: f64, figure: String) -> String {
    let is_zero = !figure.bytes().any(|byte| (b'1'..=b'9').contains(&byte));
    match value < 0.0 {
        _ if is_zero => figure,
        true => format!("−{figure}"),
        false => format!("+{figure}"),
    }
}

/// Formats a margin given as a share, without trailing zeros: `±2%`, `±0.5%`.
pub fn margin(share: f64) -> String {
    // Rounding the margin prevents output such as 7.000000000000001% for 0.07.
    format!("±{}%", (share * 1e6).round() / 1e4)
}

/// Formats a count with its noun in singular or plural: `1 block`, `5 blocks`.
pub fn plural(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_grouped() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000")];
        for (n, text) in cases {
            assert_eq!(count(n), text);
        }
        assert_eq!(count(1_234_567), "1,234,567");
    }

    #[test]
    fn digits_are_significant_and_carry() {
        for (value, digits, text) in [
            (769.4, 3, "769"),
            (999.6, 3, "1,000"),
            (0.001234, 2, "0.0012"),
            (-4.56789, 3, "−4.57"),
            (48_213.0, 4, "48,210"),
            (9.999, 3, "10.0"),
            (f64::NAN, 3, "–"),
        ] {
            assert_eq!(significant(value, digits), text, "{value}");
        }
    }

    #[test]
    fn times_take_the_unit_that_suits() {
        for (us, text) in [
            (0.0, "0 µs"),
            (870.4, "870 µs"),
            (999.7, "1.00 ms"),
            (12_345.0, "12.3 ms"),
            (999_700.0, "1.00 s"),
            (1_234_000.0, "1.23 s"),
        ] {
            assert_eq!(time(us), text, "{us}");
        }
        for (s, text) in [
            (0.5, "500 ms"),
            (8.0, "8 s"),
            (10.0, "10 s"),
            (10.04, "10 s"),
            (30.0, "30 s"),
            (2.5, "2.5 s"),
            (245.0, "4 min 5 s"),
            (3720.0, "1 h 2 min"),
        ] {
            assert_eq!(span(s), text, "{s}");
        }
    }

    #[test]
    fn sizes_and_rates_take_the_unit_that_suits() {
        assert_eq!(bytes(512.0), "512 B");
        assert_eq!(bytes(1023.9), "1.00 KiB");
        assert_eq!(bytes(5.0 * 1024.0 * 1024.0), "5.00 MiB");
        assert_eq!(bits_per_s(940e6), "940 Mbit/s");
        assert_eq!(bytes_per_s(8.104e9), "8.10 GB/s");
        assert_eq!(bytes_per_s(123.4e6), "123 MB/s");
        assert_eq!(rate(769.2), "769 req/s");
        assert_eq!(rate(48_213.4), "48,210 req/s");
    }

    #[test]
    fn shares_of_a_whole_add_up_and_a_few_failures_never_round_to_none() {
        for (part, text, rest) in [
            (0.0, "0%", "100%"),
            (0.00012, "0.012%", "99.988%"),
            (0.00001, "0.0010%", "99.9990%"),
            (0.0068, "0.68%", "99.32%"),
            (0.033, "3.3%", "96.7%"),
            (0.5, "50%", "50%"),
            (0.3, "30%", "70%"),
        ] {
            assert_eq!(
                (share(part).as_str(), share(1.0 - part).as_str()),
                (text, rest)
            );
        }
        assert_eq!(share(f64::NAN), "–");
    }

    #[test]
    fn chosen_numbers_have_no_zeros_at_their_end() {
        for (figure, text) in [
            ("50.0 ms", "50 ms"),
            ("1.50 s", "1.5 s"),
            ("100 req/s", "100 req/s"),
            ("−5.0%", "−5%"),
        ] {
            assert_eq!(trimmed(figure), text);
        }
    }

    #[test]
    fn stages_of_a_rate_are_named_in_their_order() {
        let text = |stages: &[(f64, f64)]| {
            let stages = stages.iter().map(|&(rate_per_s, length_s)| RateStage {
                rate_per_s,
                length_s,
            });
            rate_stages(&stages.collect::<Vec<_>>(), RateUnit::Requests)
        };
        assert_eq!(
            text(&[(100.0, 0.0), (5_000.0, 30.0)]),
            "100 to 5,000 req/s over 30 s"
        );
        assert_eq!(
            text(&[
                (500.0, 30.0),
                (500.0, 300.0),
                (900.0, 0.0),
                (900.0, 60.0),
                (0.0, 10.0)
            ]),
            "0 to 500 req/s over 30 s, 500 for 5 min, 900 for 1 min, to 0 over 10 s"
        );
        assert_eq!(
            text(&[(5.0, 1.0), (7.0, 0.0), (9.0, 1.0)]),
            "0 to 5 req/s over 1 s, 7 to 9 over 1 s"
        );
        assert_eq!(text(&[(10.0, 1.0); 7]), "7 stages up to 10 req/s over 7 s");
        assert_eq!(text(&[]), "");
    }
}
