//! Feeds a response to a parser piece by piece and records the events.

use std::fmt;

use prony_protocol::h1::{Eof, Expects, Head, ResponseEvent, ResponseParser, Violation};

/// Trace of one response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    pub interims: Vec<u16>,
    pub head: Option<Head>,
    pub body: Vec<u8>,
    pub ending: ExchangeEnd,
    /// Number of bytes left unconsumed at the end.
    pub left: usize,
}

/// End of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExchangeEnd {
    End { reusable: bool },
    SwitchingProtocols,
    Eof(Eof),
    Violation(Violation),
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for status in &self.interims {
            write!(f, "{status} ")?;
        }
        if let Some(head) = &self.head {
            write!(f, "{} {:?} ", head.status, head.framing)?;
            write!(f, "\"{}\" ", self.body.escape_ascii())?;
        }
        match self.ending {
            ExchangeEnd::End { reusable: true } => write!(f, "reusable")?,
            ExchangeEnd::End { reusable: false } => write!(f, "close")?,
            ExchangeEnd::SwitchingProtocols => write!(f, "101")?,
            ExchangeEnd::Eof(eof) => write!(f, "{eof:?}")?,
            ExchangeEnd::Violation(violation) => return write!(f, "{violation:?}"),
        }
        match self.left {
            0 => Ok(()),
            left => write!(f, " {left} left"),
        }
    }
}

/// Runs one exchange: feeds all pieces, then closes the peer's side.
pub fn drive<'a>(
    parser: &mut ResponseParser,
    expects: Expects,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Trace {
    let mut trace = Trace {
        interims: Vec::new(),
        head: None,
        body: Vec::new(),
        ending: ExchangeEnd::Eof(Eof::Idle),
        left: 0,
    };
    parser.start(expects);
    let mut pieces = pieces.into_iter();
    let mut any = false;
    while let Some(mut input) = pieces.next() {
        any |= !input.is_empty();
        let ended = feed(parser, &mut input, &mut trace);
        assert_eq!(parser.started(), any);
        if let Some(ending) = ended {
            trace.ending = ending;
            trace.left = input.len() + pieces.map(<[u8]>::len).sum::<usize>();
            if let ExchangeEnd::Violation(violation) = ending {
                // The parser may consume any number of bytes of invalid input.
                trace.left = 0;
                check_failed(parser, violation);
            }
            return trace;
        }
    }
    let eof = parser.eof();
    check_eof(eof, any, &trace);
    trace.ending = ExchangeEnd::Eof(eof);
    trace
}

/// Records all events of one piece of input, up to the one that ends the exchange.
fn feed(parser: &mut ResponseParser, input: &mut &[u8], trace: &mut Trace) -> Option<ExchangeEnd> {
    loop {
        let before = input.len();
        let event = match parser.next(input) {
            Ok(event) => event,
            Err(violation) => return Some(ExchangeEnd::Violation(violation)),
        };
        assert!(
            input.len() < before
                || matches!(event, ResponseEvent::NeedMore | ResponseEvent::End { .. }),
            "no progress: {event:?}"
        );
        match event {
            ResponseEvent::NeedMore => {
                assert!(input.is_empty(), "NeedMore although input is left");
                return None;
            }
            ResponseEvent::Interim(status) => {
                assert!(trace.head.is_none() && (100..200).contains(&status));
                trace.interims.push(status);
            }
            ResponseEvent::Head(head) => {
                assert!(trace.head.is_none() && !(100..200).contains(&head.status));
                trace.head = Some(head);
                // `rest` may parse a complete response at once. The trace must be the same as from
                // single events.
                if let Some(body) = parser.rest(input) {
                    trace.body.extend_from_slice(body);
                    check_end(trace, head.reusable);
                    return Some(ExchangeEnd::End {
                        reusable: head.reusable,
                    });
                }
            }
            ResponseEvent::SwitchingProtocols => {
                assert!(trace.head.is_none());
                return Some(ExchangeEnd::SwitchingProtocols);
            }
            ResponseEvent::Body(piece) => {
                assert!(trace.head.is_some() && !piece.is_empty());
                trace.body.extend_from_slice(piece);
            }
            ResponseEvent::End { reusable } => {
                check_end(trace, reusable);
                return Some(ExchangeEnd::End { reusable });
            }
        }
    }
}

fn check_end(trace: &Trace, reusable: bool) {
    let head = trace.head.expect("the head comes before the end");
    assert_eq!(head.reusable, reusable);
    if let Some(length) = head.length {
        assert_eq!(
            length,
            trace.body.len() as u64,
            "the body must have the announced length"
        );
    }
}

fn check_eof(eof: Eof, any: bool, trace: &Trace) {
    let until_close = trace
        .head
        .is_some_and(|head| head.length.is_none() && !head.reusable);
    match eof {
        Eof::Idle => assert!(!any),
        Eof::Complete => assert!(until_close),
        Eof::Truncated => assert!(any),
    }
}

/// Checks that every call after a violation returns the same violation, until the next `start`.
fn check_failed(parser: &mut ResponseParser, violation: Violation) {
    for mut more in [
        b"".as_slice(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"0\r\n\r\n",
    ] {
        assert_eq!(parser.next(&mut more), Err(violation));
    }
    assert_eq!(parser.eof(), Eof::Truncated);
    assert!(!violation.to_string().is_empty());
}

/// Splits bytes into pieces; each entry of `steps` is the length of one piece.
pub fn pieces<'a>(bytes: &'a [u8], steps: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
    let mut rest = bytes;
    let mut steps = steps.iter().cycle();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let step = steps.next().map_or(rest.len(), |&step| usize::from(step));
        let (piece, more) = rest.split_at(step.clamp(1, rest.len()));
        rest = more;
        Some(piece)
    })
}
