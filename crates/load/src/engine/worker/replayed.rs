//! Recorded clients as virtual users: each has its own connections and cookies.
//!
//! A client gets a connection with its first request, and keeps it. If all of its connections are
//! busy, it gets another, as a browser does. If there are more clients than connections, the one
//! that has been idle for the longest time passes to the next client, without its cookies.

use std::collections::{HashMap, VecDeque};

use prony_record::Nanos;

use super::Worker;
use super::dispatcher::ConnectionView;
use super::pace::Pace;
use crate::carrier::Transport;
use crate::engine::replay::ReplayFeed;
use crate::socket::Sockets;

/// Time after which a worker looks for requests again if the reader is too slow for it.
const POLL_INTERVAL: Nanos = Nanos::from_micros(500);
/// Stands for no client.
const NOBODY: u32 = u32::MAX;

/// The clients of one worker.
pub(super) struct ReplayUsers {
    /// Number of request slots of each connection.
    streams: u32,
    /// Number of slots whose number is below this belong to connection 0, and so on.
    connections: Vec<ClientConnection>,
    /// Connections that no client has used.
    unused: Vec<u32>,
    /// Idle connections with their `idled` counts, the longest idle one first. An entry is valid if
    /// the connection is still idle since then.
    idle: VecDeque<(u32, u64)>,
    clients: Vec<Client>,
    /// Indices of `clients` that are free.
    free_clients: Vec<u32>,
    by_key: HashMap<u64, u32>,
    idle_slots: usize,
    /// Number of times that a connection passed from one client to another.
    pub(super) handovers: u64,
}

struct ClientConnection {
    client: u32,
    idle_slots: u32,
    /// Number of times that all slots became idle.
    idled: u64,
}

struct Client {
    key: u64,
    /// Idle slots on the client's connections; the one used last is at the end.
    idle: Vec<u32>,
    connections: u32,
}

impl ReplayUsers {
    pub(super) fn new(connections: u32, streams: u32) -> ReplayUsers {
        let none = || ClientConnection {
            client: NOBODY,
            idle_slots: 0,
            idled: 0,
        };
        ReplayUsers {
            streams,
            connections: (0..connections).map(|_| none()).collect(),
            unused: (0..connections).rev().collect(),
            idle: VecDeque::new(),
            clients: Vec::new(),
            free_clients: Vec::new(),
            by_key: HashMap::new(),
            idle_slots: 0,
            handovers: 0,
        }
    }

    /// Returns true if a client's request could start now.
    pub(super) fn have_idle(&self) -> bool {
        self.idle_slots > 0
    }

    /// Index of the cookie jar of a slot's client.
    pub(super) fn jar_of(&self, slot: u32) -> u32 {
        match self.connections[(slot / self.streams) as usize].client {
            NOBODY => slot,
            client => client,
        }
    }

    /// Records that a slot has no request.
    pub(super) fn set_idle(&mut self, slot: u32) {
        let index = slot / self.streams;
        let connection = &mut self.connections[index as usize];
        connection.idle_slots += 1;
        self.idle_slots += 1;
        if connection.client == NOBODY {
            return;
        }
        self.clients[connection.client as usize].idle.push(slot);
        if connection.idle_slots == self.streams {
            connection.idled += 1;
            self.idle.push_back((index, connection.idled));
            if self.idle.len() > 4 * self.connections.len() + 64 {
                let connections = &self.connections;
                self.idle
                    .retain(|entry| is_idle(connections, entry, self.streams));
            }
        }
    }

    /// Takes a slot for a request of this client. Returns it with the cookie jar that must be
    /// cleared, if the client is new. Returns `None` if all connections are busy.
    pub(super) fn take(&mut self, key: u64) -> Option<(u32, Option<u32>)> {
        let mut new_jar = None;
        let known = self.by_key.get(&key).copied();
        let has_idle = known.is_some_and(|client| !self.clients[client as usize].idle.is_empty());
        let client = if has_idle {
            known?
        } else {
            let connection = self.take_connection()?;
            let client = known.filter(|it| self.clients[*it as usize].connections > 0);
            let client = client.unwrap_or_else(|| {
                let client = self.add_client(key);
                new_jar = Some(client);
                client
            });
            let owned = &mut self.connections[connection as usize];
            owned.client = client;
            let client_state = &mut self.clients[client as usize];
            client_state.connections += 1;
            let slots = connection * self.streams..(connection + 1) * self.streams;
            client_state.idle.extend(slots.rev());
            client
        };
        let slot = self.clients[client as usize].idle.pop()?;
        self.connections[(slot / self.streams) as usize].idle_slots -= 1;
        self.idle_slots -= 1;
        Some((slot, new_jar))
    }

