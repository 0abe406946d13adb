//! Arbitrary bytes as the body of a gRPC response: the result must not depend on how the bytes are
//! split, and no byte belongs to two messages.

use prony_protocol::grpc::{MessageFault, MessageReader, PREFIX_BYTES};

use super::drive::pieces;

/// Reads an arbitrary body. The first byte determines the limits; the next four determine how the
/// body is split. The other bytes are the body.
pub fn run(data: &[u8]) {
    let Some((&[choice, steps @ ..], body)) = data.split_first_chunk::<5>() else {
        return;
    };
    let length_max = [8, 1_000, 4 << 20, u32::MAX][usize::from(choice & 3)];
    let reader = MessageReader::new(length_max, choice & 4 != 0);
    let whole = read(reader, [body]);
    assert_eq!(whole, read(reader, body.chunks(1)), "byte by byte");
    assert_eq!(
        whole,
        read(reader, pieces(body, &steps)),
        "split into {steps:?}"
    );
    if let Ok((messages, _)) = whole {
        assert!(messages as usize * PREFIX_BYTES <= body.len());
    }
}

/// Reads a body in these pieces. Returns the number of messages, and true if the last one is
/// complete.
fn read<'a>(
    mut reader: MessageReader,
    body: impl IntoIterator<Item = &'a [u8]>,
) -> Result<(u32, bool), MessageFault> {
    let mut messages = 0;
    for piece in body {
        messages += reader.read(piece)?;
    }
    Ok((messages, reader.is_between_messages()))
}
