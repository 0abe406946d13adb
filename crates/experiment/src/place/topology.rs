//! Named places and the links between them, as data: who reaches whom, and at which address.
//!
//! Every named place is a network of its own. A link joins two of them and nothing leads further:
//! what a place does not share a link with it can't reach. Since nobody outside sees these networks,
//! their addresses need no other machine's consent, and two trials may use the same ones.

use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The named places of one variant and the links between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The places, in the plan's order.
    pub places: Vec<NamedPlace>,
    /// The links, in the plan's order; at most one between any two places.
    pub links: Vec<Link>,
}

/// A network of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// Its name in the plan.
    pub name: String,
    /// Kernel settings by their dotted names, to be made in this network alone.
    pub settings: BTreeMap<String, String>,
    /// Whether settings that a network can't have for itself are left out rather than refused.
    pub where_possible: bool,
    /// The addresses from which the load in this place comes, beside those of its links.
    pub sources: Vec<Block>,
}

/// A cable between two places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Its name in the plan, and that of the interface at both its ends.
    pub name: String,
    /// Its ends, in the order in which the plan names the places.
    pub ends: [LinkEnd; 2],
    /// What it carries at most in each direction; unlimited without.
    pub rate: Option<Rate>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd {
    /// The place, by its position.
    pub place: usize,
    /// The place's address on this link.
    pub address: Ipv4Addr,
}

/// A limit of what one direction of a link carries, as a token bucket: tc-tbf(8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second of Ethernet frames, their headers of 14 bytes included, checksums and gaps not.
    pub bits_per_s: u64,
    /// Bytes that may go at once after a pause.
    pub burst_bytes: u64,
    /// How long a packet may wait; what would wait longer is dropped.
    pub latency: Duration,
}

/// What went over a link, counted at its first end since the link was made. Without a rate, packets
/// that the kernel handed over in one piece count as one, with one header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkTraffic {
    /// Bytes from the first place to the second.
    pub forth_bytes: u64,
    /// Packets from the first place to the second.
    pub forth_packets: u64,
    /// Bytes from the second place to the first.
    pub back_bytes: u64,
    /// Packets from the second place to the first.
    pub back_packets: u64,
}

/// A block of addresses: all that begin with the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Block {
    first: Ipv4Addr,
    bits: u8,
}

impl LinkTraffic {
    /// What went over it since an earlier count.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            forth_bytes: self.forth_bytes.saturating_sub(before.forth_bytes),
            forth_packets: self.forth_packets.saturating_sub(before.forth_packets),
            back_bytes: self.back_bytes.saturating_sub(before.back_bytes),
            back_packets: self.back_packets.saturating_sub(before.back_packets),
        }
    }
}

impl Topology {
    /// Whether no place is named at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// The place's name; empty for one that isn't there.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        self.places
            .get(place)
            .map_or("", |place| place.name.as_str())
    }

    /// The address at which `of` is reached from `from`: by the link that joins them, or within one
    /// place by its loopback. `None` where no link leads from the one to the other.
    #[must_use]
    pub fn address(&self, of: usize, from: usize) -> Option<Ipv4Addr> {
        if of == from {
            return Some(Ipv4Addr::LOCALHOST);
        }
        self.links.iter().find_map(|link| {
            let [a, b] = link.ends;
            match (a.place, b.place) {
                places if places == (of, from) => Some(a.address),
                places if places == (from, of) => Some(b.address),
                _ => None,
            }
        })
    }

    /// The places that a link joins to this one, each with the address of `place` on that link.
    pub fn neighbours(&self, place: usize) -> impl Iterator<Item = (usize, Ipv4Addr)> {
        self.links.iter().filter_map(move |link| {
            let [a, b] = link.ends;
            match place {
                _ if a.place == place => Some((b.place, a.address)),
                _ if b.place == place => Some((a.place, b.address)),
                _ => None,
            }
        })
    }
}

impl Rate {
    /// The least bucket: ten full frames, since a smaller one would cut what a sender sends at once.
    const LEAST_BURST_BYTES: u64 = 10 * 1_514;

