//! Response times in the text formats of HdrHistogram, for its plotters and analyzers.

use std::fmt::Write;

use prony_record::{Distribution, Nanos, Record};

/// Nanoseconds in the unit of both formats' readable columns, milliseconds.
const NANOS_PER_MS: f64 = 1e6;

/// Returns the response times of each half second as a histogram log (version 1.3). The times of a
/// half second are exact within 1.6%.
pub fn log(record: &Record) -> String {
    let mut out = format!(
        "#[Histogram log of response times in nanoseconds, by prony {}]\n\
         #[Histogram log format version 1.3]\n\
         #[StartTime: 0.000 (seconds since the measurement started)]\n\
         \"StartTimestamp\",\"Interval_Length\",\"Interval_Max\",\"Interval_Compressed_Histogram\"\n",
        record.version
    );
    let mut from_s = 0.0;
    for half_second in &record.series {
        let length_s = half_second.t_s - from_s;
        let times = half_second.distribution();
        let longest = half_second.times.last().map_or(0, |(time, _)| time.0);
        if let Some(encoded) = times.encode() {
            // Writing to memory can't fail.
            let _ = writeln!(
                out,
                "{from_s:.3},{length_s:.3},{:.3},{encoded}",
                longest as f64 / NANOS_PER_MS
            );
        }
        from_s = half_second.t_s;
    }
    out
}

/// Number of rows each time the distance to 100% halves.
const ROWS_PER_HALVING: f64 = 5.0;

/// Returns the response times of a load as a percentile distribution (`.hgrm`). Lower bounds count
/// as if they were exact.
pub fn percentiles(record: &Record) -> String {
    let times = record.histograms.get("response_time");
    let times = times.and_then(|encoded| Distribution::decode(encoded));
    let times = times.unwrap_or_default();
    let count = times.count();
    let mut out = format!(
        "{:>12} {:>14} {:>10} {:>14}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut quantile = 0.0f64;
    loop {
        // The quantile 0 is the lower end of a bucket, unlike all others.
        let (value, _) = times.quantile(quantile.max(1.0 / count.max(1) as f64));
        let up_to = count - times.count_from(Nanos(value.0.saturating_add(1)));
        let ms = value.0 as f64 / NANOS_PER_MS;
        let is_last = up_to >= count;
        let shown = if is_last { 1.0 } else { quantile };
        let _ = write!(out, "{ms:12.3} {shown:14.12} {up_to:10}");
        if is_last {
            out.push('\n');
            break;
        }
        let _ = writeln!(out, " {:14.2}", 1.0 / (1.0 - quantile));
        let halvings = (1.0 / (1.0 - quantile)).log2().floor() + 1.0;
        quantile += 1.0 / (ROWS_PER_HALVING * halvings.exp2());
    }
    let summary = times.summary();
    let ms = |us: f64| us / 1e3;
    let _ = write!(
        out,
        "#[Mean    = {:12.3}, StdDeviation   = {:12.3}]\n\
         #[Max     = {:12.3}, Total count    = {count:12}]\n",
        ms(summary.mean),
        ms(summary.stdev.unwrap_or_default()),
        ms(summary.max),
    );
    out
}
