//! Formats siege's report as text, as JSON, and as a line of the log.

use super::tally::{SiegeTally, share};

/// Results of a run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SiegeReport {
    pub(super) tally: SiegeTally,
    /// Time from the first request of any user until the last user finishes, in seconds.
    pub(super) elapsed_s: f64,
}

const BYTES_A_MEGABYTE: f64 = 1024.0 * 1024.0;

impl SiegeReport {
    fn megabytes(&self) -> f64 {
        self.tally.body_bytes as f64 / BYTES_A_MEGABYTE
    }

    fn rate_per_s(&self) -> f64 {
        share(self.tally.transactions as f64, self.elapsed_s)
    }

    fn concurrency(&self) -> f64 {
        share(self.tally.time.as_secs_f64(), self.elapsed_s)
    }

    /// Returns the text that is printed after a run.
    pub(super) fn text(&self) -> String {
        let tally = &self.tally;
        let counted = |label: &str, count: u64| format!("{label}{count:>12}");
        let valued = |label: &str, value: f64| format!("{label}{value:>12.2}");
        let lines = [
            counted("Transactions:\t\t", tally.transactions) + " hits",
            valued("Availability:\t\t", tally.availability_percent()) + " %",
            valued("Elapsed time:\t\t", self.elapsed_s) + " secs",
            valued("Data transferred:\t", self.megabytes()) + " MB",
            valued("Response time:\t\t", tally.response_time_s()) + " secs",
            valued("Transaction rate:\t", self.rate_per_s()) + " trans/sec",
            valued("Throughput:\t\t", share(self.megabytes(), self.elapsed_s)) + " MB/sec",
            valued("Concurrency:\t\t", self.concurrency()),
            counted("Successful transactions:", tally.successful),
            counted("Failed transactions:\t", tally.failed),
            valued("Longest transaction:\t", tally.longest.as_secs_f64()),
            valued("Shortest transaction:\t", tally.shortest().as_secs_f64()),
            " \n".to_owned(),
        ];
        lines.join("\n")
    }

    /// Returns the report as one JSON object.
    pub(super) fn json(&self) -> String {
        let tally = &self.tally;
        let count = |count: u64| format!("{count:>12}");
        let value = |value: f64| format!("{value:>12.2}");
        let fields = [
            ("transactions\":\t\t\t", count(tally.transactions)),
            ("availability\":\t\t\t", value(tally.availability_percent())),
            ("elapsed_time\":\t\t\t", value(self.elapsed_s)),
            ("data_transferred\":\t\t", value(self.megabytes())),
            ("response_time\":\t\t", value(tally.response_time_s())),
            ("transaction_rate\":\t\t", value(self.rate_per_s())),
            (
                "throughput\":\t\t\t",
                value(share(self.megabytes(), self.elapsed_s)),
            ),
            ("concurrency\":\t\t\t", value(self.concurrency())),
            ("successful_transactions\":\t", count(tally.successful)),
            ("failed_transactions\":\t\t", count(tally.failed)),
            (
                "longest_transaction\":\t\t",
                value(tally.longest.as_secs_f64()),
            ),
            (
                "shortest_transaction\":\t\t",
                value(tally.shortest().as_secs_f64()),
            ),
        ];
        let fields = fields.map(|(key, value)| format!("\t\"{key}{value}"));
        format!("{{{}\n}}\n", fields.join(",\n"))
    }

    /// Returns the line for the log. `time` is the local time.
    pub(super) fn log_line(&self, time: &str) -> String {
        let tally = &self.tally;
        format!(
            "{time},{:>7},{:>11.2},{:>12},{:>11.2},{:>12.2},{:>12.2},{:>12.2},{:>8},{:>8}\n",
            tally.transactions,
            self.elapsed_s,
            // The log contains whole megabytes, and siege computes the throughput from them.
            self.megabytes() as u64,
            tally.response_time_s(),
            self.rate_per_s(),
            share(self.megabytes().trunc(), self.elapsed_s),
            self.concurrency(),
            tally.successful,
            tally.failed,
        )
    }
}

#[cfg(test)]
mod tests {
    use prony_record::Nanos;

    use super::super::tally::Verdict;
    use super::*;

    fn report() -> SiegeReport {
        let mut tally = SiegeTally::default();
        tally.response(Verdict::Success, Nanos::from_millis(250), 3 << 20);
        tally.response(Verdict::Other, Nanos::from_millis(750), 1 << 19);
        tally.failure();
        SiegeReport {
            tally,
            elapsed_s: 2.0,
        }
    }

    #[test]
    fn the_text() {
        assert_eq!(
            report().text(),
            "Transactions:\t\t           2 hits\n\
             Availability:\t\t       66.67 %\n\
             Elapsed time:\t\t        2.00 secs\n\
             Data transferred:\t        3.50 MB\n\
             Response time:\t\t        0.50 secs\n\
             Transaction rate:\t        1.00 trans/sec\n\
             Throughput:\t\t        1.75 MB/sec\n\
             Concurrency:\t\t        0.50\n\
             Successful transactions:           1\n\
             Failed transactions:\t           1\n\
             Longest transaction:\t        0.75\n\
             Shortest transaction:\t        0.25\n \n"
        );
    }

    #[test]
    fn the_json_is_json_with_siege_s_keys() {
        let text = report().json();
        assert!(
            text.starts_with("{\t\"transactions\":\t\t\t           2,\n\t\"availability\""),
            "{text}"
        );
        let parsed: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys: Vec<_> = parsed
            .as_object()
            .unwrap()
            .keys()
            .map(String::as_str)
            .collect();
        assert_eq!(
            keys,
            [
                "transactions",
                "availability",
                "elapsed_time",
                "data_transferred",
                "response_time",
                "transaction_rate",
                "throughput",
                "concurrency",
                "successful_transactions",
                "failed_transactions",
                "longest_transaction",
                "shortest_transaction",
            ]
        );
        assert_eq!(parsed["availability"], 66.67);
    }

    #[test]
    fn the_log_line() {
        assert_eq!(
            report().log_line("2026-11-22 06:05:07"),
            "2026-11-22 06:05:07,      2,       2.00,           3,       0.50,        1.00,        1.50,        0.50,       1,       1\n"
        );
    }
}
