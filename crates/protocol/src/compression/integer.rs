//! Integers of HPACK and QPACK (RFC 7541 §5.1, RFC 9204 §4.1.1). An integer occupies some bits of
//! the first byte and seven bits of each additional byte.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntegerError {
    /// The block ends within the integer.
    Truncated,
    /// The integer is above [`INTEGER_MAX`], or has more bytes than any valid number needs.
    TooLarge,
}

/// Largest accepted number. All valid indices, lengths and sizes are far smaller.
const INTEGER_MAX: u64 = u32::MAX as u64;

/// Maximum number of bytes after the first, which suffices for 32 bits. Without this limit, an
/// encoding could contain any number of zero bytes.
const CONTINUATION_BYTES_MAX: u32 = 5;

/// Decodes an integer at the start of the input and consumes it. The integer begins in the lowest
/// `bits` bits (1 to 8) of the first byte.
///
/// # Errors
///
/// See [`IntegerError`].
#[inline]
pub(crate) fn decode(bits: u32, input: &mut &[u8]) -> Result<u32, IntegerError> {
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
    for at in 0..CONTINUATION_BYTES_MAX {
        let (&byte, rest) = input.split_first().ok_or(IntegerError::Truncated)?;
        *input = rest;
        number += u64::from(byte & 0x7f) << (7 * at);
        if number > INTEGER_MAX {
            return Err(IntegerError::TooLarge);
        }
        if byte & 0x80 == 0 {
            return Ok(number as u32);
        }
    }
    Err(IntegerError::TooLarge)
}

/// Appends an integer, which begins in the lowest `bits` bits (1 to 8) of the first byte. The other
/// bits of that byte are taken from `pattern`.
pub(crate) fn encode(bits: u32, pattern: u8, number: usize, out: &mut Vec<u8>) {
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

    /// Tests the examples of RFC 7541 §C.1.
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
        // Redundant zeros are allowed, within the limit.
        assert_eq!(decode(5, &mut [0x1f, 0x80, 0x80, 0x00].as_slice()), Ok(31));
    }
}
