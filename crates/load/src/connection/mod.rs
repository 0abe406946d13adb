//! One connection as bytes: TLS and HTTP joined, without a socket or a clock.

mod batch;
mod multiplexed;
mod reason;
mod seen;

use prony_protocol::h1::{Eof, Event, Expects, Limits, ResponseParser, Version, Violation};
use prony_protocol::h2;
use prony_record::{Nanos, Negotiated, Outcome};
use rustls::pki_types::ServerName;

use crate::expect::{Body, Expectations};
use crate::protocols::Protocols;
use crate::request::Request;
use crate::script::CaptureSpec;
use crate::tls::{self, PeerSpeaks, Tls};

use batch::Batch;

pub(crate) use batch::Whole;
pub(crate) use multiplexed::{Ended, Ending, Multiplexed, Received};
pub(crate) use reason::Reason;
pub(crate) use seen::Seen;

/// Bytes of a request that are encrypted at a time.
const PIECE: usize = 64 * 1024;
/// Beyond the end of any request.
const NOTHING_LEFT: usize = usize::MAX;

/// What bytes, or their end, meant for the request under way.
#[derive(Debug, PartialEq)]
pub(crate) enum Progress {
    /// More is to come.
    Waiting,
    /// A proxy has made the tunnel that it was asked for.
    Tunneled,
    /// The TLS handshake is done: the connection can be used.
    Secured,
    /// HTTP/2 went on: the streams that ended are in the [`Buffers`], and there may be something to
    /// send.
    Streams,
    /// The answer is whole.
    Answered {
        outcome: Outcome,
        /// Both sides keep the connection.
        reusable: bool,
    },
    /// The peer closed before any byte of the answer; with HTTP/2, while there were requests under
    /// way.
    Lost,
    /// The request failed, all of them with HTTP/2, and the connection with it.
    Broken(Outcome, Reason),
    /// Bytes came while no request was under way.
    Unasked,
    /// The peer closed while no request was under way.
    Idle,
}

/// The memory that all connections of a worker share.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    tls: tls::Buffers,
    /// What HTTP/2 says, before TLS seals it.
    plain: Vec<u8>,
    /// The streams that ended by the bytes received last.
    pub(crate) ended: Vec<Ended>,
}

/// What the HTTP/1 side of a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Nothing.
    Idle,
    /// The answer to a request.
    Asked,
    /// A proxy's, to CONNECT.
    Tunneling,
}

/// The state of one connection after the other in the same slot; its memory is kept.
pub(crate) struct Connection {
    parser: ResponseParser,
    tls: Option<Tls>,
    /// What may be agreed on.
    protocols: Protocols,
    body: Body,
    /// Whose answer is read. Of HTTP/1, as are all fields here but those that say otherwise.
    stage: Stage,
    status: Option<u16>,
    version: Option<Version>,
    bytes_in: u64,
    /// How much of the request TLS has taken; in clear, and where there is none, [`NOTHING_LEFT`].
    encrypted: usize,
    /// It speaks HTTP/2.
    is_multiplexed: bool,
    /// HTTP/2, once it was spoken.
    multiplexed: Option<Box<Multiplexed>>,
    /// What few connections have.
    beside: Option<Box<Beside>>,
}

/// What a connection has where a script looks at its answers, or sends several requests at once. Apart,
/// as there may be many thousands of connections without.
#[derive(Debug, Default)]
struct Beside {
    /// What is kept of answers.
    seen: Option<Seen>,
    /// The answers to several requests that were sent at once.
    batch: Option<Batch>,
}

impl Beside {
    /// Another answer begins, or after an interim one the next head.
    fn start(&mut self) {
        if let Some(seen) = &mut self.seen {
            seen.start();
        }
    }
}

impl Connection {
    pub(crate) fn new() -> Connection {
        Connection {
            parser: ResponseParser::new(Limits::default()),
            tls: None,
            protocols: Protocols::default(),
            body: Body::default(),
            stage: Stage::Idle,
            status: None,
            version: None,
            bytes_in: 0,
            encrypted: NOTHING_LEFT,
            is_multiplexed: false,
            multiplexed: None,
            beside: None,
        }
    }

