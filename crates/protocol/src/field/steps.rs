//! Searches that examine several bytes at a time: sixteen with SSE2 on x86-64, and eight in a
//! machine word on other processors. Both implementations return the same results.

#[cfg(target_arch = "x86_64")]
pub(super) use sixteen::{STEP, control, no_letter};
#[cfg(not(target_arch = "x86_64"))]
pub(super) use word::{STEP, control, no_letter};

/// Implementation with vector instructions (SSE2).
#[cfg(target_arch = "x86_64")]
mod sixteen {
    use std::arch::x86_64::{
        __m128i, _mm_cmpeq_epi8, _mm_min_epu8, _mm_movemask_epi8, _mm_or_si128, _mm_set_epi64x,
        _mm_set1_epi8, _mm_sub_epi8,
    };

    /// Number of bytes per step.
    pub(in crate::field) const STEP: usize = 16;

    /// Returns the index of the first control character. Here, a tab counts as a control character.
    #[inline]
    pub(in crate::field) fn control(bytes: &[u8; STEP]) -> Option<usize> {
        // SAFETY: every x86-64 has SSE2.
        first(unsafe { marked_controls(bytes) })
    }

    /// Returns the index of the first byte that is neither a letter nor a hyphen.
    #[inline]
    pub(in crate::field) fn no_letter(bytes: &[u8; STEP]) -> Option<usize> {
        // SAFETY: every x86-64 has SSE2.
        first(unsafe { marked_letters(bytes) } ^ 0xffff)
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn marked_controls(bytes: &[u8; STEP]) -> i32 {
        let bytes = load(bytes);
        let low = at_most(bytes, 0x1f);
        let delete = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(0x7f));
        _mm_movemask_epi8(_mm_or_si128(low, delete))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn marked_letters(bytes: &[u8; STEP]) -> i32 {
        let bytes = load(bytes);
        let small = _mm_or_si128(bytes, _mm_set1_epi8(0x20));
        let letter = at_most(_mm_sub_epi8(small, _mm_set1_epi8(b'a' as i8)), 25);
        let hyphen = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'-' as i8));
        _mm_movemask_epi8(_mm_or_si128(letter, hyphen))
    }

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; STEP]) -> __m128i {
        let word = u128::from_le_bytes(*bytes);
        _mm_set_epi64x((word >> 64) as i64, word as i64)
    }

    /// Marks the bytes that are less than or equal to `most`, compared as unsigned numbers.
    #[inline]
    #[target_feature(enable = "sse2")]
    fn at_most(bytes: __m128i, most: i8) -> __m128i {
        _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(most)), bytes)
    }

    /// Returns the index of the first mark. `marks` has one bit per byte.
    #[inline]
    fn first(marks: i32) -> Option<usize> {
        // The remainder operation proves to the compiler that the index is within the step.
        (marks != 0).then(|| marks.trailing_zeros() as usize % STEP)
    }
}

/// Implementation with arithmetic on the bytes of a word (SWAR). It is the fallback, and is tested
/// on every platform.
#[cfg(any(test, not(target_arch = "x86_64")))]
mod word {
    pub(in crate::field) const STEP: usize = 8;
    const EACH: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = EACH * 0x80;

    #[inline]
    pub(in crate::field) fn control(bytes: &[u8; STEP]) -> Option<usize> {
        let word = u64::from_le_bytes(*bytes);
        let delete = word ^ (EACH * 0x7f);
        let low = word.wrapping_sub(EACH * 0x20) & !word;
        let zero = delete.wrapping_sub(EACH) & !delete;
        first((low | zero) & HIGH)
    }

    #[inline]
    pub(in crate::field) fn no_letter(bytes: &[u8; STEP]) -> Option<usize> {
        let word = u64::from_le_bytes(*bytes);
        let small = word | (EACH * 0x20);
        let low = small & !HIGH;
        // The highest bit of each byte is set in `from_a` if the byte is at least `a`, and in
        // `after_z` if the byte is above `z`.
        let from_a = low + EACH * (0x80 - b'a' as u64);
        let after_z = low + EACH * (0x7f - b'z' as u64);
        let letter = from_a & !after_z;
        let hyphen = (word & !HIGH) ^ (EACH * b'-' as u64);
        let hyphen = !(hyphen + EACH * 0x7f);
        first(!((letter | hyphen) & !word) & HIGH)
    }

    /// Returns the index of the first marked byte. Marks after the first one may be wrong.
    #[inline]
    fn first(marks: u64) -> Option<usize> {
        (marks != 0).then(|| marks.trailing_zeros() as usize / 8)
    }
}

#[cfg(test)]
mod tests {
    /// Compares both implementations for every byte value at every position, after bytes that match
    /// and bytes that don't.
    fn agrees<const STEP: usize>(
        look: fn(&[u8; STEP]) -> Option<usize>,
        goes_on: fn(u8) -> bool,
        before: &[u8],
    ) {
        for at in 0..STEP {
            for byte in 0..=255u8 {
                for (fill, after) in before.iter().zip([b'a', 0, b':', 0x7f, b'\t', 0xff]) {
                    let mut bytes = [*fill; STEP];
                    bytes[at] = byte;
                    bytes[at + 1..].fill(after);
                    let plain = bytes.iter().position(|&byte| !goes_on(byte));
                    assert_eq!(look(&bytes), plain, "{bytes:?}");
                }
            }
        }
    }

    fn is_no_control(byte: u8) -> bool {
        byte >= b' ' && byte != 0x7f
    }

    fn is_letter(byte: u8) -> bool {
        byte.is_ascii_alphabetic() || byte == b'-'
    }

    #[test]
    fn words_give_the_same_result_as_single_bytes() {
        agrees(super::word::control, is_no_control, b" ~\x80\xffaZ");
        agrees(super::word::no_letter, is_letter, b"azAZ--");
    }

    #[test]
    fn steps_give_the_same_result_as_single_bytes() {
        agrees(super::control, is_no_control, b" ~\x80\xffaZ");
        agrees(super::no_letter, is_letter, b"azAZ--");
    }
}
