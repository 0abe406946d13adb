//! The QUIC endpoints of one thread.

use std::future::pending;
use std::io;
use std::net::UdpSocket;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use h3::error::Code;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{
    Endpoint, EndpointConfig, Incoming, MtuDiscoveryConfig, TokioRuntime, TransportConfig, VarInt,
};

use super::connection::serve;
use super::transport::varint;
use crate::config::AcceptFault;
use crate::connection::{CONCURRENT_STREAMS_MAX, ThreadContext};

/// Time without a packet from the client, in milliseconds, after which a connection is dropped
/// silently.
const IDLE_TIMEOUT: VarInt = VarInt::from_u32(60_000);

/// Maximum number of request body bytes in flight: per stream, and per connection.
const STREAM_WINDOW_BYTES: VarInt = VarInt::from_u32(1 << 20);
const CONNECTION_WINDOW_BYTES: VarInt = VarInt::from_u32(16 << 20);

/// Maximum size in bytes of the datagrams that the origin tries to send. The loopback interface
/// supports this size. quinn passes ten datagrams to one system call, which accepts at most 65,507
/// bytes.
const DATAGRAM_BYTES_MAX: u16 = 6_500;

/// Time for which the origin remembers an ignored handshake.
const IGNORED_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum time for sending the packets that close the connections when an origin stops.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// Returns the QUIC settings of all threads.
pub(crate) fn server_config(tls: Arc<QuicServerConfig>) -> quinn::ServerConfig {
    let mut discovery = MtuDiscoveryConfig::default();
    discovery.upper_bound(DATAGRAM_BYTES_MAX);
    let mut transport = TransportConfig::default();
    transport
        .max_idle_timeout(Some(IDLE_TIMEOUT.into()))
        .max_concurrent_bidi_streams(CONCURRENT_STREAMS_MAX.into())
        .stream_receive_window(STREAM_WINDOW_BYTES)
        .receive_window(CONNECTION_WINDOW_BYTES)
        .mtu_discovery_config(Some(discovery));
    let mut config = quinn::ServerConfig::with_crypto(tls);
    config.transport_config(Arc::new(transport));
    config
}

/// Starts to accept connections on a UDP socket. Returns the endpoint, or `None` if the fault
/// requires that datagrams are never read.
pub(crate) fn start(
    socket: UdpSocket,
    config: quinn::ServerConfig,
    fault: Option<AcceptFault>,
    context: &Rc<ThreadContext>,
) -> io::Result<Option<Endpoint>> {
    if fault == Some(AcceptFault::Never) {
        tokio::task::spawn_local(async move {
            // This variable keeps the port bound.
            let _socket = socket;
            pending::<()>().await;
        });
        return Ok(None);
    }
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), socket, runtime)?;
    tokio::task::spawn_local(accept(endpoint.clone(), fault, Rc::clone(context)));
    Ok(Some(endpoint))
}

/// Closes all connections of the endpoints, so that clients needn't wait for their idle timeout to
/// notice the end.
pub(crate) async fn stop(endpoints: Vec<Endpoint>) {
    for endpoint in &endpoints {
        endpoint.close(varint(Code::H3_NO_ERROR.value()), b"the origin stops");
    }
    let closed = async {
        for endpoint in &endpoints {
            endpoint.wait_idle().await;
        }
    };
    // After a timeout, all packets have been sent, but some might not have arrived.
    let _ = tokio::time::timeout(STOP_TIMEOUT, closed).await;
}

async fn accept(endpoint: Endpoint, fault: Option<AcceptFault>, context: Rc<ThreadContext>) {
    while let Some(incoming) = endpoint.accept().await {
        context.counters.connections.fetch_add(1, Ordering::Relaxed);
        tokio::task::spawn_local(welcome(incoming, fault, Rc::clone(&context)));
    }
}

async fn welcome(incoming: Incoming, fault: Option<AcceptFault>, context: Rc<ThreadContext>) {
    match fault {
        None => {
            // This fails if the client's first packet is invalid, or if the client has left.
            if let Ok(connecting) = incoming.accept() {
                serve(connecting, context).await;
            }
        }
        Some(AcceptFault::Reset) => incoming.refuse(),
        Some(AcceptFault::Close) => {
            if let Ok(connecting) = incoming.accept()
                && let Ok(connection) = connecting.await
            {
                connection.close(varint(Code::H3_NO_ERROR.value()), b"");
            }
        }
        Some(AcceptFault::Ignore | AcceptFault::Never) => {
            // While the handshake is remembered, its repeated packets don't count as new
            // connections.
            tokio::time::sleep(IGNORED_HANDSHAKE_TIMEOUT).await;
            incoming.ignore();
        }
    }
}
