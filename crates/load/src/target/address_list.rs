//! A list of addresses, and the order in which connections take them.

use std::net::IpAddr;

use crate::settings::{SourceOrder, SourceRange};
use prony_record::random_at;

/// A list of addresses in the given order.
#[derive(Debug, Clone, Default)]
pub(crate) struct AddressList {
    ranges: Vec<SourceRange>,
    /// Cumulative number of addresses at the end of each range, in the given order.
    ends: Vec<u64>,
    /// Ranges sorted by their first address.
    sorted: Vec<SourceRange>,
}

impl AddressList {
    /// Creates the list from ranges that don't overlap.
    ///
    /// # Errors
    ///
    /// Returns a pair of overlapping ranges. The range with the higher first address comes first.
    pub(crate) fn new(given: &[SourceRange]) -> Result<AddressList, [SourceRange; 2]> {
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
        Ok(AddressList {
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

    /// Returns the address at `index`; `None` if the list is shorter.
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

/// Inputs that determine the source address of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceSelector {
    /// Index of the connection among all connections of the load.
    pub(crate) connection: u64,
    /// Index of the virtual user that opens the connection. Each of the load's connections counts
    /// as one user, even if it carries several streams.
    pub(crate) user: u64,
    /// Seed of the load.
    pub(crate) seed: u64,
}

impl SourceOrder {
    /// Chooses one of `count` addresses; `None` if there are none.
    pub(crate) fn index(self, selector: SourceSelector, count: u64) -> Option<u64> {
        match self {
            SourceOrder::RoundRobin => selector.connection.checked_rem(count),
            SourceOrder::PerUser => selector.user.checked_rem(count),
            SourceOrder::Random => {
                let drawn = random_at(selector.seed, selector.connection);
                // Scales the 64-bit random number to `0..count`.
                (count > 0).then(|| ((u128::from(drawn) * u128::from(count)) >> 64) as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_over_all_ranges_and_found_again() {
        let given = ["127.0.0.9", "127.0.0.2-127.0.0.3", "10.0.0.0/30"];
        let given = given.map(|text| text.parse().unwrap());
        let addresses = AddressList::new(&given).unwrap();
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
        assert!(!AddressList::default().has("::1".parse().unwrap()));
        assert_eq!(AddressList::default().nth(0), None);
    }
}
