//! One connection as bytes: TLS and HTTP joined, without a socket or a clock.

use prony_protocol::h1::{Eof, Event, Limits, ResponseParser, Version, Violation};
use prony_record::{Negotiated, Outcome};
use rustls::pki_types::ServerName;
use sha2::{Digest, Sha256};

use crate::expect::{Body, Expectations};
use crate::spec::Request;
use crate::tls::{self, Tls};

/// Bytes of a request that are encrypted at a time.
const PIECE: usize = 64 * 1024;
/// Beyond the end of any request.
const NOTHING_LEFT: usize = usize::MAX;

/// What bytes, or their end, meant for the request under way.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// More is to come.
    Waiting,
    /// The TLS handshake is done: the connection can be used.
    Secured,
    /// The answer is whole.
    Answered {
        outcome: Outcome,
        /// Both sides keep the connection.
        reusable: bool,
    },
    /// The peer closed before any byte of the answer.
    Lost,
    /// The request failed and the connection with it.
    Broken(Outcome, Reason),
    /// Bytes came while no request was under way.
    Unasked,
    /// The peer closed while no request was under way.
    Idle,
}

/// Why a request failed, where its outcome alone doesn't say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The peer broke HTTP.
    Violation(Violation),
    /// Anything else, in words.
    Text(String),
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Reason::Violation(violation) => violation.fmt(f),
            Reason::Text(text) => f.write_str(text),
        }
    }
}

/// The state of one connection after the other in the same slot; its memory is kept.
pub(crate) struct Connection {
    parser: ResponseParser,
    tls: Option<Tls>,
    body: Body,
    /// A request is under way.
    active: bool,
    status: Option<u16>,
    version: Option<Version>,
    bytes_in: u64,
    /// How much of the request TLS has taken; in clear, and where there is none, [`NOTHING_LEFT`].
    encrypted: usize,
    /// The body's hash, where somebody wants it.
    hash: Option<Box<Sha256>>,
}

impl Connection {
    pub(crate) fn new() -> Connection {
        Connection {
            parser: ResponseParser::new(Limits::default()),
            tls: None,
            body: Body::default(),
            active: false,
            status: None,
            version: None,
            bytes_in: 0,
            encrypted: NOTHING_LEFT,
            hash: None,
        }
    }

    /// From now on bodies are hashed, for [`Connection::take_hash`].
    pub(crate) fn hash_bodies(&mut self) {
        self.hash = Some(Box::default());
    }

    /// The hash of the bodies so far.
    pub(crate) fn take_hash(&mut self) -> [u8; 32] {
        self.hash.take().unwrap_or_default().finalize().into()
    }

    /// A new connection in clear.
    pub(crate) fn open(&mut self) {
        self.tls = None;
        self.abandon();
    }

    /// A new connection over TLS: its first flight is ready in [`Connection::take_out`].
    pub(crate) fn open_tls(
        &mut self,
        client: &tls::Client,
        name: &ServerName<'static>,
    ) -> Result<(), Reason> {
        self.abandon();
        self.tls = Some(Tls::new(client, name).map_err(|error| text(&error))?);
        Ok(())
    }

