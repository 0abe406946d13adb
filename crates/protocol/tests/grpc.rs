//! Tests of gRPC's messages with the body of the fuzz target, on thousands of random inputs.

use proptest::prelude::*;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

/// Prefixes and parts of messages.
const PARTS: [&[u8]; 9] = [
    b"\0\0\0\0\0",
    b"\0\0\0\0\x02",
    b"\x01\0\0\0\x03",
    b"\0\0\0\x01\0",
    b"\0\xff\xff\xff\xff",
    b"\x02",
    b"\0\0",
    b"ab",
    b"abc",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn counts_do_not_depend_on_how_a_body_is_split(
        head in any::<[u8; 5]>(),
        parts in proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 0..20),
    ) {
        bodies::grpc::run(&[&head[..], &parts.concat()].concat());
    }
}
