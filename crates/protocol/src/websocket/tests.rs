//! Tests of the rules of RFC 6455 with bytes alone.

use proptest::prelude::*;

use super::{Frames, Handshake, HandshakeError, Opcode, SocketEvent, Violation, write_frame};

/// The meaning of a sequence of frames, with the parts of messages joined.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
}

/// Reads bytes in pieces of this length.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Meaning>, Violation> {
    let mut frames = Frames::new();
    let (mut meanings, mut data) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(piece.max(1)) {
        loop {
            match frames.next(&mut piece)? {
                SocketEvent::NeedMore => break,
                SocketEvent::Data(part) => data.extend_from_slice(part),
                SocketEvent::MessageEnd { is_binary: true } => {
                    meanings.push(Meaning::Binary(std::mem::take(&mut data)));
                }
                SocketEvent::MessageEnd { is_binary: false } => {
                    meanings.push(Meaning::Text(std::mem::take(&mut data)));
                }
                SocketEvent::Ping => meanings.push(Meaning::Ping(frames.control().to_vec())),
                SocketEvent::Pong => meanings.push(Meaning::Pong),
                SocketEvent::Close(code) => meanings.push(Meaning::Close(code)),
            }
        }
    }
    Ok(meanings)
}

/// Reads bytes in pieces of different lengths, which must not change the result.
fn read_all(bytes: &[u8]) -> Result<Vec<Meaning>, Violation> {
    let whole = read(bytes, bytes.len());
    for length in [1, 2, 3, 7] {
        assert_eq!(read(bytes, length), whole, "{length}");
    }
    whole
}

/// A frame from a server.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        short @ 0..=125 => frame.push(short as u8),
        medium @ 126..=0xffff => {
            frame.push(126);
            frame.extend((medium as u16).to_be_bytes());
        }
        long => {
            frame.push(127);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend_from_slice(payload);
    frame
}

#[test]
fn messages_of_all_lengths_are_read() {
    for length in [0, 1, 125, 126, 127, 65_535, 65_536, 70_000] {
        let payload = vec![b'x'; length];
        let read = read_all(&frame(0x81, &payload)).unwrap();
        assert_eq!(read, [Meaning::Text(payload.clone())], "{length}");
        let read = read_all(&frame(0x82, &payload)).unwrap();
        assert_eq!(read, [Meaning::Binary(payload)], "{length}");
    }
}

#[test]
fn control_frames_may_be_within_a_fragmented_message() {
    let bytes = [
        frame(0x01, "K\u{f6}".as_bytes().split_last().unwrap().1),
        frame(0x89, b"hello"),
        frame(0x00, b""),
        frame(0x8a, b""),
        frame(0x80, &["\u{f6}".as_bytes()[1], b'n']),
        frame(0x88, &[3, 232, b'o', b'k']),
    ]
    .concat();
    let expected = [
        Meaning::Ping(b"hello".to_vec()),
        Meaning::Pong,
        Meaning::Text("K\u{f6}n".into()),
        Meaning::Close(Some(1000)),
    ];
    assert_eq!(read_all(&bytes).unwrap(), expected);
    assert_eq!(read_all(&[0x88, 0]).unwrap(), [Meaning::Close(None)]);
}

#[test]
fn each_violation_has_a_name() {
    let cases: &[(&[u8], Violation)] = &[
        (&[0xc1, 0], Violation::ReservedBits),
        (&[0x91, 0], Violation::ReservedBits),
        (&[0x83, 0], Violation::ReservedOpcode(3)),
        (&[0x8b, 0], Violation::ReservedOpcode(11)),
        (&[0x81, 0x80, 0, 0, 0, 0], Violation::Masked),
        (&[0x09, 0], Violation::FragmentedControl),
        (&[0x08, 0], Violation::FragmentedControl),
        (&[0x89, 126, 0, 126], Violation::LongControl),
        (&[0x81, 126, 0, 125], Violation::Length),
        (&[0x81, 127, 0, 0, 0, 0, 0, 0, 255, 255], Violation::Length),
        (&[0x82, 127, 128, 0, 0, 0, 0, 0, 0, 0], Violation::Length),
        (&[0x80, 0], Violation::LoneContinuation),
        (&[0x01, 0, 0x81, 0], Violation::NestedMessage),
        (&[0x81, 1, 0xff], Violation::Utf8),
        (&[0x81, 1, 0xc3], Violation::Utf8),
        (&[0x01, 1, 0xc3, 0x80, 1, b'x'], Violation::Utf8),
        (&[0x81, 3, 0xed, 0xa0, 0x80], Violation::Utf8),
        (&[0x88, 1, 3], Violation::Close),
        (&[0x88, 2, 3, 236], Violation::Close),
        (&[0x88, 2, 3, 237], Violation::Close),
        (&[0x88, 2, 0, 0], Violation::Close),
        (&[0x88, 3, 3, 232, 0xff], Violation::Close),
        (&[0x88, 0, 0x81, 0], Violation::AfterClose),
    ];
    for (bytes, violation) in cases {
        assert_eq!(read_all(bytes), Err(*violation), "{bytes:?}");
        assert!(matches!(violation.close_code(), 1002 | 1007));
        assert!(!violation.to_string().is_empty());
    }
}

