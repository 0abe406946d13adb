//! Formats hey's output.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;

use prony_record::{Distribution, HalfSecond, Nanos};

use super::watch::CollectedRequests;
use crate::tally::TimeSummary;

/// Results from which hey's output is formatted.
#[derive(Debug, Clone, Default)]
pub(super) struct HeyResults {
    /// Time from the start of the load to the end of its last request, in seconds.
    pub(super) total_s: f64,
    pub(super) noted: CollectedRequests,
    /// Response times of all requests that received a response.
    pub(super) times: Distribution,
    pub(super) statuses: BTreeMap<u16, u64>,
    /// Number of requests without a response, by reason.
    pub(super) failures: BTreeMap<String, u64>,
}

/// Number of bars in the histogram, not counting the bar for the fastest request.
const BARS: usize = 10;
/// Length of the longest bar, in characters.
const BAR_CHARS_MAX: u64 = 40;
const PERCENTAGES: [u64; 7] = [10, 25, 50, 75, 90, 95, 99];

impl HeyResults {
    /// Returns the number of requests, with and without a response.
    fn requests(&self) -> u64 {
        self.noted.response.count() + self.failures.values().sum::<u64>()
    }

    pub(super) fn summary(&self) -> String {
        let mut out = String::new();
        // Writing to a string can't fail.
        let _ = self.write_summary(&mut out);
        out
    }

    fn write_summary(&self, out: &mut String) -> std::fmt::Result {
        let noted = &self.noted;
        writeln!(out, "\nSummary:")?;
        writeln!(out, "  Total:\t{:.4} secs", self.total_s)?;
        let response = &noted.response;
        writeln!(out, "  Slowest:\t{} secs", seconds(response.max()))?;
        writeln!(out, "  Fastest:\t{} secs", seconds(response.min()))?;
        writeln!(out, "  Average:\t{} secs", mean(response))?;
        let rate = self.requests() as f64 / self.total_s;
        writeln!(out, "  Requests/sec:\t{}", number(rate))?;
        writeln!(out, "  ")?;
        if let Some(each) = noted.body_bytes.checked_div(response.count())
            && noted.body_bytes > 0
        {
            writeln!(out, "  Total data:\t{} bytes", noted.body_bytes)?;
            writeln!(out, "  Size/request:\t{each} bytes")?;
        }
        writeln!(out, "\nResponse time histogram:")?;
        self.write_histogram(out)?;
        writeln!(out, "\n\nLatency distribution:")?;
        if response.count() > 0 {
            for percentage in PERCENTAGES {
                let time = seconds(self.percentile(percentage));
                writeln!(out, "  {percentage}% in {time} secs")?;
            }
        }
        writeln!(out, "\nDetails (average, fastest, slowest):")?;
        // Lookup and write times are zero. Names are looked up once, before the load. The engine
        // passes each request to the kernel as a whole, so the time for sending is part of the
        // wait.
        let none = TimeSummary::zeros(response.count());
        for (name, stage) in [
            ("DNS+dialup", &noted.dial),
            ("DNS-lookup", &none),
            ("req write", &none),
            ("resp wait", &noted.wait),
            ("resp read", &noted.read),
        ] {
            let (fastest, slowest) = (seconds(stage.min()), seconds(stage.max()));
            let mean = mean(stage);
            writeln!(
                out,
                "  {name}:\t{mean} secs, {fastest} secs, {slowest} secs"
            )?;
        }
        writeln!(out, "\nStatus code distribution:")?;
        for (status, count) in &self.statuses {
            writeln!(out, "  [{status}]\t{count} responses")?;
        }
        out.push('\n');
        out.push_str(&self.failures());
        writeln!(out, "\n")
    }

    /// Returns the error distribution, or an empty string without errors.
    pub(super) fn failures(&self) -> String {
        if self.failures.is_empty() {
            return String::new();
        }
        let lines = self.failures.iter();
        let lines: Vec<_> = lines.map(|(why, n)| format!("  [{n}]\t{why}")).collect();
        format!("Error distribution:\n{}", lines.join("\n"))
    }

    /// Writes the histogram. The first bar stands for the fastest request; the other bars divide
    /// the range above it evenly.
    fn write_histogram(&self, out: &mut String) -> std::fmt::Result {
        let response = &self.noted.response;
        if response.count() == 0 {
            return Ok(());
        }
        let (fastest, slowest) = (response.min(), response.max());
        let step = slowest.since(fastest).0 as f64 / BARS as f64;
        let mark = |bar: usize| fastest.0 as f64 + step * bar as f64;
        let mut counts = [0u64; BARS + 1];
        let mut fastest_left = 1;
        for (time, count) in self.times.buckets() {
            // The first bucket contains the fastest request. Buckets are 0.1% wide, so it may
            // contain other requests, too.
            let first = if fastest == slowest {
                count
            } else {
                fastest_left
            };
            fastest_left -= fastest_left.min(first);
            counts[0] += first;
            let time = time.max(fastest).min(slowest);
            let bar = (1..BARS).find(|&bar| time.0 as f64 <= mark(bar));
            counts[bar.unwrap_or(BARS)] += count - first;
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        for (bar, &count) in counts.iter().enumerate() {
            let length = (count * BAR_CHARS_MAX + most / 2) / most;
            let mark = if bar == BARS {
                slowest.0 as f64
            } else {
                mark(bar)
            };
            let bar = "■".repeat(length as usize);
            writeln!(out, "  {:.3} [{count}]\t|{bar}", mark / 1e9)?;
        }
        Ok(())
    }

    /// Returns a percentile of the response times.
    fn percentile(&self, percentage: u64) -> Nanos {
        let response = &self.noted.response;
        let rank = (response.count() * percentage).div_ceil(100);
        response.at(rank.saturating_sub(1), &self.times)
    }

    /// Writes the lines of `-o csv`.
    ///
    /// # Errors
    ///
    /// Returns the error of a failed write.
    pub(super) fn write_csv(&self, out: &mut impl io::Write) -> io::Result<()> {
        writeln!(
            out,
            "response-time,DNS+dialup,DNS,Request-write,Response-delay,Response-read,status-code,\
             offset"
        )?;
        for row in &self.noted.rows {
            writeln!(
                out,
                "{},{},0.0000,0.0000,{},{},{},{}",
                seconds(row.response),
                seconds(row.dial),
                seconds(row.wait),
                seconds(row.read),
                row.status,
                seconds(row.offset)
            )?;
        }
        out.flush()
    }
}

/// Returns a JSON array with a pair `[seconds, completions since the previous entry]` for each half
/// second, starting with `[0, 0]`.
pub(super) fn timeline(series: &[HalfSecond]) -> String {
    let pairs = series
        .iter()
        .map(|slice| (slice.t_s, slice.ok + slice.failed));
    let pairs: Vec<_> = std::iter::once((0.0, 0))
        .chain(pairs)
        .map(|(seconds, completions)| format!("[{seconds:.4}, {completions}]"))
        .collect();
    format!("[\n{}\n]\n", pairs.join(",\n"))
}

/// Returns the mean in seconds.
fn mean(times: &TimeSummary) -> String {
    number(times.mean_ns() / 1e9)
}

fn seconds(time: Nanos) -> String {
    number(time.as_secs_f64())
}

/// Formats a number as Go's `%4.4f` does.
fn number(number: f64) -> String {
    if number.is_nan() {
        return " NaN".to_owned();
    }
    format!("{number:.4}")
}

#[cfg(test)]
mod tests;
