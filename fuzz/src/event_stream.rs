//! Arbitrary bytes as the body of a streamed response: the counts must not depend on how the bytes
//! are split, and no event may be counted twice.

use prony_protocol::event_stream::{
    EventCounts, EventFormat, EventReader, EventSyntax, FieldPath, StreamEnd,
};

use super::drive::pieces;

/// Reads an arbitrary body. The first byte determines the syntax; the next four determine how the
/// body is split. The other bytes are the body.
pub fn run(data: &[u8]) {
    let Some((&[choice, steps @ ..], body)) = data.split_first_chunk::<5>() else {
        return;
    };
    let field = match choice >> 4 & 3 {
        0 | 1 => None,
        2 => FieldPath::parse("a").ok(),
        _ => FieldPath::parse("a.0.b").ok(),
    };
    let syntax = EventSyntax {
        format: match choice % 3 {
            0 => EventFormat::ServerSent,
            1 => EventFormat::Lines,
            _ => EventFormat::Frames,
        },
        field,
        end_marker: (choice & 0x40 != 0).then(|| "[DONE]".into()),
    };
    let whole = read(&syntax, [body]);
    assert_eq!(whole, read(&syntax, body.chunks(1)), "byte by byte");
    assert_eq!(
        whole,
        read(&syntax, pieces(body, &steps)),
        "split into {steps:?}"
    );
    let (counts, end) = whole;
    let all = counts.events as usize + counts.others as usize;
    assert!(all <= body.len(), "{all} events in {} bytes", body.len());
    assert!(counts.chars as usize <= body.len());
    if counts.events == 0 {
        assert!(matches!(end, StreamEnd::NoEvent | StreamEnd::WithinEvent));
    }
    if syntax.end_marker.is_none() {
        assert_ne!(end, StreamEnd::NoEndMarker);
    }
}

/// Reads a body in these pieces, as one frame.
fn read<'a>(
    syntax: &EventSyntax,
    body: impl IntoIterator<Item = &'a [u8]>,
) -> (EventCounts, StreamEnd) {
    let mut reader = EventReader::new(syntax);
    let mut sum = EventCounts::default();
    body.into_iter().for_each(|piece| sum += reader.read(piece));
    sum += reader.end_frame();
    let (last, end) = reader.finish();
    sum += last;
    (sum, end)
}
