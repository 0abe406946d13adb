//! Named places and the links between them, as data. They determine which places can reach each
//! other, and at which addresses.
//!
//! Every named place is a separate network. A link joins two places. Places are not routers: two
//! places without a common link can't reach each other. These networks are not visible outside the
//! machine, so their addresses can't conflict with other machines' addresses, and two trials may
//! use the same addresses.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use prony_record::quantity;

/// Named places of a variant and the links between them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// Named places, in the order of the plan.
    pub places: Vec<NamedPlace>,
    /// Links, in the order of the plan. Two places have at most one link.
    pub links: Vec<NetworkLink>,
}

/// A named place, which is a separate network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedPlace {
    /// Name of the place in the plan.
    pub name: String,
    /// Kernel settings of the place's network, by dotted name.
    pub settings: BTreeMap<String, String>,
    /// True to skip settings that exist only for the whole machine. If false, such settings are an
    /// error.
    pub where_possible: bool,
    /// Addresses in this place from which the load may connect, in addition to the links'
    /// addresses.
    pub sources: Vec<AddressBlock>,
}

/// A link between two places.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkLink {
    /// Name of the link in the plan, which is also the name of the interface at both ends.
    pub name: String,
    /// Both ends of the link, in the order of the plan.
    pub ends: [LinkEnd; 2],
    /// Maximum rate in each direction; `None` means unlimited.
    pub rate: Option<LinkRate>,
    /// Random loss in each direction; `None` if the plan sets none.
    pub loss: Option<PacketShare>,
    /// Delay and other properties that need an emulator; `None` if the plan sets none.
    pub emulation: Option<LinkEmulation>,
}

/// Properties of a link that an emulator provides: the kernel's `sch_netem`, or prony's relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkEmulation {
    /// Delay of packets from the first place to the second, and in the other direction.
    pub delays: [Duration; 2],
    /// Variation of the delay. Packets keep their order nevertheless.
    pub jitter: Duration,
    /// Distribution of the variation.
    pub distribution: JitterDistribution,
    /// Mean number of packets that are lost in a row; `None` if losses are independent.
    pub loss_burst: Option<u32>,
    /// Share of packets that skip the delay, and so overtake others.
    pub reorder: PacketShare,
    /// Share of packets that arrive twice.
    pub duplicate: PacketShare,
    /// Emulator that the plan names.
    pub emulator: EmulatorChoice,
    /// Core on which the relay runs; `None` means any.
    pub relay_core: Option<usize>,
}

/// Distribution of the variation of a delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JitterDistribution {
    /// Evenly distributed between the delay minus the jitter and the delay plus the jitter.
    #[default]
    Uniform,
    /// Normally distributed; the jitter is the standard deviation.
    Normal,
}

/// Emulator that a plan names for a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmulatorChoice {
    /// The kernel if it has `sch_netem`, otherwise the relay.
    #[default]
    Auto,
    /// The kernel's `sch_netem`.
    Kernel,
    /// The relay, which forwards packets between two TAP devices.
    Relay,
}

/// One end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkEnd {
    /// Index of the place.
    pub place: usize,
    /// Address of the place on this link.
    pub address: Ipv4Addr,
}

/// Rate limit for one direction of a link, implemented as a token bucket (see tc-tbf(8)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkRate {
    /// Rate in bits of Ethernet frames per second. Frames include their headers of 14 bytes, but
    /// not checksums and gaps.
    pub bits_per_s: u64,
    /// Maximum burst after a pause, in bytes.
    pub burst_bytes: u64,
    /// Maximum queueing delay of a packet. Packets that would wait longer are dropped.
    pub queue: Duration,
}

/// Share of a link's packets, such as those that are lost: a probability for each packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct PacketShare {
    /// Number of packets per million.
    per_million: u32,
}

/// A block of addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct AddressBlock {
    first: Ipv4Addr,
    bits: u8,
}

