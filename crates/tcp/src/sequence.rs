//! Sequence numbers, which wrap (RFC 9293 §3.4).

use std::ops::{Add, AddAssign, Sub};

/// A sequence number, compared modulo 2³².
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Sequence(pub(crate) u32);

impl Sequence {
    /// Returns true if this number comes before the other one.
    pub(crate) fn is_before(self, other: Sequence) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns true if this number comes after the other one.
    pub(crate) fn is_after(self, other: Sequence) -> bool {
        other.is_before(self)
    }

    /// Returns true if this number is at or before the other one.
    pub(crate) fn is_up_to(self, other: Sequence) -> bool {
        !self.is_after(other)
    }

    /// Returns the later of two numbers.
    pub(crate) fn max(self, other: Sequence) -> Sequence {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier of two numbers.
    pub(crate) fn min(self, other: Sequence) -> Sequence {
        if other.is_before(self) { other } else { self }
    }

    /// Returns the number of bytes from an earlier number to this one.
    pub(crate) fn since(self, earlier: Sequence) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

impl Add<u32> for Sequence {
    type Output = Sequence;

    fn add(self, bytes: u32) -> Sequence {
        Sequence(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Sequence {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl Sub<u32> for Sequence {
    type Output = Sequence;

    fn sub(self, bytes: u32) -> Sequence {
        Sequence(self.0.wrapping_sub(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_kept_across_the_wrap() {
        let (low, high) = (Sequence(u32::MAX - 1), Sequence(3));
        assert!(low.is_before(high) && high.is_after(low));
        assert_eq!(high.since(low), 5);
        assert_eq!(low + 5, high);
        assert_eq!(low.max(high), high);
        assert_eq!(low.min(high), low);
        assert!(low.is_up_to(low) && !low.is_before(low));
    }
}
