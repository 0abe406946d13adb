//! The BPF program. It redirects the load's own packets to the load's sockets, and passes all other
//! packets to the kernel.
//!
//! | packet | redirected if |
//! |---|---|
//! | TCP | it comes from a target's address and port, and goes to a source address and a local port of the load |
//! | ICMP and ICMPv6 errors | they quote a TCP packet of a source address and a local port of the load |
//! | ARP requests, neighbor solicitations | they ask for a source address that the kernel doesn't have |
//!
//! IPv4 packets may have options. Fragments, IPv6 packets with extension headers, and frames with a
//! VLAN tag are passed to the kernel.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ops::RangeInclusive;

use crate::address_range::AddressRange;
use crate::bpf::{Assembler, Condition, Instruction, Label, Register, Size};

use Condition::{Equal, Greater, Less, NotEqual};
use Register::{Frame, R0, R1, R2, R3, R4, R6, R7, R8, R9};
use Size::{Byte, Double, Half, Word};

/// The addresses and ports that identify a load's packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterSpec {
    /// The load's source addresses, as at most [`FilterSpec::RANGES_MAX`] ranges.
    pub sources: Vec<AddressRange>,
    /// Source addresses that the kernel doesn't have. Requests for the MAC address of such an
    /// address are also redirected, because the load must reply to them.
    pub answered: Vec<AddressRange>,
    /// The load's local ports.
    pub ports: RangeInclusive<u16>,
}

impl FilterSpec {
    /// Maximum number of address ranges, which limits the length of the program.
    pub const RANGES_MAX: usize = 512;
}

/// Size in bytes of a key in the map of targets.
pub(crate) const TARGET_KEY: usize = 20;

/// Offset of the IP header in a frame.
const IP: i16 = 14;
const IPV4_HEADER: i16 = 20;
const IPV6_HEADER: i16 = 40;

const PROTOCOL_ICMP_V4: u32 = 1;
const PROTOCOL_TCP: u32 = 6;
const PROTOCOL_ICMP_V6: u32 = 58;

/// Numbers of helper functions (bpf-helpers(7)).
const MAP_LOOKUP_ELEM: i32 = 1;
const REDIRECT_MAP: i32 = 51;
/// Return code that passes the packet to the kernel (XDP_PASS).
const PASS: i32 = 2;

/// Offsets of fields in `struct xdp_md`.
const CONTEXT_DATA: i16 = 0;
const CONTEXT_DATA_END: i16 = 4;
const CONTEXT_QUEUE: i16 = 16;

/// Returns the key of a target in the map of targets: the address of the target, in IPv6 form, and
/// its port.
pub(crate) fn target_key(target: SocketAddr) -> [u8; TARGET_KEY] {
    let address = match target.ip() {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let mut key = [0; TARGET_KEY];
    key[..16].copy_from_slice(&address.octets());
    key[16..18].copy_from_slice(&target.port().to_be_bytes());
    key
}

/// Numbers of the maps that the program uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FilterMaps {
    /// Number of the map of targets, whose keys are [`target_key`].
    pub(crate) targets: i32,
    /// Number of the map of sockets by receive queue.
    pub(crate) sockets: i32,
}

/// Assembles the program. Returns `None` if the specification has too many address ranges.
pub(crate) fn assemble(spec: &FilterSpec, maps: FilterMaps) -> Option<Vec<Instruction>> {
    if spec.sources.len().max(spec.answered.len()) > FilterSpec::RANGES_MAX {
        return None;
    }
    let mut code = Assembler::default();
    let labels = Labels {
        pass: code.label(),
        redirect: code.label(),
        lookup: code.label(),
    };
    let mut filter = Filter { code, labels, spec };
    let [v4, v6, arp] = [(); 3].map(|()| filter.code.label());
    let code = &mut filter.code;
    code.copy(R6, R1);
    code.load(Word, R7, R6, CONTEXT_DATA);
    code.load(Word, R8, R6, CONTEXT_DATA_END);
    filter.need(IP);
    filter.load_half(R3, 12);
    for (ether_type, label) in [(0x0800, v4), (0x86dd, v6), (0x0806, arp)] {
        filter.code.jump_if(R3, Equal, ether_type, label);
    }
    filter.code.jump(filter.labels.pass);
    filter.code.place(arp);
    filter.arp();
    filter.code.place(v4);
    filter.ipv4();
    filter.code.place(v6);
    filter.ipv6();
    filter.end(maps);
    filter.code.finish()
}

