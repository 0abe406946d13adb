//! Tests of descriptors and messages with the body of the fuzz target, on damaged inputs.

#[expect(unreachable_pub, reason = "shared with the fuzz target")]
#[path = "../../../../fuzz/src/descriptors.rs"]
mod descriptors;

use prony_load::{LoadSettings, compiled_schema};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const PROTO: &str = "syntax = \"proto3\"; package shop;
    import \"google/protobuf/struct.proto\"; import \"google/protobuf/any.proto\";
    message Item { string name = 1; map<string, Item> parts = 2; oneof x { int64 n = 3; bytes b = 4; }
      google.protobuf.Value value = 5; google.protobuf.Any any = 6; Kind kind = 7; repeated double d = 8; }
    enum Kind { NONE = 0; TEA = 1; }
    service Cart { rpc Add(Item) returns (stream Item); }";
const JSON: &str = r#"{"name": "tea", "parts": {"a": {"n": "-5"}, "b": {"b": "AQI="}}, "kind": "TEA",
    "value": {"a": [1, null, "x"]}, "d": [1e300, "NaN"],
    "any": {"@type": "type.googleapis.com/shop.Item", "name": "cup"}}"#;

/// Compiled descriptors of the text above.
fn protoset() -> Vec<u8> {
    let mut file = tempfile::Builder::new()
        .suffix(".proto")
        .tempfile()
        .unwrap();
    std::io::Write::write_all(&mut file, PROTO.as_bytes()).unwrap();
    let settings = LoadSettings {
        proto: Some(file.path().to_owned()),
        ..LoadSettings::default()
    };
    compiled_schema(&settings).unwrap()
}

fn input(json: &[u8], descriptors: &[u8]) -> Vec<u8> {
    [json, b"\0\0", descriptors].concat()
}

#[test]
fn damaged_descriptors_and_messages_are_refused() {
    let (json, protoset) = (JSON.as_bytes(), protoset());
    assert_eq!(descriptors::run(&input(json, &protoset)), 1);
    assert_eq!(descriptors::run(&input(json, PROTO.as_bytes())), 1);
    assert_eq!(descriptors::run(&input(b"{\"names\": 1}", &protoset)), 0);
    let nested = "[".repeat(100_000);
    let nested = format!("{{\"value\": {nested}");
    assert_eq!(descriptors::run(&input(nested.as_bytes(), &protoset)), 0);
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut refused = 0;
    for case in 0..1_500 {
        let mut parts = [json.to_vec(), protoset.clone()];
        if case % 3 == 2 {
            parts[1] = PROTO.as_bytes().to_vec();
        }
        let part = &mut parts[usize::from(case % 3 != 0)];
        for _ in 0..random.random_range(1..4) {
            let at = random.random_range(0..part.len().max(1));
            match random.random_range(0..3) {
                _ if part.is_empty() => {}
                0 => part[at] = random.random_range(0..=255),
                1 => drop(part.remove(at)),
                _ => part.truncate(at),
            }
        }
        refused += u32::from(descriptors::run(&input(&parts[0], &parts[1])) == 0);
    }
    assert!(refused > 300, "{refused}");
}
