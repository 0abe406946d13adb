//! A streamed response: a request and the events of its response.
//!
//! Only the body of a successful response is divided into events. If it has a content coding, the
//! coding is removed first. Neither the body nor an event is kept, so the memory of a stream is
//! constant, apart from the decoder of its content coding.

use std::fmt;
use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use flate2::write::{MultiGzDecoder, ZlibDecoder};
use prony_protocol::event_stream::{EventCounts, EventReader, EventSyntax, StreamEnd};
use prony_record::Outcome;

use super::kind::{CompleteResponse, ExchangeKind, ResponseEnd};
use super::stream_failure::StreamFailure;
use crate::values::content_coding::codings;
use crate::values::response_head;

/// A response that is read as a stream of events.
#[derive(Debug)]
pub(crate) struct EventStream {
    body: StreamBody,
}

/// The body of a streamed response.
#[derive(Debug)]
enum StreamBody {
    /// The head has not arrived, or the response isn't a success.
    Unread(EventReader),
    Plain(EventReader),
    Encoded(Box<Decoder>),
    Failed(StreamFailure),
}

/// A decoder of a content coding, which writes what it decodes to a reader of events.
///
/// There is none for zstd: `ruzstd` yields what a window may refer to only at the end of a frame.
enum Decoder {
    Gzip(MultiGzDecoder<DecodedEvents>),
    Deflate(ZlibDecoder<DecodedEvents>),
    Brotli(Box<DecompressorWriter<DecodedEvents>>),
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Decoder::Gzip(_) => "Gzip",
            Decoder::Deflate(_) => "Deflate",
            Decoder::Brotli(_) => "Brotli",
        })
    }
}

/// Size of the buffer from which decoded bytes of brotli are read.
const BROTLI_BUFFER_BYTES: usize = 4 << 10;

/// Reads decoded bytes, and collects the counts of the events in them.
#[derive(Debug)]
struct DecodedEvents {
    reader: EventReader,
    counts: EventCounts,
}

impl Write for DecodedEvents {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.counts += self.reader.read(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// Creates the decoder of a content coding. Returns `None` if streams can't have it.
    fn new(coding: &str, reader: EventReader) -> Option<Decoder> {
        let counts = EventCounts::default();
        let events = DecodedEvents { reader, counts };
        Some(match coding {
            "gzip" | "x-gzip" => Decoder::Gzip(MultiGzDecoder::new(events)),
            "deflate" => Decoder::Deflate(ZlibDecoder::new(events)),
            "br" => {
                let decoder = DecompressorWriter::new(events, BROTLI_BUFFER_BYTES);
                Decoder::Brotli(Box::new(decoder))
            }
            _ => return None,
        })
    }

    /// Decodes a part of the body as far as possible, so that no event waits for the next part.
    fn read(&mut self, bytes: &[u8]) -> (EventCounts, io::Result<()>) {
        let result = match self {
            Decoder::Gzip(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Decoder::Deflate(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
            Decoder::Brotli(decoder) => decoder.write_all(bytes).and_then(|()| decoder.flush()),
        };
        (std::mem::take(&mut self.events().counts), result)
    }

    fn events(&mut self) -> &mut DecodedEvents {
        match self {
            Decoder::Gzip(decoder) => decoder.get_mut(),
            Decoder::Deflate(decoder) => decoder.get_mut(),
            Decoder::Brotli(decoder) => decoder.get_mut(),
        }
    }
}

impl EventStream {
    /// Creates a stream whose response has not begun.
    pub(super) fn new(syntax: &EventSyntax) -> EventStream {
        EventStream {
            body: StreamBody::Unread(EventReader::new(syntax)),
        }
    }

    fn reader(&mut self) -> Option<&mut EventReader> {
        match &mut self.body {
            StreamBody::Plain(reader) => Some(reader),
            StreamBody::Encoded(decoder) => Some(&mut decoder.events().reader),
            StreamBody::Unread(_) | StreamBody::Failed(_) => None,
        }
    }
}

impl ExchangeKind for EventStream {
    fn head(&mut self, status: u16, fields: &[u8]) {
        let is_success = (200..300).contains(&status);
        let body = std::mem::replace(&mut self.body, StreamBody::Failed(StreamFailure::NoEvent));
        self.body = match body {
            StreamBody::Unread(reader) if is_success => {
                let values = response_head::values(fields, "content-encoding");
                match codings(values).as_slice() {
                    [] => StreamBody::Plain(reader),
                    [coding] => match Decoder::new(coding, reader) {
                        Some(decoder) => StreamBody::Encoded(Box::new(decoder)),
                        None => StreamBody::Failed(StreamFailure::UnknownCoding),
                    },
                    _ => StreamBody::Failed(StreamFailure::UnknownCoding),
                }
            }
            body => body,
        };
    }

    fn body(&mut self, bytes: &[u8]) -> EventCounts {
        match &mut self.body {
            StreamBody::Plain(reader) => reader.read(bytes),
            StreamBody::Encoded(decoder) => {
                let (counts, result) = decoder.read(bytes);
                if result.is_err() {
                    self.body = StreamBody::Failed(StreamFailure::Corrupt);
                }
                counts
            }
            StreamBody::Unread(_) | StreamBody::Failed(_) => EventCounts::default(),
        }
    }

    fn end_frame(&mut self) -> EventCounts {
        self.reader()
            .map_or_else(EventCounts::default, EventReader::end_frame)
    }

    fn finish_body(&mut self) -> EventCounts {
        let Some(reader) = self.reader() else {
            return EventCounts::default();
        };
        let (counts, end) = reader.finish();
        let failure = match end {
            StreamEnd::Complete => return counts,
            StreamEnd::NoEvent => StreamFailure::NoEvent,
            StreamEnd::WithinEvent => StreamFailure::WithinEvent,
            StreamEnd::NoEndMarker => StreamFailure::NoEndMarker,
        };
        self.body = StreamBody::Failed(failure);
        counts
    }

    fn end(&mut self, response: CompleteResponse<'_>) -> ResponseEnd {
        match self.body {
            // The expectations come first.
            StreamBody::Failed(failure) if response.outcome == Outcome::Ok => {
                ResponseEnd::FailedStream(failure)
            }
            _ => ResponseEnd::Exchange(response.outcome),
        }
    }
}