impl Topology {
    /// Returns true if there are no named places.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the name of a place; empty if the place doesn't exist.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        self.places
            .get(place)
            .map_or("", |place| place.name.as_str())
    }

    /// Returns the address at which the place `from` reaches the place `of`. It is the address of
    /// `of` on their link, or the loopback address if both are the same place. Returns `None` if no
    /// link joins the places.
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

    /// Iterates over the places that share a link with `place`, each with the address of `place` on
    /// that link.
    pub fn neighbors(&self, place: usize) -> impl Iterator<Item = (usize, Ipv4Addr)> {
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

impl NetworkLink {
    /// Returns true if the link carries packets of the size used on a wire, instead of segments of
    /// up to 64 KiB. A loss of 0% also has this effect, so factor levels with different losses
    /// differ only in their loss.
    #[must_use]
    pub fn has_wire_frames(&self) -> bool {
        self.rate.is_some() || self.loss.is_some() || self.emulation.is_some()
    }

    /// Returns the loss that is independent of other packets, and so needs no emulator.
    #[must_use]
    pub fn independent_loss(&self) -> Option<PacketShare> {
        let has_bursts = |emulation: &LinkEmulation| emulation.loss_burst.is_some();
        self.loss
            .filter(|_| !self.emulation.as_ref().is_some_and(has_bursts))
    }

    /// Returns the loss that comes in bursts, and the mean number of packets in a burst.
    #[must_use]
    pub fn burst_loss(&self) -> Option<(PacketShare, u32)> {
        let burst = self.emulation.as_ref()?.loss_burst?;
        self.loss.map(|loss| (loss, burst))
    }
}

impl LinkEmulation {
    /// Largest delay of one direction.
    pub const DELAY_MAX: Duration = Duration::from_secs(10);

    /// Largest mean number of packets that are lost in a row.
    pub const LOSS_BURST_MAX: u32 = 1_000;

    /// Creates an emulation with these delays and nothing else.
    #[must_use]
    pub fn with_delays(delays: [Duration; 2]) -> Self {
        Self {
            delays,
            jitter: Duration::ZERO,
            distribution: JitterDistribution::default(),
            loss_burst: None,
            reorder: PacketShare::ZERO,
            duplicate: PacketShare::ZERO,
            emulator: EmulatorChoice::default(),
            relay_core: None,
        }
    }

    /// Returns the planned round-trip time.
    #[must_use]
    pub fn round_trip(&self) -> Duration {
        self.delays[0] + self.delays[1]
    }
}

impl JitterDistribution {
    /// Largest variation, as a multiple of the jitter.
    #[must_use]
    pub fn reach(self) -> u32 {
        match self {
            JitterDistribution::Uniform => 1,
            JitterDistribution::Normal => 4,
        }
    }
}

/// Reason why a value of a link can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkValueError {
    /// The value as text.
    pub text: String,
    /// Description of the fault, with a hint: "is not a link rate (write it like 100Mbit or 1Gbit)".
    pub what: &'static str,
}

impl LinkValueError {
    fn new(text: &str, what: &'static str) -> Self {
        let text = text.to_owned();
        Self { text, what }
    }
}

impl fmt::Display for LinkValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\" {}", self.text, self.what)
    }
}

impl PacketShare {
    /// Smallest share, 0%.
    pub const ZERO: Self = Self { per_million: 0 };

    /// Largest share, 50%.
    pub const MAX: Self = Self {
        per_million: 500_000,
    };

    /// Parses a percentage, such as `1%` or `0.05%`.
    ///
    /// # Errors
    /// The value has another form, or is out of range.
    pub fn parse(text: &str) -> Result<Self, LinkValueError> {
        let wrong = |what| LinkValueError::new(text, what);
        let share = quantity::percent(text)
            .ok_or_else(|| wrong("is not a percentage (write it like 1% or 0.1%)"))?;
        let per_million = (share * 1e6).round();
        if !(0.0..=f64::from(Self::MAX.per_million)).contains(&per_million) {
            return Err(wrong("is out of range (use 0% to 50%)"));
        }
        if per_million == 0.0 && share > 0.0 {
            return Err(wrong("is too small (use 0%, or at least 0.0001%)"));
        }
        Ok(Self {
            per_million: per_million as u32,
        })
    }

    /// Returns the number of packets per million.
    #[must_use]
    pub fn per_million(self) -> u32 {
        self.per_million
    }
}

impl fmt::Display for PacketShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", f64::from(self.per_million) / 1e4)
    }
}

impl LinkRate {
    /// Minimum bucket size, which is ten full frames. A smaller bucket would split the bursts of a
    /// sender.
    const BURST_BYTES_MIN: u64 = 10 * 1_514;

    /// Creates a rate limit with the default queue (25 ms) and the default bucket size, which is
    /// the number of bytes that the rate allows in 1 ms.
    #[must_use]
    pub fn new(bits_per_s: u64) -> Self {
        Self {
            bits_per_s,
            burst_bytes: (bits_per_s / 8 / 1_000).max(Self::BURST_BYTES_MIN),
            queue: Duration::from_millis(25),
        }
    }

    /// Parses bits per second, such as `100Mbit`, `2.5Gbit`, `512kbit` or `9600bit`.
    ///
    /// # Errors
    /// The value has another form, or is out of range.
    pub fn bits(text: &str) -> Result<u64, LinkValueError> {
        let wrong = |what| LinkValueError::new(text, what);
        let bits = quantity::bit_rate(text)
            .ok_or_else(|| wrong("is not a link rate (write it like 100Mbit or 1Gbit)"))?;
        if (8_000.0..=1e12).contains(&bits) {
            Ok(bits.round() as u64)
        } else {
            Err(wrong("is out of range (use 8kbit to 1000Gbit)"))
        }
    }
}

