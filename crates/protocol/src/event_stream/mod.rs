//! Events in the body of a streamed response.
//!
//! Input: a body in pieces of any size, with its content codings removed. Output: the number of
//! events that each piece completes. Events are counted, not returned, so the memory of a reader
//! doesn't depend on their length; an event without an end takes none.
//!
//! | format | an event is | and ends with |
//! |---|---|---|
//! | [`EventFormat::ServerSent`] | the `data` lines of a block of `text/event-stream` | an empty line |
//! | [`EventFormat::Lines`] | a line that isn't empty | a line feed, or the end of the body |
//! | [`EventFormat::Frames`] | a chunk (HTTP/1.1) or DATA frame (HTTP/2 and 3) that isn't empty | the frame, or the end of the body |

mod field;
mod reader;
mod sse;

pub use field::{FieldPath, FieldPathError};
pub use reader::{EventCounts, EventReader, StreamEnd};

use std::sync::Arc;

/// The division of a body into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventFormat {
    /// Server-sent events (`text/event-stream`).
    ServerSent,
    /// Lines, such as JSON Lines.
    Lines,
    /// Chunks of HTTP/1.1, or DATA frames of HTTP/2 and 3.
    Frames,
}

/// The events of a load's streams.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventSyntax {
    /// Division of a body into events.
    pub format: EventFormat,
    /// Field that an event must have to be counted, if its data are JSON.
    pub field: Option<FieldPath>,
    /// Data of the event that ends a stream. That event isn't counted.
    pub end_marker: Option<Arc<str>>,
}
