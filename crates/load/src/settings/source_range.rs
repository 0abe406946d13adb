//! Source addresses as typed: a single address, a network or a range.
//!
//! Only the ends of a network are stored, so its size doesn't matter.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use crate::values::error::SettingsError;

/// Maximum number of addresses that are used from a range. No load has more concurrent connections
/// than that.
const ADDRESSES_MAX: u64 = 1 << 32;

/// A value of `--source` or `--proxy-source`: an address, or a range of at most 2^32 addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceRange {
    first: IpAddr,
    count: u64,
    /// Prefix length in bits, if the range was typed as a network.
    network: Option<u32>,
}

impl FromStr for SourceRange {
    type Err = SettingsError;

    /// Parses `ADDR`, `CIDR` or `FIRST-LAST`. A network means its hosts: all addresses except the
    /// first one and, for IPv4, the last one (RFC 919 §7, RFC 4291 §2.6.1). If a network has no
    /// other addresses, these are included.
    fn from_str(text: &str) -> Result<SourceRange, SettingsError> {
        let range = if let Some((network, length)) = text.split_once('/') {
            network_range(text, network, length)?
        } else if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (address(text, first)?, address(text, last)?);
            if first.is_ipv4() != last.is_ipv4() {
                let error =
                    format!("\"{text}\" begins in one address family and ends in the other");
                return Err(error.into());
            }
            let Some(more) = number(last).checked_sub(number(first)) else {
                return Err(format!("\"{text}\" ends before it begins").into());
            };
            SourceRange::new(first, more.saturating_add(1))
        } else {
            SourceRange::new(address(text, text)?, 1)
        };
        for address in [range.first, range.last()] {
            if let Some(reason) = unusable_reason(address) {
                return Err(format!("\"{text}\": {address} {reason}").into());
            }
        }
        Ok(range)
    }
}

impl fmt::Display for SourceRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.count) {
            (Some(length), _) => write!(f, "{}/{length}", self.network_address(length)),
            (None, 1) => self.first.fmt(f),
            (None, _) => write!(f, "{}-{}", self.first, self.last()),
        }
    }
}

impl SourceRange {
    fn new(first: IpAddr, count: u128) -> SourceRange {
        let count = u64::try_from(count)
            .unwrap_or(ADDRESSES_MAX)
            .min(ADDRESSES_MAX);
        SourceRange {
            first,
            count,
            network: None,
        }
    }

    /// Creates a range from `first` to `last`, both included. Both must be of the same family, and
    /// `first` must not be greater than `last`.
    pub fn between(first: IpAddr, last: IpAddr) -> SourceRange {
        SourceRange::new(
            first,
            number(last).saturating_sub(number(first)).saturating_add(1),
        )
    }

    /// Number of addresses in the range, at least one.
    pub fn count(self) -> u64 {
        self.count
    }

    /// First address of the range.
    pub fn first(self) -> IpAddr {
        self.first
    }

    /// Last address of the range.
    pub fn last(self) -> IpAddr {
        self.nth(self.count - 1)
    }

    /// The address with this index, which must be less than the count.
    pub fn nth(self, index: u64) -> IpAddr {
        // The sum fits into an address because `from_str` checked the range.
        like(self.first, number(self.first) + u128::from(index))
    }

    /// Returns true if the address is in the range.
    pub fn has(self, address: IpAddr) -> bool {
        self.first <= address && address <= self.last()
    }

    /// The smallest set of networks that together contain exactly these addresses, each with its
    /// prefix length in bits. A range that was typed as a network yields that network.
    pub(crate) fn networks(self) -> Vec<(IpAddr, u32)> {
        if let Some(length) = self.network {
            return vec![(self.network_address(length), length)];
        }
        let (mut from, last) = (number(self.first), number(self.last()));
        let bits = bits(self.first);
        let mut networks = Vec::new();
        loop {
            // Finds the largest network that begins at `from` and doesn't extend past `last`.
            let left = last - from + 1;
            let free = from.trailing_zeros().min(left.ilog2()).min(bits);
            networks.push((like(self.first, from), bits - free));
            match from + (1 << free) {
                next if next > last => return networks,
                next => from = next,
            }
        }
    }

    fn network_address(self, length: u32) -> IpAddr {
        let free = bits(self.first) - length;
        like(
            self.first,
            number(self.first) & u128::MAX.checked_shl(free).unwrap_or(0),
        )
    }
}

