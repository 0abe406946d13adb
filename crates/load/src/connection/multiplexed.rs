//! The exchanges on one HTTP/2 connection: an answer for each stream's place.

use prony_protocol::h2::{
    ClientSettings, Connection, EncodedRequest, ErrorCode, Event, StartError, StreamId,
    StreamViolation, Violation,
};
use prony_record::{Nanos, Outcome};

use super::Seen;
use crate::expect::{Body, Expectations};
use crate::script::CaptureSpec;

/// How a stream ended, other than by this side's will.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The answer is whole.
    Answered(Outcome),
    /// The peer ended it before that.
    Reset {
        /// Why.
        code: ErrorCode,
        /// The peer did nothing with the request.
        unprocessed: bool,
    },
    /// The answer broke the protocol.
    Broken(StreamViolation),
}

/// The ending of the stream with this tag.
pub(crate) type Ended = (u32, Ending);

/// One HTTP/2 connection after the other; the memory is kept.
pub(crate) struct Multiplexed {
    http: Connection,
    /// By tag, which is below the number of streams.
    answers: Vec<Answer>,
    /// Bytes that came and are not yet counted for an answer.
    unclaimed: u64,
    /// The peer's settings have come, or come anew, since that was last asked.
    has_new_settings: bool,
    /// Why the peer wants no more of the connection, where it said GOAWAY and why.
    farewell: Option<ErrorCode>,
}

/// The answer on one stream, as far as it has come.
#[derive(Default)]
struct Answer {
    stream: Option<StreamId>,
    /// The last stream, which may have ended.
    last_stream: Option<StreamId>,
    status: Option<u16>,
    first_byte: Option<Nanos>,
    bytes_in: u64,
    body: Body,
    /// What is kept of it, if anything.
    seen: Option<Box<Seen>>,
}

/// What was measured of an answer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Received {
    pub(crate) status: Option<u16>,
    pub(crate) first_byte: Option<Nanos>,
    /// HTTP bytes, those of the body among them.
    pub(crate) bytes: u64,
    pub(crate) body_bytes: u64,
}

impl Multiplexed {
    /// A connection that carries so many requests at once.
    pub(crate) fn new(streams: u32) -> Multiplexed {
        let settings = ClientSettings {
            streams,
            ..ClientSettings::default()
        };
        let mut answers = Vec::new();
        answers.resize_with(streams as usize, Answer::default);
        Multiplexed {
            http: Connection::new(settings),
            answers,
            unclaimed: 0,
            has_new_settings: false,
            farewell: None,
        }
    }

    /// From now on so much is kept of answers.
    pub(crate) fn see(&mut self, sees: CaptureSpec) {
        if sees.heads {
            self.http.keep_fields();
        }
        for answer in &mut self.answers {
            answer.seen = Seen::new(sees).map(Box::new);
        }
    }

    /// What is kept of the answer in the place `tag`.
    pub(crate) fn seen(&self, tag: u32) -> Option<&Seen> {
        self.answers[tag as usize].seen.as_deref()
    }

    /// Begins the next connection.
    pub(crate) fn restart(&mut self) {
        self.http.restart();
        self.unclaimed = 0;
        self.has_new_settings = false;
        self.farewell = None;
        for answer in &mut self.answers {
            answer.last_stream = None;
        }
    }

    /// Whether another request could start now. A second one waits for the peer's settings, or it
    /// might be refused.
    ///
    /// # Errors
    ///
    /// Why not.
    #[inline]
    pub(crate) fn can_start(&self) -> Result<(), StartError> {
        self.http.can_start()?;
        match self.http.is_established() || self.http.active() == 0 {
            true => Ok(()),
            false => Err(StartError::OwnLimit),
        }
    }

    /// Starts a request in the place `tag`.
    ///
    /// # Errors
    ///
    /// Why it can't be started now, or ever on this connection.
    #[inline]
    pub(crate) fn start(
        &mut self,
        tag: u32,
        request: &EncodedRequest,
        expected: &Expectations,
    ) -> Result<(), StartError> {
        let stream = self.http.start(request, tag)?;
        let answer = &mut self.answers[tag as usize];
        answer.stream = Some(stream);
        answer.last_stream = Some(stream);
        answer.status = None;
        answer.first_byte = None;
        answer.bytes_in = 0;
        answer.body.start(expected);
        if let Some(seen) = &mut answer.seen {
            seen.start();
        }
        Ok(())
    }

    /// Gives the request in the place `tag` up, if one is there.
    pub(crate) fn cancel(&mut self, tag: u32) {
        if let Some(stream) = self.answers[tag as usize].stream.take() {
            self.http.cancel(stream);
        }
    }

