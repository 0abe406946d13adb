//! The sessions that a worker's connections left behind, for later ones to go on from.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Names that sessions are kept for; beyond them nothing is kept for new ones.
const MOST_NAMES: usize = 1024;
/// Tickets that are kept for a name at most, whatever the number of connections: each holds the
/// server's certificates again.
const MOST_TICKETS: usize = 2048;

/// One worker's sessions, by the server's name.
///
/// A ticket of TLS 1.3 is used once, as browsers do (RFC 8446 §C.4), and a connection brings new
/// ones. The library's own store keeps eight for a name. With more connections than that in their
/// handshakes at once many would find none, and the share of full handshakes would depend on the
/// number of connections.
#[derive(Debug)]
pub(super) struct Sessions {
    most_tickets: usize,
    /// Only its worker uses it; the lock is there for the library's trait.
    by_name: Mutex<HashMap<ServerName<'static>, Session>>,
}

#[derive(Debug, Default)]
struct Session {
    group: Option<NamedGroup>,
    tls12: Option<Tls12ClientSessionValue>,
    /// The oldest first.
    tickets: VecDeque<Tls13ClientSessionValue>,
}

impl Sessions {
    /// For so many connections at once, each of which may end its handshake before the next begins
    /// one.
    pub(super) fn new(connections: usize) -> Sessions {
        Sessions {
            most_tickets: connections.clamp(1, MOST_TICKETS),
            by_name: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ServerName<'static>, Session>> {
        self.by_name.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut Session)) {
        let mut sessions = self.lock();
        if sessions.len() < MOST_NAMES || sessions.contains_key(&name) {
            change(sessions.entry(name).or_default());
        }
    }
}

impl ClientSessionStore for Sessions {
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
            if session.tickets.len() >= self.most_tickets {
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
