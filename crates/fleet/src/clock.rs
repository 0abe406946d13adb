//! How far two machines' clocks are apart, and how well that is known.
//!
//! Each machine counts nanoseconds since some moment of its own, on a clock that nobody sets. An
//! exchange is four readings: here when the question left, there when it came and when the answer left,
//! here when the answer came. Whatever the two ways took, the offset is known to within half of what
//! they took together (RFC 5905 §8), so the exchange with the shortest round trip says most; no average
//! over worse ones makes it better.

use serde::{Deserialize, Serialize};

/// How much faster one machine's clock may run than another's: crystals are within 50 millionths, and
/// there are two.
const DRIFT: f64 = 100e-6;

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