    /// A request begins. In clear its own bytes are to be sent, over TLS what
    /// [`Connection::take_out`] makes of them.
    pub(crate) fn begin(&mut self, request: &Request, expected: &Expectations) {
        self.parser.start(request.expects);
        self.body.start(expected);
        self.active = true;
        self.status = None;
        self.bytes_in = 0;
        self.encrypted = match self.tls {
            Some(_) => 0,
            None => NOTHING_LEFT,
        };
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Its TLS went on from an earlier connection's session.
    pub(crate) fn is_resumed(&self) -> bool {
        let agreed = self.tls.as_ref().and_then(Tls::agreed);
        agreed.is_some_and(|agreed| agreed.resumed)
    }

    /// Appends ciphertext that is to be sent: what TLS itself has to say, and the next piece of the
    /// `request` under way, so that a large one is never in memory twice. Nothing is appended when
    /// all is out.
    pub(crate) fn take_out(&mut self, request: &[u8], out: &mut Vec<u8>) {
        let Some(tls) = &mut self.tls else {
            return;
        };
        let rest = request.get(self.encrypted..).unwrap_or_default();
        let piece = &rest[..rest.len().min(PIECE)];
        if !piece.is_empty() {
            self.encrypted += piece.len();
        }
        tls.take_out(piece, out);
    }

    /// A byte of the answer has been seen.
    pub(crate) fn answering(&self) -> bool {
        self.active && self.parser.started()
    }

    /// The final answer's status, if it was read.
    pub(crate) fn status(&self) -> Option<u16> {
        self.status
    }

    /// HTTP bytes that came for the request, and those of the body among them.
    pub(crate) fn received_bytes(&self) -> (u64, u64) {
        (self.bytes_in, self.body.length())
    }

    /// What was agreed on.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let http = self.version.map(|version| match version {
            Version::Http10 => "1.0".to_owned(),
            Version::Http11 => "1.1".to_owned(),
        });
        let tls = self
            .tls
            .as_ref()
            .and_then(Tls::agreed)
            .map(tls::Agreed::negotiated)
            .unwrap_or_default();
        Negotiated { http, ..tls }
    }

    /// Bytes came from the peer. The memory in `buffers` may serve any number of connections.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        expected: &Expectations,
        buffers: &mut tls::Buffers,
    ) -> Progress {
        match self.tls.take() {
            None => self.read(bytes, expected),
            Some(mut tls) => {
                let progress = self.decrypt(&mut tls, bytes, expected, buffers);
                self.tls = Some(tls);
                progress
            }
        }
    }

    fn decrypt(
        &mut self,
        tls: &mut Tls,
        mut bytes: &[u8],
        expected: &Expectations,
        buffers: &mut tls::Buffers,
    ) -> Progress {
        let mut progress = Progress::Waiting;
        loop {
            match tls.receive(&mut bytes, buffers) {
                Ok(tls::Event::NeedMore) => break,
                Ok(tls::Event::Secured) => return Progress::Secured,
                // Bytes of an answer that nothing was asked for yet.
                Ok(tls::Event::Early) => return broken(Violation::BytesAfterEnd),
                Ok(tls::Event::Plain(plain)) => match progress {
                    Progress::Waiting => progress = self.read(plain, expected),
                    Progress::Answered { .. } => progress = broken(Violation::BytesAfterEnd),
                    // The first thing that is wrong counts.
                    _ => {}
                },
                Err(error) => return Progress::Broken(Outcome::Tls, text(&error)),
            }
        }
        match progress {
            Progress::Waiting if tls.peer_has_closed() => {
                self.ended(tls.is_handshaking(), true, expected)
            }
            // The socket may stay open long after, but nobody would answer on it.
            Progress::Answered { outcome, .. } if tls.peer_has_closed() => Progress::Answered {
                outcome,
                reusable: false,
            },
            progress => progress,
        }
    }

    fn read(&mut self, mut bytes: &[u8], expected: &Expectations) -> Progress {
        if !self.active {
            return Progress::Unasked;
        }
        self.bytes_in += bytes.len() as u64;
        loop {
            match self.parser.next(&mut bytes) {
                Ok(Event::NeedMore) => return Progress::Waiting,
                Ok(Event::Interim(_)) => {}
                Ok(Event::Head(head)) => {
                    self.status = Some(head.status);
                    self.version = Some(head.version);
                    if let Some(body) = self.parser.rest(&mut bytes) {
                        self.take_body(body);
                        return self.answered(head.reusable, expected);
                    }
                }
                Ok(Event::Body(piece)) => self.take_body(piece),
                Ok(Event::End { reusable }) if bytes.is_empty() => {
                    return self.answered(reusable, expected);
                }
                Ok(Event::End { .. }) => {
                    return broken(Violation::BytesAfterEnd);
                }
                Err(violation) => return broken(violation),
            }
        }
    }

    #[inline]
    fn take_body(&mut self, piece: &[u8]) {
        self.body.add(piece);
        if let Some(hash) = &mut self.hash {
            hash.update(piece);
        }
    }

    fn answered(&mut self, reusable: bool, expected: &Expectations) -> Progress {
        self.active = false;
        let outcome = self.body.judge(self.status.unwrap_or(0), expected);
        Progress::Answered { outcome, reusable }
    }

    /// The peer closed its side.
    pub(crate) fn closed(&mut self, expected: &Expectations) -> Progress {
        let handshaking = self.tls.as_ref().is_some_and(Tls::is_handshaking);
        // Without TLS's own goodbye anybody may have cut the stream (RFC 9112 §9.8).
        let orderly = self.tls.as_ref().is_none_or(Tls::peer_has_closed);
        self.ended(handshaking, orderly, expected)
    }

    fn ended(&mut self, handshaking: bool, orderly: bool, expected: &Expectations) -> Progress {
        if handshaking {
            let reason = "the server closed the connection within the TLS handshake";
            return Progress::Broken(Outcome::Tls, Reason::Text(reason.to_owned()));
        }
        if !self.active {
            return Progress::Idle;
        }
        match self.parser.eof() {
            Eof::Idle => Progress::Lost,
            Eof::Complete if orderly => self.answered(false, expected),
            Eof::Complete => truncated("the connection closed without TLS's close_notify"),
            Eof::Truncated if self.status.is_none() => {
                truncated("the connection closed within the answer's head")
            }
            Eof::Truncated => truncated("the connection closed within the answer's body"),
        }
    }

    /// The request under way is given up.
    pub(crate) fn abandon(&mut self) {
        self.active = false;
        self.encrypted = NOTHING_LEFT;
    }
}

fn broken(violation: Violation) -> Progress {
    Progress::Broken(Outcome::Protocol, Reason::Violation(violation))
}

fn truncated(reason: &str) -> Progress {
    Progress::Broken(Outcome::Truncated, Reason::Text(reason.to_owned()))
}

fn text(error: &rustls::Error) -> Reason {
    use rustls::Error::{InvalidCertificate, InvalidMessage};
    let mend = match error {
        InvalidCertificate(_) => {
            "; name the authority that signed the certificate with --ca, or accept any with \
             --insecure, as for one that signed itself"
        }
        InvalidMessage(_) => "; does the server speak TLS on this port, or plain http?",
        _ => "",
    };
    Reason::Text(format!("{error}{mend}"))
}
