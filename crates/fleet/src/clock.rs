//! Measures the offset between the clocks of two machines, with an error bound.
//!
//! Each machine reads nanoseconds from a monotonic clock, which is never set. An exchange yields
//! four readings: when this machine sends the request, when the other machine receives it, when the
//! other machine sends the reply, and when this machine receives the reply. The error of the offset
//! is at most half of the round trip, even if the two directions take different times (RFC 5905
//! §8). The exchange with the shortest round trip therefore has the smallest bound; averaging it
//! with longer ones would not help.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// Maximum relative drift between the clocks of two machines. This assumes that each crystal is off
/// by at most 50 parts per million.
const CLOCK_DRIFT_MAX: f64 = 100e-6;

/// Number of attempts to read two clocks at the same moment.
const READING_ATTEMPTS: usize = 5;

/// Environment variable that adds an offset in nanoseconds to an agent's clock. Tests use it to
/// simulate several clocks on one machine. The value `N,M@MS` adds N nanoseconds at first, and
/// another M after MS milliseconds.
const OFFSET_VARIABLE: &str = "PRONY_CLOCK_OFFSET_NS";

/// File in which Linux provides an identifier of the current boot.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Returns a name that is unique to this process.
fn process_name() -> &'static str {
    static NAME: OnceLock<String> = OnceLock::new();
    NAME.get_or_init(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let since_ns = since.unwrap_or_default().as_nanos();
        format!("process {} {since_ns}", std::process::id())
    })
}

/// Clock of this machine: nanoseconds since an arbitrary epoch. All clones show the same time.
#[derive(Debug, Clone)]
pub struct Clock {
    offset_ns: Arc<AtomicI64>,
    /// Simulated jump of the clock, for tests: its time, and its size in nanoseconds.
    jump: Option<(Instant, i64)>,
}

impl Clock {
    /// Creates this machine's clock. Tests can set an offset in the environment.
    pub fn new() -> Clock {
        Clock::with_offset(&std::env::var(OFFSET_VARIABLE).unwrap_or_default())
    }

    fn with_offset(text: &str) -> Clock {
        let (ns, jump) = text.split_once(',').unwrap_or((text, ""));
        let jump = jump.split_once('@').and_then(|(more, ms)| {
            let after = Duration::from_millis(ms.parse().ok()?);
            Some((Instant::now() + after, more.parse().ok()?))
        });
        Clock {
            offset_ns: Arc::new(AtomicI64::new(ns.parse().unwrap_or(0))),
            jump,
        }
    }

    /// Adds `ns` nanoseconds to the clock's offset. Tests use this to simulate a suspended machine.
    pub fn shift(&self, ns: i64) {
        self.offset_ns.fetch_add(ns, Ordering::Relaxed);
    }

    /// Returns the current time in nanoseconds.
    pub fn now(&self) -> i64 {
        let time = clock_gettime(ClockId::Monotonic);
        let shown = time.tv_sec.saturating_mul(1_000_000_000) + time.tv_nsec;
        shown.saturating_add(self.total_offset())
    }

    /// Converts a time on this clock to an instant. Both use the system's monotonic clock.
    pub fn moment(&self, at: i64) -> Instant {
        let (now, shown) = self.read_both();
        let apart = Duration::from_nanos(at.abs_diff(shown));
        let moment = if at >= shown {
            now.checked_add(apart)
        } else {
            now.checked_sub(apart)
        };
        moment.unwrap_or(now)
    }

    /// Reads both clocks at nearly the same time. The process may be interrupted between the two
    /// readings, so the fastest of several attempts is used.
    fn read_both(&self) -> (Instant, i64) {
        let tries = (0..READING_ATTEMPTS).map(|_| {
            let (before, shown) = (Instant::now(), self.now());
            (before.elapsed(), before, shown)
        });
        let quickest = tries.min_by_key(|(took, ..)| *took);
        quickest.map_or_else(
            || (Instant::now(), self.now()),
            |(_, before, shown)| (before, shown),
        )
    }