#[test]
fn a_frame_of_two_to_the_62_bytes_takes_no_memory() {
    let mut frames = Frames::new();
    let mut bytes: &[u8] = &[0x82, 127, 64, 0, 0, 0, 0, 0, 0, 0, b'x'];
    assert_eq!(frames.next(&mut bytes), Ok(SocketEvent::Data(b"x")));
    assert_eq!(frames.next(&mut bytes), Ok(SocketEvent::NeedMore));
}

#[test]
fn frames_of_the_client_are_masked() {
    // The example of RFC 6455 §5.7.
    let mut out = Vec::new();
    write_frame(Opcode::Text, b"Hello", [0x37, 0xfa, 0x21, 0x3d], &mut out);
    let expected = [
        0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58,
    ];
    assert_eq!(out, expected);
}

#[test]
fn the_handshake_must_be_accepted() {
    let accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    let good = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: WebSocket\r\n\
                Connection: keep-alive, Upgrade\r\nsec-websocket-accept: \
                s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n";
    let read = |head: String| {
        let head = head + "\r\nrest";
        let mut results = Vec::new();
        for length in [1, 5, head.len()] {
            let mut handshake = Handshake::default();
            let mut result = Ok(false);
            let mut rest = 0;
            for mut piece in head.as_bytes().chunks(length) {
                if result == Ok(false) {
                    result = handshake.add(&mut piece, accept, "chat, v2");
                }
                rest += piece.len();
            }
            assert!(result != Ok(true) || rest == 4, "{rest}");
            results.push(result);
        }
        assert!(results.iter().all(|result| *result == results[0]));
        results.remove(0)
    };
    assert_eq!(read(good.to_owned()), Ok(true));
    assert_eq!(
        read(format!("{good}Sec-WebSocket-Protocol: v2\r\n")),
        Ok(true)
    );
    for (head, error) in [
        (good.replace("101", "404"), HandshakeError::Status(404)),
        (
            good.replace("HTTP/1.1", "HTTP/9"),
            HandshakeError::Malformed,
        ),
        (
            good.replace("s3pP", "S3pP"),
            HandshakeError::Header("Sec-WebSocket-Accept"),
        ),
        (
            good.replace("WebSocket", "h2c"),
            HandshakeError::Header("Upgrade"),
        ),
        (
            good.replace("keep-alive, Upgrade", "close"),
            HandshakeError::Header("Connection"),
        ),
        (
            format!("{good}Sec-WebSocket-Protocol: v3\r\n"),
            HandshakeError::Header("Sec-WebSocket-Protocol"),
        ),
        (
            format!("{good}Sec-WebSocket-Extensions: permessage-deflate\r\n"),
            HandshakeError::Extension,
        ),
        (
            format!("{good}{}", "x".repeat(20_000)),
            HandshakeError::TooLong,
        ),
    ] {
        assert_eq!(read(head), Err(error));
    }
}

proptest! {
    #[test]
    fn any_bytes_mean_the_same_in_any_pieces(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_all(&bytes);
    }

    #[test]
    fn any_frames_mean_the_same_in_any_pieces(
        parts in prop::collection::vec((0_u8..16, any::<bool>(), prop::collection::vec(any::<u8>(), 0..10)), 0..8)
    ) {
        let parts = parts.iter().map(|(opcode, last, payload)| {
            frame(opcode | if *last { 0x80 } else { 0 }, payload)
        });
        let _ = read_all(&parts.collect::<Vec<_>>().concat());
    }

    #[test]
    fn masked_payloads_can_be_unmasked(payload in prop::collection::vec(any::<u8>(), 0..300), key: [u8; 4]) {
        let mut out = Vec::new();
        write_frame(Opcode::Binary, &payload, key, &mut out);
        let masked = &out[out.len() - payload.len()..];
        let plain: Vec<u8> = masked.iter().zip(key.iter().cycle()).map(|(a, b)| a ^ b).collect();
        prop_assert_eq!(plain, payload);
    }
}