    /// A rate with the bucket and the queue that a plan gets unless it names others: what goes in a
    /// millisecond, and 25 ms.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            burst_bytes: (bits_per_s / 8 / 1_000).max(Self::LEAST_BURST_BYTES),
            latency: Duration::from_millis(25),
        }
    }

    /// `100Mbit`, `2.5Gbit`, `512kbit` or `9600bit` a second.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn bits(typed: &str) -> Result<u64, String> {
        let wrong = || format!("\"{typed}\" is no rate of a link; write it like 100Mbit or 1Gbit");
        let split = typed
            .find(|c: char| c.is_ascii_alphabetic())
            .ok_or_else(wrong)?;
        let (number, unit) = typed.split_at(split);
        let each = match unit.to_ascii_lowercase().as_str() {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" => 1e6,
            "gbit" => 1e9,
            _ => return Err(wrong()),
        };
        let number = number.trim();
        let is_plain = number
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.');
        let number: f64 = number.parse().ok().filter(|_| is_plain).ok_or_else(wrong)?;
        let bits = number * each;
        if (8_000.0..=1e12).contains(&bits) {
            Ok(bits.round() as u64)
        } else {
            Err(format!(
                "\"{typed}\" is no rate that can be kept; from 8kbit to 1000Gbit"
            ))
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits_per_s as f64;
        match self.bits_per_s {
            1_000_000_000.. => write!(f, "{} Gbit/s", bits / 1e9),
            1_000_000.. => write!(f, "{} Mbit/s", bits / 1e6),
            1_000.. => write!(f, "{} kbit/s", bits / 1e3),
            _ => write!(f, "{bits} bit/s"),
        }
    }
}

