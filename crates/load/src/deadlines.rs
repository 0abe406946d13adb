//! Deadlines that are all equally far away: a doubly linked list through the slots.
//!
//! Every request has the same timeout, so the one that began first is the first to run out. Adding
//! and taking out cost a few writes, allocate nothing, and leave nothing behind for requests that
//! end in time.

use prony_record::Nanos;

const NONE: u32 = u32::MAX;
/// In the place of what is before a slot that is not in the list.
const UNLISTED: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
    at: Nanos,
}

/// The deadlines of up to as many slots as it was made for.
pub(crate) struct Deadlines {
    links: Vec<Link>,
    first: u32,
    last: u32,
}

impl Deadlines {
    pub(crate) fn new(slots: usize) -> Deadlines {
        let link = Link {
            before: UNLISTED,
            after: NONE,
            at: Nanos::MAX,
        };
        Deadlines {
            links: vec![link; slots],
            first: NONE,
            last: NONE,
        }
    }

    /// Sets the slot's deadline, which may not be earlier than any that is listed.
    pub(crate) fn set(&mut self, slot: u32, at: Nanos) {
        self.clear(slot);
        let before = self.last;
        self.links[slot as usize] = Link {
            before,
            after: NONE,
            at,
        };
        match before {
            NONE => self.first = slot,
            before => self.links[before as usize].after = slot,
        }
        self.last = slot;
    }

    /// Takes the slot's deadline out, if it has one.
    pub(crate) fn clear(&mut self, slot: u32) {
        let link = self.links[slot as usize];
        if link.before == UNLISTED {
            return;
        }
        self.links[slot as usize].before = UNLISTED;
        match link.before {
            NONE => self.first = link.after,
            before => self.links[before as usize].after = link.after,
        }
        match link.after {
            NONE => self.last = link.before,
            after => self.links[after as usize].before = link.before,
        }
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Nanos {
        match self.first {
            NONE => Nanos::MAX,
            first => self.links[first as usize].at,
        }
    }

    /// Takes out and gives a slot whose deadline has come.
    pub(crate) fn expired(&mut self, now: Nanos) -> Option<u32> {
        let slot = self.first;
        if self.next() > now {
            return None;
        }
        self.clear(slot);
        Some(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn agrees_with_a_plain_queue_under_random_operations() {
        let mut list = Deadlines::new(8);
        let mut plain: VecDeque<(u32, u64)> = VecDeque::new();
        let mut random = 12345u64;
        for now in 0..20_000u64 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let slot = (random >> 33) as u32 % 8;
            match (random >> 60) % 3 {
                0 => {
                    plain.retain(|&(s, _)| s != slot);
                    plain.push_back((slot, now + 20));
                    list.set(slot, Nanos(now + 20));
                }
                1 => {
                    plain.retain(|&(s, _)| s != slot);
                    list.clear(slot);
                }
                _ => {
                    let due = plain.front().filter(|&&(_, at)| at <= now).map(|&(s, _)| s);
                    assert_eq!(list.expired(Nanos(now)), due);
                    if due.is_some() {
                        plain.pop_front();
                    }
                }
            }
            let next = plain.front().map_or(Nanos::MAX, |&(_, at)| Nanos(at));
            assert_eq!(list.next(), next);
        }
    }
}