    /// Returns an identifier of the clock: clocks with the same identifier show the same time. If
    /// the system has no boot identifier, the identifier is unique to this process.
    pub fn identity(&self) -> String {
        let started = std::fs::read_to_string(BOOT_ID_PATH).ok();
        let started = started.unwrap_or_else(|| process_name().to_owned());
        format!("{}{:+}", started.trim(), self.total_offset())
    }

    fn total_offset(&self) -> i64 {
        let jumped = self.jump.filter(|(when, _)| Instant::now() >= *when);
        let jumped = jumped.map_or(0, |(_, more)| more);
        self.offset_ns
            .load(Ordering::Relaxed)
            .saturating_add(jumped)
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Reply to a clock request, with two readings of the replying machine's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReply {
    /// Time at which the request was received.
    pub received: i64,
    /// Time at which the reply was sent.
    pub sent: i64,
}

impl ClockReply {
    /// Encodes both readings, each as eight big-endian bytes.
    pub fn to_bytes(self) -> [u8; 16] {
        let both = u128::from(self.received as u64) << 64 | u128::from(self.sent as u64);
        both.to_be_bytes()
    }

    /// Decodes a reply. Returns `None` if the length is wrong.
    pub fn of_bytes(bytes: &[u8]) -> Option<ClockReply> {
        let both = u128::from_be_bytes(bytes.try_into().ok()?);
        Some(ClockReply {
            received: (both >> 64) as i64,
            sent: both as i64,
        })
    }
}

/// The four readings of one exchange, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockExchange {
    /// Time at which this machine sent the request.
    pub request_sent: i64,
    /// Time at which the other machine received the request.
    pub request_received: i64,
    /// Time at which the other machine sent the reply.
    pub reply_sent: i64,
    /// Time at which this machine received the reply.
    pub reply_received: i64,
}

/// Offset between two clocks, with its error bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockOffset {
    /// The other machine's clock minus this machine's, in nanoseconds.
    pub ns: i64,
    /// Error bound in nanoseconds: half a round trip.
    pub bound_ns: u64,
    /// Time of the measurement on this machine's clock.
    pub at: i64,
}

impl ClockExchange {
    /// Returns the time that request and reply spent on the network. Returns `None` if the readings
    /// contradict each other.
    fn round_trip(&self) -> Option<i64> {
        let there = self.reply_sent.checked_sub(self.request_received)?;
        let whole = self.reply_received.checked_sub(self.request_sent)?;
        (there >= 0 && whole >= there).then(|| whole - there)
    }

    fn offset(&self) -> Option<ClockOffset> {
        let round_trip = self.round_trip()?;
        let out = i128::from(self.request_received) - i128::from(self.request_sent);
        let back = i128::from(self.reply_sent) - i128::from(self.reply_received);
        Some(ClockOffset {
            ns: i64::try_from((out + back) / 2).ok()?,
            bound_ns: round_trip.unsigned_abs().div_ceil(2),
            at: self.reply_received,
        })
    }
}

impl ClockOffset {
    /// Returns the offset with the smallest error bound, or `None` if no exchange is valid.
    pub fn best(exchanges: &[ClockExchange]) -> Option<ClockOffset> {
        let offsets = exchanges.iter().filter_map(ClockExchange::offset);
        offsets.min_by_key(|offset| offset.bound_ns)
    }

    /// Converts a time on this machine's clock to the corresponding time on the other machine's
    /// clock.
    pub fn to_remote(&self, local: i64) -> i64 {
        local.saturating_add(self.ns)
    }

    /// Converts a time on the other machine's clock to the corresponding time on this machine's
    /// clock.
    pub fn to_local(&self, remote: i64) -> i64 {
        remote.saturating_sub(self.ns)
    }

