//! Arbitrary field blocks, one after the other.

use prony_protocol::h2::hpack::Decoder;

/// Blocks, separated by the byte 0x2f, which hardly any block needs: it would resize the table by
/// 15. A block that is only `r` restarts the decoder, and one that is `l` and a byte limits the
/// table.
///
/// The same blocks are decoded by a decoder that has seen each of them before, with the same
/// result. Returns the meaning of the blocks.
pub fn run(data: &[u8]) -> Vec<String> {
    let mut decoder = Decoder::new(65_536);
    let first = decode(&mut decoder, data);
    decoder.restart();
    let second = decode(&mut decoder, data);
    assert_eq!(first, second, "what is known changes nothing");
    first
}

fn decode(decoder: &mut Decoder, data: &[u8]) -> Vec<String> {
    let mut results = Vec::new();
    for block in data.split(|&byte| byte == 0x2f) {
        match block {
            b"r" => decoder.restart(),
            [b'l', limit] => decoder.limit_table(u32::from(*limit) * 16),
            block => {
                let fields = decoder.decode(block);
                results.push(format!("{fields:?}"));
                if let Err(error) = fields {
                    assert!(!error.to_string().is_empty());
                    break;
                }
            }
        }
    }
    results
}
