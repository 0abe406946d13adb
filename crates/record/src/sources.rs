//! What came from each of a load's source addresses.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// More addresses are summed up and not listed.
const MOST_LISTED: usize = 1_000;

/// What came from each source address in the measured part. Present where the load was given any.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceUse {
    /// `bound`: connections came from them. `told`: a PROXY protocol header told them.
    pub kind: String,
    /// How one was chosen for a connection: `round-robin`, `random` or `per-user`.
    pub order: String,
    /// How many the load was given.
    pub given: u64,
    /// How many of them had a connection opened or a request ended.
    pub used: u64,
    /// Connections opened, over the addresses used.
    pub connections: Spread,
    /// Successes, over the addresses used.
    pub ok: Spread,
    /// Failures, over the addresses used.
    pub failed: Spread,
    /// Those of the last of very many addresses, which are not counted apart: none of `used`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<SourceTotals>,
    /// Each address that was used, in the order in which they were given; empty where more than
    /// 1,000 were.
    pub each: Vec<SourceCount>,
}

/// How a count differs between addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spread {
    /// Of the address with least.
    pub least: u64,
    /// Half of the addresses have no more than this; of two middle ones the lower.
    pub median: u64,
    /// Of the address with most.
    pub most: u64,
}

/// What came from one address, or from several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceTotals {
    /// Connections opened.
    pub connections: u64,
    /// Successes.
    pub ok: u64,
    /// Failures of every kind.
    pub failed: u64,
}

/// One address and what came from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCount {
    /// The address.
    pub address: IpAddr,
    /// What came from it.
    #[serde(flatten)]
    pub totals: SourceTotals,
}

impl SourceTotals {
    fn is_unused(self) -> bool {
        self == SourceTotals::default()
    }
}

impl SourceUse {
    /// Sums up what came from each address; those without anything may be among them.
    pub fn of(counts: impl Iterator<Item = SourceCount>) -> SourceUse {
        let used: Vec<SourceCount> = counts.filter(|count| !count.totals.is_unused()).collect();
        let spread = |figure: fn(&SourceTotals) -> u64| {
            Spread::of(used.iter().map(|count| figure(&count.totals)).collect())
        };
        SourceUse {
            used: used.len() as u64,
            connections: spread(|totals| totals.connections),
            ok: spread(|totals| totals.ok),
            failed: spread(|totals| totals.failed),
            each: match used.len() {
                0..=MOST_LISTED => used,
                _ => Vec::new(),
            },
            ..SourceUse::default()
        }
    }
}

impl Spread {
    fn of(mut counts: Vec<u64>) -> Spread {
        counts.sort_unstable();
        let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else {
            return Spread::default();
        };
        Spread {
            least,
            median: counts[(counts.len() - 1) / 2],
            most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(of: u32, ok: impl Fn(u32) -> u64) -> Vec<SourceCount> {
        let count = |n: u32| SourceCount {
            address: std::net::Ipv4Addr::from_bits(0x0a00_0000 + n).into(),
            totals: SourceTotals {
                connections: u64::from(n % 2),
                ok: ok(n),
                failed: 0,
            },
        };
        (0..of).map(count).collect()
    }

    #[test]
    fn what_was_used_is_listed_and_summed_up() {
        let used = SourceUse::of(counts(5, |n| u64::from(n) * 10).into_iter());
        // The first had neither a connection nor a request.
        assert_eq!(used.used, 4);
        let spread = |least, median, most| Spread {
            least,
            median,
            most,
        };
        assert_eq!(used.ok, spread(10, 20, 40));
        assert_eq!(used.connections, spread(0, 0, 1));
        assert_eq!(used.failed, spread(0, 0, 0));
        let listed: Vec<u64> = used.each.iter().map(|count| count.totals.ok).collect();
        assert_eq!(listed, [10, 20, 30, 40]);
        assert_eq!(SourceUse::of(std::iter::empty()), SourceUse::default());
    }

    #[test]
    fn of_many_addresses_only_the_sum_is_kept() {
        assert_eq!(
            SourceUse::of(counts(1000, |_| 1).into_iter()).each.len(),
            1000
        );
        let many = SourceUse::of(counts(1001, |_| 1).into_iter());
        assert_eq!((many.used, many.each.len()), (1001, 0));
        assert_eq!((many.ok.least, many.ok.most), (1, 1));
    }

    #[test]
    fn an_address_and_its_counts_are_one_object() {
        let json = serde_json::to_value(counts(1, |_| 7)[0]).unwrap();
        assert_eq!(
            (&json["address"], &json["ok"]),
            (&"10.0.0.0".into(), &7.into())
        );
    }
}
