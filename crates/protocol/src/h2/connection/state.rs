//! State of a connection as a whole.

use crate::h2::{ErrorCode, Violation};

/// State of a connection, for a client that never announces an end itself.
///
/// ```text
///            SETTINGS          GOAWAY
///   Opening ---------> Open ---------> GoingAway <--. GOAWAY with the same stream
///      |                |                 |   `-----' or an earlier one
///      |                | connection      |
///      |                | error           |
///      |                v                 |
///      `-----------> Failed <-------------'
/// ```
///
/// RFC 9113 has no such figure. The transitions are in §3.4 (the peer's first frame is SETTINGS),
/// §6.8 (GOAWAY) and §5.4.1 (connection errors).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// The peer's SETTINGS are expected.
    Opening,
    Open,
    /// The peer accepts no more requests.
    GoingAway {
        /// Last stream that the peer may still process.
        last_stream: u32,
        /// Error code of the peer's last GOAWAY.
        code: ErrorCode,
    },
    /// A connection error has ended the connection.
    Failed {
        violation: Violation,
        /// True if the peer's SETTINGS had arrived.
        established: bool,
    },
}

impl ConnectionState {
    #[inline]
    pub(super) fn accepts_requests(self) -> bool {
        matches!(self, ConnectionState::Opening | ConnectionState::Open)
    }

    /// Returns true if the peer's SETTINGS have arrived, and the connection has not failed.
    #[inline]
    pub(super) fn has_settings(self) -> bool {
        matches!(
            self,
            ConnectionState::Open | ConnectionState::GoingAway { .. }
        )
    }

    #[inline]
    pub(super) fn has_failed(self) -> bool {
        matches!(self, ConnectionState::Failed { .. })
    }

    /// Returns true if the peer's SETTINGS have arrived.
    pub(super) fn is_established(self) -> bool {
        match self {
            ConnectionState::Opening => false,
            ConnectionState::Open | ConnectionState::GoingAway { .. } => true,
            ConnectionState::Failed { established, .. } => established,
        }
    }

    pub(super) fn fail(&mut self, violation: Violation) {
        *self = ConnectionState::Failed {
            violation,
            established: self.is_established(),
        };
    }
}
