//! ICMP errors about packets that this side sent (RFC 792, RFC 4443).

use core::net::SocketAddr;

use crate::packet::{IpPacket, PROTOCOL_ICMP_V4, PROTOCOL_TCP};
use crate::sequence::Sequence;

/// Reason that an ICMP error gives for an undeliverable packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to the network or host.
    Host,
    /// The host has no TCP, or the port is closed.
    Port,
    /// A firewall rejected the packet.
    Prohibited,
}

/// An ICMP error about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// Source address of the segment, which belongs to this side.
    pub(crate) local: SocketAddr,
    /// Destination address of the segment.
    pub(crate) remote: SocketAddr,
    /// Sequence number of the segment.
    pub(crate) sequence: Sequence,
    pub(crate) kind: IcmpErrorKind,
}

/// The problem that an ICMP error reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IcmpErrorKind {
    Unreachable(Unreachable),
    /// The packet is larger than `mtu`, the MTU of the next link in bytes (RFC 1191, RFC 8201).
    TooBig {
        mtu: u32,
    },
}

impl IcmpError {
    /// Parses the payload of an ICMP packet. Returns `None` for other messages, and for errors
    /// about packets that are not TCP. The checksum is not verified: the quoted sequence number
    /// must be in flight anyway (RFC 5927 §4.1).
    pub(crate) fn parse(protocol: u8, payload: &[u8]) -> Option<IcmpError> {
        let (header, quoted) = payload.split_at_checked(8)?;
        let kind = if protocol == PROTOCOL_ICMP_V4 {
            let mtu = u32::from(u16::from_be_bytes([header[6], header[7]]));
            match (header[0], header[1]) {
                (3, 4) => IcmpErrorKind::TooBig { mtu },
                (3, 0 | 1 | 5..=8 | 11 | 12) => IcmpErrorKind::Unreachable(Unreachable::Host),
                (3, 2 | 3) => IcmpErrorKind::Unreachable(Unreachable::Port),
                (3, _) => IcmpErrorKind::Unreachable(Unreachable::Prohibited),
                _ => return None,
            }
        } else {
            let mtu = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
            match (header[0], header[1]) {
                (2, _) => IcmpErrorKind::TooBig { mtu },
                (1, 1 | 5 | 6) => IcmpErrorKind::Unreachable(Unreachable::Prohibited),
                (1, 4) => IcmpErrorKind::Unreachable(Unreachable::Port),
                (1, _) => IcmpErrorKind::Unreachable(Unreachable::Host),
                _ => return None,
            }
        };
        let packet = IpPacket::parse_quoted(quoted)?;
        let tcp = quoted.get(packet.payload)?;
        let ports = tcp.get(..8)?;
        if packet.protocol != PROTOCOL_TCP {
            return None;
        }
        Some(IcmpError {
            local: SocketAddr::new(packet.source, u16::from_be_bytes([ports[0], ports[1]])),
            remote: SocketAddr::new(packet.target, u16::from_be_bytes([ports[2], ports[3]])),
            sequence: Sequence(u32::from_be_bytes([ports[4], ports[5], ports[6], ports[7]])),
            kind,
        })
    }
}
