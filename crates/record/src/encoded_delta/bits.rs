//! A bit stream of numbers, most of which are small.
//!
//! The encoding is the gamma code (Elias 1975), extended to include 0. A number of n bits is
//! written as n zeros, followed by its bits, the first of which is a one. Zero is written as a
//! single one. Therefore 0 takes 1 bit, 1 takes 2 bits, 2 and 3 take 4 bits each, and so on.

/// Maximum number of bits that are written or read in one operation.
const BITS_AT_ONCE: u32 = 32;

/// Collects bits into bytes, highest bit first. The last byte is padded with zeros.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not form a whole byte yet, as the lowest `open_bits` bits.
    open: u64,
    open_bits: u32,
}

impl BitWriter {
    pub(super) fn number(&mut self, number: u64) {
        let length = u64::BITS - number.leading_zeros();
        match length {
            0 => self.put(1, 1),
            // The leading zeros of `number` serve as the zeros that encode its length.
            _ if 2 * length <= BITS_AT_ONCE => self.put(number, 2 * length),
            _ => {
                self.put(0, length.min(BITS_AT_ONCE));
                self.put(0, length.saturating_sub(BITS_AT_ONCE));
                self.put(number >> BITS_AT_ONCE, length.saturating_sub(BITS_AT_ONCE));
                self.put(number & u64::from(u32::MAX), length.min(BITS_AT_ONCE));
            }
        }
    }

    pub(super) fn flag(&mut self, flag: bool) {
        self.put(u64::from(flag), 1);
    }

    fn put(&mut self, bits: u64, count: u32) {
        self.open = self.open << count | bits;
        self.open_bits += count;
        while self.open_bits >= 8 {
            self.open_bits -= 8;
            self.bytes.push((self.open >> self.open_bits) as u8);
        }
    }

    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        if self.open_bits > 0 {
            self.put(0, 8 - self.open_bits);
        }
        self.bytes
    }
}

/// Reads the bits of a [`BitWriter`]. Methods return `None` at the end of the input.
#[derive(Debug)]
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    /// Number of bits read so far.
    at: usize,
}

impl BitReader<'_> {
    pub(super) fn new(bytes: &[u8]) -> BitReader<'_> {
        BitReader { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let ahead = self.ahead();
        let length = ahead.leading_zeros();
        if length == 0 {
            self.pass(1)?;
            return Some(0);
        }
        // `ahead` returns at least this many bits, regardless of the position within a byte.
        if 2 * length <= u64::BITS - 8 {
            self.pass(2 * length)?;
            return Some(ahead << length >> (u64::BITS - length));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut length = 0;
        loop {
            let zeros = self.ahead().leading_zeros().min(BITS_AT_ONCE);
            self.pass(zeros)?;
            length += zeros;
            if length > u64::BITS {
                return None;
            }
            if zeros < BITS_AT_ONCE {
                break;
            }
        }
        let high = self.take(length.saturating_sub(BITS_AT_ONCE))?;
        let low = self.take(length.min(BITS_AT_ONCE))?;
        Some(high << BITS_AT_ONCE | low)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Returns true if only the padding bits of the last byte are left.
    pub(super) fn is_at_end(&self) -> bool {
        self.left() < 8 && self.ahead() == 0
    }

    /// Returns the number of unread bits.
    pub(super) fn left(&self) -> usize {
        8 * self.bytes.len() - self.at
    }

    fn take(&mut self, count: u32) -> Option<u64> {
        let bits = self.ahead().checked_shr(u64::BITS - count).unwrap_or(0);
        self.pass(count)?;
        Some(bits)
    }

    /// Returns the next bits, highest first: at least 57, padded with zeros at the end of the
    /// input.
    #[inline]
    fn ahead(&self) -> u64 {
        let rest = self.bytes.get(self.at / 8..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(eight) => u64::from_be_bytes(*eight),
            None => {
                let mut eight = [0; 8];
                eight[..rest.len()].copy_from_slice(rest);
                u64::from_be_bytes(eight)
            }
        };
        word << (self.at % 8)
    }

    #[inline]
    fn pass(&mut self, bits: u32) -> Option<()> {
        let after = self.at + bits as usize;
        (after <= 8 * self.bytes.len()).then(|| self.at = after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers() -> Vec<u64> {
        let edges = (0..64).map(|bit| 1u64 << bit);
        let near = edges.flat_map(|edge| [edge - 1, edge, edge + edge / 3]);
        near.chain([u64::MAX]).collect()
    }

    #[test]
    fn numbers_are_read_as_written_at_every_bit_offset() {
        for before in 0..8 {
            let mut writer = BitWriter::default();
            (0..before).for_each(|_| writer.flag(true));
            for number in numbers() {
                writer.number(number);
                writer.flag(number % 2 == 0);
            }
            let bytes = writer.into_bytes();
            let mut reader = BitReader::new(&bytes);
            (0..before).for_each(|_| assert_eq!(reader.flag(), Some(true)));
            for number in numbers() {
                assert_eq!(reader.number(), Some(number));
                assert_eq!(reader.flag(), Some(number % 2 == 0));
            }
            assert!(reader.is_at_end());
        }
    }

    #[test]
    fn small_numbers_take_few_bits() {
        for (number, bits) in [(0, 1), (1, 2), (3, 4), (4, 6), (1_000, 20), (u64::MAX, 128)] {
            let mut writer = BitWriter::default();
            writer.number(number);
            assert_eq!(writer.into_bytes().len(), usize::div_ceil(bits, 8));
        }
    }

    #[test]
    fn truncated_input_is_none() {
        for number in numbers() {
            let mut writer = BitWriter::default();
            writer.number(number);
            let bytes = writer.into_bytes();
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(BitReader::new(cut).number(), None, "{number}");
        }
        assert_eq!(BitReader::new(&[0; 40]).number(), None);
        assert_eq!(BitReader::new(&[]).flag(), None);
        assert!(BitReader::new(&[]).is_at_end());
        assert!(!BitReader::new(&[0]).is_at_end());
    }
}