    fn add_client(&mut self, key: u64) -> u32 {
        let client = Client {
            key,
            idle: Vec::new(),
            connections: 0,
        };
        let index = match self.free_clients.pop() {
            Some(index) => {
                self.clients[index as usize] = client;
                index
            }
            None => {
                self.clients.push(client);
                self.clients.len() as u32 - 1
            }
        };
        self.by_key.insert(key, index);
        index
    }

    /// Takes a connection that is idle: one that no client has used, or the one that has been idle
    /// for the longest time.
    fn take_connection(&mut self) -> Option<u32> {
        let is_free = |it: &u32| self.connections[*it as usize].idle_slots == self.streams;
        if let Some(position) = self.unused.iter().rposition(is_free) {
            return Some(self.unused.swap_remove(position));
        }
        while let Some(entry) = self.idle.pop_front() {
            if !is_idle(&self.connections, &entry, self.streams) {
                continue;
            }
            let (connection, _) = entry;
            let index = self.connections[connection as usize].client;
            let client = &mut self.clients[index as usize];
            client.idle.retain(|slot| slot / self.streams != connection);
            client.connections -= 1;
            if client.connections == 0 {
                self.by_key.remove(&client.key);
                self.free_clients.push(index);
            }
            self.connections[connection as usize].client = NOBODY;
            self.handovers += 1;
            return Some(connection);
        }
        None
    }
}

