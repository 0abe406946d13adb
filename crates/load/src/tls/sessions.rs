//! Sessions of a worker's earlier connections, for resumption.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of server names with sessions; sessions of additional names are not kept.
const NAMES_MAX: usize = 1024;
/// Maximum number of tickets per name, for any number of connections. It bounds memory use, because
/// each ticket contains the server's certificates.
const TICKETS_PER_NAME_MAX: usize = 4096;

/// Sessions of one worker, by server name.
///
/// A TLS 1.3 ticket is used once, as in browsers (RFC 8446 §C.4), and each connection receives new
/// ones. The library's own store keeps eight per name. With more concurrent handshakes than that,
/// many would find no ticket, and the share of full handshakes would depend on the number of
/// connections.
///
/// Two tickets are kept for each connection, the number that most servers send. A connection with
/// early data that ends with its response receives no ticket, and takes the second.
#[derive(Debug)]
pub(super) struct SessionStore {
    tickets_max: usize,
    /// Sessions by server name. The library's trait requires the lock, although only one worker
    /// uses the store.
    by_name: Mutex<HashMap<ServerName<'static>, NameSessions>>,
}

#[derive(Debug, Default)]
struct NameSessions {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// Tickets, the oldest first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl SessionStore {
    /// Creates a store for this number of connections, all of which may finish their handshakes
    /// before the next one starts.
    pub(super) fn new(connections: usize) -> SessionStore {
        SessionStore {
            tickets_max: connections.saturating_mul(2).clamp(2, TICKETS_PER_NAME_MAX),
            by_name: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, NameSessions>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut NameSessions)) {
        let mut sessions = self.lock();
        if sessions.len() < NAMES_MAX || sessions.contains_key(&name) {
            change(sessions.entry(name).or_default());
        }
    }
}

impl ClientSessionStore for SessionStore {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |session| session.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.lock().get(name).and_then(|session| session.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.change(name, |session| session.tls12 = Some(value));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.lock()
            .get(name)
            .and_then(|session| session.tls12.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        if let Some(session) = self.lock().get_mut(name) {
            session.tls12 = None;
        }
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.change(name, |session| {
            if session.tickets.len() >= self.tickets_max {
                session.tickets.pop_front();
            }
            session.tickets.push_back(value);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.lock()
            .get_mut(name)
            .and_then(|session| session.tickets.pop_back())
    }
}