    /// From now on so much is kept of answers, for [`Connection::seen`].
    pub(crate) fn see(&mut self, sees: CaptureSpec) {
        let seen = Seen::new(sees);
        if seen.is_some() || self.beside.is_some() {
            self.beside.get_or_insert_default().seen = seen;
        }
    }

    /// What is kept of the answer that came last; with HTTP/2 of that with this tag. None where
    /// nothing is kept.
    pub(crate) fn seen(&self, tag: u32) -> Option<&Seen> {
        match self.multiplexed() {
            Some(multiplexed) => multiplexed.seen(tag),
            None => self.beside.as_ref()?.seen.as_ref(),
        }
    }

    /// From now on bodies are hashed, for [`Connection::take_hash`].
    pub(crate) fn hash_bodies(&mut self) {
        self.body.hash_always();
        if let Some(multiplexed) = &mut self.multiplexed {
            multiplexed.hash_bodies();
        }
    }

    /// The hash of the last body, of stream 0 with HTTP/2, if nothing was expected of it.
    pub(crate) fn take_hash(&mut self) -> [u8; 32] {
        match self.multiplexed_mut() {
            Some(multiplexed) => multiplexed.take_hash(0),
            None => self.body.take_hash(),
        }
    }

    /// A new connection in clear.
    pub(crate) fn open(&mut self, protocols: Protocols) {
        self.tls = None;
        self.protocols = protocols;
        self.abandon();
        if protocols.is_two_known() {
            self.multiplex();
        }
    }

    /// A new connection to a proxy, which is asked for a tunnel.
    pub(crate) fn open_tunnel(&mut self) {
        self.tls = None;
        self.abandon();
        self.stage = Stage::Tunneling;
        self.parser.start(Expects::Connect);
    }

    /// A new connection over TLS: its first flight is ready in [`Connection::take_out`].
    pub(crate) fn open_tls(
        &mut self,
        client: &tls::Client,
        name: &ServerName<'static>,
        protocols: Protocols,
    ) -> Result<(), Reason> {
        self.protocols = protocols;
        self.abandon();
        self.tls = Some(
            Tls::new(client, name).map_err(|error| Reason::of_tls(&error, PeerSpeaks::Unknown))?,
        );
        Ok(())
    }

    /// From now on it speaks HTTP/2.
    fn multiplex(&mut self) {
        self.is_multiplexed = true;
        match &mut self.multiplexed {
            Some(multiplexed) => multiplexed.restart(),
            None => {
                let mut multiplexed = Multiplexed::new(self.protocols.streams);
                let beside = self.beside.as_ref();
                if let Some(seen) = beside.and_then(|it| it.seen.as_ref()) {
                    multiplexed.see(seen.capture());
                }
                self.multiplexed = Some(Box::new(multiplexed));
            }
        }
    }