fn is_idle(connections: &[ClientConnection], &(index, idled): &(u32, u64), streams: u32) -> bool {
    let connection = &connections[index as usize];
    connection.idled == idled && connection.idle_slots == streams
}

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Makes the requests of a log the requests of the load.
    pub(crate) fn with_replay(mut self, feed: Option<ReplayFeed<'run>>) -> Worker<'run, T> {
        if let Some(feed) = feed {
            self.dispatcher.pace = Pace::Recorded(Box::new(feed));
            let streams = self.spec.transport.protocols.streams;
            let users = ReplayUsers::new(self.dispatcher.primary_count, streams);
            self.replay = Some(Box::new(users));
            self.ramp = None;
        }
        self
    }

    /// Starts up to `max` requests of the log that are due. Returns the number of requests started.
    pub(super) fn start_replayed(&mut self, mut now: Nanos, max: u32) -> u32 {
        for started in 0..max {
            if started > 0 {
                now = self.transport.sockets().now();
                if now >= self.end {
                    return started;
                }
            }
            self.collect_idle();
            let Pace::Recorded(feed) = &mut self.dispatcher.pace else {
                return started;
            };
            feed.refill();
            let Some(request) = feed.peek().copied() else {
                return started;
            };
            let Some(due) = self.dispatcher.due(now) else {
                return started;
            };
            let Some(slot) = self.take_client_slot(request.client) else {
                return started;
            };
            let intended = due.unwrap_or_else(|| self.free_since(slot, now).min(now));
            let jar = self.jar_of(slot);
            let cookies = self.cookies.as_ref();
            let jar = cookies.map(|cookies| cookies.of(jar, now));
            if let (Some(renderer), Pace::Recorded(feed)) =
                (&mut self.renderer, &mut self.dispatcher.pace)
            {
                let rendered = renderer.render_logged(request.form, feed.texts(), jar);
                feed.advance();
                self.dispatcher.slot_mut(slot).own = rendered;
            }
            self.start(slot, request.form, intended, now);
        }
        max
    }

    /// Takes all free slots out of the list of free slots. Those that can carry a request become
    /// idle slots of their clients.
    fn collect_idle(&mut self) {
        while let Some(slot) = self.take_free_slot() {
            self.dispatcher.set_away(slot);
            if let Some(replay) = &mut self.replay {
                replay.set_idle(slot);
            }
        }
    }

    fn take_free_slot(&mut self) -> Option<u32> {
        let view = ConnectionView {
            connections: &self.connections,
            ramp: self.ramp.as_ref(),
        };
        let limit = &mut self.sink.streams_limit;
        self.dispatcher.take_first_slot(None, view, limit)
    }

    /// Takes an idle slot for a request of this client, if there is one.
    fn take_client_slot(&mut self, client: u64) -> Option<u32> {
        loop {
            let (slot, new_jar) = self.replay.as_mut()?.take(client)?;
            if let (Some(jar), Some(cookies)) = (new_jar, &mut self.cookies) {
                cookies.clear(jar);
            }
            // The connection may have become unable to carry a request since then. Its slot is then
            // parked.
            self.dispatcher.set_free_again(slot);
            if let Some(slot) = self.take_free_slot() {
                return Some(slot);
            }
        }
    }

    /// Index of the cookie jar of a slot's user.
    pub(super) fn jar_of(&self, slot: u32) -> u32 {
        self.replay
            .as_ref()
            .map_or(slot, |replay| replay.jar_of(slot))
    }

    /// Returns the time at which the next request of the log may be due.
    pub(super) fn next_replayed(&self, now: Nanos) -> Nanos {
        let Pace::Recorded(feed) = &self.dispatcher.pace else {
            return Nanos::MAX;
        };
        let has_slot = self
            .replay
            .as_ref()
            .is_some_and(|replay| replay.have_idle())
            || self.dispatcher.has_free_slot();
        match feed.peek() {
            _ if !has_slot || feed.is_exhausted() => Nanos::MAX,
            Some(next) if feed.is_scheduled() => next.due,
            Some(_) => now,
            None if feed.is_scheduled() => now + POLL_INTERVAL + POLL_INTERVAL,
            None => now + POLL_INTERVAL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(connections: u32, streams: u32) -> ReplayUsers {
        let mut users = ReplayUsers::new(connections, streams);
        (0..connections * streams).for_each(|slot| users.set_idle(slot));
        users
    }

    #[test]
    fn clients_keep_their_connections_and_get_more_while_these_are_busy() {
        let mut users = users(3, 1);
        let (a, jar_a) = users.take(7).unwrap();
        let (b, jar_b) = users.take(8).unwrap();
        assert!(a != b && jar_a.is_some() && jar_b.is_some() && jar_a != jar_b);
        let (c, jar_c) = users.take(7).unwrap();
        assert!(c != a && c != b && jar_c.is_none());
        assert_eq!(
            (users.jar_of(a), users.jar_of(c)),
            (jar_a.unwrap(), jar_a.unwrap())
        );
        assert_eq!(users.take(7), None);
        assert!(!users.have_idle());
        users.set_idle(b);
        users.set_idle(a);
        assert_eq!(users.take(8), Some((b, None)));
        assert_eq!(users.take(7), Some((a, None)));
        assert_eq!(users.handovers, 0);
    }

    #[test]
    fn the_longest_idle_connection_passes_to_a_new_client_with_an_empty_jar() {
        let mut users = users(2, 1);
        let (a, jar_a) = users.take(1).unwrap();
        let (b, _) = users.take(2).unwrap();
        users.set_idle(a);
        users.set_idle(b);
        // Client 1 is active again, so client 2 has been idle for longer.
        assert_eq!(users.take(1).unwrap().0, a);
        users.set_idle(a);
        let (c, jar_c) = users.take(3).unwrap();
        assert!(c == b && jar_c.is_some() && jar_c != jar_a);
        assert_eq!(users.handovers, 1);
        // Its entry in the list is no longer valid.
        assert_eq!(users.take(4).unwrap().0, a);
        assert_eq!((users.take(5), users.handovers), (None, 2));
    }

    #[test]
    fn lists_stay_short_while_many_clients_come_and_go() {
        let mut users = users(4, 2);
        for key in 0..10_000 {
            let (slot, jar) = users.take(key % 7).unwrap();
            assert!(jar.is_none_or(|jar| jar < 4) && slot < 8);
            users.set_idle(slot);
        }
        assert!(users.idle.len() <= 80 && users.clients.len() <= 4 && users.by_key.len() <= 4);
        assert_eq!(users.idle_slots, 8);
    }
}
