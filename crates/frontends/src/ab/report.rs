//! Data of ab's report, from which text, HTML and files are formatted.

use super::secured::Tls;
use super::tally::Failed;
use super::times::Times;

/// Data for ab's report.
#[derive(Debug, Clone, Default)]
pub(super) struct AbReport {
    /// Value of the Server header; empty if the server doesn't send one.
    pub(super) software: String,
    /// Host as typed.
    pub(super) host: String,
    /// Port in the URL, or the scheme's default.
    pub(super) port: u16,
    /// Negotiated TLS parameters; `None` without TLS.
    pub(super) tls: Option<Tls>,
    /// Path as typed.
    pub(super) path: String,
    /// Required length of response bodies in bytes; `None` with `-l`.
    pub(super) length: Option<u64>,
    /// Number of concurrent requests (`-c`).
    pub(super) concurrency: u64,
    /// Duration of the run in seconds.
    pub(super) seconds: f64,
    /// Number of requests that finished, including failed ones.
    pub(super) complete: u64,
    /// Number of failed requests, by category.
    pub(super) failed: Failed,
    /// Number of complete responses with a status other than 2xx.
    pub(super) non_2xx: u64,
    /// Number of complete 2xx responses with the right length; `None` if the line is not printed.
    pub(super) successful: Option<u64>,
    /// Number of responses after which the connection stayed open; `None` without `-k`.
    pub(super) kept_alive: Option<u64>,
    /// HTTP bytes received.
    pub(super) bytes_in: u64,
    /// Bytes of response bodies.
    pub(super) body_bytes_in: u64,
    /// HTTP bytes sent; `None` if requests have no body.
    pub(super) bytes_out: Option<u64>,
    /// Times of the requests.
    pub(super) times: Times,
}

/// Percentages in the table of the times within which requests were served.
pub(super) const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

impl AbReport {
    /// Returns the number of requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.complete as f64 / self.seconds
    }

    /// Returns a rate in units of 1,024 bytes per second.
    pub(super) fn kbytes_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / 1024.0 / self.seconds
    }

    /// Returns true if rates can be computed.
    pub(super) fn has_rates(&self) -> bool {
        self.seconds > 0.0 && self.complete > 0
    }

    /// Returns the time in milliseconds within which this percentage of requests was served.
    pub(super) fn served_within_ms(&self, percent: u64) -> f64 {
        let total = &self.times.total;
        total.at_ms((u128::from(total.count()) * u128::from(percent) / 100) as u64)
    }
}

/// Rounds to milliseconds in the same way as ab.
pub(super) fn whole_ms(ms: f64) -> u64 {
    (ms + 0.5) as u64
}
