//! Arbitrary bytes as the frames of a WebSocket server: the meaning must not depend on how the bytes
//! are split, and no message may be longer than its bytes.

use prony_protocol::websocket::{
    DeflateParameters, Frames, Handshake, Offer, SocketEvent, Violation,
};

use super::drive::pieces;

/// Reads arbitrary frames, and the same bytes as the response to a handshake. The first four bytes
/// determine how the others are split, and the first one whether messages may be compressed.
pub fn run(data: &[u8]) {
    let Some((steps, bytes)) = data.split_first_chunk::<4>() else {
        return;
    };
    let has_compression = steps[0].is_multiple_of(2);
    let whole = read([bytes], has_compression);
    let single = read(bytes.chunks(1), has_compression);
    assert_eq!(whole, single, "byte by byte");
    let split = read(pieces(bytes, steps), has_compression);
    assert_eq!(whole, split, "split into {steps:?}");
    if let Ok(meanings) = &whole {
        let length: usize = meanings.iter().map(|(_, data)| data.len()).sum();
        assert!(length + 2 * meanings.len() <= bytes.len());
    }
    let offer = Offer {
        protocols: "a, b".to_owned(),
        deflate: has_compression.then(DeflateParameters::default),
    };
    let opened = |parts: &mut dyn Iterator<Item = &[u8]>| {
        let mut handshake = Handshake::default();
        for mut part in parts {
            match handshake.add(&mut part, "accept", &offer) {
                Ok(None) => {}
                end => return end,
            }
        }
        Ok(None)
    };
    let whole = opened(&mut [bytes].into_iter());
    assert_eq!(whole, opened(&mut bytes.chunks(1)), "byte by byte");
}

/// Returns each complete message and control frame with its payload. The result is the violation if
/// there was one.
fn read<'a>(
    parts: impl IntoIterator<Item = &'a [u8]>,
    has_compression: bool,
) -> Result<Vec<(&'static str, Vec<u8>)>, Violation> {
    let mut frames = Frames::new(has_compression);
    let (mut meanings, mut data) = (Vec::new(), Vec::new());
    for mut part in parts {
        loop {
            let event = frames.next(&mut part);
            if let Err(violation) = event {
                assert_eq!(frames.next(&mut part), Err(violation), "it must stay");
            }
            let control = frames.control().to_vec();
            assert!(control.len() <= 125);
            match event? {
                SocketEvent::NeedMore => break,
                SocketEvent::Data(piece) => data.extend_from_slice(piece),
                SocketEvent::Compressed { bytes, .. } => {
                    assert!(has_compression);
                    data.extend_from_slice(bytes);
                }
                SocketEvent::MessageEnd {
                    is_binary,
                    is_compressed,
                } => {
                    let data = std::mem::take(&mut data);
                    let kind = match (is_compressed, is_binary) {
                        (true, _) => "compressed",
                        (false, true) => "binary",
                        (false, false) => "text",
                    };
                    assert!(kind != "text" || std::str::from_utf8(&data).is_ok());
                    meanings.push((kind, data));
                }
                SocketEvent::Ping => meanings.push(("ping", control)),
                SocketEvent::Pong => meanings.push(("pong", control)),
                SocketEvent::Close(_) => meanings.push(("close", control)),
            }
        }
        assert!(part.is_empty());
    }
    Ok(meanings)
}
