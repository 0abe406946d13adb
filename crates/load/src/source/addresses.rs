//! A list of addresses that can be indexed by number.

use std::net::IpAddr;

use super::range::SourceRange;

/// Addresses in the order in which they were given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Addresses {
    ranges: Vec<SourceRange>,
    /// Cumulative number of addresses up to the end of each range.
    ends: Vec<u64>,
    /// Ranges sorted by their first address.
    sorted: Vec<SourceRange>,
}

impl Addresses {
    /// Creates the list from ranges that don't overlap.
    ///
    /// # Errors
    ///
    /// Returns two ranges that have an address in common, the later one first.
    pub(crate) fn new(given: &[SourceRange]) -> Result<Addresses, [SourceRange; 2]> {
        let mut sorted = given.to_vec();
        sorted.sort_by_key(|range| range.first());
        if let Some(pair) = sorted
            .windows(2)
            .find(|pair| pair[1].first() <= pair[0].last())
        {
            return Err([pair[1], pair[0]]);
        }
        let mut count: u64 = 0;
        let ends = given.iter().map(|range| {
            count = count.saturating_add(range.count());
            count
        });
        Ok(Addresses {
            ends: ends.collect(),
            ranges: given.to_vec(),
            sorted,
        })
    }

    pub(crate) fn ranges(&self) -> &[SourceRange] {
        &self.ranges
    }

    pub(crate) fn count(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// Returns the address with this number, if there is one.
    pub(crate) fn nth(&self, index: u64) -> Option<IpAddr> {
        let range = self.ends.partition_point(|&end| end <= index);
        let before = range.checked_sub(1).map_or(0, |last| self.ends[last]);
        Some(self.ranges.get(range)?.nth(index - before))
    }

    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let after = self
            .sorted
            .partition_point(|range| range.first() <= address);
        after > 0 && self.sorted[after - 1].has(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_over_all_ranges_and_found_again() {
        let given = ["127.0.0.9", "127.0.0.2-127.0.0.3", "10.0.0.0/30"];
        let given = given.map(|typed| typed.parse().unwrap());
        let addresses = Addresses::new(&given).unwrap();
        let all: Vec<String> = (0..9)
            .map_while(|index| addresses.nth(index))
            .map(|address| address.to_string())
            .collect();
        let expected = [
            "127.0.0.9",
            "127.0.0.2",
            "127.0.0.3",
            "10.0.0.1",
            "10.0.0.2",
        ];
        assert_eq!(all, expected);
        assert_eq!(addresses.count(), 5);
        let has = |address: &str| addresses.has(address.parse().unwrap());
        assert!(expected.iter().all(|address| has(address)));
        for stranger in ["127.0.0.1", "127.0.0.4", "127.0.0.10", "10.0.0.0", "::1"] {
            assert!(!has(stranger), "{stranger}");
        }
        assert!(!Addresses::default().has("::1".parse().unwrap()));
        assert_eq!(Addresses::default().nth(0), None);
    }
}
