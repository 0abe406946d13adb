//! Numbers of which most are small, in few bits.
//!
//! A number is its length in bits in unary, as so many zeros, and then its bits, of which the first is a
//! one; 0 is a one alone. So 0 takes 1 bit, 1 takes 2, 2 and 3 take 4, and so on (Elias 1975: the gamma
//! code, with a place for 0).

/// The most bits that are put or taken at once.
const AT_ONCE: u32 = 32;

/// Bits that become bytes, the highest first; the last byte is filled up with zeros.
#[derive(Debug, Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    /// The lowest of these are no whole byte yet.
    open: u64,
    open_bits: u32,
}

impl Writer {
    pub(super) fn number(&mut self, number: u64) {
        let length = u64::BITS - number.leading_zeros();
        match length {
            0 => self.put(1, 1),
            // With as many zeros before them.
            _ if 2 * length <= AT_ONCE => self.put(number, 2 * length),
            _ => {
                self.put(0, length.min(AT_ONCE));
                self.put(0, length.saturating_sub(AT_ONCE));
                self.put(number >> AT_ONCE, length.saturating_sub(AT_ONCE));
                self.put(number & u64::from(u32::MAX), length.min(AT_ONCE));
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

/// Reads what a [`Writer`] wrote, or anything else; none where that ends too soon.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    /// Bits that are read.
    at: usize,
}

impl Reader<'_> {
    pub(super) fn new(bytes: &[u8]) -> Reader<'_> {
        Reader { bytes, at: 0 }
    }

    #[inline]
    pub(super) fn number(&mut self) -> Option<u64> {
        let ahead = self.ahead();
        let length = ahead.leading_zeros();
        if length == 0 {
            self.pass(1)?;
            return Some(0);
        }
        // So much is ahead, wherever in a byte it begins.
        if 2 * length <= u64::BITS - 8 {
            self.pass(2 * length)?;
            return Some(ahead << length >> (u64::BITS - length));
        }
        self.long_number()
    }

    fn long_number(&mut self) -> Option<u64> {
        let mut length = 0;
        loop {
            let zeros = self.ahead().leading_zeros().min(AT_ONCE);
            self.pass(zeros)?;
            length += zeros;
            if length > u64::BITS {
                return None;
            }
            if zeros < AT_ONCE {
                break;
            }
        }
        let high = self.take(length.saturating_sub(AT_ONCE))?;
        let low = self.take(length.min(AT_ONCE))?;
        Some(high << AT_ONCE | low)
    }

    pub(super) fn flag(&mut self) -> Option<bool> {
        self.take(1).map(|bit| bit == 1)
    }

    /// Whether nothing is left but what fills up the last byte.
    pub(super) fn is_at_end(&self) -> bool {
        self.left() < 8 && self.ahead() == 0
    }

    /// Bits that are not read yet.
    pub(super) fn left(&self) -> usize {
        8 * self.bytes.len() - self.at
    }

    fn take(&mut self, count: u32) -> Option<u64> {
        let bits = self.ahead().checked_shr(u64::BITS - count).unwrap_or(0);
        self.pass(count)?;
        Some(bits)
    }

    /// What comes next, highest bit first: 57 bits at least, and zeros after the end.
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
    fn every_number_is_read_as_it_was_written_wherever_it_begins() {
        for before in 0..8 {
            let mut writer = Writer::default();
            (0..before).for_each(|_| writer.flag(true));
            for number in numbers() {
                writer.number(number);
                writer.flag(number % 2 == 0);
            }
            let bytes = writer.into_bytes();
            let mut reader = Reader::new(&bytes);
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
            let mut writer = Writer::default();
            writer.number(number);
            assert_eq!(writer.into_bytes().len(), usize::div_ceil(bits, 8));
        }
    }

    #[test]
    fn what_ends_too_soon_is_nothing() {
        for number in numbers() {
            let mut writer = Writer::default();
            writer.number(number);
            let bytes = writer.into_bytes();
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(Reader::new(cut).number(), None, "{number}");
        }
        assert_eq!(Reader::new(&[0; 40]).number(), None);
        assert_eq!(Reader::new(&[]).flag(), None);
        assert!(Reader::new(&[]).is_at_end());
        assert!(!Reader::new(&[0]).is_at_end());
    }
}
