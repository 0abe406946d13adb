//! Metrics as a request of the OpenTelemetry protocol (OTLP 1.x over HTTP, with protobuf).
//!
//! The messages are the subset of `opentelemetry/proto/metrics/v1` that prony's metrics need, with
//! the field numbers of that file. Sums and histograms are cumulative.

use prost::{Message, Oneof};

use super::{BUCKETS_S, Family, Labels, MetricKind, PointValue};

/// The content type of the request.
pub const CONTENT_TYPE: &str = "application/x-protobuf";
/// The path of an endpoint that receives metrics, below its base URL.
pub const PATH: &str = "/v1/metrics";

/// The value `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct ExportRequest {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

/// Of the possible types of values, attributes here are strings only.
#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(string, optional, tag = "1")]
    string_value: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "Data", tags = "5, 7, 9")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Data {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Histogram {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
struct NumberPoint {
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    value: Option<Number>,
}

#[derive(Clone, Copy, PartialEq, Oneof)]
enum Number {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct HistogramPoint {
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    count: u64,
    #[prost(double, optional, tag = "5")]
    sum: Option<f64>,
    /// Counts by bucket. The last one has no limit.
    #[prost(fixed64, repeated, tag = "6")]
    bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    explicit_bounds: Vec<f64>,
}

/// The time span of a request's values, in nanoseconds since the start of 1970.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Time at which all counters were zero.
    pub start_ns: u64,
    /// Time of the values.
    pub end_ns: u64,
}

/// Encodes metrics as a request. `resource` names the sender, by OpenTelemetry's attributes such as
/// `service.name`.
pub fn request(families: &[Family], resource: &Labels, version: &str, span: Span) -> Vec<u8> {
    let metrics = families.iter().filter_map(|family| metric(family, span));
    let scope_metrics = ScopeMetrics {
        scope: Some(Scope {
            name: "prony".to_owned(),
            version: version.to_owned(),
        }),
        metrics: metrics.collect(),
    };
    let resource = Resource {
        attributes: attributes(resource),
    };
    let request = ExportRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![scope_metrics],
        }],
    };
    request.encode_to_vec()
}

/// Returns `None` for a metric without values.
fn metric(family: &Family, span: Span) -> Option<Metric> {
    if family.points.is_empty() {
        return None;
    }
    let numbers = || {
        let points = family.points.iter().filter_map(|point| {
            let value = match &point.value {
                PointValue::Count(count) => Number::Int(i64::try_from(*count).unwrap_or(i64::MAX)),
                PointValue::Number(number) => Number::Double(*number),
                PointValue::Histogram(_) => return None,
            };
            Some(NumberPoint {
                attributes: attributes(&point.labels),
                start_time_unix_nano: span.start_ns,
                time_unix_nano: span.end_ns,
                value: Some(value),
            })
        });
        points.collect()
    };
    let data = match family.kind {
        MetricKind::Info | MetricKind::Gauge => Data::Gauge(Gauge {
            data_points: numbers(),
        }),
        MetricKind::Counter => Data::Sum(Sum {
            data_points: numbers(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        MetricKind::Histogram => Data::Histogram(Histogram {
            data_points: histograms(family, span),
            aggregation_temporality: CUMULATIVE,
        }),
    };
    // Units by the Unified Code for Units of Measure, as OpenTelemetry recommends.
    let unit = match family.unit {
        "seconds" => "s",
        "bytes" => "By",
        _ => "1",
    };
    Some(Metric {
        name: family.name.to_owned(),
        description: family.help.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    })
}

fn histograms(family: &Family, span: Span) -> Vec<HistogramPoint> {
    let points = family.points.iter().filter_map(|point| {
        let PointValue::Histogram(times) = &point.value else {
            return None;
        };
        let limited: u64 = times.counts.iter().sum();
        let beyond = times.count.saturating_sub(limited);
        Some(HistogramPoint {
            attributes: attributes(&point.labels),
            start_time_unix_nano: span.start_ns,
            time_unix_nano: span.end_ns,
            count: times.count,
            sum: Some(times.sum_s),
            bucket_counts: times.counts.iter().copied().chain([beyond]).collect(),
            explicit_bounds: BUCKETS_S.to_vec(),
        })
    });
    points.collect()
}

fn attributes(labels: &Labels) -> Vec<KeyValue> {
    let attributes = labels.iter().map(|(key, value)| KeyValue {
        key: key.clone(),
        value: Some(AnyValue {
            string_value: Some(value.clone()),
        }),
    });
    attributes.collect()
}
