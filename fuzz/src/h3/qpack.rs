//! Arbitrary field sections and encoder instructions, decoded in sequence.

use prony_protocol::h3::qpack::Decoder;

/// Decodes arbitrary pieces. The pieces are separated by the byte 0x2f, which few sections contain.
/// A piece is a section if its first byte is even, and otherwise part of the encoder stream. A
/// piece that consists of `r` restarts the decoder; one that consists of `c` cancels a stream.
///
/// The result must stay the same if the decoder has already decoded each piece, if it keeps text,
/// and if instructions arrive byte by byte. Returns a description of the decoded pieces.
pub fn run(data: &[u8]) -> Vec<String> {
    let mut decoder = Decoder::new(4_096, 65_536);
    let first = decode(&mut decoder, data, usize::MAX);
    decoder = decoder.renewed();
    let second = decode(&mut decoder, data, usize::MAX);
    assert_eq!(first, second, "a warm decoder must give the same result");
    let mut decoder = Decoder::new(4_096, 65_536);
    decoder.keep_texts();
    let third = decode(&mut decoder, data, 1);
    assert_eq!(first, third, "text and splits must not change the result");
    first
}

fn decode(decoder: &mut Decoder, data: &[u8], piece_bytes: usize) -> Vec<String> {
    let mut results = Vec::new();
    for piece in data.split(|&byte| byte == 0x2f) {
        let error = match piece {
            b"r" => {
                *decoder = decoder.renewed();
                None
            }
            b"c" => {
                decoder.cancel(8);
                None
            }
            [kind, section @ ..] if kind % 2 == 0 => {
                let fields = decoder.decode(4, section);
                results.push(format!("{fields:?}"));
                fields.err()
            }
            [_, instructions @ ..] => {
                let mut parts = instructions.chunks(piece_bytes.min(instructions.len()).max(1));
                let error = parts.find_map(|part| decoder.read_instructions(part).err());
                results.push(format!("{error:?}"));
                error
            }
            [] => None,
        };
        let mut out = Vec::new();
        if error.is_none() {
            assert_eq!(decoder.has_output(), {
                decoder.take_output(&mut out);
                !out.is_empty()
            });
            results.push(format!("{out:?}"));
        }
        if let Some(error) = error {
            assert!(!error.to_string().is_empty());
            break;
        }
    }
    results
}
