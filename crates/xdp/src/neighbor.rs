//! Replies to requests for addresses that the kernel doesn't have, over ARP (RFC 826) and neighbor
//! discovery (RFC 4861).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::ethernet::{ETHERNET_HEADER, EtherType, MacAddress, ether_type, write_header};

/// Size of the largest reply in bytes.
pub const REPLY_BYTES: usize = ETHERNET_HEADER + IPV6_HEADER + ADVERTISEMENT;

const ARP: usize = 28;
const IPV6_HEADER: usize = 40;
/// Size in bytes of a neighbor advertisement, including the option that contains a MAC address.
const ADVERTISEMENT: usize = 32;
const PROTOCOL_ICMP_V6: u8 = 58;
/// Hop limit that proves that a packet was not forwarded (RFC 4861 §7.1.1).
const HOP_LIMIT: u8 = 255;

/// Writes the reply to a frame that asks for the MAC address of one of our addresses, and returns
/// the reply's size. Returns `None` for all other frames. `is_ours` returns true for our addresses,
/// and `own` is our MAC address.
pub fn reply(
    frame: &[u8],
    own: MacAddress,
    is_ours: impl Fn(IpAddr) -> bool,
    reply: &mut [u8; REPLY_BYTES],
) -> Option<usize> {
    let payload = frame.get(ETHERNET_HEADER..)?;
    match ether_type(frame)? {
        EtherType::Arp => arp_reply(payload, own, is_ours, reply),
        EtherType::Ipv6 => advertisement(frame, payload, own, is_ours, reply),
        EtherType::Ipv4 => None,
    }
}

fn arp_reply(
    request: &[u8],
    own: MacAddress,
    is_ours: impl Fn(IpAddr) -> bool,
    reply: &mut [u8; REPLY_BYTES],
) -> Option<usize> {
    let request: &[u8; ARP] = request.first_chunk()?;
    // These bytes mean Ethernet, IPv4, address sizes of six and four bytes, and a request.
    if request[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let target: [u8; 4] = *request.last_chunk()?;
    let asker = MacAddress(*request[8..].first_chunk()?);
    if !is_ours(Ipv4Addr::from(target).into()) || !asker.is_unicast() {
        return None;
    }
    write_header(reply, asker, own, EtherType::Arp);
    let answer = &mut reply[ETHERNET_HEADER..ETHERNET_HEADER + ARP];
    answer[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 2]);
    answer[8..14].copy_from_slice(&own.0);
    answer[14..18].copy_from_slice(&target);
    answer[18..28].copy_from_slice(&request[8..18]);
    Some(ETHERNET_HEADER + ARP)
}

fn advertisement(
    frame: &[u8],
    packet: &[u8],
    own: MacAddress,
    is_ours: impl Fn(IpAddr) -> bool,
    reply: &mut [u8; REPLY_BYTES],
) -> Option<usize> {
    let (header, message) = packet.split_first_chunk::<IPV6_HEADER>()?;
    let message = message.get(..24)?;
    let is_solicitation = header[6] == PROTOCOL_ICMP_V6
        && header[7] == HOP_LIMIT
        && message[0] == 135
        && message[1] == 0;
    let target: [u8; 16] = *message[8..].first_chunk()?;
    if !is_solicitation || !is_ours(Ipv6Addr::from(target).into()) {
        return None;
    }
    let asker: [u8; 16] = *header[8..].first_chunk()?;
    // The sender of a solicitation from the unspecified address wants to know if the target address
    // is already in use. The reply goes to all nodes.
    let is_duplicate_check = asker == [0; 16];
    let (receiver, receiver_mac, flags) = if is_duplicate_check {
        let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).octets();
        (all_nodes, MacAddress([0x33, 0x33, 0, 0, 0, 1]), 0x20)
    } else {
        // The flags mean "solicited" and "override".
        (asker, MacAddress(*frame[6..].first_chunk()?), 0x60)
    };
    write_header(reply, receiver_mac, own, EtherType::Ipv6);
    let packet = &mut reply[ETHERNET_HEADER..];
    packet.fill(0);
    packet[0] = 0x60;
    packet[4..6].copy_from_slice(&(ADVERTISEMENT as u16).to_be_bytes());
    packet[6] = PROTOCOL_ICMP_V6;
    packet[7] = HOP_LIMIT;
    packet[8..24].copy_from_slice(&target);
    packet[24..40].copy_from_slice(&receiver);
    let message = &mut packet[IPV6_HEADER..];
    message[0] = 136;
    message[4] = flags;
    message[8..24].copy_from_slice(&target);
    // This is the option that contains our MAC address.
    message[24..26].copy_from_slice(&[2, 1]);
    message[26..32].copy_from_slice(&own.0);
    let checksum = icmp_checksum(packet);
    packet[IPV6_HEADER + 2..IPV6_HEADER + 4].copy_from_slice(&checksum.to_be_bytes());
    Some(REPLY_BYTES)
}

