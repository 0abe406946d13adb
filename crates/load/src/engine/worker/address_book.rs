//! Addresses of servers whose names have several, or whose addresses change.

use std::sync::Arc;

use prony_record::random_at;

use super::targets::Targets;
use crate::settings::AddressOrder;
use crate::socket::Peer;
use crate::spec::LoadSpec;
use crate::target::Target;
use crate::target::addresses::{AddressCounts, Lookups};
use crate::values::shard::Shard;

/// Distinguishes the random numbers for addresses from those for sources.
const RANDOM_SALT: u64 = 0x6164_6472_6573_7365;

/// A worker's choice of addresses.
pub(super) struct AddressBook {
    order: AddressOrder,
    /// Peers by their index in the worker's [`AddressCounts`].
    peers: Vec<Peer>,
    /// Indices of the current peers of each target. Empty for a target with only one peer.
    by_target: Vec<Vec<u32>>,
    /// Index of each connection's current or last peer; `u32::MAX` for the target's only one.
    by_connection: Vec<u32>,
    lookups: Option<Arc<Lookups>>,
    /// Number of changes of the addresses that are known.
    seen: u64,
}

impl AddressBook {
    /// Creates the book of a worker; `None` if all connections to a target have the same peer.
    pub(super) fn new(
        spec: &LoadSpec,
        connections: u32,
        lookups: Option<Arc<Lookups>>,
    ) -> Option<AddressBook> {
        let is_needed = spec.addresses.order != AddressOrder::First || lookups.is_some();
        is_needed.then(|| AddressBook {
            order: spec.addresses.order,
            peers: Vec::new(),
            by_target: Vec::new(),
            by_connection: vec![u32::MAX; connections as usize],
            lookups,
            seen: 0,
        })
    }

    /// Adds the addresses of new targets.
    pub(super) fn learn(&mut self, targets: &Targets, counts: &mut AddressCounts) {
        for target in self.by_target.len()..targets.count() {
            let target = &targets[target as u32];
            let named = target.named.as_deref();
            let list = named.map_or(&[][..], |named| &named.list);
            let indices = self.indices_of(list, &target.peer, counts);
            self.by_target.push(indices);
        }
    }

    /// Returns the indices of these addresses. `like` has the transport of the peers.
    fn indices_of(
        &mut self,
        list: &[std::net::SocketAddr],
        like: &Peer,
        counts: &mut AddressCounts,
    ) -> Vec<u32> {
        let each = list.iter().map(|address| {
            let index = counts.index_of(*address);
            if index as usize == self.peers.len() {
                self.peers.push(match like {
                    Peer::Quic(_) => Peer::Quic(*address),
                    _ => Peer::Tcp(*address),
                });
            }
            index
        });
        each.collect()
    }

    /// Chooses the address for a new connection, which has this number within its worker.
    pub(super) fn choose(
        &mut self,
        connection: u32,
        (target, number): (u32, u32),
        spec: &LoadSpec,
        shard: Shard,
    ) {
        let list = self.by_target.get(target as usize);
        let list = list.map_or(&[][..], Vec::as_slice);
        let position = match self.order {
            AddressOrder::First => 0,
            AddressOrder::All => {
                // Each worker begins where the previous one ends with its first connections.
                let before = shard.items_before(u64::from(spec.connections));
                (before + u64::from(number)) % list.len().max(1) as u64
            }
            AddressOrder::Random => {
                let among_all = u64::from(number) * shard.of + shard.worker;
                let drawn = random_at(spec.seed ^ RANDOM_SALT, among_all);
                ((u128::from(drawn) * list.len() as u128) >> 64) as u64
            }
        };
        let chosen = list.get(position as usize).copied();
        self.by_connection[connection as usize] = chosen.unwrap_or(u32::MAX);
    }

    /// Applies changed addresses. Returns true if there were any.
    pub(super) fn take_changes(&mut self, targets: &Targets, counts: &mut AddressCounts) -> bool {
        let Some(lookups) = &self.lookups else {
            return false;
        };
        let Some(lists) = lookups.news(&mut self.seen) else {
            return false;
        };
        self.learn(targets, counts);
        for (target, list) in lists
            .iter()
            .enumerate()
            .filter(|(_, list)| !list.is_empty())
        {
            let like = &targets[target as u32].peer;
            self.by_target[target] = self.indices_of(list, like, counts);
        }
        true
    }

    /// Returns true if a connection leads to an address that its target no longer has.
    pub(super) fn is_gone(&self, connection: u32, target: u32) -> bool {
        let current = self.by_target.get(target as usize);
        let peer = self.index_of(connection);
        peer.zip(current)
            .is_some_and(|(peer, it)| !it.contains(&peer))
    }

    /// The peer of a connection, unless it is the target's only one.
    pub(super) fn peer_of(&self, connection: u32) -> Option<&Peer> {
        let index = *self.by_connection.get(connection as usize)?;
        self.peers.get(index as usize)
    }

    /// The index of a connection's peer in the counts.
    pub(super) fn index_of(&self, connection: u32) -> Option<u32> {
        let index = *self.by_connection.get(connection as usize)?;
        (index != u32::MAX).then_some(index)
    }
}

/// The peer of an entry's connection, which leads to this target.
pub(super) fn peer_of<'a>(
    book: Option<&'a AddressBook>,
    index: u32,
    target: &'a Target,
) -> &'a Peer {
    let chosen = book.and_then(|book| book.peer_of(index));
    chosen.unwrap_or(&target.peer)
}