fn bits(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Converts a number to an address of the same family as `family`.
fn like(family: IpAddr, number: u128) -> IpAddr {
    match family {
        IpAddr::V4(_) => Ipv4Addr::from_bits(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from_bits(number).into(),
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => v4.to_bits().into(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(text: &str, part: &str) -> Result<IpAddr, SettingsError> {
    if part.contains('%') {
        return Err(format!("\"{text}\": an address with a zone can't be a source").into());
    }
    part.trim_matches(['[', ']']).parse().map_err(|_| {
        SettingsError::from(format!("\"{text}\" is not a source"))
            .hint("write an address, a network like 10.0.0.0/24 or a range like 10.0.0.1-10.0.0.9")
    })
}

fn network_range(text: &str, network: &str, length: &str) -> Result<SourceRange, SettingsError> {
    let first = address(text, network)?;
    let bits = bits(first);
    let length: u32 = length
        .parse()
        .ok()
        .filter(|&length| length <= bits)
        .ok_or_else(|| format!("\"{text}\": the prefix length must be from 0 to {bits}"))?;
    let free = bits - length;
    let size = 1u128.checked_shl(free).unwrap_or(u128::MAX);
    if number(first) & (size - 1) != 0 {
        let error = SettingsError::from(format!("\"{text}\" is an address within a network"));
        return Err(error
            .hint(format!("write {first} for that address only"))
            .hint(format!(
                "the network's first address with /{length} for the whole network"
            )));
    }
    let (skipped, hosts) = match first {
        _ if free < 2 => (0, size),
        IpAddr::V4(_) => (1, size - 2),
        IpAddr::V6(_) => (1, size - 1),
    };
    let hosts = SourceRange::new(like(first, number(first) + skipped), hosts);
    Ok(SourceRange {
        network: Some(length),
        ..hosts
    })
}

/// Reason why connections can't use an address as their source; `None` if they can.
fn unusable_reason(address: IpAddr) -> Option<&'static str> {
    match address {
        _ if address.is_unspecified() => Some("can't be a source address"),
        _ if address.is_multicast() => Some("is a multicast address, which can't be a source"),
        IpAddr::V4(v4) if v4.is_broadcast() => {
            Some("is the broadcast address, which can't be a source")
        }
        IpAddr::V6(v6) if v6.is_unicast_link_local() => {
            Some("is link-local and would need a zone; use an address that is not link-local")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> SourceRange {
        text.parse().unwrap()
    }

    #[test]
    fn sources_can_be_written_in_all_forms() {
        for (text, first, last, count) in [
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
            let range = range(text);
            let ends = (range.first().to_string(), range.last().to_string());
            assert_eq!(ends, (first.to_owned(), last.to_owned()), "{text}");
            assert_eq!(range.count(), count, "{text}");
            assert_eq!(range.to_string(), text.replace(['[', ']'], ""));
        }
    }

    #[test]
    fn invalid_sources_are_refused_with_a_reason() {
        for (text, reason) in [
            ("", "is not a source"),
            ("localhost", "is not a source"),
            ("127.0.0.1:80", "is not a source"),
            ("127.0.0.2-9", "is not a source"),
            ("127.0.0.9-127.0.0.2", "ends before it begins"),
            ("127.0.0.9-::1", "other"),
            ("127.0.0.5/8", "within a network"),
            ("127.0.0.0/33", "from 0 to 32"),
            ("fd00::/129", "from 0 to 128"),
            ("fd00::/x", "from 0 to 128"),
            ("0.0.0.0", "a source address"),
            ("::", "a source address"),
            ("224.0.0.1", "multicast"),
            ("255.255.255.255", "broadcast"),
            ("fe80::1", "link-local"),
            ("fe80::1%lo", "zone"),
        ] {
            let error = text.parse::<SourceRange>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    #[test]
    fn the_networks_of_a_range_add_up_to_the_range() {
        for (text, networks) in [
            ("10.4.0.0/14", "10.4.0.0/14"),
            ("10.0.0.7", "10.0.0.7/32"),
            ("10.0.0.0-10.0.0.255", "10.0.0.0/24"),
            (
                "10.0.0.1-10.0.0.8",
                "10.0.0.1/32 10.0.0.2/31 10.0.0.4/30 10.0.0.8/32",
            ),
            ("fd00::/64", "fd00::/64"),
            ("fd00::2-fd00::3", "fd00::2/127"),
        ] {
            let found = range(text).networks();
            let found: Vec<_> = found.iter().map(|(a, l)| format!("{a}/{l}")).collect();
            assert_eq!(found.join(" "), networks, "{text}");
        }
        let wide = range("1.0.0.0-223.255.255.255");
        let sizes = wide
            .networks()
            .into_iter()
            .map(|(_, length)| 1 << (32 - length));
        assert_eq!(sizes.sum::<u64>(), wide.count());
    }
}
