//! Blocking test clients.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use prony_origin::{Config, Origin, Tls};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

/// Timeout that is reached only if a test hangs.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Time without received bytes after which the server is assumed to send nothing more.
const SILENCE: Duration = Duration::from_millis(150);

/// Transport over which a client connects to an origin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via {
    Tcp,
    Unix,
    Tls,
    TlsOverUnix,
}

pub(crate) const EVERY_WAY: [Via; 4] = [Via::Tcp, Via::Unix, Via::Tls, Via::TlsOverUnix];

impl Via {
    pub(crate) fn is_tls(self) -> bool {
        matches!(self, Self::Tls | Self::TlsOverUnix)
    }
}

/// An origin that listens on an IPv4 port and on a UNIX path. The folder of the path is removed
/// when this value is dropped.
pub(crate) struct Running {
    pub(crate) origin: Origin,
    _folder: TempDir,
}

pub(crate) fn start(config: Config) -> Running {
    let folder = tempfile::tempdir().unwrap();
    let path: PathBuf = folder.path().join("o.sock");
    let listen = vec!["127.0.0.1:0".parse().unwrap()];
    let origin = Origin::start(Config {
        listen,
        unix: vec![path],
        ..config
    })
    .unwrap();
    Running {
        origin,
        _folder: folder,
    }
}

pub(crate) fn clear() -> Running {
    start(Config::default())
}

pub(crate) fn with_tls() -> Running {
    start(Config {
        tls: Some(Tls::Generated),
        ..Config::default()
    })
}

/// Starts an origin, with TLS if the transport uses it.
pub(crate) fn start_for(via: Via) -> Running {
    if via.is_tls() { with_tls() } else { clear() }
}

/// A connection that a client reads and writes.
pub(crate) trait Wire: Read + Write {
    fn set_timeout(&self, timeout: Duration);
}

impl Wire for TcpStream {
    fn set_timeout(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }
}

impl Wire for UnixStream {
    fn set_timeout(&self, timeout: Duration) {
        self.set_read_timeout(Some(timeout)).unwrap();
    }
}

impl<S: Wire> Wire for StreamOwned<ClientConnection, S> {
    fn set_timeout(&self, timeout: Duration) {
        self.sock.set_timeout(timeout);
    }
}

/// The way in which a connection ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The server closed the connection in an orderly way.
    Closed,
    /// The server reset the connection.
    Reset,
    /// TLS ended without `close_notify`.
    Cut,
    /// The server keeps the connection open without sending anything.
    Silent,
}

/// A client that reads and writes raw bytes.
pub(crate) struct Client {
    wire: Box<dyn Wire>,
}

/// A response with `Content-Length`, or without a body.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (this, value) = line.split_once(':')?;
            this.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }
}

impl Client {
    pub(crate) fn connect(running: &Running, via: Via) -> Self {
        let origin = &running.origin;
        let tcp = || TcpStream::connect(origin.addresses()[0]).unwrap();
        let unix = || UnixStream::connect(&origin.unix_paths()[0]).unwrap();
        let wire: Box<dyn Wire> = match via {
            Via::Tcp => Box::new(tcp()),
            Via::Unix => Box::new(unix()),
            Via::Tls => Box::new(StreamOwned::new(tls_session(origin), tcp())),
            Via::TlsOverUnix => Box::new(StreamOwned::new(tls_session(origin), unix())),
        };
        wire.set_timeout(TEST_TIMEOUT);
        Self { wire }
    }

    pub(crate) fn over(wire: impl Wire + 'static) -> Self {
        wire.set_timeout(TEST_TIMEOUT);
        Self {
            wire: Box::new(wire),
        }
    }

    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.wire.write_all(bytes.as_ref()).unwrap();
        self.wire.flush().unwrap();
    }

    /// Sends a GET request and reads its response.
    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(get(path));
        self.response()
    }

    /// Reads a response head, and as many body bytes as its Content-Length declares.
    pub(crate) fn response(&mut self) -> Response {
        let head = self.head();
        let mut response = Response {
            status: head[9..12].parse().unwrap(),
            head,
            body: Vec::new(),
        };
        let length = response
            .header("content-length")
            .map_or(0, |value| value.parse().unwrap());
        response.body = self.exactly(length);
        response
    }

    /// Reads a response head, up to the empty line that ends it.
    pub(crate) fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.extend(self.exactly(1));
        }
        String::from_utf8(head).unwrap()
    }

    pub(crate) fn exactly(&mut self, size: usize) -> Vec<u8> {
        let mut bytes = vec![0; size];
        self.wire.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads until the connection ends. Returns the bytes and the way in which the connection
    /// ended.
    pub(crate) fn rest(&mut self) -> (Vec<u8>, End) {
        let mut bytes = Vec::new();
        // Bytes received before an error stay in `bytes`.
        let end = match self.wire.read_to_end(&mut bytes) {
            Ok(_) => End::Closed,
            Err(error) => match error.kind() {
                io::ErrorKind::ConnectionReset => End::Reset,
                io::ErrorKind::UnexpectedEof => End::Cut,
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => End::Silent,
                other => panic!("unexpected end: {other}"),
            },
        };
        (bytes, end)
    }

    /// Like [`Client::rest`], but for a server that stops sending without closing the connection.
    pub(crate) fn rest_until_silence(&mut self) -> (Vec<u8>, End) {
        self.wire.set_timeout(SILENCE);
        let seen = self.rest();
        self.wire.set_timeout(TEST_TIMEOUT);
        seen
    }
}

pub(crate) fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: origin\r\n\r\n")
}

fn tls_session(origin: &Origin) -> ClientConnection {
    let name = ServerName::try_from("localhost").unwrap();
    ClientConnection::new(Arc::new(trusting(origin)), name).unwrap()
}

/// Returns the configuration of a TLS client that trusts only this origin's certificate.
pub(crate) fn trusting(origin: &Origin) -> ClientConfig {
    let pem = origin.certificate_pem().expect("the origin has TLS");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(pem.as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}
