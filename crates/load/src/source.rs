//! Local addresses that connections come from: `--source`.
//!
//! A network of millions of addresses costs no more than one: ranges are kept, and counted into.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::request::Target;
use crate::socket::Peer;
use crate::socket::local::{self, LocalPorts, Source};
use crate::spec::SpecError;

/// No load has more connections at a time; of a larger range the rest stays unused.
const LARGEST: u64 = 1 << 32;

/// One `--source`: an address or a row of them, at most 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRange {
    first: IpAddr,
    count: u64,
}

impl FromStr for SourceRange {
    type Err = String;

    /// `ADDR`, `CIDR` or `FIRST-LAST`. A network stands for its hosts: without the first address
    /// and, for IPv4, the last one (RFC 919 §7, RFC 4291 §2.6.1), unless it has no others.
    fn from_str(typed: &str) -> Result<SourceRange, String> {
        let range = if let Some((network, length)) = typed.split_once('/') {
            network_range(typed, network, length)?
        } else if let Some((first, last)) = typed.split_once('-') {
            let (first, last) = (address(typed, first)?, address(typed, last)?);
            if first.is_ipv4() != last.is_ipv4() {
                return Err(format!(
                    "\"{typed}\" begins in one address family and ends in the other"
                ));
            }
            let Some(more) = number(last).checked_sub(number(first)) else {
                return Err(format!("\"{typed}\" ends before it begins"));
            };
            SourceRange::new(first, more.saturating_add(1))
        } else {
            SourceRange::new(address(typed, typed)?, 1)
        };
        for address in [range.first, range.last()] {
            if let Some(reason) = unfit(address) {
                return Err(format!("\"{typed}\": {address} {reason}"));
            }
        }
        Ok(range)
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            1 => self.first.fmt(f),
            _ => write!(f, "{}-{}", self.first, self.last()),
        }
    }
}

impl SourceRange {
    fn new(first: IpAddr, count: u128) -> SourceRange {
        let count = u64::try_from(count).unwrap_or(LARGEST).min(LARGEST);
        SourceRange { first, count }
    }

    fn nth(self, index: u64) -> IpAddr {
        let address = number(self.first) + u128::from(index);
        match self.first {
            // Within the range the sum has no more bits than an address: `from_str` saw to it.
            IpAddr::V4(_) => Ipv4Addr::from_bits(address as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(address).into(),
        }
    }

    fn last(self) -> IpAddr {
        self.nth(self.count - 1)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(typed: &str, part: &str) -> Result<IpAddr, String> {
    if part.contains('%') {
        return Err(format!(
            "\"{typed}\": an address with a zone can't be a source"
        ));
    }
    part.trim_matches(['[', ']']).parse().map_err(|_| {
        format!(
            "\"{typed}\" is no source; write an address, a network like 10.0.0.0/24 or a range \
             like 10.0.0.1-10.0.0.9"
        )
    })
}

fn network_range(typed: &str, network: &str, length: &str) -> Result<SourceRange, String> {
    let first = address(typed, network)?;
    let bits: u32 = if first.is_ipv4() { 32 } else { 128 };
    let length: u32 = length
        .parse()
        .ok()
        .filter(|&length| length <= bits)
        .ok_or_else(|| format!("\"{typed}\": a prefix has 0 to {bits} bits"))?;
    let free = bits - length;
    let size = 1u128.checked_shl(free).unwrap_or(u128::MAX);
    if number(first) & (size - 1) != 0 {
        return Err(format!(
            "\"{typed}\" is an address within a network; write {first} for that address alone, or \
             the network's first address with /{length} for all"
        ));
    }
    if free < 2 {
        return Ok(SourceRange::new(first, size));
    }
    let hosts = match first {
        IpAddr::V4(_) => size - 2,
        IpAddr::V6(_) => size - 1,
    };
    let network = SourceRange { first, count: 2 };
    Ok(SourceRange::new(network.nth(1), hosts))
}

/// Why no connection can come from an address.
fn unfit(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("is no address to come from"),
        _ if address.is_multicast() => Some("is a group's, not a machine's"),
        IpAddr::V4(v4) if v4.is_broadcast() => Some("is everybody's, not a machine's"),
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            Some("is link-local and would need a zone; give one of another kind")
        }
        _ => None,
    }
}

/// All addresses that a load comes from, by family.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    v4: Pool,
    v6: Pool,
    /// The ports to choose from, where the system would search long by itself.
    ports: Option<LocalPorts>,
}

