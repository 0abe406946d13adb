//! Tests of event streams with the body of the fuzz target, on thousands of random inputs.

use proptest::prelude::*;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

/// Parts of bodies that lead to rare states.
const PARTS: [&[u8]; 24] = [
    b"data: ",
    b"data:",
    b"data",
    b"da",
    b"\n\n",
    b"\n",
    b"\r\n\r\n",
    b"\r",
    b": comment",
    b"id: 1",
    b"[DONE]",
    b"{\"a\":\"h\xc3\xa9\"}",
    b"{\"a\":[{\"b\":\"x\"}]}",
    b"{\"b\":1,\"a\":[{\"c\":[2],\"b\":null}]}",
    b"{\"a\":",
    b"[{\"b\":\"",
    b"\\u00e9\\ud83d\\ude00",
    b"\\",
    b"\"}",
    b"]}",
    b"\xef\xbb\xbf",
    b"\xef",
    b"\x00\xff",
    b" ",
];

fn body() -> impl Strategy<Value = Vec<u8>> {
    let parts = proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 0..40);
    (any::<[u8; 5]>(), parts).prop_map(|(head, parts)| {
        let mut bytes = head.to_vec();
        bytes.extend(parts.concat());
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn counts_do_not_depend_on_how_a_body_is_split(bytes in body()) {
        bodies::event_stream::run(&bytes);
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        bodies::event_stream::run(&bytes);
    }
}
