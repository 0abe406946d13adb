//! Integers of HPACK (RFC 7541 §5.1): some bits of a first byte, then seven bits a byte.

/// Why bytes are not an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum IntegerError {
    /// The block ends within it.
    Truncated,
    /// Over [`MOST`], or spelled with more bytes than any number needs.
    TooLarge,
}

/// The largest number read. No index, length or size that this crate accepts comes near it.
const MOST: u64 = u32::MAX as u64;

/// A number of up to 32 bits has at most five bytes behind the first. Without this limit zeros
/// could be appended for ever.
const CONTINUATION_BYTES: u32 = 5;

/// Reads an integer whose first byte holds `bits` of it (1 to 8), and takes it from the input.
///
/// # Errors
///
/// See [`IntegerError`].
#[inline]
pub(super) fn decode(bits: u32, input: &mut &[u8]) -> Result<u32, IntegerError> {
    let (&first, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
    let all_ones = 0xff >> (8 - bits);
    let prefix = first & all_ones;
    *input = rest;
    if prefix < all_ones {
        return Ok(u32::from(prefix));
    }
    decode_rest(u64::from(prefix), input)
}

fn decode_rest(prefix: u64, input: &mut &[u8]) -> Result<u32, IntegerError> {
    let mut number = prefix;
    for at in 0..CONTINUATION_BYTES {
        let (&byte, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
        *input = rest;
        number += u64::from(byte & 0x7f) << (7 * at);
        if number > MOST {
            return Err(IntegerError::TooLarge);
        }
        if byte & 0x80 == 0 {
            return Ok(number as u32);
        }
    }
    Err(IntegerError::TooLarge)
}

/// Appends an integer whose first byte holds `bits` of it (1 to 8), below the bits of `pattern`.
pub(super) fn encode(bits: u32, pattern: u8, number: usize, out: &mut Vec<u8>) {
    let all_ones = 0xff_usize >> (8 - bits);
    if number < all_ones {
        out.push(pattern | number as u8);
        return;
    }
    out.push(pattern | all_ones as u8);
    let mut rest = number - all_ones;
    while rest >= 0x80 {
        out.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541 §C.1.
    #[test]
    fn the_examples_of_the_rfc() {
        for (bits, number, bytes) in [
            (5, 10, [0x0a].as_slice()),
            (5, 1337, &[0x1f, 0x9a, 0x0a]),
            (8, 42, &[0x2a]),
        ] {
            let mut out = Vec::new();
            encode(bits, 0, number, &mut out);
            assert_eq!(out, bytes);
            let mut input = bytes;
            assert_eq!(decode(bits, &mut input), Ok(number as u32));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn what_is_written_is_read() {
        for bits in 1..=8 {
            for number in (0..4000).chain([0xffff, 1 << 20, u32::MAX as usize]) {
                let mut out = Vec::new();
                encode(bits, 0, number, &mut out);
                out.push(7);
                let mut input = out.as_slice();
                assert_eq!(decode(bits, &mut input), Ok(number as u32), "{bits} bits");
                assert_eq!(input, [7]);
                for end in 0..out.len() - 1 {
                    let mut part = &out[..end];
                    assert_eq!(decode(bits, &mut part), Err(IntegerError::Truncated));
                }
            }
        }
    }

    #[test]
    fn numbers_and_their_spelling_are_bounded() {
        for bytes in [
            [0x1f, 0xff, 0xff, 0xff, 0xff, 0x0f].as_slice(),
            &[0x1f, 0xff, 0xff, 0xff, 0xff, 0x7f],
            &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00],
        ] {
            assert_eq!(decode(5, &mut &*bytes), Err(IntegerError::TooLarge));
        }
        // Zeros behind a number are allowed, within reason.
        assert_eq!(decode(5, &mut [0x1f, 0x80, 0x80, 0x00].as_slice()), Ok(31));
    }
}
