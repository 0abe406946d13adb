//! Arbitrary header blocks, decoded in sequence.

use prony_protocol::h2::hpack::Decoder;

/// Decodes arbitrary blocks. The blocks are separated by the byte 0x2f, which valid blocks hardly
/// ever contain (it would resize the table to 15 bytes). A block that consists of `r` restarts the
/// decoder; one that consists of `l` and a byte limits the table size.
///
/// A decoder that has already decoded each block must give the same result. Returns a description
/// of the decoded blocks.
pub fn run(data: &[u8]) -> Vec<String> {
    let mut decoder = Decoder::new(65_536);
    let first = decode(&mut decoder, data);
    decoder = decoder.renewed();
    let second = decode(&mut decoder, data);
    assert_eq!(first, second, "a warm decoder must give the same result");
    first
}

fn decode(decoder: &mut Decoder, data: &[u8]) -> Vec<String> {
    let mut results = Vec::new();
    for block in data.split(|&byte| byte == 0x2f) {
        match block {
            b"r" => *decoder = decoder.renewed(),
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
