//! Counts the events of one body.

use std::ops::AddAssign;
use std::sync::Arc;

use super::field::FieldReader;
use super::sse::{SseLines, SsePart};
use super::{EventFormat, EventSyntax};

/// Numbers of the events that a part of a body completed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventCounts {
    /// Events. If they must have a field, those that have it.
    pub events: u32,
    /// Events without the field that events must have.
    pub others: u32,
    /// Characters in the fields of the events.
    pub chars: u32,
}

impl EventCounts {
    /// Returns true if no event was completed.
    #[inline]
    pub fn is_empty(self) -> bool {
        self == EventCounts::default()
    }
}

impl AddAssign for EventCounts {
    fn add_assign(&mut self, other: EventCounts) {
        self.events = self.events.saturating_add(other.events);
        self.others = self.others.saturating_add(other.others);
        self.chars = self.chars.saturating_add(other.chars);
    }
}

/// The way in which a complete body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// After an event and, if the syntax has one, after the end marker.
    Complete,
    /// Before the first event.
    NoEvent,
    /// Within an event.
    WithinEvent,
    /// Without the end marker.
    NoEndMarker,
}

/// Reads the events of one body.
#[derive(Debug)]
pub struct EventReader {
    division: Division,
    data: EventData,
    /// True once an event has been counted.
    has_events: bool,
    /// True once the end marker has arrived.
    has_ended: bool,
}

/// The division of the body into events.
#[derive(Debug)]
enum Division {
    ServerSent(SseLines),
    Lines {
        /// True if the last byte was a carriage return, which is part of the line only if no line
        /// feed follows.
        after_return: bool,
    },
    Frames,
}

/// The data of the current event.
#[derive(Debug)]
struct EventData {
    field: Option<FieldReader>,
    marker: Option<MarkerMatch>,
    is_empty: bool,
}

/// Comparison of an event's data with the end marker.
#[derive(Debug)]
struct MarkerMatch {
    marker: Arc<str>,
    /// Number of bytes that are equal; `None` if the data differ.
    equal: Option<usize>,
}

/// Role of an event in its stream.
enum EventRole {
    Event {
        chars: u64,
    },
    /// The event lacks the field that events must have.
    Other,
    EndMarker,
}

impl EventData {
    fn read(&mut self, bytes: &[u8]) {
        self.is_empty &= bytes.is_empty();
        if let Some(marker) = &mut self.marker {
            marker.read(bytes);
        }
        if let Some(field) = &mut self.field {
            field.read(bytes);
        }
    }

    fn end(&mut self) -> EventRole {
        self.is_empty = true;
        let is_marker = self.marker.as_mut().is_some_and(MarkerMatch::end);
        let found = self.field.as_mut().map(FieldReader::finish);
        match found {
            _ if is_marker => EventRole::EndMarker,
            None => EventRole::Event { chars: 0 },
            Some(Some(found)) => EventRole::Event { chars: found.chars },
            Some(None) => EventRole::Other,
        }
    }
}

impl MarkerMatch {
    fn read(&mut self, bytes: &[u8]) {
        self.equal = self.equal.and_then(|at| {
            let rest = &self.marker.as_bytes()[at..];
            rest.starts_with(bytes).then_some(at + bytes.len())
        });
    }

    /// Ends the data. Returns true if they were the marker.
    fn end(&mut self) -> bool {
        self.equal.replace(0) == Some(self.marker.len())
    }
}

impl EventReader {
    /// Creates a reader of one body.
    pub fn new(syntax: &EventSyntax) -> EventReader {
        EventReader {
            division: match syntax.format {
                EventFormat::ServerSent => Division::ServerSent(SseLines::default()),
                EventFormat::Lines => Division::Lines {
                    after_return: false,
                },
                EventFormat::Frames => Division::Frames,
            },
            data: EventData {
                field: syntax.field.clone().map(FieldReader::new),
                marker: syntax.end_marker.clone().map(|marker| MarkerMatch {
                    marker,
                    equal: Some(0),
                }),
                is_empty: true,
            },
            has_events: false,
            has_ended: false,
        }
    }

