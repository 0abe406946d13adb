//! Huffman code of HPACK and QPACK (RFC 7541 §5.2 and Appendix B).
//!
//! The code is canonical: codes of the same length are consecutive numbers in the order of their
//! symbols, and shorter codes come first. The lengths therefore define the code, and all tables are
//! computed from them at compile time.

/// Error in a Huffman-coded string, which is a decoding error (RFC 7541 §5.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HuffmanError {
    /// The symbol EOS within a string.
    EndOfString,
    /// More than 7 bits after the last symbol, or bits that are not all ones.
    Padding,
}

/// Number of short codes that are decoded before more bits are loaded. A window of 57 bits always
/// contains this many codes.
const SHORT_CODES_PER_WINDOW: usize = 7;

/// Number of symbols: all bytes, and EOS.
const SYMBOL_COUNT: usize = 257;
/// The end-of-string symbol, which is never sent.
const EOS: u16 = 256;
/// Length of the longest code, in bits.
const CODE_BITS_MAX: u32 = 30;
/// Length, in bits, of the longest code that one table lookup can find. This covers 74 symbols,
/// including all letters and digits and most punctuation. No code has 9 bits.
const SHORT_CODE_BITS: u32 = 8;

/// The length of each symbol's code, in bits (RFC 7541 Appendix B).
#[rustfmt::skip]
const CODE_LENGTHS: [u8; SYMBOL_COUNT] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
    30,
];

/// All codes in canonical order.
struct CanonicalCode {
    /// First code of each length.
    first: [u32; CODE_BITS_MAX as usize + 1],
    /// Number of codes of each length.
    count: [u32; CODE_BITS_MAX as usize + 1],
    /// Index in `symbols` of the first symbol of each length.
    offset: [u16; CODE_BITS_MAX as usize + 1],
    /// Symbols in the order of their codes.
    symbols: [u16; SYMBOL_COUNT],
    /// Code of each symbol.
    codes: [u32; SYMBOL_COUNT],
}

static CANON: CanonicalCode = canon();

