//! Formats times in the user's time zone, for output that contains dates as in ab and siege.

use std::time::{Duration, SystemTime};

const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const MONTHS: [&str; 12] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
];

/// Function of the C library that converts seconds since 1970 to a calendar date.
type ToCalendar = unsafe extern "C" fn(*const libc::time_t, *mut libc::tm) -> *mut libc::tm;

/// Point in time as a date and a time of day.
#[derive(Clone, Copy)]
pub(crate) struct LocalTime(libc::tm);

impl LocalTime {
    /// Converts a time to the time zone that `TZ` names or, by default, to the system's time zone.
    pub(crate) fn of(time: SystemTime) -> LocalTime {
        LocalTime::by(libc::localtime_r, time)
    }

    /// Converts a time to UTC.
    #[cfg(test)]
    pub(crate) fn utc(time: SystemTime) -> LocalTime {
        LocalTime::by(libc::gmtime_r, time)
    }

    fn by(to_calendar: ToCalendar, time: SystemTime) -> LocalTime {
        let since = time.duration_since(SystemTime::UNIX_EPOCH);
        let seconds = since.as_ref().map_or(0, Duration::as_secs);
        let seconds = libc::time_t::try_from(seconds).unwrap_or_default();
        // SAFETY: `tm` consists of integers and a pointer, for which zero bytes are valid.
        let mut calendar: libc::tm = unsafe { std::mem::zeroed() };
        // SAFETY: both pointers are valid during the call, and the function doesn't keep them. If
        // it fails, `calendar` remains zero.
        unsafe { to_calendar(&raw const seconds, &raw mut calendar) };
        LocalTime(calendar)
    }

    /// Formats the time like `2026-11-22 06:05:07`.
    pub(crate) fn date_and_time(&self) -> String {
        let (year, month) = (self.0.tm_year + 1900, self.0.tm_mon + 1);
        format!(
            "{year:04}-{month:02}-{:02} {}",
            self.0.tm_mday,
            self.clock()
        )
    }

    /// Formats the time like `Sun Nov 02 06:04:18 2026`.
    pub(crate) fn as_ctime(&self) -> String {
        let month = name_at(&MONTHS, self.0.tm_mon);
        let (day, year) = (self.0.tm_mday, self.0.tm_year + 1900);
        format!(
            "{} {month} {day:02} {} {year}",
            self.weekday(),
            self.clock()
        )
    }

    /// Returns the abbreviated weekday, such as `Sun`.
    pub(crate) fn weekday(&self) -> &'static str {
        name_at(&WEEKDAYS, self.0.tm_wday)
    }

    fn clock(&self) -> String {
        let libc::tm {
            tm_hour,
            tm_min,
            tm_sec,
            ..
        } = self.0;
        format!("{tm_hour:02}:{tm_min:02}:{tm_sec:02}")
    }
}

fn name_at(names: &[&'static str], index: libc::c_int) -> &'static str {
    let index = usize::try_from(index).ok();
    index
        .and_then(|index| names.get(index))
        .copied()
        .unwrap_or("???")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_have_names_and_leading_zeros() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_793_600_007);
        let time = LocalTime::utc(time);
        assert_eq!(time.date_and_time(), "2026-11-02 06:13:27");
        assert_eq!(time.as_ctime(), "Mon Nov 02 06:13:27 2026");
    }
}
