//! The addresses and ports that identify a connection, and a hash for them.

use core::net::{IpAddr, SocketAddr};
use std::hash::{BuildHasher, Hasher};

/// The local and the remote end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FourTuple {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
}

impl FourTuple {
    fn words(&self) -> [u64; 5] {
        let address = |address: IpAddr| match address {
            IpAddr::V4(address) => (0, u64::from(u32::from(address))),
            IpAddr::V6(address) => {
                let bits = u128::from(address);
                ((bits >> 64) as u64, bits as u64)
            }
        };
        let (local_high, local_low) = address(self.local.ip());
        let (remote_high, remote_low) = address(self.remote.ip());
        let ports = u64::from(self.local.port()) << 16 | u64::from(self.remote.port());
        [local_high, local_low, remote_high, remote_low, ports]
    }

    /// Returns a number that depends on the tuple and a secret, for initial sequence numbers (RFC
    /// 6528 §3).
    pub(crate) fn mix(&self, secret: u64) -> u64 {
        let mut hasher = TupleHasher(secret);
        std::hash::Hash::hash(self, &mut hasher);
        hasher.finish()
    }
}

impl std::hash::Hash for FourTuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for word in self.words() {
            state.write_u64(word);
        }
    }
}

/// A fast hash of a few words. Peers don't choose the tuples of connections, so it need not resist
/// maliciously chosen input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TupleHasher(u64);

impl Hasher for TupleHasher {
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ self.0 >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
}

/// Builds hashers with a secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TupleHash {
    pub(crate) secret: u64,
}

impl BuildHasher for TupleHash {
    type Hasher = TupleHasher;

    fn build_hasher(&self) -> TupleHasher {
        TupleHasher(self.secret)
    }
}
