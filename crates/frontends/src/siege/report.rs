//! Formats siege's report as text, as JSON, and as a line of the log.

use prony_record::Nanos;

use super::tally::SiegeTally;
use crate::tally::share;

/// Results of a siege run.
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
        share(self.tally.times.sum_s(), self.elapsed_s)
    }

    /// Returns the label, value and unit of each figure.
    fn figures(&self) -> [(&'static str, String, &'static str); 12] {
        let tally = &self.tally;
        let throughput = share(self.megabytes(), self.elapsed_s);
        let count = |count: u64| format!("{count:>12}");
        let value = |value: f64| format!("{value:>12.2}");
        let seconds = |time: Nanos| value(time.as_secs_f64());
        [
            ("Transactions", count(tally.transactions), " hits"),
            ("Availability", value(tally.availability_percent()), " %"),
            ("Elapsed time", value(self.elapsed_s), " secs"),
            ("Data transferred", value(self.megabytes()), " MB"),
            ("Response time", value(tally.response_time_s()), " secs"),
            ("Transaction rate", value(self.rate_per_s()), " trans/sec"),
            ("Throughput", value(throughput), " MB/sec"),
            ("Concurrency", value(self.concurrency()), ""),
            ("Successful transactions", count(tally.successful), ""),
            ("Failed transactions", count(tally.failed), ""),
            ("Longest transaction", seconds(tally.times.max()), ""),
            ("Shortest transaction", seconds(tally.times.min()), ""),
        ]
    }

    /// Returns the report that is printed after a run.
    pub(super) fn text(&self) -> String {
        let lines = self.figures().map(|(label, value, unit)| {
            let label = tabbed(format!("{label}:"), 24);
            format!("{label}{value}{unit}\n")
        });
        lines.concat() + " \n"
    }

    /// Returns the report as one JSON object. Its keys are the labels in lower case.
    pub(super) fn json(&self) -> String {
        let fields = self.figures().map(|(label, value, _)| {
            let key = label.to_lowercase().replace(' ', "_");
            format!("\t{}{value}", tabbed(format!("\"{key}\":"), 32))
        });
        format!("{{{}\n}}\n", fields.join(",\n"))
    }

    /// Returns the line for the log file. `time` is the formatted local time.
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

/// Appends tabs up to a column. As in a terminal, tab stops are eight columns apart.
fn tabbed(text: String, column: usize) -> String {
    let tabs = column.saturating_sub(text.len()).div_ceil(8);
    text + &"\t".repeat(tabs)
}

#[cfg(test)]
mod tests {
    use super::super::tally::ResponseClass;
    use super::*;

    fn report() -> SiegeReport {
        let mut tally = SiegeTally::default();
        tally.response(ResponseClass::Success, Nanos::from_millis(250), 3 << 20);
        tally.response(ResponseClass::Other, Nanos::from_millis(750), 1 << 19);
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
        let end = ",\n\t\"shortest_transaction\":\t\t        0.25\n}\n";
        assert!(text.ends_with(end), "{text}");
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
