//! One connection: its socket and quinn-proto.

use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, Dir, EcnCodepoint, Endpoint,
    EndpointConfig, Event, ReadError, StreamEvent, StreamId,
};
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

/// The type of a control stream and empty SETTINGS (RFC 9114 §6.2.1).
const CONTROL_STREAM: &[u8] = &[0x00, 0x04, 0x00];
/// Size of a receive buffer in bytes, and the number of buffers.
const BUFFER_BYTES: usize = 64 * 1024;
const BUFFERS: usize = 16;
/// Size of a socket's receive buffer, as prony sets it.
const RECEIVE_BUFFER_BYTES: usize = 2 * 1024 * 1024;
/// Maximum number of datagrams sent with one system call.
const SEGMENTS_MAX: usize = 16;

pub(crate) struct FloorConnection {
    pub(crate) socket: Socket,
    state: UdpSocketState,
    endpoint: Endpoint,
    handle: ConnectionHandle,
    connection: Connection,
    peer: SocketAddr,
    /// Number of requests in flight.
    active: usize,
    out: Vec<u8>,
}

/// Buffers for arriving datagrams.
pub(crate) struct Buffers(Vec<u8>);

impl Buffers {
    pub(crate) fn new() -> Buffers {
        Buffers(vec![0; BUFFER_BYTES * BUFFERS])
    }
}

impl FloorConnection {
    /// Starts a connection to the server.
    pub(crate) fn connect(
        peer: SocketAddr,
        endpoint: &Arc<EndpointConfig>,
        client: &ClientConfig,
        now: Instant,
    ) -> Result<FloorConnection, String> {
        let text = |error: io::Error| error.to_string();
        let kind = Type::DGRAM.nonblocking();
        let socket = Socket::new(Domain::for_address(peer), kind, Some(Protocol::UDP));
        let socket = socket.map_err(text)?;
        socket
            .set_recv_buffer_size(RECEIVE_BUFFER_BYTES)
            .map_err(text)?;
        socket.connect(&peer.into()).map_err(text)?;
        let state = UdpSocketState::new((&socket).into()).map_err(text)?;
        let mut endpoint = Endpoint::new(endpoint.clone(), None, true, None);
        let (handle, connection) = endpoint
            .connect(now, client.clone(), peer, &peer.ip().to_string())
            .map_err(|error| error.to_string())?;
        Ok(FloorConnection {
            socket,
            state,
            endpoint,
            handle,
            connection,
            peer,
            active: 0,
            out: Vec::new(),
        })
    }

    /// Receives all datagrams that have arrived.
    pub(crate) fn receive(&mut self, buffers: &mut Buffers, now: Instant) -> io::Result<()> {
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut chunks = buffers.0.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let received = self
            .state
            .recv((&self.socket).into(), &mut slices, &mut metas);
        let count = match received {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        for (buffer, meta) in metas.iter().take(count).enumerate() {
            let start = buffer * BUFFER_BYTES;
            let mut bytes = BytesMut::from(&buffers.0[start..start + meta.len]);
            let ecn = meta.ecn.and_then(|ecn| EcnCodepoint::from_bits(ecn as u8));
            while !bytes.is_empty() {
                let datagram = bytes.split_to(meta.stride.clamp(1, bytes.len()));
                let mut unused = Vec::new();
                let event = self
                    .endpoint
                    .handle(now, self.peer, None, ecn, datagram, &mut unused);
                if let Some(DatagramEvent::ConnectionEvent(_, event)) = event {
                    self.connection.handle_event(event);
                }
            }
        }
        Ok(())
    }

    /// Handles events, and starts a new request after each complete response. Returns the number of
    /// complete responses.
    pub(crate) fn proceed(&mut self, request: &[u8], streams: usize) -> Result<u64, String> {
        let mut ended = 0;
        while let Some(event) = self.connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(self.handle, event) {
                self.connection.handle_event(event);
            }
        }
        let mut may_start = false;
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    let control = self.connection.streams().open(Dir::Uni);
                    let control = control.ok_or("no control stream")?;
                    let mut stream = self.connection.send_stream(control);
                    stream
                        .write(CONTROL_STREAM)
                        .map_err(|error| error.to_string())?;
                    may_start = true;
                }
                Event::ConnectionLost { reason } => return Err(reason.to_string()),
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = self.connection.streams().accept(dir) {
                        self.discard(stream);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => {
                    let has_ended = self.discard(id) && id.dir() == Dir::Bi;
                    ended += u64::from(has_ended);
                    may_start |= has_ended;
                }
                Event::Stream(StreamEvent::Available { dir: Dir::Bi }) => may_start = true,
                _ => {}
            }
        }
        self.active -= ended as usize;
        while may_start && self.active < streams {
            let Some(stream) = self.connection.streams().open(Dir::Bi) else {
                break;
            };
            let mut stream = self.connection.send_stream(stream);
            stream.write(request).map_err(|error| error.to_string())?;
            stream.finish().map_err(|error| error.to_string())?;
            self.active += 1;
        }
        Ok(ended)
    }

    /// Discards the data that has arrived on a stream. Returns true if the stream has ended.
    fn discard(&mut self, stream: StreamId) -> bool {
        let mut stream = self.connection.recv_stream(stream);
        // The event may be for a stream that has already ended.
        let Ok(mut chunks) = stream.read(true) else {
            return false;
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Err(ReadError::Blocked) => return false,
                Ok(None) | Err(ReadError::Reset(_)) => return true,
            }
        }
    }

    /// Sends all pending datagrams. Returns the expiration time of the next timer.
    pub(crate) fn transmit(&mut self, now: Instant) -> io::Result<Option<Instant>> {
        let segments = self.state.max_gso_segments().min(SEGMENTS_MAX);
        loop {
            self.out.clear();
            let Some(transmit) = self.connection.poll_transmit(now, segments, &mut self.out) else {
                return Ok(self.connection.poll_timeout());
            };
            let transmit = Transmit {
                destination: self.peer,
                ecn: transmit
                    .ecn
                    .and_then(|ecn| quinn_udp::EcnCodepoint::from_bits(ecn as u8)),
                contents: &self.out,
                segment_size: transmit.segment_size,
                src_ip: None,
            };
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => {}
                // The datagram is lost, as on a network.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.raw_os_error() == Some(EMSGSIZE) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Handles timers that expired by `now`.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.connection.handle_timeout(now);
    }
}

/// The datagram is longer than the path's MTU (errno(3)).
const EMSGSIZE: i32 = 90;
