//! Key exchange groups of TLS handshakes, and their counts.

use std::collections::BTreeMap;

/// Names of the groups that are counted one by one, in their RFCs' spelling. The last stands for
/// all others.
const NAMES: [&str; TLS_GROUPS] = [
    "X25519MLKEM768",
    "secp256r1MLKEM768",
    "MLKEM768",
    "MLKEM1024",
    "X25519",
    "secp256r1",
    "secp384r1",
    "other",
];

/// Number of groups that are counted one by one, and one for all others.
pub(crate) const TLS_GROUPS: usize = 8;

/// Key exchange group of a TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TlsGroup(u8);

impl TlsGroup {
    /// Returns the group with this name, such as `X25519`.
    pub fn of(name: &str) -> TlsGroup {
        let known = NAMES.iter().position(|known| *known == name);
        TlsGroup(known.unwrap_or(TLS_GROUPS - 1) as u8)
    }

    /// Name of the group.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.0)]
    }
}

/// Number of handshakes with each key exchange group.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsGroupCounts(pub(crate) [u64; TLS_GROUPS]);

impl TlsGroupCounts {
    pub(crate) fn add(&mut self, group: TlsGroup) {
        self.0[usize::from(group.0)] += 1;
    }

    /// Returns the counts of the groups that were negotiated, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let counts = NAMES.iter().zip(self.0);
        counts
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| ((*name).to_owned(), count))
            .collect()
    }
}
