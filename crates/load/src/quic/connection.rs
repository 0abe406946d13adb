//! One QUIC connection without its socket.

use std::any::Any;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use prony_record::QuicUse;
use quinn_proto::{
    ClosedStream, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint, Event,
    ReadError, Side, StreamEvent, StreamId, VarInt, WriteError,
};
use rustls::pki_types::ServerName;

use super::client::QuicClient;
use super::end::QuicEnd;
use super::packets::packets_in;
use super::session::HandshakeState;
use crate::tls::NegotiatedTls;

/// Maximum number of datagrams in a batch to be sent. It limits the size of the burst that the
/// peer's receive buffer must hold.
const BATCH_DATAGRAMS_MAX: usize = 16;

/// Direction of a QUIC stream: bidirectional or unidirectional.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamDirection {
    /// Bidirectional: both sides send.
    Both,
    /// Unidirectional: only the side that opened the stream sends.
    One,
}

impl StreamDirection {
    fn quinn(self) -> Dir {
        match self {
            StreamDirection::Both => Dir::Bi,
            StreamDirection::One => Dir::Uni,
        }
    }
}

/// An event of an established connection.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum QuicEvent {
    /// Bytes can be read from a stream, or the stream has ended or was reset.
    Readable(u64),
    /// More bytes can be written to a stream that was blocked.
    Writable(u64),
    /// The server has stopped reading a stream.
    Stopped(u64),
    /// The server allows more streams.
    StreamsAllowed,
    /// The connection has ended.
    Ended(QuicEnd),
}

/// State of a connection's early data (0-RTT, RFC 9001 §4.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EarlyData {
    /// No early data is sent, because the load doesn't use early data or no session permits it.
    Unused,
    /// The client offers early data, so streams can be used while the handshake is in progress.
    Offered,
    /// The server has accepted the early data.
    Accepted,
    /// The server has discarded the early data and its streams. The numbers of these streams are
    /// used again.
    Rejected,
}

/// State of a stream after a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamEnd {
    /// More bytes may arrive.
    Open,
    /// The server has ended the stream in an orderly way.
    Finished,
    /// The server has reset the stream with this error code.
    Reset(u64),
    /// The stream had already ended before the read.
    Gone,
}

/// Time after the last datagram at which a handshake without any timer is probed: the first probe
/// timeout before a round trip has been measured (RFC 9002 §6.2.2).
const HANDSHAKE_PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Datagrams to be sent. All of them have the same length, except that the last one may be shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DatagramBatch {
    /// Length of each datagram in bytes, except the last.
    pub(crate) segment_bytes: usize,
    /// Congestion mark of the datagrams (RFC 9000 §13.4).
    pub(crate) ecn: Option<EcnCodepoint>,
}

/// One QUIC connection, as a state machine.
pub(crate) struct QuicConnection {
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    peer: SocketAddr,
    is_established: bool,
    /// True if nothing has been sent since the handshake was completed, so the server is still
    /// waiting for the handshake's last message.
    owes_handshake: bool,
    early_data: EarlyData,
    packets_received: u64,
    /// Time of the last datagram that was sent, or of the last probe.
    last_attempt: Instant,
    /// The HTTP/3 error code with which this side closes the connection.
    close_code: Option<VarInt>,
    /// Events that were taken from quinn-proto.
    events: VecDeque<QuicEvent>,
}

impl QuicConnection {
    /// Begins a connection. Its first datagrams are then available from
    /// [`QuicConnection::transmit`].
    ///
    /// # Errors
    ///
    /// The server name or the address can't be used.
    pub(crate) fn connect(
        client: &QuicClient,
        peer: SocketAddr,
        name: &ServerName<'static>,
        now: Instant,
    ) -> Result<QuicConnection, String> {
        let mut endpoint = Endpoint::new(client.endpoint.clone(), None, true, None);
        let name = name.to_str();
        let (handle, connection) = endpoint
            .connect(now, client.client.clone(), peer, &name)
            .map_err(|error| error.to_string())?;
        let early_data = if connection.has_0rtt() {
            EarlyData::Offered
        } else {
            EarlyData::Unused
        };
        Ok(QuicConnection {
            endpoint,
            handle,
            connection,
            peer,
            is_established: false,
            owes_handshake: false,
            early_data,
            packets_received: 0,
            last_attempt: now,
            close_code: None,
            events: VecDeque::new(),
        })
    }

    /// Handles datagrams from the server. All of them have `segment_bytes` bytes, except the last,
    /// which may be shorter.
    pub(crate) fn receive(
        &mut self,
        mut datagrams: BytesMut,
        segment_bytes: usize,
        ecn: Option<EcnCodepoint>,
        now: Instant,
    ) {
        let mut unused = Vec::new();
        while !datagrams.is_empty() {
            let datagram = datagrams.split_to(segment_bytes.clamp(1, datagrams.len()));
            self.packets_received += packets_in(&datagram);
            let event = self
                .endpoint
                .handle(now, self.peer, None, ecn, datagram, &mut unused);
            if let Some(DatagramEvent::ConnectionEvent(handle, event)) = event
                && handle == self.handle
            {
                self.connection.handle_event(event);
            }
            unused.clear();
        }
        self.exchange_endpoint_events();
    }

