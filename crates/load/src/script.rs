//! What a load may be told to do and to tell, request by request, where its options can't say it: a
//! request of its own each time, a rest before it, an answer looked into, a line for each request.
//!
//! A load without a script pays nothing for this. With one, the worker asks it on its own thread:
//! what a script does there takes its time from the load.

use std::sync::Arc;

use prony_record::{Exchange, Nanos, Outcome};

use crate::request::Request;

/// Makes the scripts of a load, one for each worker.
pub trait Director: Sync {
    /// The script of one worker, made on that worker's thread before the load begins.
    ///
    /// # Errors
    ///
    /// Why there is none; the load is not begun then.
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String>;

    /// What the scripts want to be shown.
    fn capture(&self) -> CaptureSpec;
}

/// The virtual users of one worker: each is a place for one request at a time, so that there are as
/// many in the whole load as connections (with HTTP/2, times streams).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    /// The worker's number, from 0.
    pub worker: u32,
    /// Its first user's number; the numbers of all workers' users are 0 and up without gaps.
    pub first: u32,
    /// How many they are.
    pub count: u32,
}

/// What a script is shown; nothing else is kept for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureSpec {
    /// Each request's end: [`Script::ended`] is called.
    pub ends: bool,
    /// Whole answers: [`Script::answered`] is called, with the header fields...
    pub heads: bool,
    /// ...and with the body, up to so many bytes of it.
    pub body_bytes: usize,
}

/// One worker's script. Users are named by their number in the whole load.
pub trait Script {
    /// What a user that is free does next. It is asked when a request could begin at once: its
    /// connection has room for one, or there is none yet, and the load's limits allow one more (in an
    /// open loop, when one is due).
    fn next(&mut self, _user: u32, _now: Nanos) -> UserStep {
        UserStep::Listed
    }

    /// A whole answer came, expected or not, which is not a redirect that is followed;
    /// [`Script::ended`] follows. Called where heads or bodies are seen.
    fn answered(&mut self, _user: u32, _answer: &ResponseView<'_>) {}

    /// A request ended, in whatever way; once for each that began, those included that the load's end
    /// cuts off. One whose redirects are followed ends once, with all of its hops.
    fn ended(&mut self, _user: u32, _end: &RequestEnd<'_>) {}

    /// The load is over, and every request has ended.
    fn finish(self: Box<Self>) {}
}

/// What a user does.
#[derive(Debug, Clone)]
pub enum UserStep {
    /// The request that comes next in the load's own list.
    Listed,
    /// This one, which a [`Writer`](crate::Writer) of the load wrote. It may go to another target than
    /// the user's last: the user has one connection at a time, and takes another in its place.
    Request(Arc<Request>),
    /// Nothing for so long; then it is asked again.
    Rest(Nanos),
    /// Nothing any more. A load ends when all its users have left.
    Leave,
}

/// A whole answer.
#[derive(Debug, Clone, Copy)]
pub struct ResponseView<'a> {
    /// What was requested; after redirects the last of it.
    pub request: &'a Request,
    /// The final status.
    pub status: u16,
    /// The status line and header fields as text, a line each, ended by CRLF; with HTTP/2 made from
    /// its fields. Empty where heads are not seen.
    pub head: &'a [u8],
    /// The body, or as much of it as is seen.
    pub body: &'a [u8],
    /// The body's whole length in bytes.
    pub length: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy)]
pub struct RequestEnd<'a> {
    /// What was requested; after redirects the last of it.
    pub request: &'a Request,
    /// Its times, its status and its bytes.
    pub exchange: &'a Exchange,
    /// How it ended.
    pub outcome: Outcome,
    /// Why it failed, in words, where there is more to say than the outcome.
    pub reason: Option<&'a str>,
    /// What connecting took, a proxy's tunnel included, if a connection was made for this request; of
    /// several the sum.
    pub connect: Option<Nanos>,
    /// What the TLS handshake of that connection took, or the sum.
    pub tls: Option<Nanos>,
    /// It belongs to the measured part.
    pub is_measured: bool,
}
