//! Ethernet frames and MAC addresses.

use std::fmt;
use std::str::FromStr;

/// Size in bytes of an Ethernet header without a VLAN tag.
pub const ETHERNET_HEADER: usize = 14;

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<MacAddress, String> {
        let error = || format!("\"{text}\" is not a MAC address such as 02:00:00:00:00:01");
        let mut address = [0; 6];
        let mut parts = text.split([':', '-']);
        for byte in &mut address {
            let part = parts.next().filter(|part| (1..=2).contains(&part.len()));
            *byte = part
                .and_then(|part| u8::from_str_radix(part, 16).ok())
                .ok_or_else(error)?;
        }
        if parts.next().is_some() {
            return Err(error());
        }
        if MacAddress(address).is_unicast() {
            Ok(MacAddress(address))
        } else {
            Err(format!(
                "\"{text}\" is not the MAC address of a single machine"
            ))
        }
    }
}

impl MacAddress {
    /// Returns true if this is a unicast address.
    pub fn is_unicast(self) -> bool {
        self.0[0] & 1 == 0 && self.0 != [0; 6]
    }
}

/// Protocol of a frame's payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EtherType {
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// ARP.
    Arp,
}

impl EtherType {
    fn number(self) -> u16 {
        match self {
            EtherType::Ipv4 => 0x0800,
            EtherType::Ipv6 => 0x86dd,
            EtherType::Arp => 0x0806,
        }
    }
}

/// Returns the protocol of a frame's payload; `None` for other protocols and for frames that are
/// too short.
pub fn ether_type(frame: &[u8]) -> Option<EtherType> {
    match *frame.get(12..ETHERNET_HEADER)? {
        [0x08, 0x00] => Some(EtherType::Ipv4),
        [0x86, 0xdd] => Some(EtherType::Ipv6),
        [0x08, 0x06] => Some(EtherType::Arp),
        _ => None,
    }
}

/// Writes the Ethernet header of a frame. Does nothing if the frame is too short.
pub fn write_header(frame: &mut [u8], target: MacAddress, source: MacAddress, protocol: EtherType) {
    if let Some(header) = frame.first_chunk_mut::<ETHERNET_HEADER>() {
        header[..6].copy_from_slice(&target.0);
        header[6..12].copy_from_slice(&source.0);
        header[12..].copy_from_slice(&protocol.number().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed_and_printed() {
        let address: MacAddress = "02:0A:b:00:00:1f".parse().unwrap();
        assert_eq!(address.to_string(), "02:0a:0b:00:00:1f");
        let with_hyphens = "02-0a-0b-00-00-1f".parse();
        assert_eq!(with_hyphens, Ok(address));
        for bad in [
            "",
            "02:00:00:00:00",
            "02:00:00:00:00:01:02",
            "02:00:00:00:00:g1",
            "x",
        ] {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
        for not_single in [
            "00:00:00:00:00:00",
            "ff:ff:ff:ff:ff:ff",
            "33:33:00:00:00:01",
        ] {
            assert!(not_single.parse::<MacAddress>().is_err(), "{not_single}");
        }
    }

    #[test]
    fn headers_are_written_and_read() {
        let mut frame = [0; 20];
        let (target, source) = (MacAddress([2; 6]), MacAddress([4; 6]));
        for protocol in [EtherType::Ipv4, EtherType::Ipv6, EtherType::Arp] {
            write_header(&mut frame, target, source, protocol);
            assert_eq!(ether_type(&frame), Some(protocol));
        }
        assert_eq!(frame[..12], [2, 2, 2, 2, 2, 2, 4, 4, 4, 4, 4, 4]);
        assert_eq!(ether_type(&frame[..13]), None);
        assert_eq!(ether_type(&[0; 14]), None);
        write_header(&mut frame[..3], target, source, EtherType::Ipv4);
    }
}
