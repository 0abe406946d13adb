//! Metrics as a request of Prometheus's remote write protocol, version 1.0: a protobuf message in
//! Snappy's block format.

use prost::Message;

use super::openmetrics::{SampleValue, for_each_sample};
use super::{Family, Labels};

/// The header fields of the request.
pub const HEADERS: [(&str, &str); 3] = [
    ("content-type", "application/x-protobuf"),
    ("content-encoding", "snappy"),
    ("x-prometheus-remote-write-version", "0.1.0"),
];

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    timeseries: Vec<TimeSeries>,
}

#[derive(Clone, PartialEq, Message)]
struct TimeSeries {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<Sample>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct Sample {
    #[prost(double, tag = "1")]
    value: f64,
    /// Milliseconds since the start of 1970.
    #[prost(int64, tag = "2")]
    timestamp: i64,
}

/// Encodes metrics as a request. `sender` are labels that all series get, such as `job`.
///
/// # Errors
///
/// Fails if the request is larger than Snappy's block format allows (4 GiB).
pub fn request(families: &[Family], sender: &Labels, time_ms: i64) -> Result<Vec<u8>, snap::Error> {
    let mut timeseries = Vec::new();
    for family in families {
        for_each_sample(family, |suffix, labels, value| {
            let name = ("__name__".to_owned(), format!("{}{suffix}", family.name));
            let all = sender.iter().chain(labels).chain([&name]);
            let label = |(name, value): &(String, String)| Label {
                name: name.clone(),
                value: value.clone(),
            };
            // The protocol requires sorted labels.
            let mut labels: Vec<Label> = all.map(label).collect();
            labels.sort();
            let value = match value {
                SampleValue::Count(count) => count as f64,
                SampleValue::Number(number) => number,
            };
            timeseries.push(TimeSeries {
                labels,
                samples: vec![Sample {
                    value,
                    timestamp: time_ms,
                }],
            });
        });
    }
    let message = WriteRequest { timeseries }.encode_to_vec();
    snap::raw::Encoder::new().compress_vec(&message)
}
