//! Times at which recorded requests are due.
//!
//! The first request is due at 0, and each other one as long after it as in the log, divided by the
//! speed. Requests stay in the order of the file:
//!
//! - A time that is earlier than that of a line before, by at most [`BACK_MAX_NS`], is replaced by
//!   the latest time so far. Servers write a line when its response ends, so lines with the times
//!   of requests' beginnings are slightly out of order.
//! - After a greater step back, as between two files that were concatenated, and after a pause
//!   longer than [`PAUSE_MAX_NS`], the log continues without a pause.
//! - *n* requests in a row with the same whole second are spread evenly: request *i* (from 0) is due
//!   at *i*/*n* of the second. If they are more than [`GROUP_MAX`], the rest is due at its end.

use prony_record::Nanos;

use super::stamp::Stamp;

/// Maximum step back that keeps the time.
const BACK_MAX_NS: i64 = 60 * SECOND;
/// Maximum length of a pause.
const PAUSE_MAX_NS: i64 = 3_600 * SECOND;
/// Maximum number of requests that are spread over a second together.
pub(super) const GROUP_MAX: usize = 65_536;
const SECOND: i64 = 1_000_000_000;

/// Places the times of a log on the clock of the load.
#[derive(Debug)]
pub(super) struct Timeline {
    speed: f64,
    /// Time of the log at which the load's clock would be 0; `None` before the first request.
    origin: Option<i64>,
    /// Latest time so far, since the origin.
    latest: i64,
    /// Number of times that were replaced by a later one.
    pub(super) set_forward: u64,
    /// Number of times after which the log continued without its pause or step back.
    pub(super) jumps: u64,
}

/// Place of a request on the timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The request is due at this time of the log.
    At(i64),
    /// The request is due in the second that begins at this time of the log.
    Within(i64),
}

impl Timeline {
    pub(super) fn new(speed: f64) -> Timeline {
        Timeline {
            speed,
            origin: None,
            latest: 0,
            set_forward: 0,
            jumps: 0,
        }
    }

    /// Returns the place of the next request of the file.
    pub(super) fn place(&mut self, stamp: Stamp) -> Place {
        let origin = *self.origin.get_or_insert(stamp.ns);
        let mut at = stamp.ns.saturating_sub(origin);
        let step = at - self.latest;
        if !(-BACK_MAX_NS..=PAUSE_MAX_NS).contains(&step) {
            self.jumps += 1;
            self.origin = Some(stamp.ns.saturating_sub(self.latest));
            at = self.latest;
        } else if step < 0 {
            self.set_forward += 1;
            at = self.latest;
        }
        self.latest = at;
        if stamp.is_whole {
            Place::Within(at)
        } else {
            Place::At(at)
        }
    }

    /// Returns the due time of a time of the log.
    pub(super) fn due(&self, at: i64) -> Nanos {
        Nanos((at as f64 / self.speed) as u64)
    }

    /// Returns the due time of request `index` of `count` in the second that begins at `at`.
    pub(super) fn due_within(&self, at: i64, index: usize, count: usize) -> Nanos {
        let share = index as i64 * SECOND / count.max(1) as i64;
        self.due(at + share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn precise(ms: i64) -> Stamp {
        Stamp {
            ns: 1_000 * SECOND + ms * 1_000_000,
            is_whole: false,
        }
    }

    fn ms(place: Place) -> i64 {
        let (Place::At(ns) | Place::Within(ns)) = place;
        ns / 1_000_000
    }

    #[test]
    fn times_go_forward_only() {
        let mut line = Timeline::new(1.0);
        for (at, expected) in [
            (5, 0),
            (25, 20),
            (15, 20),
            (45, 40),
            // An hour earlier, as from another file.
            (-3_600_000, 40),
            (-3_599_990, 50),
            // Two hours without requests.
            (3_600_010, 50),
            (3_600_011, 51),
        ] {
            assert_eq!(ms(line.place(precise(at))), expected, "{at}");
        }
        assert_eq!((line.set_forward, line.jumps), (1, 2));
    }

    #[test]
    fn extreme_times_do_not_overflow() {
        let mut line = Timeline::new(0.001);
        for ns in [i64::MAX, i64::MIN, 0, i64::MAX] {
            let stamp = Stamp { ns, is_whole: true };
            let Place::Within(at) = line.place(stamp) else {
                panic!("{ns}");
            };
            assert!(at >= 0);
        }
    }

    #[test]
    fn a_second_is_divided_evenly_and_the_speed_divides_all_times() {
        let mut line = Timeline::new(2.0);
        let whole = |seconds: i64| Stamp {
            ns: seconds * SECOND,
            is_whole: true,
        };
        assert_eq!(line.place(whole(7)), Place::Within(0));
        assert_eq!(line.place(whole(9)), Place::Within(2 * SECOND));
        let due: Vec<u64> = (0..4)
            .map(|i| line.due_within(2 * SECOND, i, 4).0)
            .collect();
        assert_eq!(
            due,
            [1_000_000_000, 1_125_000_000, 1_250_000_000, 1_375_000_000]
        );
    }
}
