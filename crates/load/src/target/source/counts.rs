//! Counts per source address, with bounded memory use.

use prony_record::{Outcome, SourceCount, SourceTotals, SourceUse};

use super::Sources;

/// Maximum number of addresses that are counted separately. The others are counted together. A
/// worker uses 24 bytes for each address that was used.
const COUNTED_ADDRESSES_MAX: u64 = 1 << 20;

/// Connections, successes and failures of one source.
type Counts = [u64; 3];

/// Counts of one worker, indexed by source ([`Sources::source_index`]).
#[derive(Debug, Default)]
pub(crate) struct SourceCounts {
    /// Counts of each source; empty if no sources were given. Zeros use no memory until they are
    /// written to.
    each: Vec<Counts>,
    beyond: Counts,
}

impl SourceCounts {
    pub(crate) fn new(sources: u64) -> SourceCounts {
        SourceCounts {
            each: vec![[0; 3]; sources.min(COUNTED_ADDRESSES_MAX) as usize],
            beyond: [0; 3],
        }
    }

    /// Returns true if there are sources to count.
    #[inline]
    pub(crate) fn is_counting(&self) -> bool {
        !self.each.is_empty()
    }

    fn of(&mut self, index: u64) -> &mut Counts {
        match self.each.get_mut(index as usize) {
            Some(counts) => counts,
            None => &mut self.beyond,
        }
    }

    /// Counts an opened connection.
    pub(crate) fn connected(&mut self, index: u64) {
        self.of(index)[0] += 1;
    }

    /// Counts an ended request.
    pub(crate) fn ended(&mut self, index: u64, outcome: Outcome) {
        match outcome {
            Outcome::Ok => self.of(index)[1] += 1,
            other if other.is_failure() => self.of(index)[2] += 1,
            _ => {}
        }
    }

    /// Adds another worker's counts from the same load.
    pub(crate) fn merge(&mut self, other: &SourceCounts) {
        let others = other.each.iter().chain([&other.beyond]);
        for (mine, theirs) in self.each.iter_mut().chain([&mut self.beyond]).zip(others) {
            // Unwritten entries use no memory.
            if *theirs != [0; 3] {
                for (mine, theirs) in mine.iter_mut().zip(theirs) {
                    *mine += theirs;
                }
            }
        }
    }

    /// Summary for the record; `None` if no sources were given.
    pub(crate) fn summary(&self, sources: &Sources) -> Option<SourceUse> {
        if !self.is_counting() {
            return None;
        }
        let named = self.each.iter().enumerate().filter_map(|(index, counts)| {
            Some(SourceCount {
                address: sources.address_at(index as u64)?,
                totals: totals(*counts),
            })
        });
        let are_replaced = sources
            .proxy_protocol()
            .is_some_and(|proxy| proxy.replaces_addresses());
        Some(SourceUse {
            // These words are part of the format of stored records.
            kind: if are_replaced { "told" } else { "bound" }.to_owned(),
            order: sources.order().name().to_owned(),
            given: sources.counted(),
            beyond: (sources.counted() > COUNTED_ADDRESSES_MAX).then(|| totals(self.beyond)),
            ..SourceUse::of(named)
        })
    }
}

fn totals([connections, ok, failed]: Counts) -> SourceTotals {
    SourceTotals {
        connections,
        ok,
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        Sources::new(&crate::LoadSettings::from_flags(text)).unwrap()
    }

    #[test]
    fn workers_counts_add_up_by_address() {
        let sources = sources("--source 127.0.0.2-127.0.0.4 --source ::1");
        let mut one = SourceCounts::new(sources.counted());
        one.connected(0);
        one.ended(0, Outcome::Ok);
        one.ended(0, Outcome::Timeout);
        one.ended(0, Outcome::Unfinished);
        let mut other = SourceCounts::new(sources.counted());
        other.connected(3);
        other.ended(0, Outcome::Ok);
        one.merge(&other);
        let summary = one.summary(&sources).unwrap();
        assert_eq!((summary.given, summary.used), (4, 2));
        assert_eq!(
            (summary.kind.as_str(), summary.order.as_str()),
            ("bound", "round-robin")
        );
        let [first, last] = &summary.each[..] else {
            panic!("{summary:?}");
        };
        assert_eq!(first.address.to_string(), "127.0.0.2");
        assert_eq!(first.totals, totals([1, 2, 1]));
        assert_eq!(last.address.to_string(), "::1");
        assert_eq!(last.totals, totals([1, 0, 0]));
    }

    #[test]
    fn with_millions_of_sources_the_last_are_counted_together() {
        let sources = sources("--source 127.0.0.0/8");
        let mut counts = SourceCounts::new(sources.counted());
        for index in [
            0,
            COUNTED_ADDRESSES_MAX - 1,
            COUNTED_ADDRESSES_MAX,
            5 * COUNTED_ADDRESSES_MAX,
        ] {
            counts.connected(index);
        }
        let summary = counts.summary(&sources).unwrap();
        assert_eq!(summary.used, 2);
        assert_eq!(summary.beyond, Some(totals([2, 0, 0])));
    }

    #[test]
    fn without_sources_nothing_is_counted() {
        let counts = SourceCounts::new(0);
        assert!(!counts.is_counting());
        assert_eq!(counts.summary(&Sources::default()), None);
    }
}
