//! Use of a log whose requests a load sent again.

use serde::{Deserialize, Serialize};

/// Log of a load, as in its settings.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ReplayInfo {
    /// File of the log.
    pub file: String,
    /// Factor by which the load is faster than the log; `None` without recorded timing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed: Option<f64>,
}

/// Counts of the log of a load. All include the warm-up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ReplayUse {
    /// Number of lines that were read, or of entries of a HAR file.
    pub lines: u64,
    /// Lines that were not sent, by reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedLines>,
    /// Requests whose times were earlier than those of requests before them.
    #[serde(default)]
    pub set_forward: u64,
    /// Pauses of more than an hour and steps back of more than a minute, which were left out.
    #[serde(default)]
    pub jumps: u64,
    /// Number of times that a connection passed from one client to another.
    #[serde(default)]
    pub handovers: u64,
    /// True if the load ended before the log.
    #[serde(default)]
    pub ended_early: bool,
    /// Error because of which the rest of the log could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Lines of a log that were not sent for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SkippedLines {
    /// The reason, in words that follow the number of lines.
    pub reason: String,
    /// Number of lines.
    pub lines: u64,
    /// Numbers of the first ones.
    pub first: Vec<u64>,
}

impl ReplayUse {
    /// Number of lines that were not sent.
    pub fn skipped_lines(&self) -> u64 {
        self.skipped.iter().map(|skipped| skipped.lines).sum()
    }
}