    /// See [`Connection::take_output`].
    #[inline]
    pub(crate) fn take_output<'b>(
        &mut self,
        out: &mut Vec<u8>,
        body_of: impl FnMut(u32) -> &'b [u8],
    ) {
        if self.http.has_output() {
            self.http.take_output(out, body_of);
        }
    }

    /// Bytes came from the peer at the moment `now`. Gives the streams that ended.
    ///
    /// # Errors
    ///
    /// What the peer did wrong; the connection is of no more use.
    pub(crate) fn read(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        ended: &mut Vec<Ended>,
    ) -> Result<(), Violation> {
        loop {
            let before = bytes.len();
            let event = self.http.next(&mut bytes);
            self.unclaimed += (before - bytes.len()) as u64;
            match event? {
                Event::NeedMore => return Ok(()),
                Event::Settings => self.has_new_settings = true,
                Event::GoAway { code, .. } => {
                    self.farewell = Some(code).filter(|code| *code != ErrorCode::NO_ERROR);
                }
                Event::Interim { tag, .. } => {
                    self.claim(tag, now);
                }
                Event::Head { tag, status } => {
                    let answer = self.claim(tag, now);
                    answer.status = Some(status);
                    if let Some(seen) = &mut self.answers[tag as usize].seen {
                        seen.add_head(self.http.fields());
                    }
                }
                Event::Body { tag, bytes } => {
                    let answer = self.claim(tag, now);
                    answer.body.add(bytes);
                    if let Some(seen) = &mut answer.seen {
                        seen.add_body(bytes);
                    }
                }
                Event::End { tag } => {
                    let answer = self.claim(tag, now);
                    answer.stream = None;
                    let outcome = answer.body.judge(answer.status.unwrap_or(0), expected);
                    ended.push((tag, Ending::Answered(outcome)));
                }
                Event::Reset {
                    tag,
                    code,
                    unprocessed,
                } => {
                    self.answers[tag as usize].stream = None;
                    ended.push((tag, Ending::Reset { code, unprocessed }));
                }
                Event::Broken { tag, violation } => {
                    self.answers[tag as usize].stream = None;
                    ended.push((tag, Ending::Broken(violation)));
                }
            }
        }
    }

    /// The bytes that came since the last claim are this answer's, with what was said about the
    /// connection among them.
    #[inline]
    fn claim(&mut self, tag: u32, now: Nanos) -> &mut Answer {
        let answer = &mut self.answers[tag as usize];
        answer.bytes_in += std::mem::take(&mut self.unclaimed);
        answer.first_byte.get_or_insert(now);
        answer
    }

    /// What came for the request in the place `tag`, or came for the last one there.
    #[inline]
    pub(crate) fn received(&self, tag: u32) -> Received {
        let answer = &self.answers[tag as usize];
        Received {
            status: answer.status,
            first_byte: answer.first_byte,
            bytes: answer.bytes_in,
            body_bytes: answer.body.length(),
        }
    }

    /// Bytes of the body of the request in the place `tag`, or of the last one there, that were not given
    /// to be sent.
    pub(crate) fn unsent_body_bytes(&self, tag: u32) -> u64 {
        let stream = self.answers[tag as usize].last_stream;
        stream.map_or(0, |stream| self.http.unsent_body_bytes(stream))
    }

    /// The peer's settings have come, so that it is known to speak HTTP/2.
    #[inline]
    pub(crate) fn is_established(&self) -> bool {
        self.http.is_established()
    }

    /// How many requests are under way.
    pub(crate) fn active(&self) -> u32 {
        self.http.active()
    }

    /// The connection takes no further requests.
    pub(crate) fn is_going_away(&self) -> bool {
        self.http.is_going_away()
    }

    /// How many streams the peer allows at once, where it sets a limit.
    pub(crate) fn peer_limit(&self) -> Option<u32> {
        self.http.peer_limit()
    }

    /// Why the peer ended the connection, where it told.
    pub(crate) fn farewell(&self) -> Option<ErrorCode> {
        self.farewell
    }

    /// Whether the peer's settings have come, or come anew, since this was last asked.
    pub(crate) fn take_new_settings(&mut self) -> bool {
        std::mem::take(&mut self.has_new_settings)
    }

    /// From now on the bodies are hashed, for [`Multiplexed::take_hash`].
    pub(crate) fn hash_bodies(&mut self) {
        for answer in &mut self.answers {
            answer.body.hash_always();
        }
    }

    /// The hash of the last body in the place `tag`.
    pub(crate) fn take_hash(&mut self, tag: u32) -> [u8; 32] {
        self.answers[tag as usize].body.take_hash()
    }
}