impl fmt::Display for LinkRate {
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

impl AddressBlock {
    /// Splits `ADDRESS`, `NETWORK/BITS` or `FIRST-LAST` into the smallest possible number of
    /// blocks. A network is one block, including its first and last addresses.
    ///
    /// # Errors
    /// The value has another form, or is out of range.
    pub fn cover(input: &str) -> Result<Vec<Self>, LinkValueError> {
        let wrong = |what| LinkValueError::new(input, what);
        let address = |text: &str| {
            let address = text.trim().parse::<Ipv4Addr>();
            address.map_err(|_| wrong("is not an IPv4 address (named places use IPv4 only)"))
        };
        if let Some((network, bits)) = input.split_once('/') {
            let first = address(network)?;
            let bits: u8 = bits
                .trim()
                .parse()
                .ok()
                .filter(|bits| (1..=32).contains(bits))
                .ok_or_else(|| wrong("has an invalid prefix length (use 1 to 32)"))?;
            let block = Self { first, bits };
            if block.first.to_bits() & (block.size() - 1) as u32 != 0 {
                return Err(wrong("is not the first address of its network"));
            }
            return Ok(vec![block]);
        }
        let (first, last) = match input.split_once('-') {
            Some((first, last)) => (address(first)?, address(last)?),
            None => (address(input)?, address(input)?),
        };
        let (mut next, last) = (u64::from(first.to_bits()), u64::from(last.to_bits()));
        let mut blocks = Vec::new();
        while next <= last {
            // Find the largest aligned block that begins at `next` and doesn't extend beyond the
            // last address.
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

    /// Returns true if the block contains the address.
    #[must_use]
    pub fn has(&self, address: Ipv4Addr) -> bool {
        let offset = u64::from(address.to_bits()).checked_sub(u64::from(self.first.to_bits()));
        offset.is_some_and(|offset| offset < self.size())
    }

    /// Returns true if the blocks share an address.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.has(other.first) || other.has(self.first)
    }

    /// Returns the number of addresses in the block.
    #[must_use]
    pub fn size(&self) -> u64 {
        1 << (32 - self.bits)
    }
}

impl fmt::Display for AddressBlock {
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

    fn link(name: &str, a: (usize, [u8; 4]), b: (usize, [u8; 4])) -> NetworkLink {
        let end = |(place, address): (usize, [u8; 4])| LinkEnd {
            place,
            address: address.into(),
        };
        NetworkLink {
            name: name.to_owned(),
            ends: [end(a), end(b)],
            rate: None,
            loss: None,
            emulation: None,
        }
    }

    #[test]
    fn addresses_depend_on_the_viewer() {
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
        assert_eq!(at(2, 0), None, "a place must not forward packets");
        let around: Vec<_> = topology.neighbors(1).collect();
        assert_eq!(
            around,
            [(0, [10, 0, 0, 2].into()), (2, [10, 0, 1, 2].into())]
        );
    }

    #[test]
    fn rates_as_people_type_them() {
        assert_eq!(LinkRate::bits("100Mbit"), Ok(100_000_000));
        assert_eq!(LinkRate::bits("2.5 gbit"), Ok(2_500_000_000));
        assert_eq!(LinkRate::bits("512kbit"), Ok(512_000));
        for wrong in [
            "", "100", "fast", "1Gbps", "-1Gbit", "1e3Mbit", "1kbit", "2000Gbit", "Mbit",
        ] {
            assert!(LinkRate::bits(wrong).is_err(), "{wrong}");
        }
        assert_eq!(LinkRate::new(1_000_000_000).to_string(), "1 Gbit/s");
        assert_eq!(LinkRate::new(1_000_000_000).burst_bytes, 125_000);
        assert_eq!(LinkRate::new(1_000_000).burst_bytes, 15_140);
    }

    #[test]
    fn losses_are_percentages_up_to_half() {
        for (text, per_million, shown) in [
            ("0%", 0, "0%"),
            ("1%", 10_000, "1%"),
            ("0.05 %", 500, "0.05%"),
            ("0.0001%", 1, "0.0001%"),
            ("50%", 500_000, "50%"),
        ] {
            let loss = PacketShare::parse(text).unwrap();
            assert_eq!(
                (loss.per_million(), loss.to_string()),
                (per_million, shown.to_owned())
            );
        }
        for wrong in ["", "1", "0.01", "51%", "-1%", "0.00001%", "NaN%", "few"] {
            assert!(PacketShare::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn ranges_become_the_fewest_blocks() {
        let cover = |text: &str| {
            let blocks = AddressBlock::cover(text).unwrap();
            blocks
                .iter()
                .map(AddressBlock::to_string)
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
            assert!(AddressBlock::cover(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_block_contains_the_addresses_it_covers() {
        let block = AddressBlock::cover("10.50.0.0/16").unwrap()[0];
        assert!(block.has([10, 50, 255, 255].into()) && !block.has([10, 51, 0, 0].into()));
        assert_eq!(block.size(), 65_536);
        let all: u64 = AddressBlock::cover("10.0.0.3-10.0.3.200")
            .unwrap()
            .iter()
            .map(AddressBlock::size)
            .sum();
        assert_eq!(all, 3 * 256 + 200 - 3 + 1);
        let inner = AddressBlock::cover("10.50.7.0/24").unwrap()[0];
        assert!(block.overlaps(&inner) && inner.overlaps(&block));
        assert!(!inner.overlaps(&AddressBlock::cover("10.50.8.1").unwrap()[0]));
    }
}
