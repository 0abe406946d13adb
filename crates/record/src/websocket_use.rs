//! Messages of WebSockets besides those that a load sends and their responses.

use serde::{Deserialize, Serialize};

/// Messages of WebSockets over the measured part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct WebSocketUse {
    /// Messages of the server that no message of the load awaited. They are in no other count.
    pub unawaited: u64,
    /// Messages of a fan-out that arrived on a connection (`--fan-out`).
    #[serde(default)]
    pub deliveries: u64,
    /// Messages of a fan-out that did not arrive on a connection in time.
    #[serde(default)]
    pub deliveries_lost: u64,
}

impl WebSocketUse {
    /// Adds the messages of another worker or process.
    pub fn merge(&mut self, other: &WebSocketUse) {
        self.unawaited += other.unawaited;
        self.deliveries += other.deliveries;
        self.deliveries_lost += other.deliveries_lost;
    }
}
