//! Formats wrk's output.

use std::fmt::Write as _;

use super::units;
use prony_lua::{Statistics, WrkErrors, WrkFigures};

/// Results of a wrk run.
#[derive(Debug, Clone, Default)]
pub(super) struct WrkResults {
    pub(super) figures: WrkFigures,
    /// Latency without the wait for a free connection, for a load with a rate.
    pub(super) uncorrected: Option<Statistics>,
}

/// Returns the lines that are printed before a run.
pub(super) fn heading(duration_s: u64, url: &str, threads: u64, connections: u64) -> String {
    let time = units::seconds(duration_s);
    format!("Running {time} test @ {url}\n  {threads} threads and {connections} connections\n")
}

impl WrkResults {
    /// Returns the lines that are printed after a run. `distribution` contains the lines of the
    /// latency distribution, if they are printed.
    pub(super) fn text(&self, distribution: &str) -> String {
        let mut out = String::new();
        // Writing to a string can't fail.
        let _ = self.write(&mut out, distribution);
        out
    }

    fn write(&self, out: &mut String, distribution: &str) -> std::fmt::Result {
        writeln!(
            out,
            "  Thread Stats{:>6}{:>11}{:>8}{:>12}",
            "Avg", "Stdev", "Max", "+/- Stdev"
        )?;
        out.push_str(&statistics_row(
            "Latency",
            &self.figures.latency,
            units::micros,
        ));
        out.push_str(&statistics_row(
            "Req/Sec",
            &self.figures.rates,
            units::count,
        ));
        out.push_str(distribution);
        let took = self.figures.duration.as_secs_f64();
        let (took_text, bytes) = (
            units::micros(took * 1e6),
            units::bytes(self.figures.bytes as f64),
        );
        writeln!(
            out,
            "  {} requests in {took_text}, {bytes}B read",
            self.figures.requests
        )?;
        let WrkErrors {
            connect,
            read,
            write,
            status,
            timeout,
        } = self.figures.errors;
        if connect + read + write + timeout > 0 {
            writeln!(
                out,
                "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}"
            )?;
        }
        if status > 0 {
            writeln!(out, "  Non-2xx or 3xx responses: {status}")?;
        }
        let (requests, bytes) = (self.figures.requests as f64, self.figures.bytes as f64);
        writeln!(out, "Requests/sec: {:>9.2}", requests / took)?;
        writeln!(out, "Transfer/sec: {:>10}B", units::bytes(bytes / took))
    }
}

/// Returns the lines of `--latency`.
pub(super) fn distribution(latency: &Statistics) -> String {
    let mut out = "  Latency Distribution\n".to_owned();
    for percent in [50.0, 75.0, 90.0, 99.0] {
        let time = units::micros(latency.percentile(percent) as f64);
        // Writing to a string can't fail.
        let _ = writeln!(out, "{percent:>7.0}%{}", cell(&time, 10));
    }
    out
}

fn statistics_row(name: &str, of: &Statistics, written: fn(f64) -> String) -> String {
    let within = match of.within_stdev_percent() {
        // For 0 / 0, C's printf writes this text.
        share if share.is_nan() => format!("{:>8}%", "-nan"),
        share => format!("{share:>8.2}%"),
    };
    format!(
        "    {name:<10}{}{}{}{within}\n",
        cell(&written(of.mean()), 8),
        cell(&written(of.stdev()), 10),
        cell(&written(of.max() as f64), 9),
    )
}

/// Pads a number so that its digits are aligned, whatever the length of its unit.
pub(super) fn cell(text: &str, width: usize) -> String {
    let letters = text
        .bytes()
        .rev()
        .take(2)
        .filter(u8::is_ascii_alphabetic)
        .count();
    let width = width - (2 - letters);
    let (text, filling) = (&text[..text.len().min(width)], &"  "[letters..]);
    format!("{text:>width$}{filling}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_lines_are_wrks_to_the_space() {
        let results = WrkResults {
            uncorrected: None,
            figures: WrkFigures {
                latency: Statistics::of_samples(vec![180, 185, 190, 1230, 15_000]),
                rates: Statistics::of_samples(vec![4000, 4370, 5370]),
                duration: Duration::from_millis(1100),
                requests: 4779,
                bytes: 2_317_353,
                errors: WrkErrors::default(),
            },
        };
        let expected = "  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     3.36ms    6.52ms  15.00ms   80.00%
    Req/Sec     4.58k   708.73     5.37k    66.67%
  Latency Distribution
     50%  190.00us
     75%    1.23ms
     90%   15.00ms
     99%   15.00ms
  4779 requests in 1.10s, 2.21MB read
Requests/sec:   4344.55
Transfer/sec:      2.01MB
";
        assert_eq!(
            results.text(&distribution(&results.figures.latency)),
            expected
        );
        assert_eq!(
            heading(10, "http://h/", 2, 10),
            "Running 10s test @ http://h/\n  2 threads and 10 connections\n"
        );
    }

    #[test]
    fn an_empty_result_is_printed_as_by_wrk() {
        let results = WrkResults {
            figures: WrkFigures {
                duration: Duration::from_secs(1),
                errors: WrkErrors {
                    read: 21126,
                    status: 3,
                    ..WrkErrors::default()
                },
                ..WrkFigures::default()
            },
            uncorrected: None,
        };
        let expected = "  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.00us    0.00us   0.00us    -nan%
    Req/Sec     0.00      0.00     0.00      -nan%
  0 requests in 1.00s, 0.00B read
  Socket errors: connect 0, read 21126, write 0, timeout 0
  Non-2xx or 3xx responses: 3
Requests/sec:      0.00
Transfer/sec:       0.00B
";
        assert_eq!(results.text(""), expected);
    }
}