    /// Reads a part of the body.
    pub fn read(&mut self, mut bytes: &[u8]) -> EventCounts {
        let mut counts = EventCounts::default();
        match &mut self.division {
            Division::ServerSent(_) => {
                while let Division::ServerSent(lines) = &mut self.division
                    && let Some(part) = lines.next(&mut bytes)
                {
                    match part {
                        SsePart::Data(data) => self.data.read(data),
                        SsePart::End => self.end_event(&mut counts),
                    }
                }
            }
            Division::Lines { .. } => self.read_lines(bytes, &mut counts),
            Division::Frames => self.data.read(bytes),
        }
        counts
    }

    fn read_lines(&mut self, mut bytes: &[u8], counts: &mut EventCounts) {
        while let Some((&first, _)) = bytes.split_first() {
            if let Division::Lines { after_return } = &mut self.division
                && std::mem::take(after_return)
                && first != b'\n'
            {
                self.data.read(b"\r");
            }
            let Some(end) = memchr::memchr(b'\n', bytes) else {
                let line = bytes.strip_suffix(b"\r");
                self.division = Division::Lines {
                    after_return: line.is_some(),
                };
                self.data.read(line.unwrap_or(bytes));
                return;
            };
            let line = &bytes[..end];
            self.data.read(line.strip_suffix(b"\r").unwrap_or(line));
            bytes = &bytes[end + 1..];
            if !self.data.is_empty {
                self.end_event(counts);
            }
        }
    }

    /// Ends a chunk or DATA frame.
    pub fn end_frame(&mut self) -> EventCounts {
        let mut counts = EventCounts::default();
        if let Division::Frames = self.division
            && !self.data.is_empty
        {
            self.end_event(&mut counts);
        }
        counts
    }

    /// Ends the body, which is complete.
    pub fn finish(&mut self) -> (EventCounts, StreamEnd) {
        let mut counts = EventCounts::default();
        let is_within_event = match &self.division {
            Division::ServerSent(lines) => lines.is_within_event(),
            // The last line or frame needs no end of its own.
            Division::Lines { .. } | Division::Frames => {
                if !self.data.is_empty {
                    self.end_event(&mut counts);
                }
                false
            }
        };
        let needs_marker = self.data.marker.is_some();
        let end = match () {
            () if is_within_event => StreamEnd::WithinEvent,
            () if !self.has_events => StreamEnd::NoEvent,
            () if needs_marker && !self.has_ended => StreamEnd::NoEndMarker,
            () => StreamEnd::Complete,
        };
        (counts, end)
    }

