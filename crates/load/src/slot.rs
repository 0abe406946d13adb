//! One of a worker's connections.

use prony_record::Nanos;

use crate::connection::Connection;
use crate::socket::Key;

/// Where a slot's connection stands.
///
/// ```text
///  Vacant ─► Connecting ─► (Tunneling) ─► Securing ─► Open ─► Draining ─► Vacant
///     ▲ ▲         │             │             │         │
///     │ └─────────┴─────────────┴─────────────┴─────────┘  closed or failed
///     └── BackingOff ◄─ connect or tunnel failed
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// No connection; the slot may take a request.
    Vacant,
    /// The last connect failed; the slot rests before it is free again.
    BackingOff,
    /// A connect is under way, or waits to be tried again.
    Connecting,
    /// A proxy was asked for a tunnel.
    Tunneling,
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

pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) early: Early,
    pub(crate) generation: u32,
    /// The generation up to which connections were made before the load began.
    pub(crate) fresh_from: u32,
    pub(crate) connection: Connection,
    /// The target that the connection leads to.
    pub(crate) target: u32,
    /// The connection's number among all of its worker's, from 0; after 2^32 again.
    pub(crate) number: u32,
    /// Requests that this connection has served.
    pub(crate) served: u32,
    /// Requests that wait for the connection...
    pub(crate) waiting: u32,
    /// ...and those that it carries.
    pub(crate) under_way: u32,
    /// Requests that go to another target, and wait until nothing else is on this connection.
    pub(crate) diverted: u32,
    /// Seats without a request that can't have one now.
    pub(crate) parked: u32,
    /// The seat whose request opened the connection, and with HTTP/1 the one whose request is under
    /// way.
    pub(crate) seat: u32,
    /// A send is under way.
    pub(crate) sending: bool,
    /// A send has failed; the answer, or the reason, is still to be received.
    pub(crate) send_failed: bool,
    /// It has something to say, and is listed for that.
    pub(crate) is_listed: bool,
    /// The peer takes no further requests on it: what is under way goes on, and everything else goes
    /// to the slot's twin.
    pub(crate) is_leaving: bool,
    /// A seat was parked because much waits to be sent.
    pub(crate) is_choked: bool,
    /// A request on it ran out of time while nothing at all came: it may be dead, and takes no further
    /// ones until something comes.
    pub(crate) is_suspect: bool,
    /// When something came last. With HTTP/2 only.
    pub(crate) heard: Nanos,
    pub(crate) connect_began: Nanos,
    pub(crate) tls_began: Nanos,
    /// The rest after the next connect that fails.
    pub(crate) backoff: Nanos,
    /// A buffer for what is sealed, framed or told, while no send has it. What is in it goes before
    /// all else on the connection.
    pub(crate) spare: Vec<u8>,
}

impl Slot {
    pub(crate) fn new() -> Slot {
        Slot {
            state: State::Vacant,
            early: Early::No,
            generation: 0,
            fresh_from: 0,
            connection: Connection::new(),
            target: 0,
            number: 0,
            served: 0,
            waiting: 0,
            under_way: 0,
            diverted: 0,
            parked: 0,
            seat: 0,
            sending: false,
            send_failed: false,
            is_listed: false,
            is_leaving: false,
            is_choked: false,
            is_suspect: false,
            heard: Nanos::ZERO,
            connect_began: Nanos::ZERO,
            tls_began: Nanos::ZERO,
            backoff: Nanos::ZERO,
            spare: Vec::new(),
        }
    }

    /// The load has made no connection in it.
    #[inline]
    pub(crate) fn is_fresh(&self) -> bool {
        self.generation == self.fresh_from
    }

    pub(crate) fn key(&self, slot: u32) -> Key {
        Key {
            index: slot,
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
