//! Interests that a poller watches, and the events that it reports.

use super::super::Key;

/// Maximum number of events per wait. The limit is at least as high as the number of events that a
/// worker handles in one turn. An empty queue therefore means that no events are left.
pub(super) const EVENTS_MAX: usize = 4096;

/// The events that a poller should report for a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::socket) struct Interest {
    pub(in crate::socket) reading: bool,
    pub(in crate::socket) writing: bool,
}

/// A socket that is ready. An error of the socket makes it both readable and writable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::socket) struct ReadyEvent {
    /// The key with which the socket was added.
    pub(in crate::socket) key: Key,
    pub(in crate::socket) readable: bool,
    pub(in crate::socket) writable: bool,
}
