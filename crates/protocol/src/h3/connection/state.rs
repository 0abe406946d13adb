//! State of a connection as a whole.

use crate::h3::Violation;
use crate::h3::settings::PeerSettings;

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
/// RFC 9114 has no such figure. The transitions are in §6.2.1 (the first frame of the control
/// stream is SETTINGS), §5.2 (GOAWAY) and §8 (connection errors). Unlike in HTTP/2, responses may
/// arrive before SETTINGS, because streams are not ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionState {
    /// The peer's SETTINGS are expected.
    Opening,
    Open(PeerSettings),
    /// The peer accepts no more requests.
    GoingAway {
        peer: PeerSettings,
        /// First stream that the peer won't process.
        first_rejected: u64,
    },
    /// A connection error has ended the connection.
    Failed {
        violation: Violation,
        /// The peer's settings, if they had arrived.
        peer: Option<PeerSettings>,
    },
}

impl ConnectionState {
    #[inline]
    pub(super) fn accepts_requests(self) -> bool {
        matches!(self, ConnectionState::Opening | ConnectionState::Open(_))
    }

    /// Returns the peer's settings, once they have arrived.
    #[inline]
    pub(super) fn peer_settings(self) -> Option<PeerSettings> {
        match self {
            ConnectionState::Opening => None,
            ConnectionState::Open(peer) | ConnectionState::GoingAway { peer, .. } => Some(peer),
            ConnectionState::Failed { peer, .. } => peer,
        }
    }

    /// Returns the violation that ended the connection, if there is one.
    #[inline]
    pub(super) fn check(self) -> Result<(), Violation> {
        if let ConnectionState::Failed { violation, .. } = self {
            return Err(violation);
        }
        Ok(())
    }

    /// Applies a GOAWAY, whose stream must not be later than an earlier GOAWAY's.
    pub(super) fn go_away(&mut self, first_rejected: u64) -> Result<(), Violation> {
        let peer = match *self {
            ConnectionState::GoingAway {
                first_rejected: before,
                ..
            } if first_rejected > before => return Err(Violation::GoAwayIncreased),
            ConnectionState::Open(peer) | ConnectionState::GoingAway { peer, .. } => peer,
            ConnectionState::Opening => return Err(Violation::NoSettings),
            ConnectionState::Failed { violation, .. } => return Err(violation),
        };
        *self = ConnectionState::GoingAway {
            peer,
            first_rejected,
        };
        Ok(())
    }

    pub(super) fn fail(&mut self, violation: Violation) {
        *self = ConnectionState::Failed {
            violation,
            peer: self.peer_settings(),
        };
    }
}