#[derive(Debug, Clone, Copy)]
struct Labels {
    /// Label of the code that passes the packet to the kernel.
    pass: Label,
    /// Label of the code that redirects the packet to the socket of its queue.
    redirect: Label,
    /// Label of the code that redirects the packet if the key on the stack is in the map of
    /// targets.
    lookup: Label,
}

/// Offset of a target's key on the stack, where the key is padded to a multiple of eight bytes.
const KEY: i16 = -24;

struct Filter<'a> {
    code: Assembler,
    labels: Labels,
    spec: &'a FilterSpec,
}

impl Filter<'_> {
    /// Appends code that passes packets of fewer than `bytes` bytes to the kernel. `R7` points to
    /// the start of the packet, and `R8` to its end.
    fn need(&mut self, bytes: i16) {
        self.code.copy(R2, R7);
        self.code.add(R2, bytes.into());
        self.code.jump_if_both(R2, Greater, R8, self.labels.pass);
    }

    /// Appends code that loads two bytes of the packet and converts them from network byte order.
    fn load_half(&mut self, target: Register, at: i16) {
        self.code.load(Half, target, R7, at);
        self.code.swap_from_network(target, 16);
    }

    /// Appends code that passes packets to the kernel unless the number at offset `at` is a local
    /// port of the load.
    fn need_port(&mut self, at: i16) {
        self.load_half(R3, at);
        let (low, high) = (*self.spec.ports.start(), *self.spec.ports.end());
        self.code.jump_if(R3, Less, low.into(), self.labels.pass);
        self.code
            .jump_if(R3, Greater, high.into(), self.labels.pass);
    }

    fn arp(&mut self) {
        const ARP: i16 = IP;
        let pass = self.labels.pass;
        self.need(ARP + 28);
        // The packet must be a request for an IPv4 address over Ethernet (RFC 826).
        for (at, value) in [(0, 1), (2, 0x0800), (6, 1)] {
            self.load_half(R3, ARP + at);
            self.code.jump_if(R3, NotEqual, value, pass);
        }
        self.code.load(Word, R9, R7, ARP + 24);
        self.code.swap_from_network(R9, 32);
        let redirect = self.labels.redirect;
        self.v4_in(true, redirect);
        self.code.jump(pass);
    }

    /// Appends code that jumps if the IPv4 address in `R9` is a source address of the load. If
    /// `answered` is true, only source addresses that the kernel doesn't have count.
    fn v4_in(&mut self, answered: bool, label: Label) {
        for (first, last) in self.v4_ranges(answered) {
            let next = self.code.label();
            self.code.jump_if(R9, Less, first.to_bits(), next);
            self.code.jump_if(R9, Greater, last.to_bits(), next);
            self.code.jump(label);
            self.code.place(next);
        }
    }

    /// Like [`Filter::v4_in`], but for the IPv6 address whose halves are in `R9` and `R4`.
    fn v6_in(&mut self, answered: bool, label: Label) {
        let halves = |address: Ipv6Addr| {
            let bits = address.to_bits();
            ((bits >> 64) as u64, bits as u64)
        };
        for (first, last) in self.v6_ranges(answered) {
            let (first, last) = (halves(first), halves(last));
            let code = &mut self.code;
            let [next, below] = [(); 2].map(|()| code.label());
            code.set_double(R3, first.0);
            code.jump_if_both(R9, Less, R3, next);
            code.jump_if_both(R9, Greater, R3, below);
            code.set_double(R3, first.1);
            code.jump_if_both(R4, Less, R3, next);
            code.place(below);
            code.set_double(R3, last.0);
            code.jump_if_both(R9, Greater, R3, next);
            code.jump_if_both(R9, Less, R3, label);
            code.set_double(R3, last.1);
            code.jump_if_both(R4, Greater, R3, next);
            code.jump(label);
            code.place(next);
        }
    }

    fn ranges(&self, answered: bool) -> &[AddressRange] {
        if answered {
            &self.spec.answered
        } else {
            &self.spec.sources
        }
    }

    fn v4_ranges(&self, answered: bool) -> Vec<(Ipv4Addr, Ipv4Addr)> {
        let ranges = self.ranges(answered).iter();
        let of_family = ranges.filter_map(|range| match (range.first, range.last) {
            (IpAddr::V4(first), IpAddr::V4(last)) => Some((first, last)),
            _ => None,
        });
        of_family.collect()
    }

    fn v6_ranges(&self, answered: bool) -> Vec<(Ipv6Addr, Ipv6Addr)> {
        let ranges = self.ranges(answered).iter();
        let of_family = ranges.filter_map(|range| match (range.first, range.last) {
            (IpAddr::V6(first), IpAddr::V6(last)) => Some((first, last)),
            _ => None,
        });
        of_family.collect()
    }

    fn ipv4(&mut self) {
        /// Offset of the payload in the frame.
        const PAYLOAD: i16 = IP + IPV4_HEADER;
        /// Offset of the packet that an ICMP error quotes.
        const QUOTED: i16 = PAYLOAD + 8;
        let (pass, lookup) = (self.labels.pass, self.labels.lookup);
        if self.v4_ranges(false).is_empty() {
            // Append nothing else, because the verifier rejects unreachable code.
            return self.code.jump(pass);
        }
        self.need(PAYLOAD + 8);
        // The packet must not be a fragment.
        self.load_half(R3, IP + 6);
        self.code.and(R3, 0x3fff);
        self.code.jump_if(R3, NotEqual, 0, pass);
        self.code.load(Word, R9, R7, IP + 16);
        self.code.swap_from_network(R9, 32);
        let [ours, icmp] = [(); 2].map(|()| self.code.label());
        self.v4_in(false, ours);
        self.code.jump(pass);
        self.code.place(ours);
        // Write the key of the sender to the stack, with its IPv4 address mapped to IPv6.
        self.code.store_value(Double, Frame, KEY, 0);
        self.code.load(Word, R3, R7, IP + 12);
        let mapped = u32::from_ne_bytes([0, 0, 0xff, 0xff]) as i32;
        self.code.store_value(Word, Frame, KEY + 8, mapped);
        self.code.store(Word, Frame, KEY + 12, R3);
        self.code.load(Byte, R9, R7, IP + 9);
        self.skip_v4_options();
        self.need(PAYLOAD + 8);
        self.code.jump_if(R9, Equal, PROTOCOL_ICMP_V4, icmp);
        self.code.jump_if(R9, NotEqual, PROTOCOL_TCP, pass);
        self.need_port(PAYLOAD + 2);
        self.code.load(Half, R3, R7, PAYLOAD);
        self.code.store_value(Double, Frame, KEY + 16, 0);
        self.code.store(Half, Frame, KEY + 16, R3);
        self.code.jump(lookup);
        // Of all ICMP messages, handle only the error "destination unreachable" (RFC 792).
        self.code.place(icmp);
        self.code.load(Byte, R3, R7, PAYLOAD);
        self.code.jump_if(R3, NotEqual, 3, pass);
        self.need(QUOTED + IPV4_HEADER + 8);
        self.code.load(Byte, R3, R7, QUOTED);
        self.code.jump_if(R3, NotEqual, 0x45, pass);
        self.code.load(Byte, R3, R7, QUOTED + 9);
        self.code.jump_if(R3, NotEqual, PROTOCOL_TCP, pass);
        self.need_port(QUOTED + IPV4_HEADER);
        self.code.jump(self.labels.redirect);
    }

    /// Appends code that moves the start of the packet, so that the payload of an IPv4 packet is
    /// where it would be without options.
    fn skip_v4_options(&mut self) {
        const WITHOUT_OPTIONS: u32 = 0x45;
        self.code.load(Byte, R3, R7, IP);
        self.code
            .jump_if(R3, Less, WITHOUT_OPTIONS, self.labels.pass);
        self.code.jump_if(R3, Greater, 0x4f, self.labels.pass);
        self.code.add(R3, -(WITHOUT_OPTIONS as i32));
        // The length is in units of four bytes.
        self.code.add_register(R3, R3);
        self.code.add_register(R3, R3);
        self.code.add_register(R7, R3);
    }

    /// Appends code that loads an IPv6 address of the packet into `R9` and `R4`.
    fn load_v6(&mut self, at: i16) {
        for (register, at) in [(R9, at), (R4, at + 8)] {
            self.code.load(Double, register, R7, at);
            self.code.swap_from_network(register, 64);
        }
    }

    fn ipv6(&mut self) {
        const PAYLOAD: i16 = IP + IPV6_HEADER;
        const QUOTED: i16 = PAYLOAD + 8;
        let (pass, lookup, redirect) = (self.labels.pass, self.labels.lookup, self.labels.redirect);
        if self.v6_ranges(false).is_empty() {
            return self.code.jump(pass);
        }
        self.need(PAYLOAD + 8);
        let [ours, icmp, solicitation] = [(); 3].map(|()| self.code.label());
        self.code.load(Byte, R3, R7, IP + 6);
        self.code.jump_if(R3, Equal, PROTOCOL_ICMP_V6, icmp);
        self.code.jump_if(R3, NotEqual, PROTOCOL_TCP, pass);
        self.need_port(PAYLOAD + 2);
        self.load_v6(IP + 24);
        self.v6_in(false, ours);
        self.code.jump(pass);
        self.code.place(ours);
        for at in [0, 8] {
            self.code.load(Double, R3, R7, IP + 8 + at);
            self.code.store(Double, Frame, KEY + at, R3);
        }
        self.code.load(Half, R3, R7, PAYLOAD);
        self.code.store_value(Double, Frame, KEY + 16, 0);
        self.code.store(Half, Frame, KEY + 16, R3);
        self.code.jump(lookup);
        // Handle the ICMPv6 errors "destination unreachable" and "packet too big" (RFC 4443).
        self.code.place(icmp);
        self.code.load(Byte, R3, R7, PAYLOAD);
        self.code.jump_if(R3, Equal, 135, solicitation);
        self.code.jump_if(R3, Greater, 2, pass);
        self.need(QUOTED + IPV6_HEADER + 8);
        self.code.load(Byte, R3, R7, QUOTED + 6);
        self.code.jump_if(R3, NotEqual, PROTOCOL_TCP, pass);
        self.need_port(QUOTED + IPV6_HEADER);
        self.load_v6(IP + 24);
        self.v6_in(false, redirect);
        self.code.jump(pass);
        // Handle neighbor solicitations (RFC 4861 §4.3).
        self.code.place(solicitation);
        self.need(PAYLOAD + 24);
        self.load_v6(PAYLOAD + 8);
        self.v6_in(true, redirect);
        self.code.jump(pass);
    }

    /// Appends the final parts of the program, to which the other parts jump.
    fn end(&mut self, maps: FilterMaps) {
        let labels = self.labels;
        let code = &mut self.code;
        code.place(labels.lookup);
        code.load_map(R1, maps.targets);
        code.copy(R2, Frame);
        code.add(R2, KEY.into());
        code.call(MAP_LOOKUP_ELEM);
        code.jump_if_zero(R0, labels.pass);
        code.place(labels.redirect);
        code.load_map(R1, maps.sockets);
        code.load(Word, R2, R6, CONTEXT_QUEUE);
        // If the queue has no socket, its packets are passed to the kernel.
        code.set(R3, PASS);
        code.call(REDIRECT_MAP);
        code.exit();
        code.place(labels.pass);
        code.set(R0, PASS);
        code.exit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_tell_targets_apart() {
        let key = |text: &str| target_key(text.parse().unwrap());
        let v4 = key("10.0.0.2:80");
        assert_eq!(
            v4[..16],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 2]
        );
        assert_eq!(v4[16..], [0, 80, 0, 0]);
        assert_ne!(v4, key("10.0.0.2:81"));
        assert_ne!(v4, key("[::10.0.0.2]:80"));
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let maps = FilterMaps {
            targets: 3,
            sockets: 4,
        };
        let spec = |count: usize, address: &str| FilterSpec {
            sources: vec![AddressRange::single(address.parse().unwrap()); count],
            answered: Vec::new(),
            ports: 1024..=65535,
        };
        assert!(assemble(&spec(FilterSpec::RANGES_MAX, "fd00::1"), maps).is_some());
        assert!(assemble(&spec(FilterSpec::RANGES_MAX, "10.0.0.1"), maps).is_some());
        assert!(assemble(&spec(FilterSpec::RANGES_MAX + 1, "10.0.0.1"), maps).is_none());
    }
}
