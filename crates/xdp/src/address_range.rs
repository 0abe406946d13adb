//! Ranges of IP addresses.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses of one family from `first` to `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    pub first: IpAddr,
    /// Last address of the range. It has the same family as the first address and is not less than
    /// it.
    pub last: IpAddr,
}

impl AddressRange {
    /// Creates a range that contains only the given address.
    pub fn single(address: IpAddr) -> AddressRange {
        AddressRange {
            first: address,
            last: address,
        }
    }

    /// Returns true if the range contains `address`.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && self.first <= address && address <= self.last
    }

    /// Returns the parts of the range that remain when the given addresses are removed.
    pub fn without(self, removed: &[IpAddr]) -> Vec<AddressRange> {
        let mut removed: Vec<_> = removed.iter().filter(|it| self.contains(**it)).collect();
        removed.sort_unstable();
        let (mut parts, mut next) = (Vec::new(), address_number(self.first));
        let end = address_number(self.last);
        let like = |value| match self.first {
            IpAddr::V4(_) => Ipv4Addr::from_bits(value as u32).into(),
            IpAddr::V6(_) => Ipv6Addr::from_bits(value).into(),
        };
        for address in removed {
            let at = address_number(*address);
            if next < at {
                parts.push(AddressRange {
                    first: like(next),
                    last: like(at - 1),
                });
            }
            match at.checked_add(1) {
                Some(after) if after <= end => next = after,
                _ => return parts,
            }
        }
        parts.push(AddressRange {
            first: like(next),
            last: self.last,
        });
        parts
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            self.first.fmt(f)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

fn address_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str) -> AddressRange {
        AddressRange {
            first: first.parse().unwrap(),
            last: last.parse().unwrap(),
        }
    }

    #[test]
    fn removed_addresses_split_a_range() {
        let parts = |range: AddressRange, removed: &[&str]| {
            let removed: Vec<IpAddr> = removed.iter().map(|it| it.parse().unwrap()).collect();
            let parts = range.without(&removed).into_iter();
            parts.map(|it| it.to_string()).collect::<Vec<_>>().join(" ")
        };
        let nine = range("10.0.0.1", "10.0.0.9");
        assert_eq!(parts(nine, &[]), "10.0.0.1-10.0.0.9");
        assert_eq!(parts(nine, &["10.0.0.10", "::1"]), "10.0.0.1-10.0.0.9");
        assert_eq!(
            parts(nine, &["10.0.0.9", "10.0.0.1", "10.0.0.3"]),
            "10.0.0.2 10.0.0.4-10.0.0.8"
        );
        assert_eq!(parts(range("::1", "::1"), &["::1", "::1"]), "");
        let all = range("0.0.0.0", "255.255.255.255");
        assert_eq!(parts(all, &["255.255.255.255"]), "0.0.0.0-255.255.255.254");
    }

    #[test]
    fn a_range_contains_its_own_family_only() {
        let all = range("0.0.0.0", "255.255.255.255");
        assert!(all.contains("9.9.9.9".parse().unwrap()));
        assert!(!all.contains("::9".parse().unwrap()));
    }
}
