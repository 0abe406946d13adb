//! How far two machines' clocks are apart, and how well that is known.
//!
//! Each machine counts nanoseconds since some moment of its own, on a clock that nobody sets. An
//! exchange is four readings: here when the question left, there when it came and when the answer left,
//! here when the answer came. Whatever the two ways took, the offset is known to within half of what
//! they took together (RFC 5905 §8), so the exchange with the shortest round trip says most; no average
//! over worse ones makes it better.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// How much faster one machine's clock may run than another's: crystals are within 50 millionths, and
/// there are two.
const DRIFT: f64 = 100e-6;

/// How often two clocks are read to find the same moment on both.
const READINGS: usize = 5;

/// The environment variable that sets an agent's clock off, in nanoseconds, so that tests on one machine
/// have several clocks. `N,M@MS` adds M more when MS milliseconds have passed.
const SET_OFF: &str = "PRONY_CLOCK_OFFSET_NS";

/// Where Linux names the time since it was started.
const SYSTEM_STARTED: &str = "/proc/sys/kernel/random/boot_id";

/// A name that no other process has.
fn of_this_process() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_ns = since.unwrap_or_default().as_nanos();
        format!("process {} {since_ns}", std::process::id())
    })
}

/// This machine's clock: nanoseconds since some moment of its own. Clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    set_off: Arc<AtomicI64>,
    /// When it jumps, and by how much.
    jump: Option<(Instant, i64)>,
}

impl Clock {
    /// The machine's, set off as the environment says, which it does in tests alone.
    pub fn new() -> Clock {
        Clock::set_off_as(&std::env::var(SET_OFF).unwrap_or_default())
    }

    fn set_off_as(text: &str) -> Clock {
        let (ns, jump) = text.split_once(',').unwrap_or((text, ""));
        let jump = jump.split_once('@').and_then(|(more, ms)| {
            let after = Duration::from_millis(ms.parse().ok()?);
            Some((Instant::now() + after, more.parse().ok()?))
        });
        Clock {
            set_off: Arc::new(AtomicI64::new(ns.parse().unwrap_or(0))),
            jump,
        }
    }

    /// Sets it off by so much more, as a machine does that was asleep.
    pub fn shift(&self, ns: i64) {
        self.set_off.fetch_add(ns, Ordering::Relaxed);
    }

    /// What it shows.
    pub fn now(&self) -> i64 {
        let time = clock_gettime(ClockId::Monotonic);
        let shown = time.tv_sec.saturating_mul(1_000_000_000) + time.tv_nsec;
        shown.saturating_add(self.off_by())
    }

    /// The moment at which it shows `at`. Both this and the standard library's moments count on the
    /// system's monotonic clock.
    pub fn moment(&self, at: i64) -> Instant {
        let (now, shown) = self.both();
        let apart = Duration::from_nanos(at.abs_diff(shown));
        let moment = match at >= shown {
            true => now.checked_add(apart),
            false => now.checked_sub(apart),
        };
        moment.unwrap_or(now)
    }

    /// The same moment on both. Whoever reads one after the other may be held up in between, for
    /// milliseconds where others want the core: of a few tries the quickest counts.
    fn both(&self) -> (Instant, i64) {
        let tries = (0..READINGS).map(|_| {
            let (before, shown) = (Instant::now(), self.now());
            (before.elapsed(), before, shown)
        });
        let quickest = tries.min_by_key(|(took, ..)| *took);
        quickest.map_or_else(
            || (Instant::now(), self.now()),
            |(_, before, shown)| (before, shown),
        )
    }

    /// Names it: whoever is told the same name has a clock that shows the same. Where the system has no
    /// name for the time since it was started, it is one of this process alone.
    pub fn identity(&self) -> String {
        let started = std::fs::read_to_string(SYSTEM_STARTED).ok();
        let started = started.unwrap_or_else(|| of_this_process().to_owned());
        format!("{}{:+}", started.trim(), self.off_by())
    }

    fn off_by(&self) -> i64 {
        let jumped = self.jump.filter(|(when, _)| Instant::now() >= *when);
        let jumped = jumped.map_or(0, |(_, more)| more);
        self.set_off.load(Ordering::Relaxed).saturating_add(jumped)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// What is answered to a question for the time, whatever that question says: when it came and when the
/// answer left, on the answerer's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The question came.
    pub heard: i64,
    /// The answer leaves.
    pub answered: i64,
}

impl Told {
    /// As it is sent: both, eight bytes each, the highest first.
    pub fn to_bytes(self) -> [u8; 16] {
        let both = u128::from(self.heard as u64) << 64 | u128::from(self.answered as u64);
        both.to_be_bytes()
    }

    /// What was sent; none where it is something else.
    pub fn of_bytes(bytes: &[u8]) -> Option<Told> {
        let both = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(Told {
            heard: (both >> 64) as i64,
            answered: both as i64,
        })
    }
}

/// One exchange, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchange {
    /// Here: the question left.
    pub asked: i64,
    /// There: it came.
    pub heard: i64,
    /// There: the answer left.
    pub answered: i64,
    /// Here: it came.
    pub learned: i64,
}

/// An offset with its error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offset {
    /// That machine's clock less this one's, in nanoseconds.
    pub ns: i64,
    /// It is wrong by this much at most, as long as no clock was changed: half a round trip.
    pub bound_ns: u64,
    /// This machine's clock when it was found.
    pub at: i64,
}

impl Exchange {
    /// What the two ways took together; none where the readings contradict each other.
    fn round_trip(&self) -> Option<i64> {
        let there = self.answered.checked_sub(self.heard)?;
        let whole = self.learned.checked_sub(self.asked)?;
        (there >= 0 && whole >= there).then(|| whole - there)
    }