    fn end_event(&mut self, counts: &mut EventCounts) {
        match self.data.end() {
            EventRole::Event { chars } => {
                self.has_events = true;
                *counts += EventCounts {
                    events: 1,
                    others: 0,
                    chars: u32::try_from(chars).unwrap_or(u32::MAX),
                };
            }
            EventRole::Other => counts.others = counts.others.saturating_add(1),
            EventRole::EndMarker => self.has_ended = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::FieldPath;
    use super::*;

    fn syntax(format: EventFormat) -> EventSyntax {
        EventSyntax {
            format,
            field: None,
            end_marker: None,
        }
    }

    /// Reads the body in pieces of each size, which must not change the result.
    fn read(syntax: &EventSyntax, body: &[u8]) -> (EventCounts, StreamEnd) {
        let in_pieces = |size: usize| {
            let mut reader = EventReader::new(syntax);
            let mut sum = EventCounts::default();
            body.chunks(size)
                .for_each(|piece| sum += reader.read(piece));
            let (last, end) = reader.finish();
            sum += last;
            (sum, end)
        };
        let whole = in_pieces(body.len().max(1));
        for size in 1..body.len().min(9) {
            assert_eq!(in_pieces(size), whole, "pieces of {size}");
        }
        whole
    }

    fn events(format: EventFormat, body: &str) -> (u32, StreamEnd) {
        let (counts, end) = read(&syntax(format), body.as_bytes());
        assert_eq!((counts.others, counts.chars), (0, 0));
        (counts.events, end)
    }

    #[test]
    fn server_sent_events_are_blocks_with_data() {
        use StreamEnd::{Complete, NoEvent, WithinEvent};
        for (body, count, end) in [
            ("", 0, NoEvent),
            ("data: a\n\ndata: b\n\n", 2, Complete),
            ("data: a\r\n\r\ndata: b\r\n\r\n", 2, Complete),
            ("data: a\r\rdata: b\r\r", 2, Complete),
            ("data: a\ndata: b\n\n", 1, Complete),
            (": ping\n\n: ping\n\ndata: a\n\n: ping\n\n", 1, Complete),
            ("event: x\nid: 1\nretry: 5\n\n", 0, NoEvent),
            ("id: 1\nevent: x\ndata: a\n\n\n\n", 1, Complete),
            ("data\n\n", 1, Complete),
            ("data:\n\n", 1, Complete),
            ("data:a\n\n", 1, Complete),
            ("dat: a\n\ndatas: a\n\n data: a\n\nDATA: a\n\n", 0, NoEvent),
            ("\u{feff}data: a\n\n", 1, Complete),
            ("data: \u{feff}a\n\n\u{feff}data: a\n\n", 1, Complete),
            ("data: a\n\ndata: b\n", 1, WithinEvent),
            ("data: a\n\ndata: b", 1, WithinEvent),
            ("data: a\n\nda", 1, WithinEvent),
            ("data: a\n\n: comment", 1, Complete),
            ("data: a", 0, WithinEvent),
            ("\n\n\n", 0, NoEvent),
        ] {
            assert_eq!(
                events(EventFormat::ServerSent, body),
                (count, end),
                "{body:?}"
            );
        }
    }

    #[test]
    fn lines_are_events_unless_they_are_empty() {
        use StreamEnd::{Complete, NoEvent};
        for (body, count, end) in [
            ("", 0, NoEvent),
            ("\n\r\n\n", 0, NoEvent),
            ("a\nb\n", 2, Complete),
            ("a\r\n\r\nb\r\n", 2, Complete),
            ("a\n\n\nb", 2, Complete),
            ("a\rb\n", 1, Complete),
            ("\r\r\n", 1, Complete),
        ] {
            assert_eq!(events(EventFormat::Lines, body), (count, end), "{body:?}");
        }
    }

    #[test]
    fn frames_are_events_unless_they_are_empty() {
        let mut reader = EventReader::new(&syntax(EventFormat::Frames));
        assert_eq!(reader.end_frame().events, 0);
        assert_eq!(reader.read(b"a\n\nb").events, 0);
        assert_eq!(reader.read(b"c").events, 0);
        assert_eq!(reader.end_frame().events, 1);
        assert_eq!(reader.end_frame().events, 0);
        assert_eq!(
            reader.finish(),
            (EventCounts::default(), StreamEnd::Complete)
        );
        let mut unframed = EventReader::new(&syntax(EventFormat::Frames));
        unframed.read(b"a");
        assert_eq!(unframed.finish().0.events, 1);
    }

    #[test]
    fn the_end_marker_ends_a_stream_and_is_no_event() {
        use StreamEnd::{Complete, NoEndMarker, NoEvent};
        let with_marker = |format| EventSyntax {
            end_marker: Some("[DONE]".into()),
            ..syntax(format)
        };
        for (body, count, end) in [
            ("data: a\n\ndata: [DONE]\n\n", 1, Complete),
            ("data: a\n\ndata:[DONE]\n\n: bye\n\n", 1, Complete),
            ("data: a\n\n", 1, NoEndMarker),
            ("data: a\n\ndata: [DONE] \n\n", 2, NoEndMarker),
            ("data: a\n\ndata: [DON\n\n", 2, NoEndMarker),
            ("data: a\n\ndata: x\ndata: [DONE]\n\n", 2, NoEndMarker),
            ("data: [DONE]\n\n", 0, NoEvent),
        ] {
            let (counts, is) = read(&with_marker(EventFormat::ServerSent), body.as_bytes());
            assert_eq!((counts.events, is), (count, end), "{body:?}");
        }
        let lines = read(&with_marker(EventFormat::Lines), b"a\r\n[DONE]\r\n");
        assert_eq!((lines.0.events, lines.1), (1, Complete));
    }

    #[test]
    fn events_with_the_field_are_counted_apart() {
        let syntax = EventSyntax {
            field: Some(FieldPath::parse("a.0").unwrap()),
            end_marker: Some("[DONE]".into()),
            ..syntax(EventFormat::ServerSent)
        };
        let body = "data: {\"a\":[\"\"]}\n\ndata: {\"a\":[\"hé\"]}\n\n: no\n\ndata: {\"a\":\ndata: [\"x\"]}\n\n\
                    data: {\"b\":1}\n\ndata: [DONE]\n\n";
        let counts = EventCounts {
            events: 2,
            others: 2,
            chars: 3,
        };
        assert_eq!(
            read(&syntax, body.as_bytes()),
            (counts, StreamEnd::Complete)
        );
    }
}
