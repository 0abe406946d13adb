//! The QUIC settings of a worker's connections.

use std::sync::Arc;

use quinn_proto::{
    ClientConfig, ConnectionIdGenerator, EndpointConfig, RandomConnectionIdGenerator,
    TransportConfig, VarInt,
};
use rustls::quic::Suite;

use super::session::SessionFactory;
use crate::tls::TlsClient;

/// Number of response bytes that the server may send on a stream before the load has read them. The
/// load reads bytes as soon as they arrive, so the window only has to cover a round trip.
const STREAM_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Number of response bytes that the server may send on all streams of a connection before the load
/// has read them. This limit bounds the memory for data that arrives out of order.
const CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Number of unidirectional streams that the server may have open: its control stream, two for
/// QPACK (RFC 9114 §6.2), and a few more for stream types that prony ignores.
const SERVER_STREAMS_MAX: u32 = 16;

/// Largest UDP payload that QUIC permits (RFC 9000 §18.2). Receive buffers have room for a datagram
/// of any size.
const PAYLOAD_BYTES_MAX: u16 = 65_527;

/// The QUIC settings of one worker, with its own TLS sessions.
#[derive(Clone)]
pub(crate) struct QuicClient {
    pub(super) endpoint: Arc<EndpointConfig>,
    pub(super) client: ClientConfig,
}

impl QuicClient {
    /// Creates the QUIC settings. Returns `None` if the TLS library lacks the cipher suite that
    /// QUIC begins with (RFC 9001 §5.2).
    pub(crate) fn new(tls: &TlsClient) -> Option<QuicClient> {
        let config = tls.config.clone();
        let factory = SessionFactory::new(config, initial_suite()?);
        let mut client = ClientConfig::new(Arc::new(factory));
        client.transport_config(Arc::new(transport()));
        let mut endpoint = EndpointConfig::default();
        // By default, datagrams are limited to the payload of Ethernet. Paths with a larger MTU
        // need fewer packets.
        endpoint.max_udp_payload_size(PAYLOAD_BYTES_MAX).ok()?;
        // Each connection has its own socket, so packets to the client need no connection
        // identifier.
        endpoint.cid_generator(|| -> Box<dyn ConnectionIdGenerator> {
            Box::new(RandomConnectionIdGenerator::new(0))
        });
        Some(QuicClient {
            endpoint: Arc::new(endpoint),
            client,
        })
    }
}

/// Returns TLS_AES_128_GCM_SHA256, which protects Initial packets regardless of the negotiated
/// suite.
fn initial_suite() -> Option<Suite> {
    let suite = rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
    suite.tls13()?.quic_suite()
}

fn transport() -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(SERVER_STREAMS_MAX))
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW_BYTES))
        // Requests are short, so streams don't need to take turns in sending.
        .send_fairness(false)
        // Only the server's idle timeout applies. Requests have their own timeouts.
        .max_idle_timeout(None)
        .datagram_receive_buffer_size(None);
    transport
}
