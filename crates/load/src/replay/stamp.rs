//! Times in logs.

/// Nanoseconds per second.
const SECOND: i64 = 1_000_000_000;

/// A time in a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    /// Nanoseconds since 1970.
    pub(crate) ns: i64,
    /// True if the log has whole seconds only.
    pub(crate) is_whole: bool,
}

impl Stamp {
    fn new(seconds: i64, fraction_ns: Option<i64>) -> Option<Stamp> {
        let ns = seconds.checked_mul(SECOND)?;
        Some(Stamp {
            ns: ns.checked_add(fraction_ns.unwrap_or(0))?,
            is_whole: fraction_ns.is_none(),
        })
    }

    /// Adds a fraction of a second that is logged on its own, such as milliseconds.
    pub(super) fn with_fraction(self, count: i64, per_second: i64) -> Stamp {
        Stamp {
            ns: self.ns - self.ns.rem_euclid(SECOND) + count * (SECOND / per_second),
            is_whole: false,
        }
    }

    /// Parses any of the forms below.
    pub(super) fn parse(text: &[u8]) -> Option<Stamp> {
        match text.get(2).zip(text.get(4)) {
            Some((b'/', _)) => Stamp::common(text),
            Some((_, b'-')) => Stamp::iso(text),
            _ => Stamp::epoch(text),
        }
    }

    /// Parses the form of access logs: `10/Oct/2000:13:55:36 -0700`.
    pub(super) fn common(text: &[u8]) -> Option<Stamp> {
        const MONTHS: &[u8; 36] = b"JanFebMarAprMayJunJulAugSepOctNovDec";
        let name = text.get(3..6)?;
        let month = MONTHS.chunks(3).position(|month| month == name)? as i64 + 1;
        let (day, year) = (number(text.get(..2)?)?, number(text.get(7..11)?)?);
        let seconds = seconds_of(year, month, day, text.get(12..20)?)?;
        Stamp::new(seconds - zone(text.get(21..)?)?, None)
    }

    /// Parses ISO 8601: `2000-10-10T13:55:36-07:00`, also with a fraction, and with a space in
    /// place of the T. Without a zone, the time is UTC.
    fn iso(text: &[u8]) -> Option<Stamp> {
        let (year, month) = (number(text.get(..4)?)?, number(text.get(5..7)?)?);
        let seconds = seconds_of(year, month, number(text.get(8..10)?)?, text.get(11..19)?)?;
        let mut rest = text.get(19..)?;
        let mut fraction = None;
        if let [b'.' | b',', digits @ ..] = rest {
            let length = digits.iter().take_while(|it| it.is_ascii_digit()).count();
            fraction = Some(fraction_ns(&digits[..length])?);
            rest = &digits[length..];
        }
        Stamp::new(seconds - zone(rest)?, fraction)
    }

    /// Parses a number of seconds since 1970, also with a fraction, or of milliseconds, microseconds
    /// or nanoseconds. The size of the number determines the unit.
    pub(super) fn epoch(text: &[u8]) -> Option<Stamp> {
        let mut parts = text.splitn(2, |byte| *byte == b'.');
        let whole = number(parts.next()?)?;
        let fraction = parts.next().map(fraction_ns);
        if let Some(fraction) = fraction {
            return Stamp::new(whole, Some(fraction?));
        }
        // The digits of these units differ until the year 5138.
        let per_second = match text.len() {
            ..=11 => return Stamp::new(whole, None),
            12..=14 => 1_000,
            15..=17 => 1_000_000,
            _ => SECOND,
        };
        let rest = whole % per_second * (SECOND / per_second);
        Stamp::new(whole / per_second, Some(rest))
    }
}

/// Parses up to 19 digits.
pub(super) fn number(digits: &[u8]) -> Option<i64> {
    let is_number = (1..=19).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    let add = |sum: i64, digit: &u8| sum.checked_mul(10)?.checked_add(i64::from(digit - b'0'));
    is_number.then(|| digits.iter().try_fold(0, add)).flatten()
}

/// Returns the nanoseconds of the digits after the point. Digits after the ninth are ignored.
fn fraction_ns(digits: &[u8]) -> Option<i64> {
    let kept = &digits[..digits.len().min(9)];
    Some(number(kept)? * 10_i64.pow(9 - kept.len() as u32))
}

/// Returns the seconds since 1970 of a date with the time of day `HH:MM:SS`, as if in UTC.
fn seconds_of(year: i64, month: i64, day: i64, time: &[u8]) -> Option<i64> {
    let [h1, h2, b':', m1, m2, b':', s1, s2] = *time else {
        return None;
    };
    let (hour, minute) = (number(&[h1, h2])?, number(&[m1, m2])?);
    let second = number(&[s1, s2])?;
    let is_valid = (1..=12).contains(&month) && (1..=31).contains(&day);
    if !is_valid || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    // Days from the civil calendar, with years that begin in March.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + day_of_year - 719_468;
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Returns the seconds of a zone: `-0700`, `-07:00`, `Z` or nothing.
fn zone(text: &[u8]) -> Option<i64> {
    let (sign, rest) = match text {
        [] | [b'Z'] => return Some(0),
        [b'+', rest @ ..] => (1, rest),
        [b'-', rest @ ..] => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = match *rest {
        [h1, h2, b':', m1, m2] | [h1, h2, m1, m2] => (number(&[h1, h2])?, number(&[m1, m2])?),
        [h1, h2] => (number(&[h1, h2])?, 0),
        _ => return None,
    };
    Some(sign * (hours * 60 + minutes) * 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_form() {
        for (text, ns, is_whole) in [
            ("10/Oct/2000:13:55:36 -0700", 971_211_336 * SECOND, true),
            ("29/Feb/2024:00:00:00 +0000", 1_709_164_800 * SECOND, true),
            ("2000-10-10T13:55:36-07:00", 971_211_336 * SECOND, true),
            (
                "2000-10-10T20:55:36.25Z",
                971_211_336 * SECOND + 250_000_000,
                false,
            ),
            ("2000-10-10 20:55:36", 971_211_336 * SECOND, true),
            ("1700000000", 1_700_000_000 * SECOND, true),
            ("1700000000.123", 1_700_000_000_123_000_000, false),
            ("1700000000123", 1_700_000_000_123_000_000, false),
            ("1700000000123456", 1_700_000_000_123_456_000, false),
        ] {
            assert_eq!(
                Stamp::parse(text.as_bytes()),
                Some(Stamp { ns, is_whole }),
                "{text}"
            );
        }
    }

    #[test]
    fn other_text_is_no_time() {
        for text in [
            "",
            "-",
            "10/Foo/2000:13:55:36 -0700",
            "10/Oct/2000:13:55",
            "2000-13-10T13:55:36",
            "2000-10-10T13:55:36 PST",
            "1e9",
            "99999999999999999999",
            "9223372036854775807.5",
        ] {
            assert_eq!(Stamp::parse(text.as_bytes()), None, "{text}");
        }
    }
}
