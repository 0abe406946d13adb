//! A proxy's response to CONNECT.

use prony_protocol::h1::{Expects, Limits, ResponseEvent, ResponseParser, Violation};
use prony_record::Outcome;

use super::{Progress, Reason};

/// A tunnel that was requested from a proxy but is not open yet.
pub(crate) struct Tunnel {
    parser: ResponseParser,
}

impl Tunnel {
    pub(super) fn new() -> Tunnel {
        let mut parser = ResponseParser::new(Limits::default());
        parser.start(Expects::Connect);
        Tunnel { parser }
    }

    /// Processes bytes from the proxy. Bytes after the response head would come from the server,
    /// which must not send anything before TLS begins.
    #[cold]
    pub(super) fn receive(&mut self, mut bytes: &[u8]) -> Progress {
        let failed = |reason| Progress::Broken(Outcome::ConnectFailed, reason);
        loop {
            match self.parser.next(&mut bytes) {
                Ok(ResponseEvent::NeedMore) => return Progress::Open,
                Ok(ResponseEvent::Interim(_)) => {}
                Ok(ResponseEvent::Head(head)) if !(200..300).contains(&head.status) => {
                    return failed(Reason::NoTunnel(Some(head.status)));
                }
                Ok(ResponseEvent::Head(_)) if bytes.is_empty() => return Progress::Tunneled,
                Ok(ResponseEvent::SwitchingProtocols) => return failed(Reason::SwitchedProtocols),
                Ok(ResponseEvent::Head(_) | ResponseEvent::Body(_) | ResponseEvent::End { .. }) => {
                    return failed(Reason::Http1(Violation::BytesAfterEnd));
                }
                Err(violation) => return failed(Reason::Http1(violation)),
            }
        }
    }
}
