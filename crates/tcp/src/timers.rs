//! Timers of connections: a hashed wheel (Varghese and Lauck, 1987, scheme 6).
//!
//! An entry is a reminder to check a connection, not the deadline itself. Each exchange usually
//! postpones the connection's deadline. The entry then stays where it is, and the connection is
//! scheduled again when the entry expires. An exchange in the steady state therefore doesn't touch
//! the wheel.

/// Width of a slot: 2²² ns, about 4 ms.
const SLOT_BITS: u32 = 22;
/// Number of slots. Deadlines beyond the last slot use that slot, and are scheduled again when it
/// expires.
const SLOTS: u64 = 1024;
/// Maximum number of entries for which an expired slot keeps its memory. Without this limit, every
/// slot would eventually hold as much memory as the fullest one.
const KEPT_ENTRIES: usize = 32;

/// An entry of the wheel: a connection whose deadline may have passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reminder {
    pub(crate) index: u32,
    pub(crate) generation: u32,
    /// Index of the slot, counted from time zero.
    pub(crate) slot: u64,
}

#[derive(Debug)]
pub(crate) struct TimerWheel {
    slots: Vec<Vec<Reminder>>,
    /// A bit for each slot that has entries.
    occupied: [u64; (SLOTS / 64) as usize],
    /// All slots below this number have expired.
    current: u64,
}

impl TimerWheel {
    pub(crate) fn new(now: u64) -> TimerWheel {
        TimerWheel {
            slots: (0..SLOTS).map(|_| Vec::new()).collect(),
            occupied: [0; (SLOTS / 64) as usize],
            current: now >> SLOT_BITS,
        }
    }

    /// Returns the slot for a deadline. The slot ends at or after the deadline, unless the deadline
    /// is beyond the last slot.
    pub(crate) fn slot_for(&self, deadline: u64) -> u64 {
        (deadline >> SLOT_BITS).clamp(self.current, self.current + SLOTS - 1)
    }

    /// Adds an entry to its slot, which [`TimerWheel::slot_for`] returned.
    pub(crate) fn insert(&mut self, reminder: Reminder) {
        let at = (reminder.slot % SLOTS) as usize;
        self.occupied[at / 64] |= 1 << (at % 64);
        self.slots[at].push(reminder);
    }

    /// Returns the end of the first slot with entries.
    pub(crate) fn next_expiry(&self) -> Option<u64> {
        let mut offset = 0;
        while offset < SLOTS {
            let at = ((self.current + offset) % SLOTS) as usize;
            let word = self.occupied[at / 64] >> (at % 64);
            if word != 0 {
                let slot = self.current + offset + u64::from(word.trailing_zeros());
                return Some((slot + 1) << SLOT_BITS);
            }
            offset += 64 - (at % 64) as u64;
        }
        None
    }

    /// Moves all entries of expired slots to `expired`.
    pub(crate) fn expire(&mut self, now: u64, expired: &mut Vec<Reminder>) {
        while let Some(end) = self.next_expiry().filter(|end| *end <= now) {
            let slot = (end >> SLOT_BITS) - 1;
            let at = (slot % SLOTS) as usize;
            self.occupied[at / 64] &= !(1 << (at % 64));
            expired.append(&mut self.slots[at]);
            if self.slots[at].capacity() > KEPT_ENTRIES {
                self.slots[at] = Vec::new();
            }
            self.current = slot + 1;
        }
        self.current = self.current.max(now >> SLOT_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_expire_at_the_end_of_their_slot_and_never_early() {
        let mut wheel = TimerWheel::new(0);
        let deadlines: Vec<u64> = (0..500).map(|n| n * 7_777_777).collect();
        for (index, deadline) in deadlines.iter().enumerate() {
            let slot = wheel.slot_for(*deadline);
            wheel.insert(Reminder {
                index: index as u32,
                generation: 0,
                slot,
            });
        }
        let mut seen = Vec::new();
        while let Some(at) = wheel.next_expiry() {
            let mut expired = Vec::new();
            wheel.expire(at, &mut expired);
            for entry in expired {
                let deadline = deadlines[entry.index as usize];
                assert!(at > deadline && at - deadline <= 2 << SLOT_BITS);
                seen.push(entry.index);
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (0..500).collect::<Vec<u32>>());
    }

    #[test]
    fn far_deadlines_are_clamped_and_the_wheel_jumps_over_long_pauses() {
        let mut wheel = TimerWheel::new(0);
        assert_eq!(wheel.slot_for(u64::MAX), SLOTS - 1);
        wheel.insert(Reminder {
            index: 1,
            generation: 0,
            slot: SLOTS - 1,
        });
        let mut expired = Vec::new();
        wheel.expire(1 << 50, &mut expired);
        assert_eq!(expired.len(), 1);
        assert_eq!(wheel.next_expiry(), None);
        assert_eq!(wheel.slot_for(0), 1 << (50 - SLOT_BITS));
    }
}
