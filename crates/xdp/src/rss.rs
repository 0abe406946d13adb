//! Predicts the receive queue of a packet by computing the Toeplitz hash with which adapters
//! distribute packets among their queues (receive side scaling).

use std::net::{IpAddr, SocketAddr};

use crate::ethtool::RssSettings;

/// Maximum number of bytes that are hashed: two IPv6 addresses and two ports.
const INPUT_BYTES_MAX: usize = 36;

/// The hash function of an adapter, and its table of queues.
#[derive(Debug, Clone)]
pub struct RssHash {
    /// For each bit of the input, the 32 bits of the key that start at the same position.
    windows: Vec<u32>,
    table: Vec<u32>,
}

impl RssHash {
    /// Prepares the hash function; `None` if the adapter uses another function or its key is too
    /// short.
    pub fn new(settings: &RssSettings) -> Option<RssHash> {
        let key = &settings.key;
        if !settings.is_toeplitz || settings.table.is_empty() || key.len() < INPUT_BYTES_MAX + 4 {
            return None;
        }
        let window = |bit: usize| {
            let bytes = &key[bit / 8..];
            // At the end of the key, there is no fifth byte, but none of its bits would be used.
            let last = bytes.get(4).copied().unwrap_or(0);
            let bits = [bytes[0], bytes[1], bytes[2], bytes[3], last].map(u64::from);
            let bits = bits.iter().fold(0, |sum, byte| sum << 8 | byte);
            (bits >> (8 - bit % 8)) as u32
        };
        Some(RssHash {
            windows: (0..INPUT_BYTES_MAX * 8).map(window).collect(),
            table: settings.table.clone(),
        })
    }

    /// Returns the receive queue at which a TCP packet arrives.
    pub fn queue(&self, source: SocketAddr, target: SocketAddr) -> u32 {
        // Adapters use the low bits of the hash, which is the same because the size of a table is a
        // power of two.
        let index = self.hash(source, target) as usize % self.table.len();
        self.table[index]
    }

    fn hash(&self, source: SocketAddr, target: SocketAddr) -> u32 {
        let mut input = [0; INPUT_BYTES_MAX];
        let ports = match (source.ip(), target.ip()) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                input[..4].copy_from_slice(&source.octets());
                input[4..8].copy_from_slice(&target.octets());
                8
            }
            (source, target) => {
                let octets = |address| match address {
                    IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
                    IpAddr::V6(address) => address.octets(),
                };
                input[..16].copy_from_slice(&octets(source));
                input[16..32].copy_from_slice(&octets(target));
                32
            }
        };
        input[ports..ports + 2].copy_from_slice(&source.port().to_be_bytes());
        input[ports + 2..ports + 4].copy_from_slice(&target.port().to_be_bytes());
        let windows = self.windows.chunks_exact(8);
        let bytes = input[..ports + 4].iter().zip(windows);
        bytes.fold(0, |hash, (byte, windows)| {
            let bits = windows.iter().enumerate();
            let set = bits.filter(|(bit, _)| byte & (0x80 >> bit) != 0);
            set.fold(hash, |hash, (_, window)| hash ^ window)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key in Microsoft's verification suite for receive side scaling.
    const KEY: [u8; 40] = [
        0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f,
        0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
        0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
    ];

    fn settings() -> RssSettings {
        RssSettings {
            table: (0..128).map(|entry| entry % 4).collect(),
            key: KEY.to_vec(),
            is_toeplitz: true,
        }
    }

    #[test]
    fn hashes_match_the_verification_suite() {
        let hash = RssHash::new(&settings()).unwrap();
        for (source, target, expected) in [
            ("66.9.149.187:2794", "161.142.100.80:1766", 0x51cc_c178),
            ("199.92.111.2:14230", "65.69.140.83:4739", 0xc626_b0ea),
            (
                "[3ffe:2501:200:1fff::7]:2794",
                "[3ffe:2501:200:3::1]:1766",
                0x4020_7d3d,
            ),
        ] {
            let (source, target) = (source.parse().unwrap(), target.parse().unwrap());
            assert_eq!(hash.hash(source, target), expected, "{source} {target}");
            assert_eq!(hash.queue(source, target), expected % 128 % 4);
        }
    }

    #[test]
    fn unknown_functions_and_short_keys_are_not_used() {
        let mut other = settings();
        other.is_toeplitz = false;
        assert!(RssHash::new(&other).is_none());
        let mut short = settings();
        short.key.truncate(39);
        assert!(RssHash::new(&short).is_none());
        let mut empty = settings();
        empty.table.clear();
        assert!(RssHash::new(&empty).is_none());
    }
}
