//! Metrics as OTLP, decoded by the protocol's own description.

use std::path::Path;

use prony_report::metrics::{self, otlp};
use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use serde_json::Value;

/// Decodes a request. Counts are numbers in place of text, and absent values are shown.
fn decoded(request: &[u8]) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocols");
    let files = protox::compile(["otlp.proto"], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let message = pool.get_message_by_name("otlp.ExportRequest").unwrap();
    let message = DynamicMessage::decode(message, request).unwrap();
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true)
        .skip_default_fields(false);
    let json = serde_json::value::Serializer;
    message.serialize_with_options(json, &options).unwrap()
}

#[test]
fn each_metric_is_encoded_with_its_values() {
    let record = crate::openmetrics::record();
    let sender = vec![("service.name".to_owned(), "prony".to_owned())];
    let span = otlp::Span {
        start_ns: 5,
        end_ns: 7,
    };
    let request = otlp::request(&metrics::of_load(&record), &sender, "1", span);
    let request = decoded(&request);
    let sent = &request["resource_metrics"][0];
    let attribute = &sent["resource"]["attributes"][0];
    assert_eq!(attribute["key"], "service.name");
    assert_eq!(attribute["value"]["string_value"], "prony");
    let all = sent["scope_metrics"][0]["metrics"].as_array().unwrap();
    let metric = |name: &str| all.iter().find(|it| it["name"] == name).unwrap();

    let requests = metric("prony_requests");
    assert_eq!(requests["unit"], "1");
    let sum = &requests["sum"];
    assert_eq!(sum["is_monotonic"], true);
    assert_eq!(sum["aggregation_temporality"], 2);
    let point = &sum["data_points"][0];
    assert_eq!(point["as_int"], 1_000);
    assert_eq!(point["start_time_unix_nano"], 5);
    assert_eq!(point["time_unix_nano"], 7);
    assert_eq!(point["attributes"][0]["key"], "outcome");
    assert_eq!(point["attributes"][0]["value"]["string_value"], "ok");

    let measured = metric("prony_measured_seconds");
    assert_eq!(measured["unit"], "s");
    assert_eq!(measured["gauge"]["data_points"][0]["as_double"], 10.5);

    // 1,000 times of 0.1 to 100 ms, and one of 90 s, which is beyond the last limit.
    let times = &metric("prony_response_time_seconds")["histogram"];
    assert_eq!(times["aggregation_temporality"], 2);
    let point = &times["data_points"][0];
    assert_eq!(point["count"], 1_001);
    let counts = point["bucket_counts"].as_array().unwrap();
    let limits = point["explicit_bounds"].as_array().unwrap();
    assert_eq!(counts.len(), limits.len() + 1);
    let counts: Vec<u64> = counts.iter().map(|it| it.as_u64().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 1_001);
    assert_eq!(counts.last(), Some(&1));
    let up_to_1_ms = limits.iter().take_while(|it| it.as_f64() <= Some(0.001));
    // 1 ms itself is in a bucket of the record that ends just above it.
    assert_eq!(counts[..up_to_1_ms.count()].iter().sum::<u64>(), 9);
}
