//! A carrier on a connection that is ready for requests, with TLS below it if the target uses TLS.

use prony_protocol::{h1, h2};
use prony_record::{Nanos, Negotiated, Outcome};

use super::any::AnyCarrier;
use super::events::{EventKind, ExchangeEvent, Progress};
use super::http1::broken;
use super::interface::{ByteCarrier, Carrier, RequestRef};
use super::{Reason, SharedBuffers};
use crate::request::Request;
use crate::request::expect::Expectations;
use crate::tls::{self, Tls};

/// Maximum number of request bytes that are encrypted at a time, so that a large request is never
/// in memory twice.
const ENCRYPTED_PIECE_BYTES: usize = 64 * 1024;

/// A connection that is ready for requests, or that is draining after the last one.
pub(crate) struct Session {
    tls: Option<Tls>,
    pub(crate) carrier: AnyCarrier,
    /// Number of responses that arrived on this connection.
    pub(crate) served: u32,
    /// Number of requests that began on this connection, if the load limits it.
    pub(crate) begun: u32,
    /// True if the next request is the connection's last one.
    pub(crate) is_expired: bool,
    /// True if the load starts no more requests on the connection.
    pub(crate) is_retired: bool,
    /// True if the connection is in the list of connections with output to send.
    pub(crate) is_dirty: bool,
    /// True if a request timed out while nothing arrived on the connection, which continues. The
    /// connection accepts no more requests until something arrives.
    pub(crate) maybe_dead: bool,
    /// Time at which the TLS handshake ended or bytes last arrived.
    pub(crate) last_heard: Nanos,
}

impl Session {
    pub(super) fn new(tls: Option<Tls>, carrier: AnyCarrier) -> Session {
        Session {
            tls,
            carrier,
            served: 0,
            begun: 0,
            is_expired: false,
            is_retired: false,
            is_dirty: false,
            maybe_dead: false,
            last_heard: Nanos::ZERO,
        }
    }

    /// The reason why the server rejected a cleartext request, if its response says that the port
    /// expects TLS.
    pub(crate) fn tls_expected(&self) -> Option<Reason> {
        match &self.carrier {
            AnyCarrier::Http1(h1) if self.tls.is_none() => h1.tls_phrase().map(Reason::ExpectsTls),
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
        match self
            .carrier
            .receive(bytes, now, expected, &mut buffers.events)
        {
            Progress::Broken(outcome, Reason::Http2(h2::Violation::Http1)) => {
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
        let is_multiplexed = self.carrier.is_multiplexed();
        let may_continue = is_multiplexed || self.carrier.may_receive_anytime();
        let mut progress = Progress::Open;
        loop {
            match tls.receive(&mut bytes, &mut buffers.tls) {
                Ok(tls::TlsEvent::NeedMore) => break,
                // The handshake was already complete.
                Ok(tls::TlsEvent::Secured { .. }) => {}
                // Only the first violation is reported.
                Ok(tls::TlsEvent::Plain(_)) if !matches!(progress, Progress::Open) => {}
                Ok(tls::TlsEvent::Plain(_)) if !may_continue && has_ended(events) => {
                    events.clear();
                    progress = broken(h1::Violation::BytesAfterEnd);
                }
                Ok(tls::TlsEvent::Plain(plain)) => {
                    progress = self.carrier.receive(plain, now, expected, events);
                }
                Err(error) => {
                    if !is_multiplexed {
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
            Some(ExchangeEvent {
                kind: EventKind::Response { reuse, .. },
                ..
            }) if !is_multiplexed => {
                *reuse = reuse.after_close();
                Progress::Open
            }
            _ => self.carrier.peer_closed(true, expected, events),
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
        self.carrier
            .peer_closed(orderly, expected, &mut buffers.events)
    }

    /// Returns true if the connection uses TLS.
    #[inline]
    pub(crate) fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Takes the rest of a request that is sent from its own memory: one in cleartext HTTP/1 that
    /// outlives the run.
    #[inline]
    pub(super) fn take_shared<'run, 'a>(
        &mut self,
        request_of: impl Fn(u32) -> Option<RequestRef<'run, 'a>>,
    ) -> Option<&'run [u8]> {
        if self.tls.is_some() {
            return None;
        }
        let h1 = self.carrier.http1()?;
        match request_of(h1.stream_in_flight()?)? {
            RequestRef::Listed(_) if h1.adds_close() => None,
            RequestRef::Listed(request) => Some(h1.take_piece(request.http1(), usize::MAX)),
            RequestRef::Own(_) => None,
        }
    }

    /// Appends the output of the carrier and of TLS: about `limit` bytes of the carrier's. Appends
    /// nothing once everything is sent.
    pub(crate) fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        buffers: &mut SharedBuffers,
        out: &mut Vec<u8>,
    ) {
        match (&mut self.tls, &mut self.carrier) {
            (None, carrier) => carrier.take_output(limit, request_of, out),
            // The request is encrypted from its own memory.
            (Some(tls), AnyCarrier::Http1(h1)) => {
                let request = h1.stream_in_flight().and_then(request_of);
                let request = request.map_or(&[][..], Request::http1);
                tls.take_out(h1.take_piece(request, ENCRYPTED_PIECE_BYTES), out);
            }
            (Some(tls), carrier) => {
                buffers.plain.clear();
                carrier.take_output(limit, request_of, &mut buffers.plain);
                tls.take_out(&buffers.plain, out);
            }
        }
    }

    /// Returns true if the connection's next output begins with a request. Output that precedes it is
    /// then sent together with it.
    pub(super) fn awaits_request(&mut self) -> bool {
        let h1 = self.carrier.http1().filter(|_| self.tls.is_none());
        h1.is_some_and(|h1| h1.stream_in_flight().is_none())
    }

    /// The HTTP version, TLS version and cipher that both sides use.
    pub(crate) fn negotiated(&self) -> Negotiated {
        let agreed = self.tls.as_ref().and_then(Tls::agreed);
        let tls = match &self.carrier {
            AnyCarrier::Http3(h3) => h3.negotiated().clone(),
            _ => agreed
                .map(tls::NegotiatedTls::negotiated)
                .unwrap_or_default(),
        };
        Negotiated {
            http: self.carrier.version().map(str::to_owned),
            ..tls
        }
    }
}

/// Returns true if the last event of a connection without concurrent streams ends its exchange.
fn has_ended(events: &[ExchangeEvent]) -> bool {
    events.last().is_some_and(|last| last.kind.ends_exchange())
}
