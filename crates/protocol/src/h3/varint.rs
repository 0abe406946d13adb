//! Integers of QUIC (RFC 9000 §16), in which HTTP/3 encodes types, lengths and identifiers.

/// Largest number, which has 62 bits.
pub(super) const VARINT_MAX: u64 = (1 << 62) - 1;

/// Length of the longest encoding, in bytes.
pub(super) const VARINT_BYTES_MAX: usize = 8;

/// Parses a number at the start of the input and consumes it. If the number is incomplete, returns
/// `None` and consumes nothing.
#[inline]
pub(super) fn take(input: &mut &[u8]) -> Option<u64> {
    let (&first, rest) = input.split_first()?;
    if first < 0x40 {
        *input = rest;
        return Some(u64::from(first));
    }
    take_long(first, input)
}

fn take_long(first: u8, input: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = input.split_at_checked(1 << (first >> 6))?;
    *input = rest;
    let number = bytes
        .iter()
        .fold(0, |number, &byte| number << 8 | u64::from(byte));
    // The first two bits encode the length.
    Some(number & (u64::MAX >> (64 + 2 - 8 * bytes.len())))
}

/// A number in its shortest encoding.
#[derive(Debug, Clone, Copy)]
pub(super) struct Varint {
    bytes: [u8; VARINT_BYTES_MAX],
    length: usize,
}

impl Varint {
    /// Encodes a number of at most [`VARINT_MAX`].
    pub(super) fn new(number: u64) -> Varint {
        debug_assert!(number <= VARINT_MAX, "a 62-bit number");
        let class = match number {
            0..0x40 => 0,
            0x40..0x4000 => 1,
            0x4000..0x4000_0000 => 2,
            _ => 3,
        };
        let length = 1 << class;
        let bytes = (number << (64 - 8 * length)).to_be_bytes();
        let mut varint = Varint { bytes, length };
        varint.bytes[0] |= class << 6;
        varint
    }

    /// Returns the bytes of the encoding.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Appends a number of at most [`VARINT_MAX`].
pub(super) fn write(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(Varint::new(number).bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests the examples of RFC 9000 §A.1.
    #[test]
    fn the_examples_of_the_rfc() {
        let rows: [(&[u8], u64); 5] = [
            (b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c", 151_288_809_941_952_652),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
            (b"\x40\x25", 37),
        ];
        for (bytes, number) in rows {
            let mut input = bytes;
            assert_eq!(take(&mut input), Some(number));
            assert!(input.is_empty());
            if bytes != b"\x40\x25" {
                assert_eq!(Varint::new(number).bytes(), bytes);
            }
        }
    }

    #[test]
    fn numbers_are_read_as_they_are_written() {
        let near = |bits: u32| [(1 << bits) - 1, 1 << bits, (1 << bits) + 1];
        let numbers = (0..62).flat_map(near).chain([VARINT_MAX]);
        for number in numbers.filter(|&number| number <= VARINT_MAX) {
            let mut out = Vec::new();
            write(number, &mut out);
            for end in 0..out.len() {
                let mut part = &out[..end];
                assert_eq!((take(&mut part), part.len()), (None, end));
            }
            out.push(7);
            let mut input = out.as_slice();
            assert_eq!(take(&mut input), Some(number));
            assert_eq!(input, [7]);
        }
    }
}