    /// Compares this offset with a later one. Returns the part of their difference that error
    /// bounds and normal drift don't explain, in nanoseconds.
    pub fn disagreement_ns(&self, later: &ClockOffset) -> u64 {
        let apart = later.ns.abs_diff(self.ns);
        let drift = later.at.abs_diff(self.at) as f64 * CLOCK_DRIFT_MAX;
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

    /// Simulates an exchange with a machine whose clock is ahead by `offset`.
    fn exchange(request_sent: i64, offset: i64, out: i64, there: i64, back: i64) -> ClockExchange {
        let request_received = request_sent + out + offset;
        ClockExchange {
            request_sent,
            request_received,
            reply_sent: request_received + there,
            reply_received: request_sent + out + there + back,
        }
    }

    #[test]
    fn a_clock_can_have_an_offset_and_a_jump() {
        let true_clock = Clock::with_offset("");
        let ahead = |clock: &Clock| clock.now() - true_clock.now();
        let set_off = Clock::with_offset("-5000000000");
        assert!((ahead(&set_off) + 5_000_000_000).abs() < 1_000_000_000);
        set_off.clone().shift(20_000_000_000);
        assert!((ahead(&set_off) - 15_000_000_000).abs() < 1_000_000_000);
        let jumped = Clock::with_offset("0,40000000000@0");
        assert!((ahead(&jumped) - 40_000_000_000).abs() < 1_000_000_000);
        let later = Clock::with_offset("7,40000000000@3600000");
        assert!(ahead(&later).abs() < 1_000_000_000);
        let moment = set_off.moment(set_off.now() + 3_600_000_000_000);
        let until = moment.saturating_duration_since(Instant::now());
        assert!(until > Duration::from_secs(3_590) && until <= Duration::from_secs(3_600));
    }

    #[test]
    fn clocks_with_the_same_time_have_the_same_identity() {
        let name = Clock::with_offset("").identity();
        assert_eq!(Clock::with_offset("0").identity(), name);
        assert_ne!(Clock::with_offset("-5").identity(), name);
        assert_eq!(process_name(), process_name());
    }

    #[test]
    fn a_reply_can_be_encoded_and_decoded() {
        for (received, sent) in [(0, 1), (-1, i64::MAX), (i64::MIN, -7)] {
            let reply = ClockReply { received, sent };
            assert_eq!(ClockReply::of_bytes(&reply.to_bytes()), Some(reply));
        }
        assert_eq!(ClockReply::of_bytes(b"8 bytes."), None);
    }

    #[test]
    fn the_shortest_round_trip_has_the_smallest_bound() {
        let exchanges = [
            exchange(0, 5_000, 900, 50, 100),
            exchange(2_000, 5_000, 100, 7_000, 120),
            exchange(20_000, 5_000, 100, 50, 3_000),
        ];
        let best = ClockOffset::best(&exchanges).unwrap();
        assert_eq!((best.ns, best.bound_ns), (4_990, 110));
        assert_eq!(best.to_remote(1), 4_991);
        assert_eq!(best.to_local(4_991), 1);
    }

    #[test]
    fn the_truth_is_always_within_the_bound() {
        for out in (0..1_000).step_by(37) {
            for back in (0..1_000).step_by(41) {
                for offset in [-7_000_000_000_i64, -1, 0, 3, 9_000_000_000] {
                    let best = ClockOffset::best(&[exchange(5, offset, out, 3, back)]).unwrap();
                    assert!(best.ns.abs_diff(offset) <= best.bound_ns, "{out} {back}");
                }
            }
        }
    }

    #[test]
    fn contradictory_readings_give_no_offset() {
        let backwards = ClockExchange {
            request_sent: 10,
            request_received: 5,
            reply_sent: 4,
            reply_received: 12,
        };
        let longer_there_than_in_all = ClockExchange {
            reply_sent: 100,
            ..backwards
        };
        let beyond = ClockExchange {
            request_sent: i64::MIN,
            request_received: 0,
            reply_sent: 0,
            reply_received: i64::MAX,
        };
        assert_eq!(
            ClockOffset::best(&[backwards, longer_there_than_in_all, beyond]),
            None
        );
        assert_eq!(ClockOffset::best(&[]), None);
    }

    #[test]
    fn drift_is_tolerated_and_a_step_is_not() {
        let offset = |ns, at| ClockOffset {
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
