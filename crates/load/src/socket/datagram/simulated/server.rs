//! A scripted HTTP/3 server for the simulated link. It uses quinn-proto for QUIC. For HTTP/3, it
//! sends fixed bytes, so it shares no code with prony's HTTP/3.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, ConnectionIdGenerator, DatagramEvent, Dir,
    EcnCodepoint, Endpoint, EndpointConfig, Event, HashedConnectionIdGenerator, ServerConfig, Side,
    StreamEvent, StreamId, TransportConfig, VarInt,
};

/// An empty SETTINGS frame, at the beginning of a control stream (RFC 9114 §6.2.1).
const CONTROL_STREAM: &[u8] = &[0x00, 0x04, 0x00];

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) struct QuicReply {
    /// Delay before the response is sent.
    pub(crate) after: Duration,
    /// Bytes of the response, sent on the request's stream.
    pub(crate) bytes: Vec<u8>,
    pub(crate) end: ReplyEnd,
}

/// The server's action after it has sent the bytes of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyEnd {
    /// Ends the stream.
    Finish,
    /// Resets the stream with this HTTP/3 error code.
    Reset(u32),
    /// Leaves the stream open.
    Stall,
    /// Sends these bytes on the control stream, and ends the response's stream.
    Announce(&'static [u8]),
    /// Ends the stream, and refuses to read the client's control stream.
    StopControl,
    /// Ends the stream, and then the control stream.
    EndControl,
    /// Ends the request's stream, and opens another unidirectional stream with these bytes.
    OpenStream(&'static [u8]),
    /// Closes the connection with this HTTP/3 error code.
    Close(u32),
    /// The server loses the state of all connections. When a packet of a lost connection arrives,
    /// the server resets that connection (stateless reset, RFC 9000 §10.3).
    Restart,
    /// The server loses all its state without notifying the client.
    Vanish,
    /// Ends the stream. The server no longer accepts the tickets that it has issued.
    ForgetTickets,
    /// Ends the stream. The server refuses all later connections.
    RefuseConnections,
}

/// A function that returns the response to a request, given the request's number counted from 0.
pub(crate) type QuicScript = Box<dyn FnMut(u64) -> QuicReply>;

/// Counts of the server, for assertions.
#[derive(Debug, Default)]
pub(crate) struct QuicLog {
    /// Number of complete requests.
    pub(crate) requests: u64,
    /// Number of bytes received on request streams.
    pub(crate) request_bytes: u64,
    pub(crate) connections: u64,
    /// Number of handshakes that were completed at the server.
    pub(crate) handshakes: u64,
    /// Number of datagrams that the link lost.
    pub(crate) lost: u64,
    /// HTTP/3 error codes with which the client closed its connections.
    pub(crate) close_codes: Vec<u64>,
}

pub(super) struct QuicServer {
    endpoint: Endpoint,
    connections: BTreeMap<usize, ServedConnection>,
    script: QuicScript,
    requests: u64,
    /// Responses to be sent, ordered by time. Responses due at the same time are in the order of
    /// their requests.
    replies: BinaryHeap<Reverse<(Duration, u64, usize, u64)>>,
    pending: BTreeMap<u64, QuicReply>,
    config: Arc<ServerConfig>,
    /// Settings of the server's endpoint, which contain the key of stateless resets.
    settings: Arc<EndpointConfig>,
    streams: u32,
    /// True if the server resets connections that it doesn't know.
    resets: bool,
    refuses_connections: bool,
    /// Datagrams that refuse or reset connections, each with the client's port.
    responses: Vec<(u16, Vec<u8>, Option<EcnCodepoint>)>,
}

struct ServedConnection {
    connection: Connection,
    port: u16,
    control: Option<StreamId>,
}

impl QuicServer {
    pub(super) fn new(streams: u32, script: QuicScript) -> QuicServer {
        let config = QuicServer::config(streams);
        let mut settings = EndpointConfig::default();
        // With a fixed key, a restarted server recognizes the connection identifiers that it issued
        // earlier.
        settings.cid_generator(|| -> Box<dyn ConnectionIdGenerator> {
            Box::new(HashedConnectionIdGenerator::from_key(7))
        });
        let settings = Arc::new(settings);
        QuicServer {
            endpoint: Endpoint::new(settings.clone(), Some(config.clone()), true, None),
            connections: BTreeMap::new(),
            script,
            requests: 0,
            replies: BinaryHeap::new(),
            pending: BTreeMap::new(),
            config,
            settings,
            streams,
            resets: false,
            refuses_connections: false,
            responses: Vec::new(),
        }
    }

    pub(super) fn set_unidirectional_streams(&mut self, streams: u32) {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams))
            .max_concurrent_uni_streams(VarInt::from_u32(streams))
            .max_idle_timeout(None);
        Arc::make_mut(&mut self.config).transport_config(Arc::new(transport));
        self.endpoint.set_server_config(Some(self.config.clone()));
    }

    pub(super) fn set_idle_timeout(&mut self, time: Duration) {
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(self.streams))
            .max_idle_timeout(Some(time.try_into().unwrap()));
        Arc::make_mut(&mut self.config).transport_config(Arc::new(transport));
        self.endpoint.set_server_config(Some(self.config.clone()));
    }

    /// Creates the settings of a server that has not issued any tickets.
    fn config(streams: u32) -> Arc<ServerConfig> {
        let key = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        let private = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der());
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![key.cert.der().clone()], private.unwrap())
            .unwrap();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        tls.max_early_data_size = u32::MAX;
        let crypto = QuicServerConfig::try_from(tls).unwrap();
        let mut config = ServerConfig::with_crypto(Arc::new(crypto));
        let mut transport = TransportConfig::default();
        transport
            .max_concurrent_bidi_streams(VarInt::from_u32(streams))
            .max_idle_timeout(None);
        config.transport_config(Arc::new(transport));
        Arc::new(config)
    }

    /// Creates the server's endpoint, without connections.
    fn endpoint(&self) -> Endpoint {
        Endpoint::new(self.settings.clone(), Some(self.config.clone()), true, None)
    }

    pub(super) fn next_at(&mut self, epoch: Instant) -> Option<Duration> {
        let timers = self.connections.values_mut();
        let timer = timers
            .filter_map(|served| served.connection.poll_timeout())
            .min()
            .map(|at| at.saturating_duration_since(epoch));
        let reply = self.replies.peek().map(|Reverse((at, ..))| *at);
        timer.into_iter().chain(reply).min()
    }

    pub(super) fn receive(
        &mut self,
        bytes: &[u8],
        port: u16,
        ecn: Option<EcnCodepoint>,
        now: Instant,
        log: &mut QuicLog,
    ) {
        let remote = SocketAddr::from(([127, 0, 0, 1], port));
        let mut out = Vec::new();
        let bytes = BytesMut::from(bytes);
        match self
            .endpoint
            .handle(now, remote, None, ecn, bytes, &mut out)
        {
            Some(DatagramEvent::NewConnection(incoming)) if self.refuses_connections => {
                let mut bytes = Vec::new();
                let refusal = self.endpoint.refuse(incoming, &mut bytes);
                bytes.truncate(refusal.size);
                self.responses.push((port, bytes, refusal.ecn));
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                let accepted = self.endpoint.accept(incoming, now, &mut out, None);
                if let Ok((handle, connection)) = accepted {
                    log.connections += 1;
                    let served = ServedConnection {
                        connection,
                        port,
                        control: None,
                    };
                    self.connections.insert(handle.0, served);
                }
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(served) = self.connections.get_mut(&handle.0) {
                    served.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(response)) if self.resets => {
                out.truncate(response.size);
                self.responses.push((port, out, response.ecn));
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    pub(super) fn expire(&mut self, now: Instant) {
        for served in self.connections.values_mut() {
            if served.connection.poll_timeout().is_some_and(|at| at <= now) {
                served.connection.handle_timeout(now);
            }
        }
    }

    /// Sends the responses that are due.
    pub(super) fn reply(&mut self, clock: Duration, now: Instant) {
        while let Some(&Reverse((at, order, handle, stream))) = self.replies.peek()
            && at <= clock
        {
            self.replies.pop();
            let Some(reply) = self.pending.remove(&order) else {
                continue;
            };
            let Some(served) = self.connections.get_mut(&handle) else {
                continue;
            };
            let id = StreamId::from(VarInt::from_u64(stream).unwrap());
            let mut response = served.connection.send_stream(id);
            let written = response.write(&reply.bytes).unwrap_or(0);
            match reply.end {
                ReplyEnd::Finish => {
                    let _ = response.finish();
                    // Flow-control windows in these tests are larger than the responses.
                    assert!(written == reply.bytes.len() || served.connection.is_closed());
                }
                ReplyEnd::Reset(code) => {
                    let _ = response.reset(VarInt::from_u32(code));
                }
                ReplyEnd::Stall => {}
                ReplyEnd::Announce(bytes) => {
                    let _ = response.finish();
                    if let Some(control) = served.control {
                        let _ = served.connection.send_stream(control).write(bytes);
                    }
                }
                ReplyEnd::EndControl => {
                    let _ = response.finish();
                    if let Some(control) = served.control {
                        let _ = served.connection.send_stream(control).finish();
                    }
                }
                ReplyEnd::OpenStream(bytes) => {
                    let _ = response.finish();
                    if let Some(stream) = served.connection.streams().open(Dir::Uni) {
                        let _ = served.connection.send_stream(stream).write(bytes);
                    }
                }
                ReplyEnd::StopControl => {
                    let _ = response.finish();
                    let control = StreamId::new(Side::Client, Dir::Uni, 0);
                    let mut control = served.connection.recv_stream(control);
                    let _ = control.stop(VarInt::from_u32(0x100));
                }
                ReplyEnd::Close(code) => {
                    let code = VarInt::from_u32(code);
                    served.connection.close(now, code, Bytes::new());
                }
                ReplyEnd::ForgetTickets => {
                    let _ = response.finish();
                    self.config = QuicServer::config(self.streams);
                    self.endpoint.set_server_config(Some(self.config.clone()));
                }
                ReplyEnd::RefuseConnections => {
                    let _ = response.finish();
                    self.refuses_connections = true;
                }
                ReplyEnd::Vanish | ReplyEnd::Restart => {
                    self.connections.clear();
                    self.replies.clear();
                    self.resets = reply.end == ReplyEnd::Restart;
                    if !self.resets {
                        // The new settings have a different reset key, so the client can't
                        // recognize the server's resets.
                        self.settings = Arc::default();
                    }
                    self.endpoint = self.endpoint();
                    return;
                }
            }
        }
    }

    /// Handles the events of all connections. Returns the datagrams to be sent, each with the
    /// client's port.
    pub(super) fn drive(
        &mut self,
        clock: Duration,
        now: Instant,
        log: &mut QuicLog,
    ) -> Vec<(u16, Vec<u8>, Option<EcnCodepoint>)> {
        let mut out = std::mem::take(&mut self.responses);
        let mut ended = Vec::new();
        for (&handle, served) in &mut self.connections {
            let mut complete = Vec::new();
            served.poll(&mut complete, log);
            for stream in complete {
                let reply = (self.script)(self.requests);
                log.requests += 1;
                let due = (clock + reply.after, self.requests, handle, stream);
                self.pending.insert(self.requests, reply);
                self.replies.push(Reverse(due));
                self.requests += 1;
            }
            let mut bytes = Vec::new();
            while let Some(transmit) = served.connection.poll_transmit(now, 1, &mut bytes) {
                out.push((served.port, std::mem::take(&mut bytes), transmit.ecn));
            }
            while let Some(event) = served.connection.poll_endpoint_events() {
                if event.is_drained() {
                    ended.push(handle);
                }
                if let Some(event) = self.endpoint.handle_event(ConnectionHandle(handle), event) {
                    served.connection.handle_event(event);
                }
            }
        }
        for handle in ended {
            self.connections.remove(&handle);
        }
        out
    }
}

impl ServedConnection {
    /// Handles the events of the connection. Adds the streams of complete requests to `complete`.
    fn poll(&mut self, complete: &mut Vec<u64>, log: &mut QuicLog) {
        while let Some(event) = self.connection.poll() {
            match event {
                Event::Connected => {
                    log.handshakes += 1;
                    // A client that closes the connection at once allows no stream.
                    let Some(control) = self.connection.streams().open(Dir::Uni) else {
                        continue;
                    };
                    let mut stream = self.connection.send_stream(control);
                    stream.write(CONTROL_STREAM).unwrap();
                    self.control = Some(control);
                }
                Event::Stream(StreamEvent::Opened { dir }) => {
                    while let Some(stream) = self.connection.streams().accept(dir) {
                        self.read(stream, complete, log);
                    }
                }
                Event::Stream(StreamEvent::Readable { id }) => self.read(id, complete, log),
                Event::ConnectionLost {
                    reason: ConnectionError::ApplicationClosed(close),
                } => log.close_codes.push(close.error_code.into_inner()),
                _ => {}
            }
        }
    }

    fn read(&mut self, stream: StreamId, complete: &mut Vec<u64>, log: &mut QuicLog) {
        let mut received = self.connection.recv_stream(stream);
        let Ok(mut chunks) = received.read(true) else {
            return;
        };
        loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => {
                    if stream.dir() == Dir::Bi {
                        log.request_bytes += chunk.bytes.len() as u64;
                    }
                }
                Ok(None) => {
                    if stream.dir() == Dir::Bi {
                        complete.push(VarInt::from(stream).into_inner());
                    }
                    return;
                }
                Err(_) => return,
            }
        }
    }
}
