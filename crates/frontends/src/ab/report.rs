//! What a run came to: the figures behind text, HTML and files.

use super::tally::Failed;
use super::times::Times;

/// All that ab's report says. Printing it asks nothing else.
#[derive(Debug, Clone, Default)]
pub(super) struct Report {
    /// Server Software; empty where the server doesn't say.
    pub(super) software: String,
    /// The host as typed.
    pub(super) host: String,
    /// The port that the URL means.
    pub(super) port: u16,
    /// What TLS agreed on, where it is used.
    pub(super) tls: Option<Tls>,
    /// The path as typed.
    pub(super) path: String,
    /// The length of bodies, in bytes; none with `-l`.
    pub(super) length: Option<u64>,
    /// `-c`.
    pub(super) concurrency: u64,
    /// How long the run took, in seconds.
    pub(super) seconds: f64,
    /// Requests that ended, whether well or not.
    pub(super) complete: u64,
    /// Those that failed.
    pub(super) failed: Failed,
    /// Whole answers with another status than 2xx.
    pub(super) non_2xx: u64,
    /// Whole answers with such a status and of the right length, where that is to be said.
    pub(super) successful: Option<u64>,
    /// Answers after which the connection stayed open; with `-k` only.
    pub(super) kept_alive: Option<u64>,
    /// HTTP bytes received.
    pub(super) bytes_in: u64,
    /// Those of bodies among them.
    pub(super) body_bytes_in: u64,
    /// HTTP bytes sent, where requests have a body.
    pub(super) bytes_out: Option<u64>,
    /// How long requests took.
    pub(super) times: Times,
}

/// What TLS agreed on, each part as ab writes it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tls {
    /// Version, cipher suite, bits of the server's key and of the cipher's; empty where no
    /// connection came about.
    pub(super) protocol: String,
    /// The group and bits of the key exchange, where they are known.
    pub(super) exchange: Option<String>,
    /// The name that the handshake asks for.
    pub(super) name: Option<String>,
}

/// Percentages of the table.
pub(super) const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

impl Report {
    /// Requests a second.
    pub(super) fn rate(&self) -> f64 {
        self.complete as f64 / self.seconds
    }

    /// 1,024 bytes a second.
    pub(super) fn kbytes_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / 1024.0 / self.seconds
    }

    /// Whether there is anything to divide by.
    pub(super) fn has_rates(&self) -> bool {
        self.seconds > 0.0 && self.complete > 0
    }

    /// The time within which so many percent were served, for the table, in milliseconds.
    pub(super) fn served_within_ms(&self, percent: u64) -> f64 {
        let total = &self.times.total;
        total.at_ms((u128::from(total.count()) * u128::from(percent) / 100) as u64)
    }
}

/// To the whole millisecond, as ab rounds.
pub(super) fn whole_ms(ms: f64) -> u64 {
    (ms + 0.5) as u64
}
