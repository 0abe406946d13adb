//! Parses and formats numbers as wrk does.

/// Units of a quantity: the smallest one, and larger ones that increase by a constant factor.
struct UnitScale {
    scale: u16,
    base: &'static str,
    larger: &'static [&'static str],
}

const MICROSECONDS: UnitScale = UnitScale {
    scale: 1000,
    base: "us",
    larger: &["ms", "s"],
};
const SECONDS: UnitScale = UnitScale {
    scale: 60,
    base: "s",
    larger: &["m", "h"],
};
const BINARY: UnitScale = UnitScale {
    scale: 1024,
    base: "",
    larger: &["K", "M", "G", "T", "P"],
};
const METRIC: UnitScale = UnitScale {
    scale: 1000,
    base: "",
    larger: &["k", "M", "G", "T", "P"],
};

impl UnitScale {
    /// Formats a number. A larger unit is used if the number is at least 85% of that unit, except
    /// that the largest unit is never used.
    fn write(&self, number: f64, decimals: usize) -> String {
        let (mut amount, mut unit) = (number, self.base);
        let usable = self.larger.len() - 1;
        for larger in &self.larger[..usable] {
            if amount < f64::from(self.scale) * 0.85 {
                break;
            }
            amount /= f64::from(self.scale);
            unit = larger;
        }
        format!("{amount:.decimals$}{unit}")
    }

    /// Parses an integer with an optional unit, ignoring case.
    fn read(&self, text: &str) -> Option<u64> {
        let text = text.trim_start();
        let text = text.strip_prefix('+').unwrap_or(text);
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().ok()?;
        let unit = unit.trim_start();
        if unit.is_empty() || unit.eq_ignore_ascii_case(self.base) {
            return Some(number);
        }
        let mut larger = self.larger.iter();
        let power = larger.position(|larger| larger.eq_ignore_ascii_case(unit))? as u32 + 1;
        number.checked_mul(u64::from(self.scale).checked_pow(power)?)
    }
}

/// Parses a count such as `1k` or `2M`.
pub(super) fn read_count(text: &str) -> Option<u64> {
    METRIC.read(text)
}

/// Parses a duration such as `2s`, `2m`, `2h` or `2`. Returns seconds.
pub(super) fn read_seconds(text: &str) -> Option<u64> {
    SECONDS.read(text)
}

/// Formats a count, such as `12.34k`.
pub(super) fn count(number: f64) -> String {
    METRIC.write(number, 2)
}

/// Formats a number of bytes without the final `B`, such as `12.34M`.
pub(super) fn bytes(number: f64) -> String {
    BINARY.write(number, 2)
}

/// Formats a number of microseconds, such as `12.34ms`.
pub(super) fn micros(number: f64) -> String {
    if number >= 1e6 {
        SECONDS.write(number / 1e6, 2)
    } else {
        MICROSECONDS.write(number, 2)
    }
}

/// Formats a whole number of seconds, such as `30s` or `2m`.
pub(super) fn seconds(number: u64) -> String {
    SECONDS.write(number as f64, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_case_insensitive() {
        for (text, read) in [
            ("12", Some(12)),
            ("1k", Some(1_000)),
            ("1K", Some(1_000)),
            ("2M", Some(2_000_000)),
            ("1g", Some(1_000_000_000)),
            ("+3", Some(3)),
            (" 4", Some(4)),
            ("", None),
            ("k", None),
            ("-1", None),
            ("1.5k", None),
            ("1x", None),
            ("1kk", None),
            ("99999999999999999999", None),
            ("18446744073709551615k", None),
        ] {
            assert_eq!(read_count(text), read, "{text:?}");
        }
        for (text, read) in [
            ("10", Some(10)),
            ("10s", Some(10)),
            ("2m", Some(120)),
            ("2H", Some(7200)),
            ("500ms", None),
            ("1d", None),
        ] {
            assert_eq!(read_seconds(text), read, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_written_in_the_unit_that_wrk_chooses() {
        for (number, written) in [
            (0.0, "0.00us"),
            (849.0, "849.00us"),
            (850.0, "0.85ms"),
            (12_340.0, "12.34ms"),
            (900_000.0, "900.00ms"),
            (1_000_000.0, "1.00s"),
            (50_900_000.0, "50.90s"),
            (51_000_000.0, "0.85m"),
            (7_200_000_000.0, "120.00m"),
        ] {
            assert_eq!(micros(number), written, "{number}");
        }
        for (number, written) in [(10, "10s"), (50, "50s"), (51, "1m"), (7200, "120m")] {
            assert_eq!(seconds(number), written);
        }
        assert_eq!(count(635.66), "635.66");
        assert_eq!(count(4370.0), "4.37k");
        assert_eq!(count(187_803.0), "187.80k");
        assert_eq!(count(2e7), "20.00M");
        assert_eq!(bytes(0.0), "0.00");
        assert_eq!(bytes(870.0), "870.00");
        assert_eq!(bytes(871.0), "0.85K");
        assert_eq!(bytes(2.21 * 1048576.0), "2.21M");
    }
}
