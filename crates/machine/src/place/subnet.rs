//! Private addresses for veth pairs, taken from the /30 subnets of one /16 network that is free on
//! the host.

use std::net::Ipv4Addr;

use super::PlaceRefused;
use crate::system::command;

/// Candidates for the /16 network. Rarely used networks come first.
const BASES: [Ipv4Addr; 5] = [
    Ipv4Addr::new(10, 213, 0, 0),
    Ipv4Addr::new(10, 87, 0, 0),
    Ipv4Addr::new(172, 29, 0, 0),
    Ipv4Addr::new(10, 141, 0, 0),
    Ipv4Addr::new(192, 168, 0, 0),
];

/// A /30 subnet of four addresses. The second address belongs to the host, and the third to the
/// service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Subnet {
    base: Ipv4Addr,
    number: u16,
}

impl Subnet {
    /// Iterates over the 16,384 subnets of a /16 network.
    pub(crate) fn all(base: Ipv4Addr) -> impl Iterator<Item = Self> {
        (0..1 << 14).map(move |number| Self { base, number })
    }

    /// Returns the host's address in the subnet.
    pub(crate) fn outside(self) -> Ipv4Addr {
        self.address(1)
    }

    /// Returns the service's address in the subnet.
    pub(crate) fn inside(self) -> Ipv4Addr {
        self.address(2)
    }

    /// Returns the /16 network that contains all subnets, as the destination of a route.
    pub(crate) fn base_route(self) -> String {
        format!("{}/16", self.base)
    }

    /// Returns the name of the host's end of the link.
    pub(crate) fn link_name(self) -> String {
        format!("prony{}", self.number)
    }

    fn address(self, host: u32) -> Ipv4Addr {
        Ipv4Addr::from_bits(self.base.to_bits() + 4 * u32::from(self.number) + host)
    }
}

/// Returns the first candidate for the /16 network that overlaps no address and no route of this
/// host.
pub(super) fn free_base() -> Result<Ipv4Addr, PlaceRefused> {
    let routes = command::run("ip", &["-4", "-o", "route", "show", "table", "all"])
        .map_err(PlaceRefused::Host)?;
    choose_base(&routes).ok_or_else(|| {
        let all = BASES.iter().map(|base| format!("{base}/16"));
        PlaceRefused::NoSubnet(all.collect())
    })
}

/// Chooses a /16 network from the output of `ip -4 -o route show table all`, which includes local
/// addresses. Routes over prony's own links are ignored, and so are routes of links that were just
/// removed (`if12`).
fn choose_base(routes: &str) -> Option<Ipv4Addr> {
    let taken: Vec<(u32, u32)> = routes
        .lines()
        .filter(|line| !line.split_whitespace().any(is_own_link))
        .filter_map(|line| line.split_whitespace().find_map(parse_network))
        .collect();
    BASES.into_iter().find(|base| {
        let first = base.to_bits();
        let last = first | 0xffff;
        taken.iter().all(|&(low, high)| high < first || last < low)
    })
}

fn is_own_link(word: &str) -> bool {
    let mut numbers = ["prony", "if"]
        .into_iter()
        .filter_map(|prefix| word.strip_prefix(prefix));
    numbers.any(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Returns the first and last address of `a.b.c.d` or `a.b.c.d/n`; `None` for a default route.
fn parse_network(word: &str) -> Option<(u32, u32)> {
    let (address, bits) = match word.split_once('/') {
        Some((address, bits)) => (address, bits.parse().ok().filter(|bits| *bits <= 32)?),
        None => (word, 32_u32),
    };
    let address: Ipv4Addr = address.parse().ok()?;
    let host_part = u32::MAX.checked_shr(bits).unwrap_or(0);
    if bits == 0 {
        return None;
    }
    Some((
        address.to_bits() & !host_part,
        address.to_bits() | host_part,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: &str = "default via 192.0.2.1 dev eth0 \n192.0.2.0/24 dev eth0 proto kernel scope link src 192.0.2.2 \n\
        local 127.0.0.0/8 dev lo table local proto kernel scope host src 127.0.0.1 \n";

    #[test]
    fn the_first_base_is_chosen_if_nothing_overlaps() {
        assert_eq!(choose_base(PLAIN), Some(BASES[0]));
    }

    #[test]
    fn routes_that_overlap_exclude_a_base() {
        assert_eq!(
            choose_base(&format!("{PLAIN}10.213.4.0/24 dev vpn0 \n")),
            Some(BASES[1])
        );
        assert_eq!(
            choose_base(&format!("{PLAIN}local 10.213.255.255 dev x table local\n")),
            Some(BASES[1])
        );
        assert_eq!(
            choose_base(&format!("{PLAIN}10.0.0.0/8 via 192.0.2.9 dev eth0 \n")),
            Some(BASES[2])
        );
        assert_eq!(
            choose_base("10.0.0.0/8 dev a\n172.16.0.0/12 dev b\n192.168.0.0/16 dev c\n"),
            None
        );
    }

    #[test]
    fn links_of_prony_exclude_no_base() {
        assert_eq!(
            choose_base(&format!("{PLAIN}10.213.0.0/30 dev prony0 proto kernel\n")),
            Some(BASES[0])
        );
        assert_eq!(
            choose_base(&format!("{PLAIN}10.213.0.0/30 dev if77 table local\n")),
            Some(BASES[0])
        );
        assert_eq!(
            choose_base(&format!("{PLAIN}10.213.0.0/30 dev pronyx proto kernel\n")),
            Some(BASES[1])
        );
    }

    #[test]
    fn subnets_do_not_overlap() {
        let all: Vec<Subnet> = Subnet::all(BASES[0]).collect();
        assert_eq!(all[0].outside(), Ipv4Addr::new(10, 213, 0, 1));
        assert_eq!(all[0].inside(), Ipv4Addr::new(10, 213, 0, 2));
        let last = all.last().unwrap();
        assert_eq!(last.inside(), Ipv4Addr::new(10, 213, 255, 254));
        assert!(
            last.link_name().len() <= 15,
            "longer than the kernel's limit"
        );
    }
}
