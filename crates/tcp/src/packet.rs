//! IP packets that carry TCP or ICMP (RFC 791, RFC 8200).

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use crate::checksum::Sum;

/// IP protocol number of TCP.
pub(crate) const PROTOCOL_TCP: u8 = 6;
/// IP protocol number of ICMP for IPv4.
pub(crate) const PROTOCOL_ICMP_V4: u8 = 1;
/// IP protocol number of ICMP for IPv6.
pub(crate) const PROTOCOL_ICMP_V6: u8 = 58;

/// Size of the IPv4 header that this crate writes, in bytes.
pub(crate) const IPV4_HEADER: usize = 20;
/// Size of the IPv6 header, in bytes.
pub(crate) const IPV6_HEADER: usize = 40;

/// Hop limit of sent packets (time to live in IPv4).
const HOP_LIMIT: u8 = 64;

/// The parts of a received IP packet that the stack uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IpPacket {
    pub(crate) source: IpAddr,
    pub(crate) target: IpAddr,
    /// Protocol of the payload, such as [`PROTOCOL_TCP`].
    pub(crate) protocol: u8,
    /// Position of the payload in the packet.
    pub(crate) payload: Range<usize>,
}

impl IpPacket {
    /// Parses a packet; bytes after its end, such as Ethernet padding, are ignored. Returns `None`
    /// for fragments, IPv6 extension headers, and invalid headers.
    pub(crate) fn parse(bytes: &[u8]) -> Option<IpPacket> {
        match bytes.first()? >> 4 {
            4 => IpPacket::parse_v4(bytes, true),
            6 => IpPacket::parse_v6(bytes, true),
            _ => None,
        }
    }

    /// Parses a packet that an ICMP error quotes. The end of the packet may be missing.
    pub(crate) fn parse_quoted(bytes: &[u8]) -> Option<IpPacket> {
        match bytes.first()? >> 4 {
            4 => IpPacket::parse_v4(bytes, false),
            6 => IpPacket::parse_v6(bytes, false),
            _ => None,
        }
    }

    fn parse_v4(bytes: &[u8], whole: bool) -> Option<IpPacket> {
        let header = bytes.get(..IPV4_HEADER)?;
        let header_length = usize::from(header[0] & 0x0f) * 4;
        let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
        let end = if whole { total } else { total.min(bytes.len()) };
        let offset_and_more_fragments = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
        if header_length < IPV4_HEADER || end < header_length || offset_and_more_fragments != 0 {
            return None;
        }
        if whole && Sum::default().add(bytes.get(..header_length)?).folded() != [0xff, 0xff] {
            return None;
        }
        bytes.get(header_length..end)?;
        let octets: [u8; 4] = header[12..16].try_into().ok()?;
        let target: [u8; 4] = header[16..20].try_into().ok()?;
        Some(IpPacket {
            source: Ipv4Addr::from(octets).into(),
            target: Ipv4Addr::from(target).into(),
            protocol: header[9],
            payload: header_length..end,
        })
    }

    fn parse_v6(bytes: &[u8], whole: bool) -> Option<IpPacket> {
        let header = bytes.get(..IPV6_HEADER)?;
        let total = IPV6_HEADER + usize::from(u16::from_be_bytes([header[4], header[5]]));
        let end = if whole { total } else { total.min(bytes.len()) };
        bytes.get(IPV6_HEADER..end)?;
        let source: [u8; 16] = header[8..24].try_into().ok()?;
        let target: [u8; 16] = header[24..40].try_into().ok()?;
        Some(IpPacket {
            source: Ipv6Addr::from(source).into(),
            target: Ipv6Addr::from(target).into(),
            protocol: header[6],
            payload: IPV6_HEADER..end,
        })
    }
}

/// Returns the size of the IP header of packets between these addresses, in bytes.
pub(crate) fn header_length(target: IpAddr) -> usize {
    match target {
        IpAddr::V4(_) => IPV4_HEADER,
        IpAddr::V6(_) => IPV6_HEADER,
    }
}

/// Writes the IP header of a packet with `payload` bytes of TCP. Fragmentation is forbidden, so
/// routers report packets that are too big (RFC 1191). Both addresses must be of the same IP
/// version.
pub(crate) fn write_header(packet: &mut [u8], source: IpAddr, target: IpAddr, payload: usize) {
    match (source, target) {
        (IpAddr::V4(source), IpAddr::V4(target)) => {
            let total = (IPV4_HEADER + payload) as u16;
            let header = &mut packet[..IPV4_HEADER];
            header.copy_from_slice(&[0; IPV4_HEADER]);
            header[0] = 0x45;
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[6] = 0x40;
            header[8] = HOP_LIMIT;
            header[9] = PROTOCOL_TCP;
            header[12..16].copy_from_slice(&source.octets());
            header[16..20].copy_from_slice(&target.octets());
            let checksum = Sum::default().add(header).checksum();
            header[10..12].copy_from_slice(&checksum);
        }
        (source, target) => {
            let header = &mut packet[..IPV6_HEADER];
            header[..4].copy_from_slice(&[0x60, 0, 0, 0]);
            header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
            header[6] = PROTOCOL_TCP;
            header[7] = HOP_LIMIT;
            header[8..24].copy_from_slice(&as_v6(source).octets());
            header[24..40].copy_from_slice(&as_v6(target).octets());
        }
    }
}

/// Converts an address to IPv6 form.
pub(crate) fn as_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_headers_are_parsed_and_padding_is_ignored() {
        for (source, target) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let source: IpAddr = source.parse().unwrap();
            let target: IpAddr = target.parse().unwrap();
            let length = header_length(target);
            let mut packet = vec![0; length + 24 + 7];
            write_header(&mut packet, source, target, 24);
            let parsed = IpPacket::parse(&packet).unwrap();
            assert_eq!((parsed.source, parsed.target), (source, target));
            assert_eq!(parsed.protocol, PROTOCOL_TCP);
            assert_eq!(parsed.payload, length..length + 24);
            assert_eq!(IpPacket::parse(&packet[..length + 23]), None);
            assert!(IpPacket::parse_quoted(&packet[..length + 8]).is_some());
        }
    }

    #[test]
    fn fragments_and_wrong_checksums_are_ignored() {
        let (source, target) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let mut packet = vec![0; 40];
        write_header(&mut packet, source, target, 20);
        let mut fragment = packet.clone();
        fragment[7] = 1;
        assert_eq!(IpPacket::parse(&fragment), None);
        packet[15] ^= 1;
        assert_eq!(IpPacket::parse(&packet), None);
    }
}