    /// Its streams, where it speaks HTTP/2.
    #[inline]
    pub(crate) fn multiplexed(&self) -> Option<&Multiplexed> {
        match self.is_multiplexed {
            true => self.multiplexed.as_deref(),
            false => None,
        }
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn multiplexed_mut(&mut self) -> Option<&mut Multiplexed> {
        match self.is_multiplexed {
            true => self.multiplexed.as_deref_mut(),
            false => None,
        }
    }

    /// Whether it speaks HTTP/2.
    #[inline]
    pub(crate) fn is_multiplexed(&self) -> bool {
        self.is_multiplexed
    }

    /// A request begins. In clear its own bytes are to be sent, over TLS what
    /// [`Connection::take_out`] makes of them.
    pub(crate) fn begin(&mut self, request: &Request, expected: &Expectations) {
        self.parser.start(request.expects);
        self.body.start(expected);
        if self.beside.is_some() || request.answers > 1 {
            let beside = self.beside.get_or_insert_default();
            beside.batch = Batch::of(request.answers, request.expects);
            beside.start();
        }
        self.stage = Stage::Asked;
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

    /// Appends what HTTP/2 and TLS have to say; `body_of` gives the body of the request with a tag.
    pub(crate) fn take_frames<'b>(
        &mut self,
        out: &mut Vec<u8>,
        buffers: &mut Buffers,
        body_of: impl FnMut(u32) -> &'b [u8],
    ) {
        let Some(multiplexed) = self.multiplexed.as_mut().filter(|_| self.is_multiplexed) else {
            return;
        };
        match &mut self.tls {
            None => multiplexed.take_output(out, body_of),
            Some(tls) => {
                buffers.plain.clear();
                multiplexed.take_output(&mut buffers.plain, body_of);
                tls.take_out(&buffers.plain, out);
            }
        }
    }

    /// The bytes of a request of `length` bytes that TLS has not taken yet; none in cleartext.
    pub(crate) fn unencrypted(&self, length: usize) -> usize {
        match self.tls {
            Some(_) => length.saturating_sub(self.encrypted),
            None => 0,
        }
    }

    /// A byte of the answer has been seen.
    pub(crate) fn answering(&self) -> bool {
        self.stage == Stage::Asked && (self.parser.started() || self.has_whole())
    }

    /// What came for the request under way, or came for the last one; with HTTP/2 for the one with
    /// this tag.
    #[inline]
    pub(crate) fn received(&self, tag: u32) -> Received {
        match self.multiplexed() {
            Some(multiplexed) => multiplexed.received(tag),
            None => Received {
                status: self.status,
                first_byte: None,
                bytes: self.bytes_in,
                body_bytes: self.body.length() + self.batch().map_or(0, Batch::body_bytes),
            },
        }
    }

    /// What was agreed on.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let http = match (self.is_multiplexed, self.version) {
            (true, _) => Some("2".to_owned()),
            (false, Some(Version::Http10)) => Some("1.0".to_owned()),
            (false, Some(Version::Http11)) => Some("1.1".to_owned()),
            (false, None) => None,
        };
        let tls = self
            .tls
            .as_ref()
            .and_then(Tls::agreed)
            .map(tls::Agreed::negotiated)
            .unwrap_or_default();
        Negotiated { http, ..tls }
    }

    /// Bytes came from the peer at the moment `now`.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut Buffers,
    ) -> Progress {
        match self.tls.take() {
            None if self.is_multiplexed => match self.read_frames(bytes, now, expected, buffers) {
                Progress::Broken(outcome, Reason::Http2(h2::Violation::Http1)) => {
                    Progress::Broken(outcome, Reason::CleartextHttp1)
                }
                progress => progress,
            },
            None => self.read(bytes, expected),
            Some(mut tls) => {
                let progress = self.decrypt(&mut tls, bytes, now, expected, buffers);
                self.tls = Some(tls);
                progress
            }
        }
    }

    fn decrypt(
        &mut self,
        tls: &mut Tls,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut Buffers,
    ) -> Progress {
        let mut progress = match self.is_multiplexed {
            true => Progress::Streams,
            false => Progress::Waiting,
        };
        loop {
            match tls.receive(&mut bytes, &mut buffers.tls) {
                Ok(tls::Event::NeedMore) => break,
                Ok(tls::Event::Secured { early }) => {
                    return self.secured(tls, &early, now, expected, buffers);
                }
                Ok(tls::Event::Plain(plain)) => match progress {
                    Progress::Streams => {
                        let two = self.multiplexed.as_deref_mut();
                        progress = read_frames(two, plain, now, expected, &mut buffers.ended);
                    }
                    Progress::Waiting => progress = self.read(plain, expected),
                    Progress::Answered { .. } => progress = broken(Violation::BytesAfterEnd),
                    // The first thing that is wrong counts.
                    _ => {}
                },
                Err(error) => {
                    let reason = Reason::of_tls(&error, tls.peer_speaks());
                    return Progress::Broken(Outcome::Tls, reason);
                }
            }
        }
        match progress {
            Progress::Waiting | Progress::Streams if tls.peer_has_closed() => {
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

    /// The handshake is done: what was agreed on decides about the protocol.
    fn secured(
        &mut self,
        tls: &Tls,
        early: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut Buffers,
    ) -> Progress {
        let alpn = tls.agreed().and_then(|agreed| agreed.alpn);
        match alpn == Some(tls::HTTP2) {
            true => self.multiplex(),
            false if self.protocols.is_two_known() => {
                return Progress::Broken(Outcome::Protocol, Reason::NoHttp2);
            }
            // An answer that nothing was asked for yet.
            false if !early.is_empty() => return broken(Violation::BytesAfterEnd),
            false => return Progress::Secured,
        }
        match self.read_frames(early, now, expected, buffers) {
            Progress::Streams => Progress::Secured,
            broken => broken,
        }
    }

    fn read_frames(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut Buffers,
    ) -> Progress {
        let multiplexed = self.multiplexed.as_deref_mut();
        read_frames(multiplexed, bytes, now, expected, &mut buffers.ended)
    }

    fn read(&mut self, mut bytes: &[u8], expected: &Expectations) -> Progress {
        if self.stage != Stage::Asked {
            return match self.stage {
                Stage::Tunneling => self.read_tunnel(bytes),
                Stage::Idle | Stage::Asked => Progress::Unasked,
            };
        }
        self.bytes_in += bytes.len() as u64;
        loop {
            let before = bytes;
            match self.parser.next(&mut bytes) {
                Ok(Event::NeedMore) => {
                    if self.status.is_none() {
                        self.see_head(before);
                    }
                    return Progress::Waiting;
                }
                Ok(Event::Interim(_)) => {
                    if let Some(beside) = &mut self.beside {
                        beside.start();
                    }
                }
                Ok(Event::Head(head)) => {
                    self.see_head(&before[..before.len() - bytes.len()]);
                    self.status = Some(head.status);
                    self.version = Some(head.version);
                    if let Some(body) = self.parser.rest(&mut bytes) {
                        self.add_body(body);
                        if let Some(progress) = self.is_whole(head.reusable, bytes, expected) {
                            return progress;
                        }
                    }
                }
                Ok(Event::Body(piece)) => self.add_body(piece),
                Ok(Event::End { reusable }) => {
                    if let Some(progress) = self.is_whole(reusable, bytes, expected) {
                        return progress;
                    }
                }
                Err(violation) => return broken(violation),
            }
        }
    }

    /// The proxy's answer to CONNECT. What follows its head would be the server's, which has nothing to
    /// say before TLS begins.
    #[cold]
    fn read_tunnel(&mut self, mut bytes: &[u8]) -> Progress {
        let failed = |reason| Progress::Broken(Outcome::ConnectFailed, reason);
        loop {
            match self.parser.next(&mut bytes) {
                Ok(Event::NeedMore) => return Progress::Waiting,
                Ok(Event::Interim(_)) => {}
                Ok(Event::Head(head)) if !(200..300).contains(&head.status) => {
                    return failed(Reason::NoTunnel(Some(head.status)));
                }
                Ok(Event::Head(_)) if bytes.is_empty() => {
                    self.stage = Stage::Idle;
                    return Progress::Tunneled;
                }
                Ok(Event::Head(_) | Event::Body(_) | Event::End { .. }) => {
                    return failed(Reason::Http1(Violation::BytesAfterEnd));
                }
                Err(violation) => return failed(Reason::Http1(violation)),
            }
        }
    }

    #[inline]
    fn see_head(&mut self, piece: &[u8]) {
        if let Some(Beside {
            seen: Some(seen), ..
        }) = self.beside.as_deref_mut()
        {
            seen.add_head(piece);
        }
    }

    #[inline]
    fn add_body(&mut self, piece: &[u8]) {
        self.body.add(piece);
        if let Some(Beside {
            seen: Some(seen), ..
        }) = self.beside.as_deref_mut()
        {
            seen.add_body(piece);
        }
    }

    /// An answer is whole, and these bytes follow it; what that means, unless another is due.
    #[inline]
    fn is_whole(
        &mut self,
        reusable: bool,
        rest: &[u8],
        expected: &Expectations,
    ) -> Option<Progress> {
        match self.batch() {
            Some(batch) if batch.has_further() => self.go_on(reusable, expected),
            _ if rest.is_empty() => Some(self.answered(reusable, expected)),
            _ => Some(broken(Violation::BytesAfterEnd)),
        }
    }

    fn answered(&mut self, reusable: bool, expected: &Expectations) -> Progress {
        self.stage = Stage::Idle;
        let outcome = self.body.judge(self.status.unwrap_or(0), expected);
        let outcome = match self.batch() {
            Some(batch) => batch.outcome_with(outcome),
            None => outcome,
        };
        Progress::Answered { outcome, reusable }
    }

    /// The next answer of a batch is due, where the connection is to stay.
    fn go_on(&mut self, reusable: bool, expected: &Expectations) -> Option<Progress> {
        let status = self.status.unwrap_or(0);
        let outcome = self.body.judge(status, expected);
        let beside = self.beside.as_mut()?;
        let seen = beside.seen.as_ref();
        let whole = Whole {
            status,
            head: seen.map_or_else(Vec::new, |seen| seen.head().to_vec()),
            body: seen.map_or_else(Vec::new, |seen| seen.body().to_vec()),
            length: self.body.length(),
        };
        let expects = beside.batch.as_mut()?.keep(whole, outcome);
        beside.start();
        if !reusable {
            let reason = "the server ends the connection before all of the answers that are due";
            return Some(Progress::Broken(
                Outcome::ClosedEarly,
                Reason::Text(reason.to_owned()),
            ));
        }
        self.parser.start(expects);
        self.body.start(expected);
        self.status = None;
        None
    }

    #[inline]
    fn batch(&self) -> Option<&Batch> {
        self.beside.as_ref()?.batch.as_ref()
    }

    /// Whether an answer of a batch came whole that was not the last.
    fn has_whole(&self) -> bool {
        self.batch().is_some_and(Batch::has_begun)
    }

    /// The whole answers of a batch before the one under way, or before the last; once.
    pub(crate) fn take_whole(&mut self) -> Vec<Whole> {
        let is_multiplexed = self.is_multiplexed;
        match self.beside.as_mut().and_then(|it| it.batch.as_mut()) {
            Some(batch) if !is_multiplexed => batch.take(),
            _ => Vec::new(),
        }
    }

    /// The length of the body of the answer that came last; with HTTP/2 of that with this tag.
    pub(crate) fn body_length(&self, tag: u32) -> u64 {
        match self.multiplexed() {
            Some(multiplexed) => multiplexed.received(tag).body_bytes,
            None => self.body.length(),
        }
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
        if let Some(multiplexed) = self.multiplexed() {
            return match multiplexed.active() {
                0 => Progress::Idle,
                _ => Progress::Lost,
            };
        }
        if self.stage != Stage::Asked {
            return Progress::Idle;
        }
        match self.parser.eof() {
            Eof::Idle if self.has_whole() => {
                let reason = "the connection closed before all of the answers that were due";
                Progress::Broken(Outcome::ClosedEarly, Reason::Text(reason.to_owned()))
            }
            Eof::Idle => Progress::Lost,
            Eof::Complete if orderly => self
                .is_whole(false, &[], expected)
                .unwrap_or(Progress::Waiting),
            Eof::Complete => truncated("the connection closed without TLS's close_notify"),
            Eof::Truncated if self.status.is_none() => {
                truncated("the connection closed within the answer's head")
            }
            Eof::Truncated => truncated("the connection closed within the answer's body"),
        }
    }

    /// What was under way is given up, and the connection with it.
    pub(crate) fn abandon(&mut self) {
        self.stage = Stage::Idle;
        self.encrypted = NOTHING_LEFT;
        self.is_multiplexed = false;
    }
}

fn read_frames(
    multiplexed: Option<&mut Multiplexed>,
    bytes: &[u8],
    now: Nanos,
    expected: &Expectations,
    ended: &mut Vec<Ended>,
) -> Progress {
    let read = multiplexed.map_or(Ok(()), |it| it.read(bytes, now, expected, ended));
    match read {
        Ok(()) => Progress::Streams,
        Err(violation) => Progress::Broken(Outcome::Protocol, Reason::Http2(violation)),
    }
}

fn broken(violation: Violation) -> Progress {
    Progress::Broken(Outcome::Protocol, Reason::Http1(violation))
}

fn truncated(reason: &str) -> Progress {
    Progress::Broken(Outcome::Truncated, Reason::Text(reason.to_owned()))
}
