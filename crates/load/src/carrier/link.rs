//! A connection as its transport sees it: the state, and the output on its way to the socket.

use super::state::ConnectionState;

/// State of the last send on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendState {
    /// No send is in flight, so another may begin.
    Idle,
    /// A send is in flight.
    InFlight,
    /// The send failed. A response, or the reason for the failure, may still arrive.
    Failed,
}

/// A connection and the state of its output.
pub(crate) struct Link {
    pub(crate) state: ConnectionState,
    pub(crate) send: SendState,
    /// Output buffer, unless a send owns it. Its bytes are sent before all other output.
    pub(crate) outbox: Vec<u8>,
}

impl Link {
    pub(crate) fn new() -> Link {
        Link {
            state: ConnectionState::Vacant,
            send: SendState::Idle,
            outbox: Vec::new(),
        }
    }

    /// Returns true if the system has sent all bytes of the connection's last send.
    #[inline]
    pub(crate) fn is_all_sent(&self) -> bool {
        self.send == SendState::Idle
    }
}