const fn canon() -> CanonicalCode {
    let mut canon = CanonicalCode {
        first: [0; CODE_BITS_MAX as usize + 1],
        count: [0; CODE_BITS_MAX as usize + 1],
        offset: [0; CODE_BITS_MAX as usize + 1],
        symbols: [0; SYMBOL_COUNT],
        codes: [0; SYMBOL_COUNT],
    };
    let mut next_code = 0u32;
    let mut placed = 0;
    let mut length = 1;
    while length <= CODE_BITS_MAX as usize {
        next_code <<= 1;
        canon.first[length] = next_code;
        canon.offset[length] = placed as u16;
        let mut symbol = 0;
        while symbol < SYMBOL_COUNT {
            if CODE_LENGTHS[symbol] as usize == length {
                canon.symbols[placed] = symbol as u16;
                canon.codes[symbol] = next_code;
                canon.count[length] += 1;
                placed += 1;
                next_code += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    canon
}

/// A symbol and the length of its code, in bits.
#[derive(Clone, Copy)]
struct ShortCode {
    symbol: u8,
    /// Length of the code in bits; 0 if it is longer than [`SHORT_CODE_BITS`].
    bits: u8,
}

/// For each 8-bit index, the symbol whose code is a prefix of the index.
static SHORT_CODES: [ShortCode; 1 << SHORT_CODE_BITS] = short_codes();

const fn short_codes() -> [ShortCode; 1 << SHORT_CODE_BITS] {
    let mut table = [ShortCode { symbol: 0, bits: 0 }; 1 << SHORT_CODE_BITS];
    let canon = canon();
    let mut symbol = 0;
    while symbol < EOS as usize {
        let bits = CODE_LENGTHS[symbol] as u32;
        if bits <= SHORT_CODE_BITS {
            let from = canon.codes[symbol] << (SHORT_CODE_BITS - bits);
            let mut at = 0;
            while at < 1 << (SHORT_CODE_BITS - bits) {
                table[(from + at) as usize] = ShortCode {
                    symbol: symbol as u8,
                    bits: bits as u8,
                };
                at += 1;
            }
        }
        symbol += 1;
    }
    table
}

/// Decodes a string and appends it to `out`.
///
/// # Errors
///
/// Returns an error if the coding is invalid; part of the string may have been appended.
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), HuffmanError> {
    let end = coded.len() * 8;
    let mut bit = 0;
    loop {
        let mut window = window(coded, bit);
        let mut symbols = [0; 8];
        let mut count = 0;
        while count < SHORT_CODES_PER_WINDOW {
            let code = SHORT_CODES[(window >> (64 - SHORT_CODE_BITS)) as usize];
            if code.bits == 0 {
                break;
            }
            symbols[count] = code.symbol;
            count += 1;
            bit += usize::from(code.bits);
            window <<= code.bits;
        }
        // A copy of fixed size is cheaper than a copy of exactly the decoded symbols.
        out.extend_from_slice(&symbols);
        out.truncate(out.len() - (symbols.len() - count));
        if count == SHORT_CODES_PER_WINDOW {
            continue;
        }
        // Either a long code follows, or the text ends and only ones follow. A code that extends
        // beyond the end is invalid, because the ones are padding.
        let left = end.checked_sub(bit).ok_or(HuffmanError::Padding)?;
        let window = self::window(coded, bit);
        if left < 8 && window == u64::MAX {
            return Ok(());
        }
        let (symbol, bits) = long_symbol(window).map_err(|error| {
            if left < CODE_BITS_MAX as usize {
                HuffmanError::Padding
            } else {
                error
            }
        })?;
        out.push(symbol);
        bit += bits as usize;
    }
}

/// Returns at least 57 bits, starting at `bit`. Bits beyond the end of the string are ones.
#[inline]
fn window(coded: &[u8], bit: usize) -> u64 {
    let byte = bit / 8;
    let word = match coded.get(byte..).and_then(<[u8]>::first_chunk) {
        Some(word) => u64::from_be_bytes(*word),
        None => last_word(coded, byte),
    };
    let beyond = (bit % 8) as u32;
    word << beyond | !(u64::MAX << beyond)
}

/// Returns the last bytes of the string, starting at `byte` (fewer than eight), followed by ones.
#[inline]
fn last_word(coded: &[u8], byte: usize) -> u64 {
    let have = coded.len().saturating_sub(byte) as u32;
    if have == 0 {
        return u64::MAX;
    }
    let missing = 64 - 8 * have;
    let word = match coded.last_chunk() {
        Some(word) => u64::from_be_bytes(*word),
        None => coded[byte..]
            .iter()
            .fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word << missing | !(u64::MAX << missing)
}

/// Returns the symbol whose code is at the top of the window, and the length of the code in bits.
/// The code must have more than [`SHORT_CODE_BITS`] bits. Such codes are rare.
#[inline(never)]
fn long_symbol(window: u64) -> Result<(u8, u32), HuffmanError> {
    let lengths = SHORT_CODE_BITS as usize + 1..=CODE_BITS_MAX as usize;
    for length in lengths {
        let code = (window >> (64 - length)) as u32;
        let rank = code.wrapping_sub(CANON.first[length]);
        if rank < CANON.count[length] {
            let symbol = CANON.symbols[usize::from(CANON.offset[length]) + rank as usize];
            return match u8::try_from(symbol) {
                Ok(symbol) => Ok((symbol, length as u32)),
                Err(_) => Err(HuffmanError::EndOfString),
            };
        }
    }
    // The code is complete, so only EOS, the last of the longest codes, remains.
    Err(HuffmanError::EndOfString)
}

/// Returns the size, in bytes, of a string after Huffman coding.
pub(crate) fn coded_bytes(text: &[u8]) -> usize {
    let bits: usize = text
        .iter()
        .map(|&byte| usize::from(CODE_LENGTHS[usize::from(byte)]))
        .sum();
    bits.div_ceil(8)
}

/// Appends the Huffman coding of a string, followed by padding.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut window = 0u64;
    let mut have = 0;
    for &byte in text {
        let bits = u32::from(CODE_LENGTHS[usize::from(byte)]);
        window = window << bits | u64::from(CANON.codes[usize::from(byte)]);
        have += bits;
        while have >= 8 {
            have -= 8;
            out.push((window >> have) as u8);
        }
    }
    if have > 0 {
        let padding = 0xff >> have;
        out.push((window << (8 - have)) as u8 | padding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn coded(text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode(text, &mut out);
        assert_eq!(out.len(), coded_bytes(text));
        out
    }

    fn decoded(coded: &[u8]) -> Result<Vec<u8>, HuffmanError> {
        let mut out = Vec::new();
        decode(coded, &mut out).map(|()| out)
    }

    #[test]
    fn the_code_is_complete() {
        let kraft: u64 = CODE_LENGTHS
            .iter()
            .map(|&bits| 1 << (CODE_BITS_MAX - u32::from(bits)))
            .sum();
        assert_eq!(kraft, 1 << CODE_BITS_MAX);
        assert_eq!(CANON.codes[usize::from(EOS)], (1 << CODE_BITS_MAX) - 1);
        assert!(!CODE_LENGTHS.contains(&9));
        let short = CODE_LENGTHS
            .iter()
            .filter(|&&bits| u32::from(bits) <= SHORT_CODE_BITS)
            .count();
        assert_eq!(short, 74);
    }

    #[test]
    fn codes_are_those_of_the_appendix() {
        let rows: [(u8, u32, u8); 8] = [
            (b'0', 0x0, 5),
            (b'a', 0x3, 5),
            (b'A', 0x21, 6),
            (b'Z', 0xfd, 8),
            (b'{', 0x7ffe, 15),
            (0, 0x1ff8, 13),
            (0x7f, 0xfff_fffc, 28),
            (0xff, 0x3ff_ffee, 26),
        ];
        for (symbol, code, bits) in rows {
            assert_eq!(CANON.codes[usize::from(symbol)], code, "{symbol:#x}");
            assert_eq!(CODE_LENGTHS[usize::from(symbol)], bits, "{symbol:#x}");
        }
    }

    /// Tests the examples of RFC 7541 §C.4 and §C.6.
    #[test]
    fn the_examples_of_the_rfc() {
        let rows: [(&[u8], &[u8]); 3] = [
            (
                b"www.example.com",
                b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff",
            ),
            (b"no-cache", b"\xa8\xeb\x10\x64\x9c\xbf"),
            (b"302", b"\x64\x02"),
        ];
        for (text, bytes) in rows {
            assert_eq!(coded(text), bytes);
            assert_eq!(decoded(bytes).as_deref(), Ok(text));
        }
    }

    #[test]
    fn each_byte_survives_at_each_place() {
        for byte in 0..=255 {
            for before in 0..9 {
                for after in [0, 1, 9, 30] {
                    let text = [vec![b'0'; before], vec![byte], vec![b'a'; after]].concat();
                    assert_eq!(decoded(&coded(&text)).as_ref(), Ok(&text));
                }
            }
        }
    }

    #[test]
    fn another_implementation_agrees() {
        for length in 0..=64usize {
            for seed in 0..64usize {
                let text: Vec<u8> = (0..length)
                    .map(|at| (at * 37 + seed * 101 + at * at * seed) as u8)
                    .collect();
                let mut theirs = Vec::new();
                httlib_huffman::encode(&text, &mut theirs).expect("all bytes can be coded");
                assert_eq!(coded(&text), theirs);
            }
        }
    }

    #[test]
    fn padding_is_short_and_made_of_ones() {
        assert_eq!(decoded(b""), Ok(Vec::new()));
        // The code of 'a' is 00011, and the remaining three bits are ones.
        assert_eq!(decoded(b"\x1f").as_deref(), Ok(b"a".as_slice()));
        assert_eq!(decoded(b"\x1e"), Err(HuffmanError::Padding));
        assert_eq!(decoded(b"\x1f\xff"), Err(HuffmanError::Padding));
        assert_eq!(decoded(b"\xff"), Err(HuffmanError::Padding));
        assert_eq!(decoded(b"\xff\xff\xff"), Err(HuffmanError::Padding));
        // A truncated long code.
        assert_eq!(decoded(b"\xff\xc0"), Err(HuffmanError::Padding));
    }

    #[test]
    fn the_end_of_string_is_no_symbol() {
        assert_eq!(decoded(b"\xff\xff\xff\xff"), Err(HuffmanError::EndOfString));
        assert_eq!(
            decoded(b"\x1f\xff\xff\xff\xff"),
            Err(HuffmanError::EndOfString)
        );
        let long = [&[0; 20][..], &[0xff; 20]].concat();
        assert_eq!(decoded(&long), Err(HuffmanError::EndOfString));
    }
}
