//! The interface of a carrier: the protocol of one connection.
//!
//! A carrier turns exchanges into bytes or streams, and what arrives into [`ExchangeEvent`]s. It
//! identifies an exchange by its *stream number*: the index of a request slot on the connection,
//! from 0. Successive exchanges reuse it. A carrier without concurrent streams carries one exchange
//! at a time.
//!
//! [`Carrier`] is what the worker sees. A carrier of bytes implements [`ByteCarrier`], too, and one
//! of streams [`StreamCarrier`]; only the [transports](super::transport) call these.

use prony_protocol::CallMessageId;
use prony_record::Nanos;

use super::events::{ExchangeEvent, Progress, RequestCapacity, ResponseProgress};
use super::{CapturedResponse, Reason};
use crate::exchange::EarlierResponse;
use crate::quic::QuicConnection;
use crate::request::Request;
use crate::request::expect::Expectations;

/// The protocol of one connection, as the worker sees it.
pub(crate) trait Carrier {
    /// Capacity for another exchange on a connection that has `in_flight` exchanges.
    fn capacity(&self, in_flight: u32) -> RequestCapacity;

    /// Progress of the response on a stream, or of the stream's last response.
    fn received(&self, stream: u32) -> ResponseProgress;

    /// The captured part of the last response on a stream, if responses are captured.
    fn captured(&self, stream: u32) -> Option<&CapturedResponse>;

    /// Like [`Carrier::captured`], mutable.
    fn captured_mut(&mut self, stream: u32) -> Option<&mut CapturedResponse>;

    /// Body length of the last response on a stream.
    fn body_length(&self, stream: u32) -> u64 {
        self.received(stream).body_bytes
    }

    /// Hashes every body from now on, for [`Carrier::take_hash`].
    fn hash_bodies(&mut self);

    /// SHA-256 of the last body on a stream.
    fn take_hash(&mut self, stream: u32) -> [u8; 32];

    /// Removes and returns the messages of a stream's exchange that have arrived before its last.
    fn take_messages(&mut self, _stream: u32) -> Vec<EarlierResponse> {
        Vec::new()
    }

    /// Returns true if a stream receives messages that another one has sent.
    fn receives_deliveries(&self, _stream: u32) -> bool {
        false
    }

    /// Removes and returns the message of the oldest [`EventKind::Unawaited`] on a stream, if the
    /// load is a fan-out.
    ///
    /// [`EventKind::Unawaited`]: super::EventKind::Unawaited
    fn take_delivery(&mut self, _stream: u32) -> Option<Vec<u8>> {
        None
    }

    /// Ends the exchange on a stream, whose message has arrived on other streams.
    fn end_fan_out(&mut self, _stream: u32) {}

    /// The HTTP version that both sides use, once it is known.
    fn version(&self) -> Option<&'static str>;

    /// Returns true if the connection carries several exchanges at the same time. The failure of one
    /// of them then leaves the others alone.
    fn is_multiplexed(&self) -> bool {
        true
    }

    /// Returns true if the peer may send bytes at any time, also while no exchange is in flight.
    fn may_receive_anytime(&self) -> bool {
        false
    }

    /// Number of exchanges in flight, if the carrier counts them.
    #[cfg(test)]
    fn active_count(&self) -> Option<u32>;

    /// Cancels the exchange on a stream, if there is one. A carrier that isn't multiplexed does
    /// nothing: its connection must be closed instead.
    fn cancel(&mut self, stream: u32);

    /// Returns true if the peer has proved that it speaks this protocol. Always true for a carrier in
    /// which nothing proves it before the first response.
    fn is_established(&self) -> bool {
        true
    }

    /// Returns true if exchanges are being sent as early data while the handshake is in progress.
    fn is_early(&self) -> bool {
        false
    }

    /// Returns true if a stream's request was sent as early data, and the server refused to process
    /// it then (425, RFC 8470 §5.2).
    fn was_too_early(&self, _stream: u32) -> bool {
        false
    }

    /// Returns true if the peer has announced that it accepts no more exchanges on the connection.
    fn is_going_away(&self) -> bool {
        false
    }

