//! Tests of WebSocket frames with the body of the fuzz target, on thousands of random inputs.

use proptest::prelude::*;

#[expect(unreachable_pub, dead_code, reason = "a library for the fuzz targets")]
#[path = "../../../fuzz/src/lib.rs"]
mod bodies;

/// Parts of input that lead to rare states.
const PARTS: [&[u8]; 26] = [
    b"\x81\x02hi",
    b"\x82\x02\xff\xfe",
    b"\x01\x01h",
    b"\x00\x01i",
    b"\x80\x00",
    b"\x80\x02\xc3\xa9",
    b"\x01\x01\xc3",
    b"\x80\x01\xa9",
    b"\x89\x05hello",
    b"\x8a\x00",
    b"\x88\x02\x03\xe8",
    b"\x88\x00",
    b"\x81\x7e\x00\x7e",
    b"\x82\x7f\x00\x00\x00\x00\x00\x01\x00\x00",
    b"\x82\x7f\x80\x00\x00\x00\x00\x00\x00\x00",
    b"\x81",
    b"\x7e",
    b"\x00",
    b"\xc1\x00",
    b"\x41\x01\xff",
    b"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=9\r\n",
    b"\x83\x00",
    b"HTTP/1.1 101 Switching Protocols\r\n",
    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
    b"Sec-WebSocket-Accept: accept\r\n",
    b"\r\n",
];

fn input() -> impl Strategy<Value = Vec<u8>> {
    let parts = proptest::collection::vec(proptest::sample::select(PARTS.to_vec()), 0..30);
    (any::<[u8; 4]>(), parts).prop_map(|(head, parts)| {
        let mut bytes = head.to_vec();
        bytes.extend(parts.concat());
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn meanings_do_not_depend_on_how_frames_are_split(bytes in input()) {
        bodies::websocket::run(&bytes);
    }

    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        bodies::websocket::run(&bytes);
    }
}