    /// Handles timers that expired by `now`. Must be called at or after
    /// [`QuicConnection::timeout`].
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.connection.poll_timeout().is_none() && self.probe_at().is_some_and(|at| at <= now) {
            self.connection.ping();
            self.last_attempt = now;
        }
        self.connection.handle_timeout(now);
        self.exchange_endpoint_events();
    }

    fn exchange_endpoint_events(&mut self) {
        while let Some(event) = self.connection.poll_endpoint_events() {
            if event.is_drained() {
                // The endpoint need not remove the connection, because both are dropped together.
                continue;
            }
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
    }

    /// Returns the time at which [`QuicConnection::expire`] must be called.
    pub(crate) fn timeout(&mut self) -> Option<Instant> {
        self.connection.poll_timeout().or_else(|| self.probe_at())
    }

    /// Returns the time at which a handshake without any timer needs a probe. quinn-proto sets no
    /// timer if the server has acknowledged all packets except early data. If the server's packets
    /// were lost until it had used up its anti-amplification limit, both sides would wait forever
    /// (RFC 9002 §6.2.2.1).
    fn probe_at(&self) -> Option<Instant> {
        let may_stall = self.connection.is_handshaking() && self.early_data == EarlyData::Offered;
        may_stall.then(|| self.last_attempt + HANDSHAKE_PROBE_INTERVAL)
    }

    /// Appends the next datagrams to be sent to `out`, if there are any. Up to `segments_max`
    /// datagrams form a batch.
    pub(crate) fn transmit(
        &mut self,
        now: Instant,
        segments_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<DatagramBatch> {
        if let Some(code) = self.close_code {
            self.connection.close(now, code, Bytes::new());
        }
        let segments = segments_max.clamp(1, BATCH_DATAGRAMS_MAX);
        let transmit = self.connection.poll_transmit(now, segments, out)?;
        self.owes_handshake = false;
        self.last_attempt = now;
        Some(DatagramBatch {
            segment_bytes: transmit.segment_size.unwrap_or(transmit.size),
            ecn: transmit.ecn,
        })
    }

    /// Returns the next event. There are no events before [`QuicConnection::handshake_result`]
    /// returns a result or early data is offered.
    pub(crate) fn next_event(&mut self) -> Option<QuicEvent> {
        while self.events.is_empty() && self.poll() {}
        self.events.pop_front()
    }

    /// Returns true if there is an unhandled event.
    pub(crate) fn has_event(&mut self) -> bool {
        while self.events.is_empty() && self.poll() {}
        !self.events.is_empty()
    }

    /// Returns the result of the handshake, once it has ended.
    pub(crate) fn handshake_result(&mut self) -> Option<Result<(), QuicEnd>> {
        while !self.is_established && self.poll() {
            if let Some(QuicEvent::Ended(end)) = self.events.back() {
                return Some(Err(end.clone()));
            }
        }
        self.is_established.then_some(Ok(()))
    }

    /// Takes an event from quinn-proto. Returns false if there is none.
    fn poll(&mut self) -> bool {
        let Some(event) = self.connection.poll() else {
            return false;
        };
        let event = match event {
            Event::Connected => {
                self.is_established = true;
                self.owes_handshake = true;
                if self.early_data == EarlyData::Offered {
                    self.early_data = if self.connection.accepted_0rtt() {
                        EarlyData::Accepted
                    } else {
                        EarlyData::Rejected
                    };
                }
                None
            }
            Event::ConnectionLost { reason } => {
                let error = self.handshake().error;
                Some(QuicEvent::Ended(QuicEnd::new(reason, error)))
            }
            Event::Stream(StreamEvent::Opened { dir }) => {
                while let Some(stream) = self.connection.streams().accept(dir) {
                    self.events.push_back(QuicEvent::Readable(number(stream)));
                }
                None
            }
            Event::Stream(StreamEvent::Readable { id }) => Some(QuicEvent::Readable(number(id))),
            Event::Stream(StreamEvent::Writable { id }) => Some(QuicEvent::Writable(number(id))),
            Event::Stream(StreamEvent::Stopped { id, .. }) => Some(QuicEvent::Stopped(number(id))),
            Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => {
                Some(QuicEvent::StreamsAllowed)
            }
            Event::Stream(StreamEvent::Available { .. } | StreamEvent::Finished { .. })
            | Event::HandshakeDataReady
            | Event::DatagramReceived
            | Event::DatagramsUnblocked => None,
        };
        self.events.extend(event);
        true
    }

    /// Returns true once the handshake is complete.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established
    }

    /// Returns true if the last message of the handshake has not been sent yet.
    pub(crate) fn owes_handshake(&self) -> bool {
        self.owes_handshake
    }

    /// Returns the state of the early data.
    pub(crate) fn early_data(&self) -> EarlyData {
        self.early_data
    }

    /// Returns the parameters that the handshake negotiated.
    pub(crate) fn agreed(&self) -> Option<NegotiatedTls> {
        self.handshake().agreed
    }

    fn handshake(&self) -> HandshakeState {
        let data: Option<Box<dyn Any>> = self.connection.crypto_session().handshake_data();
        let state = data.and_then(|data| data.downcast().ok());
        state.map_or(
            HandshakeState {
                agreed: None,
                error: None,
            },
            |state| *state,
        )
    }

    /// Opens a stream, if the server allows another one. The server learns of the stream only when
    /// bytes are written to it.
    pub(crate) fn open(&mut self, direction: StreamDirection) -> Option<u64> {
        self.connection
            .streams()
            .open(direction.quinn())
            .map(number)
    }

    /// Writes as many bytes as flow control permits. Returns their number, which is 0 if the stream
    /// has ended.
    pub(crate) fn write(&mut self, stream: u64, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            let rest = &bytes[written..];
            match self.connection.send_stream(id(stream)).write(rest) {
                Ok(0)
                | Err(WriteError::Blocked | WriteError::ClosedStream | WriteError::Stopped(_)) => {
                    break;
                }
                Ok(count) => written += count,
            }
        }
        written
    }

    /// Writes as many bytes as flow control permits, without copying them. `bytes` keeps the others.
    /// Returns the number of bytes written, which is 0 if the stream has ended.
    pub(crate) fn write_shared(&mut self, stream: u64, bytes: &mut Bytes) -> usize {
        let length = bytes.len();
        while !bytes.is_empty() {
            let chunks = std::slice::from_mut(bytes);
            match self.connection.send_stream(id(stream)).write_chunks(chunks) {
                Ok(written) if written.bytes > 0 => {}
                Ok(_)
                | Err(WriteError::Blocked | WriteError::ClosedStream | WriteError::Stopped(_)) => {
                    break;
                }
            }
        }
        length - bytes.len()
    }

    /// Ends the sending side of a stream in an orderly way.
    pub(crate) fn finish(&mut self, stream: u64) {
        // `finish` fails if the stream has ended, which an event reports.
        let _ = self.connection.send_stream(id(stream)).finish();
    }

    /// Abandons both sides of a stream. A stream that the server opened has only the server's side.
    pub(crate) fn abandon(&mut self, stream: u64, code: u64) {
        if id(stream).initiator() == Side::Client {
            self.reset(stream, code);
        }
        // `stop` fails if the stream has ended.
        let _: Result<(), ClosedStream> =
            self.connection.recv_stream(id(stream)).stop(code_of(code));
    }

    /// Abandons the sending side of a stream.
    pub(crate) fn reset(&mut self, stream: u64, code: u64) {
        // `reset` fails if the stream has ended.
        let _: Result<(), ClosedStream> =
            self.connection.send_stream(id(stream)).reset(code_of(code));
    }

    /// Reads all bytes that have arrived on a stream, in order and in pieces, and passes them to
    /// `each`. Stops early if `each` returns false.
    pub(crate) fn read(&mut self, stream: u64, mut each: impl FnMut(&[u8]) -> bool) -> StreamEnd {
        let mut received = self.connection.recv_stream(id(stream));
        let Ok(mut chunks) = received.read(true) else {
            return StreamEnd::Gone;
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) if each(&chunk.bytes) => {}
                Ok(Some(_)) | Err(ReadError::Blocked) => return StreamEnd::Open,
                Ok(None) => return StreamEnd::Finished,
                Err(ReadError::Reset(code)) => return StreamEnd::Reset(code.into_inner()),
            }
        }
    }

    /// Closes the connection with an HTTP/3 error code, if it is still open. The last datagram is
    /// then available from [`QuicConnection::transmit`].
    pub(crate) fn close(&mut self, code: u64) {
        self.close_code.get_or_insert(code_of(code));
    }

    /// Returns the connection's counts of packets and datagrams.
    pub(crate) fn counts(&self) -> QuicUse {
        let stats = self.connection.stats();
        QuicUse {
            version: 1,
            packets_sent: stats.path.sent_packets,
            packets_received: self.packets_received,
            packets_lost: stats.path.lost_packets,
            datagrams_sent: stats.udp_tx.datagrams,
            datagrams_received: stats.udp_rx.datagrams,
            mtu_bytes: stats.path.current_mtu,
            early_data_offered: u64::from(self.early_data != EarlyData::Unused),
            early_data_accepted: u64::from(self.early_data == EarlyData::Accepted),
            ..QuicUse::default()
        }
    }
}

fn number(stream: StreamId) -> u64 {
    VarInt::from(stream).into_inner()
}

/// Converts the number that [`number`] returned for a stream back to the stream's identifier.
fn id(stream: u64) -> StreamId {
    StreamId::from(code_of(stream))
}

fn code_of(code: u64) -> VarInt {
    VarInt::from_u64(code).unwrap_or(VarInt::MAX)
}