    /// Announces that the next exchange is the connection's last one, if the protocol lets a request
    /// do so.
    fn announce_last(&mut self) {}

    /// Announces that the connection carries no more exchanges, if the protocol has a message for
    /// it. Returns true if the peer may now close the connection.
    fn announce_end(&mut self) -> bool {
        false
    }

    /// Returns true if the load has ended the connection with a message that the peer has yet to
    /// answer.
    fn awaits_close(&self) -> bool {
        false
    }

    /// The explanation of a failed gRPC call (`grpc-message`), percent-encoded.
    fn call_message(&self, _id: CallMessageId) -> &[u8] {
        &[]
    }

    /// The error that the peer reported when it ended the connection, if any.
    fn end_reason(&self) -> Option<Reason> {
        None
    }

    /// Returns true if the capacity may have risen since the last call.
    fn take_new_settings(&mut self) -> bool {
        false
    }
}

/// The request of a stream's exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestRef<'run, 'a> {
    /// A request of the load's list, which stays valid for the whole run.
    Listed(&'run Request),
    /// A request that belongs to its slot.
    Own(&'a Request),
}

impl<'run: 'a, 'a> RequestRef<'run, 'a> {
    #[inline]
    pub(crate) fn request(self) -> &'a Request {
        match self {
            RequestRef::Listed(request) | RequestRef::Own(request) => request,
        }
    }
}

/// A started exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Started {
    /// Number of bytes of the request, including the framing.
    pub(crate) bytes: u64,
    /// True if the output should be sent immediately. Otherwise it is sent together with that of the
    /// exchanges that start in the same turn of the worker's loop.
    pub(crate) sends_now: bool,
}

/// Reason why an exchange didn't start.
#[derive(Debug)]
pub(crate) enum StartFailure {
    /// The carrier has no capacity now, so the request keeps waiting for it.
    NotNow,
    /// The request can't be sent on this connection.
    Never(Reason),
}

/// A carrier whose connection is a sequence of bytes in each direction.
pub(crate) trait ByteCarrier: Carrier {
    /// Starts an exchange.
    ///
    /// # Errors
    ///
    /// See [`StartFailure`].
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
    ) -> Result<Started, StartFailure>;

    /// Processes cleartext bytes from the peer and appends the resulting events.
    fn receive(
        &mut self,
        bytes: &[u8],
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress;

    /// Handles a close by the peer. `orderly` is false if TLS was cut without `close_notify`.
    fn peer_closed(
        &mut self,
        orderly: bool,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress;

    /// Appends up to about `limit` bytes of output to `out`. `request_of` returns the request of a
    /// stream's exchange.
    fn take_output<'r>(
        &mut self,
        limit: usize,
        request_of: &dyn Fn(u32) -> Option<&'r Request>,
        out: &mut Vec<u8>,
    );

    /// Number of bytes of a stream's request that have not been sent, if `in_socket` bytes of the
    /// connection's last send have not. `is_alone` is true if the exchange is the only one in flight.
    fn unsent(&self, stream: u32, request: &Request, in_socket: u64, is_alone: bool) -> u64;
}

/// A carrier whose connection has QUIC streams.
pub(crate) trait StreamCarrier: Carrier {
    /// Starts an exchange.
    ///
    /// # Errors
    ///
    /// See [`StartFailure`].
    fn start(
        &mut self,
        stream: u32,
        request: &Request,
        expected: &Expectations,
        quic: &mut QuicConnection,
    ) -> Result<Started, StartFailure>;

    /// Handles the events of the QUIC connection, and appends the resulting events.
    fn receive(
        &mut self,
        quic: &mut QuicConnection,
        now: Nanos,
        expected: &Expectations,
        events: &mut Vec<ExchangeEvent>,
    ) -> Progress;

    /// Writes the output to QUIC streams.
    fn write_output(&mut self, quic: &mut QuicConnection);

    /// Number of bytes of a stream's request that have not been written.
    fn unsent(&self, stream: u32) -> u64;
}
