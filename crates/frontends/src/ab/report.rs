//! Data of ab's report, from which text, HTML and files are formatted.

use super::secured::AbTls;
use super::tally::AbTally;

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
    pub(super) tls: Option<AbTls>,
    /// Path as typed.
    pub(super) path: String,
    /// Required length of response bodies in bytes; `None` with `-l`.
    pub(super) length: Option<u64>,
    /// Number of concurrent requests (`-c`).
    pub(super) concurrency: u64,
    /// Duration of the run in seconds.
    pub(super) seconds: f64,
    /// Counts and times of the requests.
    pub(super) tally: AbTally,
    /// True if the number of successful requests is printed.
    pub(super) shows_successful: bool,
    /// True with `-k`.
    pub(super) keepalive: bool,
    /// HTTP bytes received.
    pub(super) bytes_in: u64,
    /// Bytes of response bodies.
    pub(super) body_bytes_in: u64,
    /// HTTP bytes sent; `None` if requests have no body.
    pub(super) bytes_out: Option<u64>,
}

/// A line of the report.
pub(super) enum ReportLine {
    /// A label and its value.
    Value(&'static str, String),
    /// Another value for the label before.
    Continued(String),
    Note(String),
}

/// Percentages in the table of the times within which requests were served.
pub(super) const PERCENTAGES: [u64; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

impl AbReport {
    /// Returns the lines with counts.
    pub(super) fn counts(&self) -> Vec<ReportLine> {
        use ReportLine::{Note, Value};
        let AbTally {
            complete,
            failed,
            non_2xx,
            successful,
            kept_alive,
            ..
        } = self.tally;
        let mut lines = vec![
            Value("Concurrency Level", self.concurrency.to_string()),
            Value(
                "Time taken for tests",
                format!("{:.3} seconds", self.seconds),
            ),
            Value("Complete requests", complete.to_string()),
            Value("Failed requests", failed.all().to_string()),
        ];
        if failed.all() > 0 {
            lines.push(Note(format!(
                "   (Connect: {}, Receive: {}, Length: {}, Exceptions: {})",
                failed.connect, failed.receive, failed.length, failed.exceptions
            )));
        }
        let mut optional = |is_shown: bool, label, value: u64| {
            if is_shown {
                lines.push(Value(label, value.to_string()));
            }
        };
        optional(non_2xx > 0, "Non-2xx responses", non_2xx);
        optional(self.shows_successful, "Successful requests", successful);
        optional(self.keepalive, "Keep-Alive requests", kept_alive);
        let bytes = |bytes: u64| format!("{bytes} bytes");
        lines.push(Value("Total transferred", bytes(self.bytes_in)));
        if let Some(bytes_out) = self.bytes_out {
            lines.push(Value("Total body sent", bytes_out.to_string()));
        }
        lines.push(Value("HTML transferred", bytes(self.body_bytes_in)));
        lines
    }

    /// Returns the lines with the rates of sent bytes, if requests have a body.
    pub(super) fn sent_rates(&self) -> Vec<ReportLine> {
        let Some(bytes_out) = self.bytes_out else {
            return Vec::new();
        };
        let rate = |bytes, what| {
            ReportLine::Continued(format!("{:.2} kb/s {what}", self.kbytes_per_s(bytes)))
        };
        vec![
            rate(bytes_out, "sent"),
            rate(self.bytes_in + bytes_out, "total"),
        ]
    }

    /// Returns the value of the line `Document Length`.
    pub(super) fn document_length(&self) -> String {
        match self.length {
            Some(length) => format!("{length} bytes"),
            None => "Variable".to_owned(),
        }
    }

    /// Returns the number of requests per second.
    pub(super) fn rate(&self) -> f64 {
        self.tally.complete as f64 / self.seconds
    }

    /// Returns a rate in units of 1,024 bytes per second.
    pub(super) fn kbytes_per_s(&self, bytes: u64) -> f64 {
        bytes as f64 / 1024.0 / self.seconds
    }

    /// Returns true if rates can be computed.
    pub(super) fn has_rates(&self) -> bool {
        self.seconds > 0.0 && self.tally.complete > 0
    }

    /// Returns the time in milliseconds within which this percentage of requests was served.
    pub(super) fn served_within_ms(&self, percent: u64) -> f64 {
        let total = &self.tally.times.total;
        total.at_ms((u128::from(total.count()) * u128::from(percent) / 100) as u64)
    }
}

/// Rounds to milliseconds in the same way as ab.
pub(super) fn whole_ms(ms: f64) -> u64 {
    (ms + 0.5) as u64
}
