//! Tests of the rules of RFC 6455 with bytes alone.

use proptest::prelude::*;

use super::{
    Agreed, DeflateParameters, Frames, Handshake, HandshakeError, HandshakeHeader, Offer, Opcode,
    SocketEvent, Violation, header_bytes, write_frame, write_header, write_masked,
};

/// The meaning of a sequence of frames, with the parts of messages joined.
#[derive(Debug, PartialEq, Eq)]
enum Meaning {
    Text(Vec<u8>),
    Binary(Vec<u8>),
    Compressed(Vec<u8>),
    Ping(Vec<u8>),
    Pong,
    Close(Option<u16>),
}

/// Reads bytes in pieces of this length.
fn read(bytes: &[u8], piece: usize) -> Result<Vec<Meaning>, Violation> {
    read_with(Frames::new(false), bytes, piece)
}

fn read_with(mut frames: Frames, bytes: &[u8], piece: usize) -> Result<Vec<Meaning>, Violation> {
    let (mut meanings, mut data) = (Vec::new(), Vec::new());
    for mut piece in bytes.chunks(piece.max(1)) {
        loop {
            match frames.next(&mut piece)? {
                SocketEvent::NeedMore => break,
                SocketEvent::Data(part) => data.extend_from_slice(part),
                SocketEvent::Compressed { bytes, .. } => data.extend_from_slice(bytes),
                SocketEvent::MessageEnd {
                    is_binary,
                    is_compressed,
                } => {
                    let data = std::mem::take(&mut data);
                    meanings.push(match (is_compressed, is_binary) {
                        (true, _) => Meaning::Compressed(data),
                        (false, true) => Meaning::Binary(data),
                        (false, false) => Meaning::Text(data),
                    });
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
        assert!(matches!(violation.close_code(), 1002 | 1007 | 1009));
        assert!(!violation.to_string().is_empty());
    }
}

#[test]
fn only_the_first_frame_of_a_message_is_marked_as_compressed() {
    let compressed = |bytes: &[u8]| read_with(Frames::new(true), bytes, 1);
    // The text is not checked before it is inflated.
    let bytes = [frame(0x41, b"\xff"), frame(0x89, b""), frame(0x80, b"\xfe")].concat();
    let expected = [
        Meaning::Ping(Vec::new()),
        Meaning::Compressed(vec![0xff, 0xfe]),
    ];
    assert_eq!(compressed(&bytes).unwrap(), expected);
    let bytes = frame(0x81, b"plain");
    assert_eq!(
        compressed(&bytes).unwrap(),
        [Meaning::Text(b"plain".into())]
    );
    for bytes in [
        &[frame(0x41, b"x"), frame(0xc0, b"x")].concat()[..],
        &frame(0xc9, b""),
        &frame(0xc8, b""),
        &frame(0xa1, b""),
    ] {
        assert_eq!(compressed(bytes), Err(Violation::ReservedBits));
    }
}

#[test]
fn the_parameters_of_compression_must_fit_the_offer() {
    let agreed = |offer: &str, response: &str| {
        let offer = DeflateParameters::parse_offer(offer).expect("a valid offer");
        let offer = Offer {
            protocols: String::new(),
            deflate: Some(offer),
        };
        let line = format!("HTTP/2 200\r\nsec-websocket-extensions: {response}\r\n");
        let agreed = offer.read_fields(line.as_bytes()).ok()?;
        agreed.deflate.map(|it| it.to_string())
    };
    let name = "permessage-deflate";
    for (offer, response, expected) in [
        ("", "", Some("")),
        (
            "",
            "; server_no_context_takeover",
            Some("; server_no_context_takeover"),
        ),
        (
            "",
            "; client_no_context_takeover",
            Some("; client_no_context_takeover"),
        ),
        (
            "",
            "; server_max_window_bits=9",
            Some("; server_max_window_bits=9"),
        ),
        ("", "; client_max_window_bits=9", None),
        (
            "client_max_window_bits",
            "; client_max_window_bits=9",
            Some("; client_max_window_bits=9"),
        ),
        (
            "client_max_window_bits",
            "; client_max_window_bits=\"9\"",
            Some("; client_max_window_bits=9"),
        ),
        (
            "client_max_window_bits=10",
            "; client_max_window_bits=12",
            Some("; client_max_window_bits=10"),
        ),
        (
            "client_max_window_bits=10",
            "",
            Some("; client_max_window_bits=10"),
        ),
        ("client_max_window_bits", "; client_max_window_bits", None),
        (
            "server_max_window_bits=10",
            "; server_max_window_bits=11",
            None,
        ),
        ("server_max_window_bits=10", "", None),
        ("server_no_context_takeover", "", None),
        (
            "client_no_context_takeover",
            "",
            Some("; client_no_context_takeover"),
        ),
        ("", "; server_max_window_bits=7", None),
        ("", "; server_max_window_bits=16", None),
        ("", "; server_max_window_bits=09", None),
        ("", "; server_max_window_bits=", None),
        (
            "",
            "; server_no_context_takeover; server_no_context_takeover",
            None,
        ),
        ("", "; server_no_context_takeover=1", None),
        ("", "; unknown", None),
        ("", ", permessage-deflate", None),
    ] {
        let response = format!("{name}{response}");
        let expected = expected.map(|it| format!("{name}{it}"));
        assert_eq!(agreed(offer, &response), expected, "{offer:?} {response}");
    }
    assert_eq!(agreed("", "x-other"), None);
    for wrong in [
        "unknown",
        "server_max_window_bits",
        "server_max_window_bits=1",
        "; ;x=1",
    ] {
        assert_eq!(DeflateParameters::parse_offer(wrong), None, "{wrong}");
    }
}

#[test]
fn a_frame_of_two_to_the_62_bytes_takes_no_memory() {
    let mut frames = Frames::new(false);
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
    let offer = Offer {
        protocols: "chat, v2".to_owned(),
        deflate: None,
    };
    let open = Ok(Some(Agreed::default()));
    let read = |head: String| {
        let head = head + "\r\nrest";
        let mut results = Vec::new();
        for length in [1, 5, head.len()] {
            let mut handshake = Handshake::default();
            let mut result = Ok(None);
            let mut rest = 0;
            for mut piece in head.as_bytes().chunks(length) {
                if result == Ok(None) {
                    result = handshake.add(&mut piece, accept, &offer);
                }
                rest += piece.len();
            }
            assert!(result != open || rest == 4, "{rest}");
            results.push(result);
        }
        assert!(results.iter().all(|result| *result == results[0]));
        results.remove(0)
    };
    assert_eq!(read(good.to_owned()), open);
    assert_eq!(read(format!("{good}Sec-WebSocket-Protocol: v2\r\n")), open);
    for (head, error) in [
        (good.replace("101", "404"), HandshakeError::Status(404)),
        (
            good.replace("HTTP/1.1", "HTTP/9"),
            HandshakeError::Malformed,
        ),
        (
            good.replace("s3pP", "S3pP"),
            HandshakeError::Header(HandshakeHeader::Accept),
        ),
        (
            good.replace("WebSocket", "h2c"),
            HandshakeError::Header(HandshakeHeader::Upgrade),
        ),
        (
            good.replace("keep-alive, Upgrade", "close"),
            HandshakeError::Header(HandshakeHeader::Connection),
        ),
        (
            format!("{good}Sec-WebSocket-Protocol: v3\r\n"),
            HandshakeError::Header(HandshakeHeader::Protocol),
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

    #[test]
    fn payloads_can_be_masked_in_pieces(payload in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec(0_usize..300, 0..5), key: [u8; 4]) {
        let mut whole = Vec::new();
        write_frame(Opcode::Binary, &payload, key, &mut whole);
        let mut pieces = Vec::new();
        write_header(Opcode::Binary, false, payload.len(), key, &mut pieces);
        prop_assert_eq!(pieces.len(), header_bytes(payload.len()));
        let mut cuts = cuts;
        cuts.push(payload.len());
        cuts.sort_unstable();
        let mut from = 0;
        for cut in cuts.into_iter().map(|cut| cut.min(payload.len())) {
            write_masked(&payload[from..cut], from, key, &mut pieces);
            from = cut;
        }
        prop_assert_eq!(pieces, whole);
    }
}