/// Computes the checksum of an ICMPv6 message whose checksum field is zero (RFC 4443 §2.3).
fn icmp_checksum(packet: &[u8]) -> u16 {
    let message = &packet[IPV6_HEADER..];
    let words = packet[8..IPV6_HEADER]
        .chunks(2)
        .chain(message.chunks(2))
        .map(|pair| u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |byte| u32::from(*byte)));
    let mut sum = words.sum::<u32>() + message.len() as u32 + u32::from(PROTOCOL_ICMP_V6);
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: MacAddress = MacAddress([2, 0, 0, 0, 0, 9]);
    const ASKER: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

    fn answered(frame: &[u8], ours: &str) -> Option<Vec<u8>> {
        let ours: IpAddr = ours.parse().unwrap();
        let mut buffer = [0xee; REPLY_BYTES];
        let size = reply(frame, OWN, |address| address == ours, &mut buffer)?;
        Some(buffer[..size].to_vec())
    }

    fn request() -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_HEADER];
        write_header(&mut frame, MacAddress([0xff; 6]), ASKER, EtherType::Arp);
        frame.extend([0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(ASKER.0);
        frame.extend([10, 0, 0, 1]);
        frame.extend([0; 6]);
        frame.extend([10, 0, 0, 7]);
        frame
    }

    #[test]
    fn arp_requests_for_our_addresses_are_answered() {
        let reply = answered(&request(), "10.0.0.7").unwrap();
        let mut expected = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 6];
        expected.extend([0, 1, 8, 0, 6, 4, 0, 2]);
        expected.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 7]);
        expected.extend([2, 0, 0, 0, 0, 1, 10, 0, 0, 1]);
        assert_eq!(reply, expected);
        assert_eq!(answered(&request(), "10.0.0.8"), None);
        let mut a_reply = request();
        a_reply[21] = 2;
        assert_eq!(answered(&a_reply, "10.0.0.7"), None);
    }

    fn solicitation(from: &str) -> Vec<u8> {
        let mut frame = vec![0; ETHERNET_HEADER];
        let multicast = MacAddress([0x33, 0x33, 0xff, 0, 0, 7]);
        write_header(&mut frame, multicast, ASKER, EtherType::Ipv6);
        frame.extend([0x60, 0, 0, 0, 0, 24, 58, 255]);
        frame.extend(from.parse::<Ipv6Addr>().unwrap().octets());
        frame.extend("ff02::1:ff00:7".parse::<Ipv6Addr>().unwrap().octets());
        frame.extend([135, 0, 0, 0, 0, 0, 0, 0]);
        frame.extend("fd00::7".parse::<Ipv6Addr>().unwrap().octets());
        frame
    }

    #[test]
    fn solicitations_for_our_addresses_are_answered() {
        let reply = answered(&solicitation("fd00::1"), "fd00::7").unwrap();
        assert_eq!(
            reply[..14],
            [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd]
        );
        let target = "fd00::7".parse::<Ipv6Addr>().unwrap().octets();
        assert_eq!(reply[22..38], target);
        assert_eq!(
            reply[38..54],
            "fd00::1".parse::<Ipv6Addr>().unwrap().octets()
        );
        assert_eq!((reply[54], reply[58]), (136, 0x60));
        assert_eq!(reply[62..78], target);
        assert_eq!(reply[78..], [2, 1, 2, 0, 0, 0, 0, 9]);
        // The checksum of a message that contains its own checksum is zero.
        assert_eq!(icmp_checksum(&reply[ETHERNET_HEADER..]), 0);
        let check = answered(&solicitation("::"), "fd00::7").unwrap();
        assert_eq!((check[0], check[58]), (0x33, 0x20));
        assert_eq!(answered(&solicitation("fd00::1"), "fd00::8"), None);
        let mut forwarded = solicitation("fd00::1");
        forwarded[21] = 254;
        assert_eq!(answered(&forwarded, "fd00::7"), None);
    }

    #[test]
    fn short_frames_are_ignored() {
        for frame in [request(), solicitation("fd00::1")] {
            for end in 0..frame.len() {
                assert_eq!(answered(&frame[..end], "10.0.0.7"), None);
            }
        }
    }
}
