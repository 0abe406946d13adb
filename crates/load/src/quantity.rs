//! Parsers of typed quantities: times, sizes, lists of statuses and cores.
//!
//! Each parser returns the value, or a message that describes the expected form. The caller knows
//! the flag's name and adds it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A time such as `500ms`, `30s`, `5m`, `1h`, `250us`; a bare number means seconds.
pub fn time(typed: &str) -> Result<Duration, String> {
    let expected = || format!("\"{typed}\" is not a time; write it like 500ms, 30s or 5m");
    let (number, unit) = split_number(typed).ok_or_else(expected)?;
    let seconds_each = match unit {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(expected()),
    };
    let seconds = number * seconds_each;
    if seconds > 365.0 * 86_400.0 {
        return Err(format!("\"{typed}\" is longer than a year"));
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| expected())
}

/// A time that may not be zero.
pub fn positive_time(typed: &str) -> Result<Duration, String> {
    match time(typed)? {
        Duration::ZERO => Err("a time above zero is needed".to_owned()),
        time => Ok(time),
    }
}

/// A time as [`time`] reads it, in the largest unit that leaves no fraction: `30s`, `500ms`, `0.5us`.
pub fn time_text(time: Duration) -> String {
    match time.as_nanos() {
        ns if ns % 1_000_000_000 == 0 => format!("{}s", ns / 1_000_000_000),
        ns if ns % 1_000_000 == 0 => format!("{}ms", ns / 1_000_000),
        ns if ns % 1_000 == 0 => format!("{}us", ns / 1_000),
        ns => format!("{}.{:03}us", ns / 1_000, ns % 1_000),
    }
}

/// A size in bytes such as `512`, `1K` (1,024), `10M`, `1G`.
pub fn size(typed: &str) -> Result<u64, String> {
    let expected = || format!("\"{typed}\" is not a size; write it in bytes or like 1K, 10M");
    let digits = typed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor: u64 = match &typed[digits.len()..] {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "m" | "MiB" => 1 << 20,
        "G" | "g" | "GiB" => 1 << 30,
        _ => return Err(expected()),
    };
    let number: u64 = digits.parse().map_err(|_| expected())?;
    number.checked_mul(factor).ok_or_else(expected)
}

/// Highest rate that a load may request, in requests per second.
pub const HIGHEST_RATE_PER_S: f64 = 1e8;

/// A rate in requests per second: `1000`, `20k`, `0.5`, `1200/m`.
pub fn rate(typed: &str) -> Result<f64, String> {
    let expected =
        || format!("\"{typed}\" is not a rate; write requests a second like 1000 or 20k, or 90/m");
    let (number, unit) = split_number(typed).ok_or_else(expected)?;
    let rate = match unit {
        "" | "/s" => number,
        "k" | "K" => number * 1e3,
        "/m" => number / 60.0,
        _ => return Err(expected()),
    };
    if rate > 0.0 && rate <= HIGHEST_RATE_PER_S {
        Ok(rate)
    } else {
        Err(expected())
    }
}

/// A count of at least one, with an optional `k` or `M` (thousands, millions).
pub fn count(typed: &str) -> Result<u64, String> {
    let expected = || format!("\"{typed}\" is not a count; a whole number above zero is needed");
    let digits = typed.trim_end_matches(['k', 'K', 'M']);
    let factor: u64 = match &typed[digits.len()..] {
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

/// A list of cores such as `0`, `0,2` or `0-3,6`, in the order given, without repeats.
pub fn cores(typed: &str) -> Result<Vec<usize>, String> {
    let expected = || format!("\"{typed}\" is not a list of cores; write it like 0,2 or 0-3");
    let mut cores = Vec::new();
    for (first, last) in ranges(typed).ok_or_else(expected)? {
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

/// A set of statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

impl StatusSet {
    /// Every status.
    pub fn all() -> StatusSet {
        StatusSet(vec![(0, u16::MAX)])
    }

    /// Successes and redirects: 200 to 399.
    pub fn success() -> StatusSet {
        StatusSet(vec![(200, 399)])
    }

    /// Returns true if `status` belongs to the set.
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|&(first, last)| (first..=last).contains(&status))
    }
}

impl fmt::Display for StatusSet {
    /// Formats the list as [`statuses`] reads it: `200-399,404`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, &(first, last)) in self.0.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            match first == last {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for StatusSet {
    type Err = String;

    fn from_str(typed: &str) -> Result<StatusSet, String> {
        statuses(typed)
    }
}

/// A list of statuses such as `200`, `200,304` or `200-399,404`.
pub fn statuses(typed: &str) -> Result<StatusSet, String> {
    let expected = || format!("\"{typed}\" is not a list of statuses; write it like 200-399,404");
    let ranges = ranges(typed).ok_or_else(expected)?;
    if ranges
        .iter()
        .any(|&(first, last)| first < 100 || last > 999)
    {
        return Err(expected());
    }
    Ok(StatusSet(
        ranges.iter().map(|&(a, b)| (a as u16, b as u16)).collect(),
    ))
}

/// The bytes of a SHA-256 written in hexadecimal.
pub fn sha256(typed: &str) -> Result<[u8; 32], String> {
    let expected = || format!("\"{typed}\" is not a SHA-256; 64 hexadecimal digits are needed");
    let digits: Option<Vec<u8>> = typed
        .chars()
        .map(|c| c.to_digit(16).and_then(|d| u8::try_from(d).ok()))
        .collect();
    let digits = digits
        .filter(|digits| digits.len() == 64)
        .ok_or_else(expected)?;
    let mut hash = [0; 32];
    for (byte, pair) in hash.iter_mut().zip(digits.chunks(2)) {
        *byte = pair[0] << 4 | pair[1];
    }
    Ok(hash)
}

fn split_number(typed: &str) -> Option<(f64, &str)> {
    let end = typed
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(typed.len());
    let number: f64 = typed[..end].parse().ok()?;
    Some((number, &typed[end..]))
}

fn ranges(typed: &str) -> Option<Vec<(u64, u64)>> {
    typed
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
        for bad in ["", "s", "-1s", "1x", "1e9s", "..s", "9999999h", "1 s", "é"] {
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
        let set = statuses("200-299,404").unwrap();
        assert!(set.contains(204) && set.contains(404) && !set.contains(304));
        for bad in ["", "20", "2000", "200-"] {
            assert!(statuses(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn hashes() {
        assert_eq!(sha256(&"0f".repeat(32)), Ok([0x0f; 32]));
        assert!(sha256("0f").is_err());
        assert!(sha256(&"é".repeat(32)).is_err());
    }
}
