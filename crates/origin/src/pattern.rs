//! Content of all bodies whose path specifies a size: printable bytes that identify their own
//! position.
//!
//! Each line of eight bytes contains its offset as seven hexadecimal digits and a newline
//! (`0000000`, `0000008`, `0000010`, …), so a shifted, lost or repeated piece can be detected. The
//! pattern repeats after [`PERIOD`] bytes.

use std::sync::LazyLock;

use bytes::Bytes;

/// Number of bytes after which the pattern repeats (1 MiB).
pub const PERIOD: usize = 1 << 20;

static BLOCK: LazyLock<Bytes> = LazyLock::new(|| {
    let mut block = Vec::with_capacity(PERIOD);
    for offset in (0..PERIOD).step_by(8) {
        block.extend_from_slice(format!("{offset:07x}\n").as_bytes());
    }
    Bytes::from(block)
});

/// Returns the first `size` bytes of the pattern, as sent by `/bytes/N`.
#[must_use]
pub fn first(size: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(size);
    while bytes.len() < size {
        bytes.extend_from_slice(&BLOCK[..(size - bytes.len()).min(PERIOD)]);
    }
    bytes
}

/// Returns up to `at_most` bytes of the pattern from offset `at`, without copying. Returns fewer
/// bytes at the end of a period.
pub(crate) fn piece(at: u64, at_most: u64) -> Bytes {
    let from = (at % PERIOD as u64) as usize;
    let left = PERIOD - from;
    let length = usize::try_from(at_most).map_or(left, |most| most.min(left));
    BLOCK.slice(from..from + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_contains_its_offset() {
        assert_eq!(first(20), b"0000000\n0000008\n0000");
        assert_eq!(&first(PERIOD + 9)[PERIOD - 8..], b"00ffff8\n0000000\n0");
    }

    #[test]
    fn pieces_add_up_to_the_whole() {
        let size = PERIOD as u64 + 1_000;
        let mut whole = Vec::new();
        while (whole.len() as u64) < size {
            let at = whole.len() as u64;
            whole.extend_from_slice(&piece(at, (size - at).min(333_333)));
        }
        assert_eq!(whole, first(size as usize));
    }
}
