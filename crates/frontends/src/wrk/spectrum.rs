//! Formats wrk2's output for `-L` and `-U`: percentiles, and the spectrum that HdrHistogram's tools
//! plot.

use std::fmt::Write as _;

use super::report::cell;
use super::units;
use prony_lua::Statistics;

/// Number of rows after which the remaining distance to 100% is halved.
const ROWS_PER_HALVING: f64 = 5.0;

const RULE: &str = "----------------------------------------------------------\n";

/// Returns the lines for latencies that include the wait for a free connection and, if given, the
/// lines for latencies without the wait.
pub(super) fn spectra(corrected: &Statistics, uncorrected: Option<&Statistics>) -> String {
    let mut out = spectrum(corrected, "Recorded Latency");
    if let Some(uncorrected) = uncorrected {
        let name = "Uncorrected Latency (measured without taking delayed starts into account)";
        let _ = write!(out, "\n{}", spectrum(uncorrected, name));
    }
    out
}

fn spectrum(times: &Statistics, name: &str) -> String {
    let mut out = format!("  Latency Distribution (HdrHistogram - {name})\n");
    // Writing to a string can't fail, here and below.
    for percent in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        let time = units::micros(times.at_share(percent / 100.0) as f64);
        let _ = writeln!(out, "{percent:>7.3}%{}", cell(&time, 10));
    }
    out.push_str("\n  Detailed Percentile spectrum:\n");
    let _ = writeln!(
        out,
        "{:>12} {:>12} {:>12} {:>12}\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    for row in spectrum_rows(times) {
        let SpectrumRow {
            value,
            percent,
            count,
        } = row;
        let (millis, share) = (value as f64 / 1e3, percent / 100.0);
        let nines = 1.0 / (1.0 - share);
        let _ = writeln!(
            out,
            "{millis:>12.3} {share:>12.6} {count:>12} {nines:>12.2}"
        );
    }
    let [mean, stdev, max] = [times.mean(), times.stdev(), times.max() as f64].map(|us| us / 1e3);
    let count = times.count();
    let _ = writeln!(
        out,
        "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]"
    );
    let _ = writeln!(
        out,
        "#[Max     = {max:>12.3}, Total count    = {count:>12}]"
    );
    out.push_str(RULE);
    out
}

/// A time, its percentile, and the number of recorded times that don't exceed it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct SpectrumRow {
    value: u64,
    percent: f64,
    count: u64,
}

/// Returns rows whose percentiles approach 100%, and a last row for the maximum.
fn spectrum_rows(times: &Statistics) -> Vec<SpectrumRow> {
    let total = times.count();
    let mut rows = Vec::new();
    // The steps in percent are exact binary fractions, so errors don't accumulate.
    let mut percent = 0.0;
    let mut counts = times.cumulated().peekable();
    while let Some(&(value, count)) = counts.peek() {
        if count as f64 * 100.0 / (total as f64) < percent {
            counts.next();
            continue;
        }
        rows.push(SpectrumRow {
            value,
            percent,
            count,
        });
        if count == total {
            break;
        }
        let halvings = (100.0 / (100.0 - percent)).log2().floor() + 1.0;
        percent += 100.0 / (ROWS_PER_HALVING * halvings.exp2());
    }
    let last = rows.last().copied();
    rows.extend(last.map(|last| SpectrumRow {
        percent: 100.0,
        ..last
    }));
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_hdrhistogram() {
        let times = Statistics::of_samples((1..=10).map(|n| n * 1000).collect());
        let text = spectra(&times, None);
        let expected = "  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    5.00ms
 75.000%    8.00ms
 90.000%    9.00ms
 99.000%   10.00ms
 99.900%   10.00ms
 99.990%   10.00ms
 99.999%   10.00ms
100.000%   10.00ms

  Detailed Percentile spectrum:
       Value   Percentile   TotalCount 1/(1-Percentile)

       1.000     0.000000            1         1.00
       1.000     0.100000            1         1.11
       2.000     0.200000            2         1.25
       3.000     0.300000            3         1.43
       4.000     0.400000            4         1.67
       5.000     0.500000            5         2.00
       6.000     0.550000            6         2.22
       6.000     0.600000            6         2.50
       7.000     0.650000            7         2.86
       7.000     0.700000            7         3.33
       8.000     0.750000            8         4.00
       8.000     0.775000            8         4.44
       8.000     0.800000            8         5.00
       9.000     0.825000            9         5.71
       9.000     0.850000            9         6.67
       9.000     0.875000            9         8.00
       9.000     0.887500            9         8.89
       9.000     0.900000            9        10.00
      10.000     0.912500           10        11.43
      10.000     1.000000           10          inf
#[Mean    =        5.500, StdDeviation   =        3.028]
#[Max     =       10.000, Total count    =           10]
----------------------------------------------------------
";
        assert_eq!(text, expected);
    }

    #[test]
    fn an_empty_distribution_has_no_rows_and_blocks_have_names() {
        let nothing = Statistics::default();
        assert!(spectrum_rows(&nothing).is_empty());
        let text = spectra(&nothing, Some(&nothing));
        assert_eq!(text.matches(RULE).count(), 2);
        assert!(
            text.contains("---\n\n  Latency Distribution (HdrHistogram - Uncorrected Latency (")
        );
    }
}
