//! The Internet checksum (RFC 1071) of IPv4 headers and TCP segments.

/// A sum of 16-bit words, not yet folded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sum(u64);

impl Sum {
    /// Adds bytes that begin at an even offset. An odd number of bytes is padded with zero.
    pub(crate) fn add(mut self, bytes: &[u8]) -> Sum {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let [a, b, c, d, e, f, g, h] = *word else {
                continue;
            };
            let word = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
            let (sum, carry) = self.0.overflowing_add(word);
            self.0 = sum + u64::from(carry);
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            let (sum, carry) = self.0.overflowing_add(u64::from_ne_bytes(last));
            self.0 = sum + u64::from(carry);
        }
        self
    }

    /// Returns the folded sum, not inverted, in network byte order.
    pub(crate) fn folded(self) -> [u8; 2] {
        let mut sum = self.0;
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        (sum as u16).to_ne_bytes()
    }

    /// Returns the checksum, which is the inverted sum.
    pub(crate) fn checksum(self) -> [u8; 2] {
        let [high, low] = self.folded();
        [!high, !low]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_rfc_1071_has_its_sum() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::default().add(&bytes).folded(), [0xdd, 0xf2]);
        assert_eq!(Sum::default().add(&bytes).checksum(), [0x22, 0x0d]);
    }

    #[test]
    fn the_sum_does_not_depend_on_how_bytes_are_divided() {
        let bytes: Vec<u8> = (0..=250).map(|n: u8| n.wrapping_mul(37)).collect();
        let whole = Sum::default().add(&bytes).folded();
        for at in (0..bytes.len()).step_by(2) {
            let (first, second) = bytes.split_at(at);
            assert_eq!(Sum::default().add(first).add(second).folded(), whole);
        }
    }
}