/// The addresses of one family, in the order in which they were given.
#[derive(Debug, Clone, Default)]
struct Pool {
    ranges: Vec<SourceRange>,
    /// For each range, how many addresses it and those before it have.
    ends: Vec<u64>,
}

impl Pool {
    fn add(&mut self, range: SourceRange) {
        self.ends.push(self.count().saturating_add(range.count));
        self.ranges.push(range);
    }

    fn count(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The address whose turn it is.
    fn in_turn(&self, number: u64) -> Option<IpAddr> {
        let index = number.checked_rem(self.count())?;
        let place = self.ends.partition_point(|&end| end <= index);
        let before = place.checked_sub(1).map_or(0, |last| self.ends[last]);
        Some(self.ranges.get(place)?.nth(index - before))
    }
}

impl Sources {
    /// Sorts what was given by family.
    ///
    /// # Errors
    ///
    /// Where an address was given twice.
    pub(crate) fn new(given: &[SourceRange]) -> Result<Sources, SpecError> {
        let mut sorted = given.to_vec();
        sorted.sort_by_key(|range| range.first);
        for pair in sorted.windows(2) {
            if pair[1].first <= pair[0].last() {
                return Err(SpecError::Arguments(format!(
                    "--source {}: {} is in --source {} as well",
                    pair[1], pair[1].first, pair[0]
                )));
            }
        }
        let mut sources = Sources::default();
        for &range in given {
            sources.pool_mut(range.first).add(range);
        }
        Ok(sources)
    }

    /// From now on each connection's port is chosen from these, all alike.
    pub(crate) fn choose_ports(&mut self, ports: Option<LocalPorts>) {
        self.ports = ports;
    }

    fn pool_mut(&mut self, like: IpAddr) -> &mut Pool {
        match like {
            IpAddr::V4(_) => &mut self.v4,
            IpAddr::V6(_) => &mut self.v6,
        }
    }

    fn pool(&self, like: IpAddr) -> &Pool {
        match like {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        }
    }

    /// How many addresses there are; none where the system chooses.
    pub(crate) fn count(&self) -> u64 {
        self.v4.count().saturating_add(self.v6.count())
    }

    /// How many of them can connect to an address: one at least, which the system chooses.
    pub(crate) fn count_for(&self, peer: IpAddr) -> u64 {
        self.pool(peer).count().max(1)
    }

    /// Whether connections may come from an address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        let within = |range: &SourceRange| range.first <= address && address <= range.last();
        self.count() == 0 || self.pool(address).ranges.iter().any(within)
    }

    /// Whether an address of this family can be connected to.
    pub(crate) fn suit(&self, peer: IpAddr) -> bool {
        self.count() == 0 || self.pool(peer).count() > 0
    }

    /// Where the connection with this number, among all of the load's, comes from.
    pub(crate) fn in_turn(&self, peer: &Peer, number: u64) -> Option<Source> {
        let Peer::Tcp(peer) = peer else {
            return None;
        };
        let address = self.pool(peer.ip()).in_turn(number);
        let source = Source {
            address,
            ports: self.ports,
        };
        (address.is_some() || self.ports.is_some()).then_some(source)
    }

    /// Checks that every address has something to connect to, and that the ends of each range are
    /// this machine's.
    ///
    /// # Errors
    ///
    /// Names the address and the mend.
    pub(crate) fn check(&self, targets: &[Target]) -> Result<(), SpecError> {
        for (pool, family) in [(&self.v4, "an IPv4"), (&self.v6, "an IPv6")] {
            let Some(range) = pool.ranges.first() else {
                continue;
            };
            let is_used = targets.iter().any(|target| match &target.peer {
                Peer::Tcp(peer) => peer.is_ipv4() == range.first.is_ipv4(),
                Peer::Unix(_) => false,
            });
            if !is_used {
                return Err(SpecError::Arguments(format!(
                    "--source {range}: {family} address can't connect to a target of the other \
                     family; give sources and target of one family (--resolve chooses a target's \
                     address)"
                )));
            }
            for range in &pool.ranges {
                bindable(range.first, range)?;
                bindable(range.last(), range)?;
            }
        }
        Ok(())
    }
}