    fn offset(&self) -> Option<Offset> {
        let round_trip = self.round_trip()?;
        let out = i128::from(self.heard) - i128::from(self.asked);
        let back = i128::from(self.answered) - i128::from(self.learned);
        Some(Offset {
            ns: i64::try_from((out + back) / 2).ok()?,
            bound_ns: round_trip.unsigned_abs().div_ceil(2),
            at: self.learned,
        })
    }
}

impl Offset {
    /// What the best of these exchanges says; none where no exchange says anything.
    pub fn best(exchanges: &[Exchange]) -> Option<Offset> {
        let offsets = exchanges.iter().filter_map(Exchange::offset);
        offsets.min_by_key(|offset| offset.bound_ns)
    }

    /// The moment on that machine's clock that is `here` on this one's.
    pub fn there(&self, here: i64) -> i64 {
        here.saturating_add(self.ns)
    }

    /// The moment on this machine's clock that is `there` on that one's.
    pub fn here(&self, there: i64) -> i64 {
        there.saturating_sub(self.ns)
    }

    /// By how much a later offset of the same machine differs beyond what both errors and the drift of
    /// two good clocks explain; 0 where they agree.
    pub fn disagreement_ns(&self, later: &Offset) -> u64 {
        let apart = later.ns.abs_diff(self.ns);
        let drift = later.at.abs_diff(self.at) as f64 * DRIFT;
        let explained = self
            .bound_ns
            .saturating_add(later.bound_ns)
            .saturating_add(drift as u64);
        apart.saturating_sub(explained)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exchange at `asked` with a machine whose clock is `offset` ahead.
    fn exchange(asked: i64, offset: i64, out: i64, there: i64, back: i64) -> Exchange {
        let heard = asked + out + offset;
        Exchange {
            asked,
            heard,
            answered: heard + there,
            learned: asked + out + there + back,
        }
    }

    #[test]
    fn a_clock_can_be_set_off_and_can_jump() {
        let true_clock = Clock::set_off_as("");
        let ahead = |clock: &Clock| clock.now() - true_clock.now();
        let set_off = Clock::set_off_as("-5000000000");
        assert!((ahead(&set_off) + 5_000_000_000).abs() < 1_000_000_000);
        set_off.clone().shift(20_000_000_000);
        assert!((ahead(&set_off) - 15_000_000_000).abs() < 1_000_000_000);
        let jumped = Clock::set_off_as("0,40000000000@0");
        assert!((ahead(&jumped) - 40_000_000_000).abs() < 1_000_000_000);
        let later = Clock::set_off_as("7,40000000000@3600000");
        assert!(ahead(&later).abs() < 1_000_000_000);
        let moment = set_off.moment(set_off.now() + 3_600_000_000_000);
        let until = moment.saturating_duration_since(Instant::now());
        assert!(until > Duration::from_secs(3_590) && until <= Duration::from_secs(3_600));
    }

    #[test]
    fn a_clock_has_the_name_of_what_it_shows() {
        let name = Clock::set_off_as("").identity();
        assert_eq!(Clock::set_off_as("0").identity(), name);
        assert_ne!(Clock::set_off_as("-5").identity(), name);
        assert_eq!(of_this_process(), of_this_process());
    }

    #[test]
    fn what_is_told_is_understood() {
        for (heard, answered) in [(0, 1), (-1, i64::MAX), (i64::MIN, -7)] {
            let told = Told { heard, answered };
            assert_eq!(Told::of_bytes(&told.to_bytes()), Some(told));
        }
        assert_eq!(Told::of_bytes(b"8 bytes."), None);
    }

    #[test]
    fn the_shortest_round_trip_says_most() {
        let exchanges = [
            exchange(0, 5_000, 900, 50, 100),
            exchange(2_000, 5_000, 100, 7_000, 120),
            exchange(20_000, 5_000, 100, 50, 3_000),
        ];
        let best = Offset::best(&exchanges).unwrap();
        assert_eq!((best.ns, best.bound_ns), (4_990, 110));
        assert_eq!(best.there(1), 4_991);
        assert_eq!(best.here(4_991), 1);
    }

    #[test]
    fn the_truth_is_always_within_the_bound() {
        for out in (0..1_000).step_by(37) {
            for back in (0..1_000).step_by(41) {
                for offset in [-7_000_000_000_i64, -1, 0, 3, 9_000_000_000] {
                    let best = Offset::best(&[exchange(5, offset, out, 3, back)]).unwrap();
                    assert!(best.ns.abs_diff(offset) <= best.bound_ns, "{out} {back}");
                }
            }
        }
    }

    #[test]
    fn readings_that_contradict_each_other_say_nothing() {
        let backwards = Exchange {
            asked: 10,
            heard: 5,
            answered: 4,
            learned: 12,
        };
        let longer_there_than_in_all = Exchange {
            answered: 100,
            ..backwards
        };
        let beyond = Exchange {
            asked: i64::MIN,
            heard: 0,
            answered: 0,
            learned: i64::MAX,
        };
        assert_eq!(
            Offset::best(&[backwards, longer_there_than_in_all, beyond]),
            None
        );
        assert_eq!(Offset::best(&[]), None);
    }

    #[test]
    fn drift_is_no_disagreement_and_a_step_is() {
        let offset = |ns, at| Offset {
            ns,
            bound_ns: 1_000,
            at,
        };
        let before = offset(500, 0);
        let minute = 60_000_000_000;
        assert_eq!(before.disagreement_ns(&offset(500 + 5_000_000, minute)), 0);
        let stepped = before.disagreement_ns(&offset(500 + 20_000_000, minute));
        assert!((13_000_000..15_000_000).contains(&stepped), "{stepped}");
        assert!(before.disagreement_ns(&offset(-20_000_000, minute)) > 0);
    }
}
