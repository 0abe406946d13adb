//! Scripts control a load request by request and inspect its responses. They allow individual
//! requests, think times, assertions on responses, and one output line per request.
//!
//! Scripting costs nothing in a load without a script. With a script, each worker calls the script
//! on its own thread, so the script's run time reduces the worker's capacity.

use std::sync::Arc;

use prony_record::{Exchange, Nanos, Outcome};

use crate::request::Request;

/// Creates the scripts of a load, one per worker.
pub trait Director: Sync {
    /// Creates the script of one worker. Called on that worker's thread, before the load begins.
    ///
    /// # Errors
    ///
    /// The reason why there is no script. The load then does not begin.
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String>;

    /// The parts of requests and responses that the scripts receive.
    fn capture(&self) -> CaptureSpec;
}

/// The virtual users of one worker. Each user has one request at a time, so a load has as many
/// users as connections (with HTTP/2 or HTTP/3, as many as connections times streams).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Users {
    /// Zero-based index of the worker.
    pub worker: u32,
    /// Index of the worker's first user. The users of all workers are numbered from 0 without gaps.
    pub first: u32,
    /// Number of users that belong to the worker.
    pub count: u32,
}

/// The data that a script receives. No other data is captured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureSpec {
    /// If true, [`Script::ended`] is called at the end of each request.
    pub ends: bool,
    /// If true, [`Script::responded`] is called with the header fields of each complete response.
    pub heads: bool,
    /// Maximum number of bytes of each response body that [`Script::responded`] receives; 0 to
    /// capture no bodies.
    pub body_bytes: usize,
}

/// The script of one worker. Users are identified by their index among all users of the load.
pub trait Script {
    /// Returns the next step of a free user. This is called when a request could begin immediately:
    /// the user's connection has capacity or is not open yet, and the load's limits allow one more
    /// request (in an open loop, when one is due).
    fn next(&mut self, _user: u32, _now: Nanos) -> UserStep {
        UserStep::Listed
    }

    /// Called for each complete response, whether it meets the expectations or not, if heads or
    /// bodies are captured. Not called for redirects that are followed. [`Script::ended`] follows.
    fn responded(&mut self, _user: u32, _response: &ResponseView<'_>) {}

    /// Called once for each request that ends in any way, including requests that the load's end
    /// cuts off. A request whose redirects are followed ends once, after all of its hops.
    fn ended(&mut self, _user: u32, _end: &RequestEnd<'_>) {}

    /// Called after the load, when every request has finished.
    fn finish(self: Box<Self>) {}
}

/// The next step of a virtual user.
#[derive(Debug, Clone)]
pub enum UserStep {
    /// Send the next request of the load's own list.
    Listed,
    /// Send this request, which a [`Writer`](crate::Writer) of the load wrote. If it goes to
    /// a target other than the user's last one, the user's connection is replaced.
    Request(Arc<Request>),
    /// Do nothing for this time, then call the script again.
    Rest(Nanos),
    /// Send no more requests. A load ends when all its users have left.
    Leave,
}

/// A complete response, as a script receives it.
#[derive(Debug, Clone, Copy)]
pub struct ResponseView<'a> {
    /// The request; after redirects, the last one.
    pub request: &'a Request,
    /// Status of the final response.
    pub status: u16,
    /// The status line and header fields as text, one per line with CRLF. With HTTP/2, the text is
    /// composed from the fields. Empty if heads are not captured.
    pub head: &'a [u8],
    /// The captured part of the body.
    pub body: &'a [u8],
    /// Length of the whole body in bytes.
    pub length: u64,
}

/// A reason for a failure, for scripts that have their own text for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The response is a redirect beyond the load's limit.
    RedirectLimit,
    /// The operating system's error with this code.
    System(i32),
}

/// The end of a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestEnd<'a> {
    /// The request; after redirects, the last one.
    pub request: &'a Request,
    /// Times, status and sizes of the exchange.
    pub exchange: &'a Exchange,
    /// Outcome of the request.
    pub outcome: Outcome,
    /// The reason for a failure as text, if the outcome alone does not show it.
    pub reason: Option<&'a str>,
    /// The same reason as data, if it is one of these.
    pub cause: Option<FailureCause>,
    /// Time that the request spent on connecting, including the time to open a proxy's tunnel. The
    /// sum if the request opened several connections; `None` if it opened none.
    pub connect: Option<Nanos>,
    /// Time that the request spent on TLS handshakes. The sum if there were several; `None` if
    /// there was none.
    pub tls: Option<Nanos>,
    /// True if the request belongs to the measured part.
    pub is_measured: bool,
}