fn bindable(address: IpAddr, range: &SourceRange) -> Result<(), SpecError> {
    let error = match local::try_source(address) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    let bits = if address.is_ipv4() { 32 } else { 128 };
    let mend = match range.count {
        1 if cfg!(target_os = "linux") => format!("ip address add {address}/{bits} dev lo"),
        1 => format!("ifconfig lo0 alias {address}/{bits}"),
        _ if cfg!(target_os = "linux") => {
            "ip address add for each, or ip route add local NETWORK dev lo".to_owned()
        }
        _ => "ifconfig lo0 alias for each".to_owned(),
    };
    Err(SpecError::Environment(format!(
        "--source {range}: {address} can't be connected from ({error}); make it an address of this \
         machine first ({mend}; on the interface that leads to the target, where that is another \
         machine), or give one that it has"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(typed: &str) -> SourceRange {
        typed.parse().unwrap()
    }

    fn ends(typed: &str) -> (String, String, u64) {
        let range = range(typed);
        (
            range.first.to_string(),
            range.last().to_string(),
            range.count,
        )
    }

    fn sources(typed: &[&str]) -> Sources {
        let ranges: Vec<_> = typed.iter().map(|typed| range(typed)).collect();
        Sources::new(&ranges).unwrap()
    }

    fn addresses(sources: &Sources, peer: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
        let peer = Peer::Tcp(peer.parse().unwrap());
        numbers
            .filter_map(|number| sources.in_turn(&peer, number)?.address)
            .map(|address| address.to_string())
            .collect()
    }

    #[test]
    fn all_forms_of_a_source() {
        for (typed, first, last, count) in [
            ("127.0.0.5", "127.0.0.5", "127.0.0.5", 1),
            ("127.0.0.2-127.0.1.1", "127.0.0.2", "127.0.1.1", 256),
            ("127.0.0.0/8", "127.0.0.1", "127.255.255.254", (1 << 24) - 2),
            ("10.0.0.0/30", "10.0.0.1", "10.0.0.2", 2),
            ("10.0.0.0/31", "10.0.0.0", "10.0.0.1", 2),
            ("10.0.0.7/32", "10.0.0.7", "10.0.0.7", 1),
            ("::1", "::1", "::1", 1),
            ("[fd00::2]-[fd00::5]", "fd00::2", "fd00::5", 4),
            ("fd00::/126", "fd00::1", "fd00::3", 3),
            ("fd00::4/127", "fd00::4", "fd00::5", 2),
            ("fd00::9/128", "fd00::9", "fd00::9", 1),
            ("fd00::/64", "fd00::1", "fd00::1:0:0", 1 << 32),
        ] {
            let expected = (first.to_owned(), last.to_owned(), count);
            assert_eq!(ends(typed), expected, "{typed}");
        }
    }

    #[test]
    fn what_is_no_source_is_refused_with_a_reason() {
        for (typed, reason) in [
            ("", "is no source"),
            ("localhost", "is no source"),
            ("127.0.0.1:80", "is no source"),
            ("127.0.0.2-9", "is no source"),
            ("127.0.0.9-127.0.0.2", "ends before it begins"),
            ("127.0.0.9-::1", "other"),
            ("127.0.0.5/8", "within a network"),
            ("127.0.0.0/33", "0 to 32 bits"),
            ("fd00::/129", "0 to 128 bits"),
            ("fd00::/x", "0 to 128 bits"),
            ("0.0.0.0", "no address"),
            ("::", "no address"),
            ("224.0.0.1", "group"),
            ("255.255.255.255", "everybody's"),
            ("fe80::1", "link-local"),
            ("fe80::1%lo", "zone"),
        ] {
            let error = typed.parse::<SourceRange>().unwrap_err();
            assert!(error.contains(reason), "{typed}: {error}");
        }
    }

    #[test]
    fn addresses_take_turns_over_all_ranges_of_the_family() {
        let sources = sources(&["127.0.0.2-127.0.0.3", "::1", "127.0.0.9"]);
        assert_eq!(
            addresses(&sources, "127.0.0.1:80", 0..7),
            [
                "127.0.0.2",
                "127.0.0.3",
                "127.0.0.9",
                "127.0.0.2",
                "127.0.0.3",
                "127.0.0.9",
                "127.0.0.2"
            ]
        );
        assert_eq!(addresses(&sources, "[::1]:80", 0..2), ["::1", "::1"]);
        assert_eq!(sources.count(), 4);
        assert_eq!(sources.count_for("127.0.0.1".parse().unwrap()), 3);
        let unix = Peer::Unix("/s".into());
        assert!(sources.in_turn(&unix, 0).is_none());
        assert_eq!(addresses(&Sources::default(), "[::1]:80", 0..2).len(), 0);
    }

    #[test]
    fn an_address_given_twice_is_refused() {
        let given = [range("10.0.0.1-10.0.0.9"), range("10.0.0.9")];
        let error = Sources::new(&given).unwrap_err().to_string();
        assert!(error.contains("10.0.0.9 is in"), "{error}");
    }
}