impl Block {
    /// The blocks that `ADDRESS`, `NETWORK/BITS` or `FIRST-LAST` is made of, as few as there can be.
    /// A network is one block, its first and last address included.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn cover(typed: &str) -> Result<Vec<Self>, String> {
        let address = |text: &str| {
            text.trim().parse::<Ipv4Addr>().map_err(|_| {
                format!("\"{typed}\" holds no IPv4 address, which is all that places have")
            })
        };
        if let Some((network, bits)) = typed.split_once('/') {
            let first = address(network)?;
            let bits: u8 = bits
                .trim()
                .parse()
                .ok()
                .filter(|bits| (1..=32).contains(bits))
                .ok_or_else(|| format!("\"{typed}\": a network's prefix here has 1 to 32 bits"))?;
            let block = Self { first, bits };
            if block.first.to_bits() & (block.size() - 1) as u32 != 0 {
                return Err(format!("\"{typed}\" begins within its network"));
            }
            return Ok(vec![block]);
        }
        let (first, last) = match typed.split_once('-') {
            Some((first, last)) => (address(first)?, address(last)?),
            None => (address(typed)?, address(typed)?),
        };
        let (mut next, last) = (u64::from(first.to_bits()), u64::from(last.to_bits()));
        let mut blocks = Vec::new();
        while next <= last {
            // The largest block that begins here and doesn't go beyond the last address.
            let aligned = next.trailing_zeros().min(31);
            let fitting = (last - next + 1).ilog2();
            let free = aligned.min(fitting);
            blocks.push(Self {
                first: Ipv4Addr::from_bits(next as u32),
                bits: (32 - free) as u8,
            });
            next += 1 << free;
        }
        Ok(blocks)
    }

    /// Whether the address is one of the block's.
    #[must_use]
    pub fn has(&self, address: Ipv4Addr) -> bool {
        let offset = u64::from(address.to_bits()).checked_sub(u64::from(self.first.to_bits()));
        offset.is_some_and(|offset| offset < self.size())
    }

    /// Whether the two have an address in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.has(other.first) || other.has(self.first)
    }

    /// How many addresses it has.
    #[must_use]
    pub fn size(&self) -> u64 {
        1 << (32 - self.bits)
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(name: &str) -> NamedPlace {
        NamedPlace {
            name: name.to_owned(),
            settings: BTreeMap::new(),
            where_possible: false,
            sources: Vec::new(),
        }
    }

    fn link(name: &str, a: (usize, [u8; 4]), b: (usize, [u8; 4])) -> Link {
        let end = |(place, address): (usize, [u8; 4])| LinkEnd {
            place,
            address: address.into(),
        };
        Link {
            name: name.to_owned(),
            ends: [end(a), end(b)],
            rate: None,
        }
    }

    #[test]
    fn who_reaches_whom_and_where() {
        let topology = Topology {
            places: vec![place("clients"), place("front"), place("back")],
            links: vec![
                link("wan", (0, [10, 0, 0, 1]), (1, [10, 0, 0, 2])),
                link("lan", (2, [10, 0, 1, 1]), (1, [10, 0, 1, 2])),
            ],
        };
        let at = |of, from| topology.address(of, from).map(|ip| ip.to_string());
        assert_eq!(at(1, 0).as_deref(), Some("10.0.0.2"));
        assert_eq!(at(1, 2).as_deref(), Some("10.0.1.2"), "its other leg");
        assert_eq!(at(2, 1).as_deref(), Some("10.0.1.1"));
        assert_eq!(at(1, 1).as_deref(), Some("127.0.0.1"));
        assert_eq!(at(2, 0), None, "nothing leads through a place");
        let around: Vec<_> = topology.neighbours(1).collect();
        assert_eq!(
            around,
            [(0, [10, 0, 0, 2].into()), (2, [10, 0, 1, 2].into())]
        );
    }

    #[test]
    fn rates_as_people_type_them() {
        assert_eq!(Rate::bits("100Mbit"), Ok(100_000_000));
        assert_eq!(Rate::bits("2.5 gbit"), Ok(2_500_000_000));
        assert_eq!(Rate::bits("512kbit"), Ok(512_000));
        for wrong in [
            "", "100", "fast", "1Gbps", "-1Gbit", "1e3Mbit", "1kbit", "2000Gbit", "Mbit",
        ] {
            assert!(Rate::bits(wrong).is_err(), "{wrong}");
        }
        assert_eq!(Rate::new(1_000_000_000).to_string(), "1 Gbit/s");
        assert_eq!(Rate::new(1_000_000_000).burst_bytes, 125_000);
        assert_eq!(Rate::new(1_000_000).burst_bytes, 15_140);
    }

    #[test]
    fn ranges_become_the_fewest_blocks() {
        let cover = |typed: &str| {
            let blocks = Block::cover(typed).unwrap();
            blocks
                .iter()
                .map(Block::to_string)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(cover("10.50.0.0/16"), "10.50.0.0/16");
        assert_eq!(cover("10.0.0.7"), "10.0.0.7/32");
        assert_eq!(
            cover("10.0.0.1-10.0.0.9"),
            "10.0.0.1/32 10.0.0.2/31 10.0.0.4/30 10.0.0.8/31"
        );
        assert_eq!(
            cover("10.0.0.0-10.0.46.223").split(' ').count(),
            7,
            "12,000 of them"
        );
        assert_eq!(
            cover("255.255.255.254-255.255.255.255"),
            "255.255.255.254/31"
        );
        for wrong in ["fd00::/64", "10.0.0.1/16", "10.0.0.0/0", "x", "10.0.0.1-y"] {
            assert!(Block::cover(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_has_what_it_covers() {
        let block = Block::cover("10.50.0.0/16").unwrap()[0];
        assert!(block.has([10, 50, 255, 255].into()) && !block.has([10, 51, 0, 0].into()));
        assert_eq!(block.size(), 65_536);
        let all: u64 = Block::cover("10.0.0.3-10.0.3.200")
            .unwrap()
            .iter()
            .map(Block::size)
            .sum();
        assert_eq!(all, 3 * 256 + 200 - 3 + 1);
        let inner = Block::cover("10.50.7.0/24").unwrap()[0];
        assert!(block.overlaps(&inner) && inner.overlaps(&block));
        assert!(!inner.overlaps(&Block::cover("10.50.8.1").unwrap()[0]));
    }
}
