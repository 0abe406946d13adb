//! One of a worker's connections, and the request on it.

use prony_record::Nanos;

use crate::connection::Connection;
use crate::socket::Key;

/// Where a slot's connection stands.
///
/// ```text
///  Vacant ─► Connecting ─► Securing ─► Open ─► Draining ─► Vacant
///     ▲ ▲         │            │         │
///     │ └─────────┴────────────┴─────────┘  closed or failed
///     └── BackingOff ◄─ connect failed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No connection; the slot may take a request.
    Vacant,
    /// The last connect failed; the slot rests before it is free again.
    BackingOff,
    /// A connect is under way, or waits to be tried again.
    Connecting,
    /// The TLS handshake is under way.
    Securing,
    /// Ready for a request, or busy with one.
    Open,
    /// The last answer on it has come; the peer is given a moment to close first, so that the
    /// TIME_WAIT is the server's (RFC 9293 §3.6) and the load's ports stay free.
    Draining,
}

/// What becomes of a request on one of the load's first connections; see the worker's `opening`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Early {
    /// It goes its way.
    No,
    /// The connection is under way.
    Connecting,
    /// The connection is made and waits for the others.
    Held,
}

/// A request between its start and its end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pending {
    /// Its index in the spec.
    pub(crate) request: u32,
    pub(crate) intended: Nanos,
    /// When its connect or send began.
    pub(crate) begun: Nanos,
    /// When its first byte was handed to the socket.
    pub(crate) sent: Option<Nanos>,
    pub(crate) first_byte: Option<Nanos>,
    /// It is being sent a second time.
    pub(crate) retried: bool,
    /// HTTP bytes sent for it so far.
    pub(crate) bytes_out: u64,
}

pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) early: Early,
    pub(crate) generation: u32,
    pub(crate) connection: Connection,
    /// The target that the connection leads to.
    pub(crate) target: u32,
    /// Requests that this connection has served.
    pub(crate) served: u64,
    pub(crate) pending: Option<Pending>,
    /// A send is under way.
    pub(crate) sending: bool,
    /// A send has failed; the answer, or the reason, is still to be received.
    pub(crate) send_failed: bool,
    /// When the slot became free.
    pub(crate) free_since: Nanos,
    pub(crate) connect_began: Nanos,
    pub(crate) tls_began: Nanos,
    /// The rest after the next connect that fails.
    pub(crate) backoff: Nanos,
    /// A buffer for ciphertext, while no send has it.
    pub(crate) spare: Vec<u8>,
}

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot {
            state: State::Vacant,
            early: Early::No,
            generation: 0,
            connection: Connection::new(),
            target: 0,
            served: 0,
            pending: None,
            sending: false,
            send_failed: false,
            free_since: Nanos::ZERO,
            connect_began: Nanos::ZERO,
            tls_began: Nanos::ZERO,
            backoff: Nanos::ZERO,
            spare: Vec::new(),
        }
    }

    /// It never had a connection.
    pub(crate) fn is_fresh(&self) -> bool {
        self.generation == 0
    }

    pub(crate) fn key(&self, slot: u32) -> Key {
        Key {
            slot,
            generation: self.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of 18,000 connections has as many slots: what grows here should be worth it. Lower
    /// the bound when it has become smaller.
    #[test]
    fn a_slot_takes_few_bytes() {
        let bytes = size_of::<Slot>();
        assert!(bytes <= 320, "{bytes} bytes");
    }
}
