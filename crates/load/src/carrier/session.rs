//! HTTP on a connection that is ready for requests, with TLS below it if the target uses TLS.

use prony_protocol::h1::H1Violation;
use prony_protocol::h2;
use prony_record::{Nanos, Negotiated, Outcome};

use super::http::HttpMachine;
use super::http1::broken;
use super::{EventKind, HttpEvent, Progress, Reason, SharedBuffers};
use crate::expect::Expectations;
use crate::tls::{self, Tls};

/// Maximum number of request bytes that are encrypted at a time, so that a large request is never
/// in memory twice.
const ENCRYPTED_PIECE_BYTES: usize = 64 * 1024;

/// A connection that is ready for requests, or that is draining after the last one.
pub(crate) struct HttpSession {
    tls: Option<Tls>,
    pub(crate) http: HttpMachine,
    /// Number of responses that arrived on this connection.
    pub(crate) served: u32,
    /// True if the connection is in the list of HTTP/2 connections with output to send.
    pub(crate) is_dirty: bool,
    /// True if an HTTP/2 request timed out while nothing arrived on the connection. The connection
    /// accepts no more requests until something arrives.
    pub(crate) maybe_dead: bool,
    /// Time at which the TLS handshake ended or, with HTTP/2, at which bytes last arrived.
    pub(crate) last_heard: Nanos,
}

impl HttpSession {
    pub(super) fn new(tls: Option<Tls>, http: HttpMachine) -> HttpSession {
        HttpSession {
            tls,
            http,
            served: 0,
            is_dirty: false,
            maybe_dead: false,
            last_heard: Nanos::ZERO,
        }
    }

    /// The reason why the server rejected a cleartext request, if its response says that the port
    /// expects TLS.
    pub(crate) fn tls_expected(&self) -> Option<Reason> {
        match &self.http {
            HttpMachine::One(h1) if self.tls.is_none() => h1.tls_phrase().map(Reason::ExpectsTls),
            _ => None,
        }
    }

    /// Processes bytes from the peer and appends the resulting events to the buffers.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        if self.tls.is_some() {
            return self.receive_ciphertext(bytes, now, expected, buffers);
        }
        match self.http.receive(bytes, now, expected, &mut buffers.events) {
            Progress::Broken(outcome, Reason::Http2(h2::H2Violation::Http1)) => {
                Progress::Broken(outcome, Reason::CleartextHttp1)
            }
            progress => progress,
        }
    }

    fn receive_ciphertext(
        &mut self,
        mut bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        let Some(tls) = &mut self.tls else {
            return Progress::Open;
        };
        let events = &mut buffers.events;
        let has_streams = self.http.has_streams();
        let mut progress = Progress::Open;
        loop {
            match tls.receive(&mut bytes, &mut buffers.tls) {
                Ok(tls::TlsEvent::NeedMore) => break,
                // The handshake was already complete.
                Ok(tls::TlsEvent::Secured { .. }) => {}
                // Only the first violation is reported.
                Ok(tls::TlsEvent::Plain(_)) if !matches!(progress, Progress::Open) => {}
                Ok(tls::TlsEvent::Plain(_)) if !has_streams && !events.is_empty() => {
                    events.clear();
                    progress = broken(H1Violation::BytesAfterEnd);
                }
                Ok(tls::TlsEvent::Plain(plain)) => {
                    progress = self.http.receive(plain, now, expected, events);
                }
                Err(error) => {
                    if !has_streams {
                        events.clear();
                    }
                    let reason = Reason::of_tls(&error, tls.peer_speaks(), tls.given());
                    return Progress::Broken(Outcome::Tls, reason);
                }
            }
        }
        if !matches!(progress, Progress::Open) || !tls.peer_has_closed() {
            return progress;
        }
        match events.last_mut() {
            // The socket may stay open for a long time, but the peer sends nothing more.
            Some(HttpEvent {
                kind: EventKind::Response { reusable, .. },
                ..
            }) if !has_streams => {
                *reusable = false;
                Progress::Open
            }
            _ => self.http.peer_closed(true, expected, events),
        }
    }

    /// Handles a close of the socket by the peer. With TLS, the close is orderly only after
    /// `close_notify`.
    pub(super) fn peer_closed(
        &mut self,
        expected: &Expectations,
        buffers: &mut SharedBuffers,
    ) -> Progress {
        // Without TLS's close_notify, an attacker on the path may have cut the connection (RFC 9112
        // §9.8).
        let orderly = self.tls.as_ref().is_none_or(Tls::peer_has_closed);
        self.http
            .peer_closed(orderly, expected, &mut buffers.events)
    }

    /// Returns true if the connection uses TLS.
    #[inline]
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// For HTTP/1 over TLS, appends TLS's own output and the next part of the `request` in flight.
    /// Appends nothing once everything is sent.
    pub(crate) fn take_ciphertext(&mut self, request: &[u8], out: &mut Vec<u8>) {
        if let (Some(tls), HttpMachine::One(h1)) = (&mut self.tls, &mut self.http) {
            tls.take_out(h1.take_unencrypted(request, ENCRYPTED_PIECE_BYTES), out);
        }
    }

    /// For HTTP/2, appends the output of HTTP/2 and TLS. `body_of` returns the request body for a
    /// stream number.
    pub(crate) fn take_frames<'b>(
        &mut self,
        out: &mut Vec<u8>,
        buffers: &mut SharedBuffers,
        body_of: impl FnMut(u32) -> &'b [u8],
    ) {
        let Some(h2) = self.http.h2_mut() else {
            return;
        };
        match &mut self.tls {
            None => h2.take_output(out, body_of),
            Some(tls) => {
                buffers.plain.clear();
                h2.take_output(&mut buffers.plain, body_of);
                tls.take_out(&buffers.plain, out);
            }
        }
    }

    /// Number of bytes that TLS has not yet encrypted in an HTTP/1 request of `length` bytes; 0 in
    /// cleartext.
    pub(crate) fn unencrypted(&self, length: usize) -> usize {
        match (&self.tls, &self.http) {
            (Some(_), HttpMachine::One(h1)) => h1.unencrypted(length),
            _ => 0,
        }
    }

    /// The HTTP version, TLS version and cipher that both sides use.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let agreed = self.tls.as_ref().and_then(Tls::agreed);
        let tls = match &self.http {
            HttpMachine::Three(h3) => h3.negotiated().clone(),
            _ => agreed
                .map(tls::NegotiatedTls::negotiated)
                .unwrap_or_default(),
        };
        Negotiated {
            http: self.http.version().map(str::to_owned),
            ..tls
        }
    }
}
