//! The figures of ab's report, for text, HTML and files.

use super::secured::Tls;
use super::tally::Failed;
use super::times::Times;

/// All figures of the report.
#[derive(Debug, Clone, Default)]
pub(super) struct AbReport {
    /// Server Software; empty if the server doesn't send it.
    pub(super) software: String,
    /// The host as typed.
    pub(super) host: String,
    /// The port of the URL, or the scheme's default.
    pub(super) port: u16,
    /// The negotiated TLS parameters, if TLS is used.
    pub(super) tls: Option<Tls>,
    /// The path as typed.
    pub(super) path: String,
    /// The length of bodies in bytes; None with `-l`.
    pub(super) length: Option<u64>,
    /// `-c`.
    pub(super) concurrency: u64,
    /// Duration of the run in seconds.
    pub(super) seconds: f64,
    /// Requests that ended, failed or not.
    pub(super) complete: u64,
    /// Failed requests.
    pub(super) failed: Failed,
    /// Complete responses with a status other than 2xx.
    pub(super) non_2xx: u64,
    /// Complete 2xx responses with the right length, if that line is printed.
    pub(super) successful: Option<u64>,
    /// Responses after which the connection stayed open; only with `-k`.
    pub(super) kept_alive: Option<u64>,
    /// HTTP bytes received.
    pub(super) bytes_in: u64,
    /// Body bytes among them.
    pub(super) body_bytes_in: u64,
    /// HTTP bytes sent, if requests have a body.
    pub(super) bytes_out: Option<u64>,
    /// Times of the requests.
    pub(super) times: Times,
}

/// Percentages of the table.
pub(super) const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

impl AbReport {
    /// Requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.complete as f64 / self.seconds
    }

    /// 1,024 bytes per second.
    pub(super) fn kbytes_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / 1024.0 / self.seconds
    }

    /// True if rates can be computed.
    pub(super) fn has_rates(&self) -> bool {
        self.seconds > 0.0 && self.complete > 0
    }

    /// The time within which this percentage was served, for the table, in milliseconds.
    pub(super) fn served_within_ms(&self, percent: u64) -> f64 {
        let total = &self.times.total;
        total.at_ms((u128::from(total.count()) * u128::from(percent) / 100) as u64)
    }
}

/// Rounds to milliseconds as ab does.
pub(super) fn whole_ms(ms: f64) -> u64 {
    (ms + 0.5) as u64
}
