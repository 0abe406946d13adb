//! Prefix of a field section (RFC 9204 §4.5.1).

use super::DecodeError;
use crate::compression::{FIELD_OVERHEAD_BYTES, decode_integer};

/// Decoded prefix of a section. It determines the part of the dynamic table to which the section
/// may refer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SectionPrefix {
    /// Number of insertions that the section requires (Required Insert Count); 0 if the section
    /// doesn't refer to the dynamic table.
    pub(super) required: u64,
    /// Absolute index from which relative indices are counted.
    base: u64,
}

impl SectionPrefix {
    /// Parses the prefix at the start of a section and consumes it. `inserts` is the number of
    /// insertions so far, and `capacity_limit` is the largest capacity of the table in bytes.
    #[inline]
    pub(super) fn take(
        rest: &mut &[u8],
        inserts: u64,
        capacity_limit: u32,
    ) -> Result<SectionPrefix, DecodeError> {
        let required = match decode_integer(8, rest)? {
            0 => 0,
            encoded => required_insert_count(encoded, inserts, capacity_limit)?,
        };
        let is_negative = rest.first().is_some_and(|first| first & 0x80 != 0);
        let delta = u64::from(decode_integer(7, rest)?);
        let base = if !is_negative {
            required + delta
        } else {
            required.checked_sub(delta + 1).ok_or(DecodeError::Base)?
        };
        Ok(SectionPrefix { required, base })
    }

    /// Converts an index relative to the base to an absolute index (RFC 9204 §3.2.5).
    pub(super) fn relative(self, index: u32) -> Result<u64, DecodeError> {
        self.base
            .checked_sub(u64::from(index) + 1)
            .ok_or(DecodeError::Index)
    }

    /// Converts a post-base index to an absolute index (RFC 9204 §3.2.6).
    pub(super) fn post_base(self, index: u32) -> u64 {
        self.base + u64::from(index)
    }
}

/// Decodes a Required Insert Count other than 0, which is sent modulo twice the largest number of
/// entries (RFC 9204 §4.5.1.1).
fn required_insert_count(
    encoded: u32,
    inserts: u64,
    capacity_limit: u32,
) -> Result<u64, DecodeError> {
    let entries_max = u64::from(capacity_limit / FIELD_OVERHEAD_BYTES);
    let full_range = 2 * entries_max;
    let encoded = u64::from(encoded);
    if encoded > full_range {
        return Err(DecodeError::InsertCount);
    }
    let largest = inserts + entries_max;
    let wrapped = largest / full_range * full_range;
    let mut required = wrapped + encoded - 1;
    if required > largest {
        required = required
            .checked_sub(full_range)
            .ok_or(DecodeError::InsertCount)?;
    }
    match required {
        0 => Err(DecodeError::InsertCount),
        required => Ok(required),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes a count according to RFC 9204 §4.5.1.1.
    fn encoded(required: u64, capacity_limit: u32) -> u32 {
        let full_range = 2 * u64::from(capacity_limit / 32);
        (required % full_range) as u32 + 1
    }

    #[test]
    fn every_count_in_reach_is_decoded() {
        for capacity_limit in [32, 100, 220, 4_096] {
            let entries_max = u64::from(capacity_limit / 32);
            for inserts in 0..1_000u64 {
                let first = inserts.saturating_sub(entries_max) + 1;
                for required in first..=inserts + entries_max {
                    let encoded = encoded(required, capacity_limit);
                    let decoded = required_insert_count(encoded, inserts, capacity_limit);
                    assert_eq!(decoded, Ok(required), "{inserts} {capacity_limit}");
                }
            }
        }
    }

    #[test]
    fn impossible_counts_are_refused() {
        for (encoded, inserts, capacity_limit) in [
            (1, 0, 4_096),
            (257, 0, 4_096),
            (258, 0, 4_096),
            (130, 0, 4_096),
            (1, 0, 31),
            (1, 100, 0),
        ] {
            assert_eq!(
                required_insert_count(encoded, inserts, capacity_limit),
                Err(DecodeError::InsertCount),
                "{encoded} {inserts} {capacity_limit}"
            );
        }
    }

    #[test]
    fn a_base_is_before_or_after_the_count() {
        let take = |mut bytes: &[u8]| SectionPrefix::take(&mut bytes, 10, 4_096);
        let prefix = |required, base| Ok(SectionPrefix { required, base });
        assert_eq!(take(b"\x00\x00"), prefix(0, 0));
        assert_eq!(take(b"\x00\x05"), prefix(0, 5));
        assert_eq!(take(b"\x05\x02"), prefix(4, 6));
        assert_eq!(take(b"\x05\x83"), prefix(4, 0));
        assert_eq!(take(b"\x05\x84"), Err(DecodeError::Base));
        assert_eq!(take(b"\x00\x80"), Err(DecodeError::Base));
        assert_eq!(take(b"\x05"), Err(DecodeError::Truncated));
        assert_eq!(take(b""), Err(DecodeError::Truncated));
        assert_eq!(take(b"\x05\x7f"), Err(DecodeError::Truncated));
    }
}
