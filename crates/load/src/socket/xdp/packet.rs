//! Addresses and ports of packets.

use std::net::IpAddr;

/// Returns the local port of a received packet. This is the destination port of a TCP segment, or
/// the source port of the segment that an ICMP error quotes.
pub(super) fn local_port(packet: &[u8]) -> Option<u16> {
    let port = |at: usize| {
        let bytes = packet.get(at..at + 2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    };
    let (protocol, payload, inner) = match packet.first()? >> 4 {
        // Received packets may have options; the packets of the load that errors quote have none.
        4 => (*packet.get(9)?, usize::from(packet[0] & 0x0f) * 4, 20),
        _ => (*packet.get(6)?, 40, 40),
    };
    match protocol {
        6 => port(payload + 2),
        _ => port(payload + 8 + inner),
    }
}

/// Returns true if the address is in one of the ranges.
pub(super) fn is_in(ranges: &[prony_xdp::AddressRange], address: IpAddr) -> bool {
    ranges.iter().any(|range| range.contains(address))
}
