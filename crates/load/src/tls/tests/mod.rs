//! Tests the client's TLS against rustls's server, both in memory.

mod exchange;
mod forged;
mod sessions;

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::{Tls, TlsBuffers, TlsClient, TlsEvent, TlsSettings};
use crate::settings::LoadSettings;

/// Host name in the server's certificate.
const NAME: &str = "localhost";

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).unwrap()
}

/// Creates a client for `connections` connections, with `--insecure` and the flags in `words`.
fn client(words: &str, connections: usize) -> TlsClient {
    let settings = LoadSettings::from_flags(&format!("--insecure {words}"));
    TlsSettings::resolve(&settings).unwrap().client(connections)
}

/// Configuration of a server with these versions.
fn server_config(versions: &[&'static SupportedProtocolVersion]) -> ServerConfig {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

fn server() -> Arc<ServerConfig> {
    Arc::new(server_config(rustls::DEFAULT_VERSIONS))
}

/// A client and a server. The connection between them splits the server's output into pieces.
struct Pair {
    client: Tls,
    server: ServerConnection,
    buffers: TlsBuffers,
    /// Number of bytes passed to the client at a time.
    piece: usize,
    /// Data received by the server and by the client.
    server_received: Vec<u8>,
    received: Vec<u8>,
    /// Number of `Secured` events of the client.
    secured: u32,
    /// Number of flights sent by the client.
    flights: u32,
}

impl Pair {
    fn new(client: &TlsClient, server: &Arc<ServerConfig>, piece: usize) -> Pair {
        Pair {
            client: Tls::new(client, &name()).unwrap(),
            server: ServerConnection::new(server.clone()).unwrap(),
            buffers: TlsBuffers::default(),
            piece,
            server_received: Vec::new(),
            received: Vec::new(),
            secured: 0,
            flights: 0,
        }
    }

    /// Passes bytes to the client until the first error.
    fn give(&mut self, bytes: &[u8]) -> Result<(), rustls::Error> {
        for mut piece in bytes.chunks(self.piece) {
            loop {
                match self.client.receive(&mut piece, &mut self.buffers)? {
                    TlsEvent::NeedMore => break,
                    TlsEvent::Secured { early } => {
                        assert!(early.is_empty(), "data before the handshake was done");
                        self.secured += 1;
                    }
                    TlsEvent::Plain(plain) => self.received.extend_from_slice(plain),
                }
            }
            assert!(piece.is_empty());
        }
        Ok(())
    }

    /// Sends the client's output with these plaintext bytes; returns the encrypted size.
    fn send(&mut self, plain: &[u8]) -> usize {
        let mut out = Vec::new();
        self.client.take_out(plain, &mut out);
        self.flights += u32::from(!out.is_empty());
        let mut rest = &out[..];
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            let state = self.server.process_new_packets().unwrap();
            let start = self.server_received.len();
            self.server_received
                .resize(start + state.plaintext_bytes_to_read(), 0);
            let mut reader = self.server.reader();
            reader
                .read_exact(&mut self.server_received[start..])
                .unwrap();
        }
        out.len()
    }

    /// Output of the server.
    fn response(&mut self) -> Vec<u8> {
        let mut back = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut back).unwrap();
        }
        back
    }

    /// Runs the handshake until the client may send; its last flight is still unsent.
    fn handshake(&mut self) {
        for _ in 0..4 {
            self.send(b"");
            let back = self.response();
            self.give(&back).unwrap();
            if self.secured == 1 {
                return;
            }
        }
        panic!("the handshake did not complete");
    }

    fn server_says(&mut self, plain: &[u8]) {
        self.server.set_buffer_limit(None);
        self.server.writer().write_all(plain).unwrap();
    }

    /// Data received by the server since the last call.
    fn take_server_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.server_received)
    }
}
