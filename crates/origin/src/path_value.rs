//! Sizes and times in a path, such as `10K` and `500ms`, and the errors of its values.

use std::fmt;
use std::time::Duration;

/// Largest size in a path, in bytes (1 GiB).
pub(crate) const SIZE_MAX_BYTES: u64 = 1 << 30;

/// Longest time in a path.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(3600);

/// A value in a path that can't be parsed, or is out of range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BadPathValue {
    /// This is not a size.
    Size(String),
    /// This is not a time.
    Time(String),
    /// This is not the status of a response.
    Status(String),
    /// This is not a number of redirects.
    Redirects(String),
    /// This is not a number of events, or not a form or an end of `/events`.
    Events(String),
    /// The pauses of `/stall` are longer than their interval.
    Pauses,
}

impl fmt::Display for BadPathValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadPathValue::Size(text) => write!(
                f,
                "\"{text}\" is not a size (write it like 13, 10K or 1M; at most 1G)"
            ),
            BadPathValue::Time(text) => write!(
                f,
                "\"{text}\" is not a time (write it like 500us, 20ms, 5s or 1m; at most 60m)"
            ),
            BadPathValue::Status(text) => {
                write!(f, "\"{text}\" is not a status code from 200 to 999")
            }
            BadPathValue::Redirects(text) => {
                write!(f, "\"{text}\" is not a number of redirects from 1 to 1000")
            }
            BadPathValue::Events(text) => write!(
                f,
                "\"{text}\" is not a number of events, a form (sse or lines) or an end (plain, done, \
                 stall, half or cut)"
            ),
            BadPathValue::Pauses => f.write_str("/stall?every=A&for=B: B must be shorter than A"),
        }
    }
}

/// Parses a size in bytes, which consists of digits and an optional `K`, `M` or `G` (powers of
/// 1,024). The size must not exceed [`SIZE_MAX_BYTES`].
pub(crate) fn size(text: &str) -> Result<u64, BadPathValue> {
    let bad = || BadPathValue::Size(text.to_owned());
    let (digits, factor) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 1 << 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 1 << 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 1 << 30),
        _ => (text, 1),
    };
    let size = digits_value(digits)
        .and_then(|n| n.checked_mul(factor))
        .ok_or_else(bad)?;
    if size > SIZE_MAX_BYTES {
        Err(bad())
    } else {
        Ok(size)
    }
}

/// Parses a time, which consists of digits and one of the units `us`, `ms`, `s` and `m`. The time
/// must not exceed [`TIME_MAX`].
pub(crate) fn time(text: &str) -> Result<Duration, BadPathValue> {
    let bad = || BadPathValue::Time(text.to_owned());
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(bad)?;
    let (digits, unit) = text.split_at(unit);
    let microseconds = match unit {
        "us" => 1,
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        _ => return Err(bad()),
    };
    let time = digits_value(digits)
        .and_then(|n| n.checked_mul(microseconds))
        .map(Duration::from_micros)
        .ok_or_else(bad)?;
    if time > TIME_MAX {
        Err(bad())
    } else {
        Ok(time)
    }
}

/// Parses a number that consists only of digits; `str::parse` would also accept a sign.
fn digits_value(digits: &str) -> Option<u64> {
    if digits.bytes().all(|b| b.is_ascii_digit()) {
        digits.parse().ok()
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size("0"), Ok(0));
        assert_eq!(size("13"), Ok(13));
        assert_eq!(size("10K"), Ok(10_240));
        assert_eq!(size("1m"), Ok(1 << 20));
        assert_eq!(size("1G"), Ok(SIZE_MAX_BYTES));
        for bad in [
            "",
            "K",
            "-1",
            "+1",
            "1.5K",
            "1KB",
            "2G",
            "99999999999999999999",
            "１K",
            "é",
        ] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(time("0ms"), Ok(Duration::ZERO));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(time("20ms"), Ok(Duration::from_millis(20)));
        assert_eq!(time("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(time("60m"), Ok(TIME_MAX));
        for bad in ["", "5", "ms", "-5s", "1h", "61m", "1.5s", "5 s", "5sé"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }
}
