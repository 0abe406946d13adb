//! Sparse histograms with buckets of constant relative width. Only buckets in use are stored.

/// A bucket number and its count. Lists are sorted by number and contain no empty buckets.
pub(crate) type BucketCount = (u32, u64);

/// Returns the number of the bucket that contains a value. Values that agree in their first `bits`
/// binary digits share a bucket, so each of the smallest values has a bucket of its own.
pub(crate) const fn bucket_of(bits: u32, value: u64) -> u32 {
    let dropped = (u64::BITS - value.leading_zeros()).saturating_sub(bits);
    dropped * (1 << (bits - 1)) + (value >> dropped) as u32
}

/// Returns the middle of an existing bucket, which represents the values in it.
pub(crate) const fn middle_of(bits: u32, bucket: u32) -> u64 {
    let per_octave = 1 << (bits - 1);
    let dropped = (bucket / per_octave).saturating_sub(1);
    let half = if dropped == 0 { 0 } else { 1 << (dropped - 1) };
    (((bucket - dropped * per_octave) as u64) << dropped) + half
}

/// Adds the list `counts` to the list `into`. Both lists are sorted by key.
pub(crate) fn add_counts<K: Ord + Copy>(into: &mut Vec<(K, u64)>, counts: &[(K, u64)]) {
    let is_new = |(key, _): &&(K, u64)| into.binary_search_by_key(key, |it| it.0).is_err();
    let new = counts.iter().filter(is_new).count();
    let mut from = into.len();
    into.extend_from_slice(&counts[..new]);
    let mut to = into.len();
    // Merging starts at the end of the lists, so it allocates memory only for new keys.
    for &(key, count) in counts.iter().rev() {
        while from > 0 && into[from - 1].0 > key {
            (from, to) = (from - 1, to - 1);
            into[to] = into[from];
        }
        to -= 1;
        into[to] = match from.checked_sub(1).map(|last| into[last]) {
            Some((same, before)) if same == key => {
                from -= 1;
                (key, before.saturating_add(count))
            }
            _ => (key, count),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_a_bucket_is_close_to_its_values_and_in_it() {
        for bits in [6, 8] {
            let edges = (0..64).map(|bit| 1u64 << bit);
            let near = edges.flat_map(|edge| [edge - 1, edge, edge + edge / 3]);
            let mut before = 0;
            for value in near.chain([u64::MAX]) {
                let bucket = bucket_of(bits, value);
                let middle = middle_of(bits, bucket);
                let width = value >> bits;
                assert!(middle.abs_diff(value) <= width + 1, "{value} {middle}");
                assert_eq!(bucket_of(bits, middle), bucket);
                assert!(bucket >= before);
                before = bucket;
            }
        }
    }

    #[test]
    fn counts_of_the_same_key_are_added() {
        let mut all = vec![(1, 10), (5, u64::MAX)];
        add_counts(&mut all, &[(0, 1), (5, 7), (9, 2)]);
        assert_eq!(all, [(0, 1), (1, 10), (5, u64::MAX), (9, 2)]);
        let mut none = Vec::new();
        add_counts(&mut none, &all);
        assert_eq!(none, all);
    }
}
