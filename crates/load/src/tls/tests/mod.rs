//! The client's TLS against rustls's server, both in memory.

mod exchange;
mod forged;
mod sessions;

use std::io::{Read, Write};
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::{Buffers, Client, Event, Settings, Tls};
use crate::options::LoadOptions;

/// What the server's certificate is for.
const NAME: &str = "localhost";

fn name() -> ServerName<'static> {
    ServerName::try_from(NAME).unwrap()
}

/// A client for so many connections, of the flags `--insecure` and these.
fn client(words: &str, connections: usize) -> Client {
    let options = LoadOptions::typed(&format!("--insecure {words}"));
    Settings::resolve(&options).unwrap().client(connections)
}

/// The settings of a server that speaks these versions.
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

/// A client and a server with a wire between them that cuts what the server says into pieces.
struct Pair {
    client: Tls,
    server: ServerConnection,
    buffers: Buffers,
    /// Bytes that the client is given at a time.
    piece: usize,
    /// What the server has received, and the client.
    heard: Vec<u8>,
    received: Vec<u8>,
    /// How often the client was told that it may begin.
    secured: u32,
    /// Flights that the client sent.
    flights: u32,
}

impl Pair {
    fn new(client: &Client, server: &Arc<ServerConfig>, piece: usize) -> Pair {
        Pair {
            client: Tls::new(client, &name()).unwrap(),
            server: ServerConnection::new(server.clone()).unwrap(),
            buffers: Buffers::default(),
            piece,
            heard: Vec::new(),
            received: Vec::new(),
            secured: 0,
            flights: 0,
        }
    }

    /// Hands the client bytes; stops at the first error.
    fn give(&mut self, bytes: &[u8]) -> Result<(), rustls::Error> {
        for mut piece in bytes.chunks(self.piece) {
            loop {
                match self.client.receive(&mut piece, &mut self.buffers)? {
                    Event::NeedMore => break,
                    Event::Secured { early } => {
                        assert!(early.is_empty(), "data before the handshake was done");
                        self.secured += 1;
                    }
                    Event::Plain(plain) => self.received.extend_from_slice(plain),
                }
            }
            assert!(piece.is_empty());
        }
        Ok(())
    }

    /// The client sends what it has to say, and these plain bytes; gives how much that is sealed.
    fn send(&mut self, plain: &[u8]) -> usize {
        let mut out = Vec::new();
        self.client.take_out(plain, &mut out);
        self.flights += u32::from(!out.is_empty());
        let mut rest = &out[..];
        while !rest.is_empty() {
            self.server.read_tls(&mut rest).unwrap();
            let state = self.server.process_new_packets().unwrap();
            let start = self.heard.len();
            self.heard
                .resize(start + state.plaintext_bytes_to_read(), 0);
            let mut reader = self.server.reader();
            reader.read_exact(&mut self.heard[start..]).unwrap();
        }
        out.len()
    }

    /// All that the server has to send.
    fn answer(&mut self) -> Vec<u8> {
        let mut back = Vec::new();
        while self.server.wants_write() {
            self.server.write_tls(&mut back).unwrap();
        }
        back
    }

    /// Lets both talk until the client may begin; its last flight is not yet sent.
    fn handshake(&mut self) {
        for _ in 0..4 {
            self.send(b"");
            let back = self.answer();
            self.give(&back).unwrap();
            if self.secured == 1 {
                return;
            }
        }
        panic!("no handshake came about");
    }

    fn server_says(&mut self, plain: &[u8]) {
        self.server.set_buffer_limit(None);
        self.server.writer().write_all(plain).unwrap();
    }

    /// What the server has received since it was last asked.
    fn server_heard(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.heard)
    }
}
