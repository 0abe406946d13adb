//! Lines of `text/event-stream` (HTML Living Standard, section 9.2.6).

/// Next part of a piece of a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum SsePart<'a> {
    /// Part of an event's data. Several `data` lines are joined with line feeds.
    Data(&'a [u8]),
    /// An event ended.
    End,
}

/// Divides server-sent events into their data. Comments, other fields, and blocks without data are
/// skipped.
#[derive(Debug, Default)]
pub(super) struct SseLines {
    line: LinePosition,
    /// True if the last byte was a carriage return, so that a line feed belongs to it.
    after_return: bool,
    /// True if the current event has data, even if they are empty.
    has_data: bool,
    /// Position in the byte order mark that may begin the stream.
    mark: ByteOrderMark,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum LinePosition {
    #[default]
    Start,
    /// This number of bytes of the name `data` has been read.
    Name(u8),
    /// After the colon that follows `data`. One space after it isn't part of the data.
    Colon,
    Data,
    /// A comment, or another field.
    Skipped,
}

/// Number of bytes of the mark that have been read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum ByteOrderMark {
    #[default]
    None,
    One,
    Two,
    /// The stream is past its beginning.
    Past,
}

const NAME: &[u8] = b"data";

impl SseLines {
    /// Returns true if an event has begun: its data have, or the line that may begin them.
    pub(super) fn is_within_event(&self) -> bool {
        self.has_data || matches!(self.line, LinePosition::Name(_))
    }

    /// Removes the next part from the front of `input`. Returns `None` at the end of the input.
    pub(super) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<SsePart<'a>> {
        loop {
            let &byte = input.first()?;
            if self.mark != ByteOrderMark::Past && self.skip_mark(byte) {
                *input = &input[1..];
                continue;
            }
            if std::mem::take(&mut self.after_return) && byte == b'\n' {
                *input = &input[1..];
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                *input = &input[1..];
                self.after_return = byte == b'\r';
                match std::mem::take(&mut self.line) {
                    LinePosition::Start if std::mem::take(&mut self.has_data) => {
                        return Some(SsePart::End);
                    }
                    // A line of the name alone has empty data.
                    LinePosition::Name(4) => {
                        if let Some(joint) = self.begin_data() {
                            return Some(joint);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match self.line {
                LinePosition::Start if byte == NAME[0] => self.step(input, LinePosition::Name(1)),
                LinePosition::Name(4) if byte == b':' => {
                    self.step(input, LinePosition::Colon);
                    if let Some(joint) = self.begin_data() {
                        return Some(joint);
                    }
                }
                LinePosition::Name(at) if NAME.get(usize::from(at)) == Some(&byte) => {
                    self.step(input, LinePosition::Name(at + 1));
                }
                LinePosition::Colon if byte == b' ' => self.step(input, LinePosition::Data),
                LinePosition::Colon | LinePosition::Data => {
                    self.line = LinePosition::Data;
                    return Some(SsePart::Data(take_line(input)));
                }
                LinePosition::Start | LinePosition::Name(_) | LinePosition::Skipped => {
                    self.line = LinePosition::Skipped;
                    take_line(input);
                }
            }
        }
    }

    fn step(&mut self, input: &mut &[u8], line: LinePosition) {
        *input = &input[1..];
        self.line = line;
    }

    /// Begins a line of data. Returns what joins it to the event's previous line.
    fn begin_data(&mut self) -> Option<SsePart<'static>> {
        let is_first = !std::mem::replace(&mut self.has_data, true);
        (!is_first).then_some(SsePart::Data(b"\n"))
    }

    /// Returns true if the byte belongs to a byte order mark at the beginning of the stream.
    fn skip_mark(&mut self, byte: u8) -> bool {
        self.mark = match (self.mark, byte) {
            (ByteOrderMark::None, 0xef) => ByteOrderMark::One,
            (ByteOrderMark::One, 0xbb) => ByteOrderMark::Two,
            (ByteOrderMark::Two, 0xbf) => {
                self.mark = ByteOrderMark::Past;
                return true;
            }
            (mark, _) => {
                if mark != ByteOrderMark::None {
                    // The bytes were the beginning of a field whose name isn't `data`.
                    self.line = LinePosition::Skipped;
                }
                ByteOrderMark::Past
            }
        };
        self.mark != ByteOrderMark::Past
    }
}

/// Removes the bytes before the next line end from the front of `input`.
fn take_line<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let end = memchr::memchr2(b'\n', b'\r', input).unwrap_or(input.len());
    let (line, rest) = input.split_at(end);
    *input = rest;
    line
}
