//! Numbers of connections and requests by source address.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Maximum number of used addresses that are stored individually. If more addresses were used, only
/// totals are stored.
const LISTED_MAX: usize = 1_000;

/// Use of the source addresses in the measured part. Stored only if the load has source addresses.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceUse {
    /// `bound`: connections came from these addresses. `told`: a PROXY protocol header contained
    /// them. `server`: connections led to these addresses.
    pub kind: String,
    /// Order in which connections use the addresses: `round-robin`, `random` or `per-user`; of a
    /// server's addresses `first`, `all` or `random`.
    pub order: String,
    /// Number of addresses given to the load.
    pub given: u64,
    /// Number of addresses that had an opened connection or a finished request.
    pub used: u64,
    /// Spread of opened connections over the used addresses.
    pub connections: SourceSpread,
    /// Spread of successful requests over the used addresses.
    pub ok: SourceSpread,
    /// Spread of failed requests over the used addresses.
    pub failed: SourceSpread,
    /// Totals of the addresses that are not counted individually: those at the end of a very long
    /// list. `used` doesn't include them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<SourceTotals>,
    /// The used addresses in the order in which they were given; empty if more than 1,000 were
    /// used.
    pub each: Vec<SourceCount>,
}

/// Distribution of a count over the addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceSpread {
    /// Smallest count of any address.
    pub least: u64,
    /// Median count. With an even number of addresses, the lower of the two middle counts.
    pub median: u64,
    /// Largest count of any address.
    pub most: u64,
}

/// Numbers of connections and requests of one address, or of several addresses together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceTotals {
    /// Connections opened.
    pub connections: u64,
    /// Successful requests.
    pub ok: u64,
    /// Failed requests, with any outcome.
    pub failed: u64,
}

/// One source address with its numbers of connections and requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SourceCount {
    /// Source address.
    pub address: IpAddr,
    /// Connections and requests of the address.
    #[serde(flatten)]
    pub totals: SourceTotals,
}

impl SourceTotals {
    fn is_unused(self) -> bool {
        self == SourceTotals::default()
    }
}

impl SourceUse {
    /// Summarizes the counts of all addresses. Ignores unused addresses.
    pub fn of(counts: impl Iterator<Item = SourceCount>) -> SourceUse {
        let used: Vec<SourceCount> = counts.filter(|count| !count.totals.is_unused()).collect();
        let spread = |figure: fn(&SourceTotals) -> u64| {
            SourceSpread::of(used.iter().map(|count| figure(&count.totals)).collect())
        };
        SourceUse {
            used: used.len() as u64,
            connections: spread(|totals| totals.connections),
            ok: spread(|totals| totals.ok),
            failed: spread(|totals| totals.failed),
            each: match used.len() {
                0..=LISTED_MAX => used,
                _ => Vec::new(),
            },
            ..SourceUse::default()
        }
    }
}

impl SourceSpread {
    fn of(mut counts: Vec<u64>) -> SourceSpread {
        counts.sort_unstable();
        let (Some(&least), Some(&most)) = (counts.first(), counts.last()) else {
            return SourceSpread::default();
        };
        SourceSpread {
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
    fn used_addresses_are_listed_and_summed_up() {
        let used = SourceUse::of(counts(5, |n| u64::from(n) * 10).into_iter());
        // The first address had neither a connection nor a request.
        assert_eq!(used.used, 4);
        let spread = |least, median, most| SourceSpread {
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
    fn many_addresses_are_only_summed_up() {
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
