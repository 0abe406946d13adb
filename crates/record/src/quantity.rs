//! Parsers of typed quantities: times, sizes, rates, shares, and lists of numbers. [`number`] is
//! their counterpart for output.
//!
//! The caller of a parser adds the name of the flag to its error.
//!
//! [`number`]: crate::number

use std::fmt;
use std::time::Duration;

/// Reason why a typed quantity can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuantityError {
    /// The text has another form, or is out of range.
    Invalid {
        /// The text as input.
        input: String,
        /// Description of the fault, with a hint: "is not a time; write it like 500ms".
        what: &'static str,
    },
    /// A time of zero.
    Zero,
}

impl QuantityError {
    /// Creates the error of a text; `what` says what is wrong with it, with a hint.
    pub fn new(input: &str, what: &'static str) -> QuantityError {
        let input = input.to_owned();
        QuantityError::Invalid { input, what }
    }
}

impl fmt::Display for QuantityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QuantityError::Invalid { input, what } => write!(f, "\"{input}\" {what}"),
            QuantityError::Zero => f.write_str("the time must be above zero"),
        }
    }
}

impl std::error::Error for QuantityError {}

/// Parses a time such as `500ms`, `30s`, `1m30s` or `250us`: numbers with units, from the largest
/// unit to the smallest. A single number without a unit means seconds.
pub fn time(input: &str) -> Result<Duration, QuantityError> {
    let wrong = |what| QuantityError::new(input, what);
    let expected = || wrong("is not a time; write it like 500ms, 30s or 1m30s");
    let mut seconds = 0.0;
    let mut previous_unit_s = f64::INFINITY;
    let mut rest = input;
    loop {
        let (number, after) = split_number(rest).ok_or_else(expected)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, next) = after.split_at(end.unwrap_or(after.len()));
        let unit_s = match unit {
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "" if rest.len() == input.len() => 1.0,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(expected()),
        };
        if unit_s >= previous_unit_s {
            return Err(expected());
        }
        previous_unit_s = unit_s;
        seconds += number * unit_s;
        rest = next;
        if rest.is_empty() {
            break;
        }
    }
    if seconds > 365.0 * 86_400.0 {
        return Err(wrong("is longer than a year"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
}

/// Parses a time above zero.
pub fn positive_time(input: &str) -> Result<Duration, QuantityError> {
    match time(input)? {
        Duration::ZERO => Err(QuantityError::Zero),
        time => Ok(time),
    }
}

/// Parses a time that may begin with days, such as `90m`, `12h`, `30d` or `1d12h`.
pub fn age(input: &str) -> Result<Duration, QuantityError> {
    let with_days = || {
        let (days, rest) = split_number(input)?;
        let rest = match rest.strip_prefix('d')? {
            "" => Duration::ZERO,
            rest if rest.ends_with(|c: char| c.is_ascii_digit()) => return None,
            rest => time(rest).ok()?,
        };
        let days = Duration::try_from_secs_f64(days * 86_400.0).ok()?;
        days.checked_add(rest)
    };
    with_days()
        .or_else(|| time(input).ok())
        .ok_or_else(|| QuantityError::new(input, "is not a time; write it like 90m, 12h or 30d"))
}

/// Formats a duration so that [`time`] can parse it, in the largest unit that gives a whole number
/// (`30s`, `500ms`) or, failing that, in fractions of a microsecond (`0.500us`).
pub fn time_text(time: Duration) -> String {
    match time.as_nanos() {
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{}.{:03}us", ns / 1_000, ns % 1_000),
    }
}

/// Parses a whole number of bytes such as `512`, `1K` (1,024), `10M` or `1G`.
pub fn size(input: &str) -> Result<u64, QuantityError> {
    const BYTES_MAX: f64 = (1u64 << 53) as f64;
    let bytes = bytes(input).filter(|bytes| *bytes <= BYTES_MAX && bytes.fract() == 0.0);
    bytes
        .map(|bytes| bytes as u64)
        .ok_or_else(|| QuantityError::new(input, "is not a size; write it like 512, 1K or 10M"))
}

/// Parses a number of bytes with an optional binary unit: `512`, `1.5MiB`, `100MB`, `1G`.
pub fn bytes(input: &str) -> Option<f64> {
    let (number, unit) = split_number(input)?;
    let each: u64 = match unit {
        "" | "B" => 1,
        "K" | "k" | "KB" | "KiB" => 1 << 10,
        "M" | "m" | "MB" | "MiB" => 1 << 20,
        "G" | "g" | "GB" | "GiB" => 1 << 30,
        _ => return None,
    };
    Some(number * each as f64)
}

/// Parses bits per second with a decimal unit in any case: `512kbit`, `2.5 Gbit`.
pub fn bit_rate(input: &str) -> Option<f64> {
    let (number, unit) = split_number(input)?;
    let each = match unit.trim_start().to_ascii_lowercase().as_str() {
        "bit" => 1.0,
        "kbit" => 1e3,
        "mbit" => 1e6,
        "gbit" => 1e9,
        _ => return None,
    };
    Some(number * each)
}

/// Parses a percentage as a fraction: `2%` is 0.02.
pub fn percent(input: &str) -> Option<f64> {
    match split_number(input.trim())? {
        (number, unit) if unit.trim_start() == "%" => Some(number / 100.0),
        _ => None,
    }
}

/// Highest rate that a load may request, in requests per second.
pub const HIGHEST_RATE_PER_S: f64 = 1e8;

/// Parses a rate in requests per second: `1000`, `20k`, `0.5`, `1200/m`.
pub fn rate(input: &str) -> Result<f64, QuantityError> {
    let expected = || {
        let what = "is not a rate; write it like 1000 or 20k (per second), or 90/m (per minute)";
        QuantityError::new(input, what)
    };
    let rate = per_second(input).ok_or_else(expected)?;
    if rate > 0.0 && rate <= HIGHEST_RATE_PER_S {
        Ok(rate)
    } else {
        Err(expected())
    }
}

/// Parses a rate per second, which may be 0: `1000`, `20k`, `1200/m`.
pub fn per_second(input: &str) -> Option<f64> {
    let (number, unit) = split_number(input)?;
    match unit {
        "" | "/s" => Some(number),
        "k" | "K" => Some(number * 1e3),
        "/m" => Some(number / 60.0),
        _ => None,
    }
}

/// Parses a count of at least one, with an optional `k` or `M` (thousands, millions).
pub fn count(input: &str) -> Result<u64, QuantityError> {
    let expected = || QuantityError::new(input, "is not a count; write a whole number above zero");
    let digits = input.trim_end_matches(['k', 'K', 'M']);
    let factor: u64 = match &input[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        _ => return Err(expected()),
    };
    let digits = digits.replace([',', '_'], "");
    match digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
    {
        Some(n) if n > 0 => Ok(n),
        _ => Err(expected()),
    }
}

/// Parses a list of cores such as `0`, `0,2` or `0-3,6`. Keeps the order and removes duplicates.
pub fn cores(input: &str) -> Result<Vec<usize>, QuantityError> {
    let expected = || QuantityError::new(input, "is not a list of cores; write it like 0,2 or 0-3");
    let mut cores = Vec::new();
    for (first, last) in ranges(input).ok_or_else(expected)? {
        if last >= 4096 {
            return Err(expected());
        }
        for core in first..=last {
            if !cores.contains(&(core as usize)) {
                cores.push(core as usize);
            }
        }
    }
    Ok(cores)
}

/// Splits a number, with at most one decimal point, from the unit that follows it.
fn split_number(input: &str) -> Option<(f64, &str)> {
    let end = input
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(input.len());
    let number: f64 = input[..end].parse().ok()?;
    Some((number, &input[end..]))
}

/// Parses a list of ranges such as `0-3,6`.
pub fn ranges(input: &str) -> Option<Vec<(u64, u64)>> {
    input
        .split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            (first <= last).then_some((first, last))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(time("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(time("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(time("250us"), Ok(Duration::from_micros(250)));
        assert_eq!(time("2"), Ok(Duration::from_secs(2)));
        assert_eq!(time("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("1h2m3s500ms"), Ok(Duration::from_millis(3_723_500)));
        assert_eq!(time("1.5min1µs"), Ok(Duration::from_micros(90_000_001)));
        for bad in [
            "", "s", "-1s", "1x", "1e9s", "..s", "9999999h", "1 s", "é", "1m30", "30s1m", "1s1s",
            "1m 30s", "1m-30s", "1m30s.", "30s5",
        ] {
            assert!(time(bad).is_err(), "{bad}");
        }
        assert!(positive_time("0s").is_err());
        for text in ["0s", "90s", "1500ms", "250us", "0.500us"] {
            assert_eq!(time_text(time(text).unwrap()), text);
        }
    }

    #[test]
    fn sizes_and_counts() {
        assert_eq!(size("1K"), Ok(1024));
        assert_eq!(size("10M"), Ok(10 << 20));
        assert!(size("99999999999G").is_err());
        assert!(size("1Q").is_err());
        assert_eq!(count("1,000"), Ok(1000));
        assert_eq!(count("10k"), Ok(10_000));
        for bad in ["0", "", "-1", "1.5", "kk", "99999999999999999999"] {
            assert!(count(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn rates() {
        assert_eq!(rate("20k"), Ok(20_000.0));
        assert_eq!(rate("90/m"), Ok(1.5));
        for bad in ["0", "", "nan", "inf", "-5", "1e99", "5/h"] {
            assert!(rate(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn lists() {
        assert_eq!(cores("0-2,5,1"), Ok(vec![0, 1, 2, 5]));
        for bad in ["", "a", "3-1", "0,", "0-99999999999"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn ages_bytes_bits_and_percentages() {
        assert_eq!(age("2d"), Ok(Duration::from_secs(172_800)));
        assert_eq!(age("90m"), Ok(Duration::from_secs(5_400)));
        assert_eq!(age("1.5d"), Ok(Duration::from_secs(129_600)));
        assert_eq!(age("1d12h30m"), Ok(Duration::from_secs(131_400)));
        for bad in ["", "d", "-1d", "1w", "infd", "NaNd", "1d12", "1d2d"] {
            assert!(age(bad).is_err(), "{bad}");
        }
        assert_eq!(bytes("1.5MiB"), Some(1_572_864.0));
        assert_eq!(bytes("100MB"), Some(104_857_600.0));
        assert_eq!(
            (size("0.5"), bytes("1TB")),
            (
                Err(QuantityError::new(
                    "0.5",
                    "is not a size; write it like 512, 1K or 10M"
                )),
                None
            )
        );
        assert_eq!(bit_rate("2.5 gbit"), Some(2.5e9));
        assert_eq!((bit_rate("100"), bit_rate("1kbps")), (None, None));
        assert_eq!((percent("2%"), percent("1.5 %")), (Some(0.02), Some(0.015)));
        for bad in ["2", "-2%", "1e3%", "%"] {
            assert_eq!(percent(bad), None, "{bad}");
        }
    }
}
