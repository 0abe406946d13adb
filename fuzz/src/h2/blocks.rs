//! Any blocks of fields, one after the other.

use prony_protocol::h2::hpack::Decoder;

/// Blocks, divided by the byte 0x2f, which hardly any block needs: as the change of a table's size
/// by 15 it is lawful, so nothing is lost but that. A block that is only `r` restarts the decoder,
/// one that is `l` and a byte limits the table.
///
/// The same blocks, decoded by a decoder that saw each of them before, must mean the same. Returns what
/// they mean.
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
