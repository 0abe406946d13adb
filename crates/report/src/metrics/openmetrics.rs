//! Metrics as OpenMetrics text, as Prometheus reads it.
//!
//! The format is OpenMetrics 1.0. Each family occurs once, with its type, unit, help and samples.
//! Names of counters end in `_total`, times are in seconds and sizes in bytes, and the text ends
//! with `# EOF`.

use std::fmt::Write;

use super::{BUCKETS_S, Family, Labels, MetricKind, PointValue};

/// The content type of the text.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Formats metrics.
pub fn text(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families {
        let Family {
            name, unit, help, ..
        } = family;
        let kind = match family.kind {
            MetricKind::Info => "info",
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
            MetricKind::Histogram => "histogram",
        };
        // Writing to memory can't fail.
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {help}");
        for_each_sample(family, |suffix, labels, value| {
            let _ = match value {
                SampleValue::Count(count) => {
                    writeln!(out, "{name}{suffix}{} {count}", label_text(labels))
                }
                SampleValue::Number(number) => {
                    writeln!(out, "{name}{suffix}{} {number}", label_text(labels))
                }
            };
        });
    }
    out + "# EOF\n"
}

/// The value of a sample.
#[derive(Debug, Clone, Copy)]
pub(super) enum SampleValue {
    Count(u64),
    Number(f64),
}

/// Calls `each` with the suffix, labels and value of each sample of a family. A histogram has a
/// sample per bucket.
pub(super) fn for_each_sample(
    family: &Family,
    mut each: impl FnMut(&'static str, &Labels, SampleValue),
) {
    let suffix = match family.kind {
        MetricKind::Info => "_info",
        MetricKind::Counter => "_total",
        MetricKind::Gauge | MetricKind::Histogram => "",
    };
    for point in &family.points {
        let labels = &point.labels;
        match &point.value {
            PointValue::Count(count) => each(suffix, labels, SampleValue::Count(*count)),
            PointValue::Number(number) => each(suffix, labels, SampleValue::Number(*number)),
            PointValue::Histogram(times) => {
                let mut bucket = |limit: String, count| {
                    let mut labels = labels.clone();
                    labels.push(("le".to_owned(), limit));
                    each("_bucket", &labels, SampleValue::Count(count));
                };
                let mut below = 0;
                for (limit, count) in BUCKETS_S.iter().zip(&times.counts) {
                    below += count;
                    bucket(limit.to_string(), below);
                }
                bucket("+Inf".to_owned(), times.count);
                each("_count", labels, SampleValue::Count(times.count));
                each("_sum", labels, SampleValue::Number(times.sum_s));
            }
        }
    }
}

fn label_text(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
        .collect();
    format!("{{{}}}", labels.join(","))
}

/// Escapes a label's value.
fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}
