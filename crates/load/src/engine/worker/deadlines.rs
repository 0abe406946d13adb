//! Deadlines with the same timeout, kept in a doubly linked list within an array.
//!
//! Every request has the same timeout, so the request that began first expires first. Adding and
//! removing a deadline takes a few writes and allocates nothing. Requests that end in time leave no
//! entry behind.

use prony_record::Nanos;

const NONE: u32 = u32::MAX;
/// Value of `before` for an index that is not in the list.
const UNLISTED: u32 = u32::MAX - 1;

#[derive(Clone, Copy)]
struct DeadlineNode {
    before: u32,
    after: u32,
    at: Nanos,
}

/// A list of deadlines, each identified by an index.
pub(super) struct Deadlines {
    links: Vec<DeadlineNode>,
    first: u32,
    last: u32,
}

impl Deadlines {
    pub(super) fn new(count: usize) -> Deadlines {
        let link = DeadlineNode {
            before: UNLISTED,
            after: NONE,
            at: Nanos::MAX,
        };
        Deadlines {
            links: vec![link; count],
            first: NONE,
            last: NONE,
        }
    }

    /// Sets the deadline of an index. The deadline must not be earlier than any other.
    pub(super) fn set(&mut self, index: u32, at: Nanos) {
        self.clear(index);
        let before = self.last;
        self.links[index as usize] = DeadlineNode {
            before,
            after: NONE,
            at,
        };
        match before {
            NONE => self.first = index,
            before => self.links[before as usize].after = index,
        }
        self.last = index;
    }

    /// Removes the deadline of an index, if it has one.
    pub(super) fn clear(&mut self, index: u32) {
        let link = self.links[index as usize];
        if link.before == UNLISTED {
            return;
        }
        self.links[index as usize].before = UNLISTED;
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
    pub(super) fn next(&self) -> Nanos {
        match self.first {
            NONE => Nanos::MAX,
            first => self.links[first as usize].at,
        }
    }

    /// Removes and returns an index whose deadline has passed.
    pub(super) fn expired(&mut self, now: Nanos) -> Option<u32> {
        let index = self.first;
        if index == NONE || self.next() > now {
            return None;
        }
        self.clear(index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn matches_a_plain_queue_under_random_operations() {
        let mut list = Deadlines::new(8);
        let mut plain: VecDeque<(u32, u64)> = VecDeque::new();
        let mut random = prony_record::RandomSequence::new(12345);
        for now in 0..20_000u64 {
            let random = random.next_u64();
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
