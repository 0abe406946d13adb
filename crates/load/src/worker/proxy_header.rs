//! The PROXY protocol header, which precedes a connection's other bytes, and the source address to
//! which a connection's requests are attributed.

use super::Worker;
use crate::address_list::SourceSelector;
use crate::carrier::Transport;
use crate::proxy_protocol::ConnectionEnds;
use crate::socket::Sockets;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Returns the inputs that determine the source address of an entry's current connection.
    /// Connections and virtual users are distributed among the workers in turn.
    pub(super) fn source_selector(&self, index: u32) -> SourceSelector {
        let among_all = |number: u32| u64::from(number) * self.shard.of + self.shard.worker;
        SourceSelector {
            connection: among_all(self.connections[index].number),
            user: among_all(index % self.dispatcher.primary_count),
            seed: self.spec.seed,
        }
    }

    /// Returns the index of a connection's source address among the counted sources.
    pub(super) fn source_of(&self, index: u32) -> Option<u64> {
        let target = self.connections[index].target;
        let peer = &self.targets[target].peer;
        self.spec
            .sources
            .source_index(peer, self.source_selector(index))
    }

    /// Writes the PROXY header of a new connection to its output buffer.
    pub(super) fn write_proxy_header(&mut self, index: u32) {
        let Some(proxy) = self.spec.sources.proxy_protocol() else {
            return;
        };
        let selector = self.source_selector(index);
        let entry = &mut self.connections[index];
        let target = &self.targets[entry.target];
        let local = if proxy.replaces_addresses() {
            None
        } else {
            self.transport.sockets().local_address(entry.key(index))
        };
        let ends = ConnectionEnds::to(target, local);
        let order = self.spec.sources.order();
        proxy.write(ends, selector, order, &mut entry.link.outbox);
    }
}
