//! Functions that run loads described by flags, and servers for these loads.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use prony_load::{Control, LoadSettings, LoadSpec, SpecError, run};
use prony_origin::{Config, Origin, Tls};
use prony_record::{FindingId, Outcome, Record};

#[path = "../flags/mod.rs"]
mod flags;

/// Environment variable that selects the readiness backend for these tests.
pub(crate) const READINESS: &str = "PRONY_TEST_READINESS";

/// The backend that these tests use, as a value of `--io`.
pub(crate) fn io() -> &'static str {
    if std::env::var_os(READINESS).is_some() {
        "poll"
    } else {
        "uring"
    }
}

/// Parses flags into settings, with one worker unless the flags give a number.
pub(crate) fn options(words: &[&str]) -> LoadSettings {
    let mut text = Vec::new();
    if !words.contains(&"-t") {
        text.extend(["-t", "1"]);
    }
    if !words.contains(&"--io") {
        text.extend(["--io", io()]);
    }
    text.extend(words);
    serde_json::from_value(flags::settings(text)).unwrap()
}

pub(crate) fn resolve(url: &str, words: &[&str]) -> Result<LoadSpec, SpecError> {
    options(words).resolve(Some(url))
}

/// Runs a load with flags that are separated by spaces.
pub(crate) fn load(url: &str, words: &str) -> Record {
    load_with(url, &words.split_whitespace().collect::<Vec<_>>())
}

pub(crate) fn load_with(url: &str, words: &[&str]) -> Record {
    let spec = resolve(url, words).unwrap();
    run(&spec, &Control::new(1)).unwrap()
}

/// Returns every outcome that occurred, with its count.
pub(crate) fn outcomes(record: &Record) -> Vec<(Outcome, u64)> {
    record.outcomes.clone().into_iter().collect()
}

/// Returns the text of the finding `errors`.
pub(crate) fn errors(record: &Record) -> &str {
    let found = record.findings.iter().find(|f| f.id == FindingId::Errors);
    found.map_or("", |finding| &finding.text)
}

/// Transport of the connections to the origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Via {
    Tcp,
    Unix,
    Tls,
    UnixTls,
}

/// An origin on TCP and on a UNIX socket, in cleartext or over TLS.
pub(crate) struct Served {
    pub(crate) origin: Origin,
    pub(crate) folder: tempfile::TempDir,
    tls: bool,
}

impl Served {
    pub(crate) fn clear() -> Served {
        Served::with(Config::default())
    }

    pub(crate) fn secured() -> Served {
        Served::with(Config {
            tls: Some(Tls::Generated),
            ..Config::default()
        })
    }

    /// Starts an origin. It uses TLS if `via` does.
    pub(crate) fn via(via: Via) -> Served {
        match via {
            Via::Tcp | Via::Unix => Served::clear(),
            Via::Tls | Via::UnixTls => Served::secured(),
        }
    }

    pub(crate) fn with(config: Config) -> Served {
        let folder = tempfile::tempdir().unwrap();
        let tls = config.tls.is_some();
        let origin = Origin::start(Config {
            listen: vec!["127.0.0.1:0".parse().unwrap()],
            unix: vec![folder.path().join("socket")],
            ..config
        });
        let origin = origin.unwrap();
        if let Some(pem) = origin.certificate_pem() {
            std::fs::write(folder.path().join("ca.pem"), pem).unwrap();
        }
        Served {
            origin,
            folder,
            tls,
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{path}", self.origin.addresses()[0])
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Runs a load against `path` on the origin. Uses HTTP/1.1 unless the flags request another
    /// version. The origin's certificate is trusted.
    pub(crate) fn load(&self, via: Via, path: &str, words: &str) -> Record {
        let (socket, ca) = (self.origin.unix_paths()[0].clone(), self.ca());
        let mut all: Vec<&str> = words.split_whitespace().collect();
        if matches!(via, Via::Unix | Via::UnixTls) {
            all.extend(["--unix", text(&socket)]);
        }
        if self.tls && !all.contains(&"--insecure") {
            all.extend(["--ca", text(&ca)]);
        }
        if self.tls && !all.contains(&"--http") {
            all.extend(["--http", "1.1"]);
        }
        load_with(&self.url(path), &all)
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// A TCP server that runs a function for each of its connections on a separate thread.
pub(crate) struct Raw {
    address: SocketAddr,
    stopped: Arc<AtomicBool>,
    accepting: Option<JoinHandle<()>>,
}

impl Raw {
    pub(crate) fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Raw {
        Raw::on("127.0.0.1:0", serve)
    }

    /// Starts the server on the address `listen`.
    pub(crate) fn on(listen: &str, serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Raw {
        let listener = TcpListener::bind(listen).unwrap();
        let address = listener.local_addr().unwrap();
        let stopped = Arc::new(AtomicBool::new(false));
        let (seen, serve) = (stopped.clone(), Arc::new(serve));
        let accepting = std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                let serve = serve.clone();
                std::thread::spawn(move || serve(stream));
            }
        });
        Raw {
            address,
            stopped,
            accepting: Some(accepting),
        }
    }

    /// Starts a server that responds to each request with these pieces, one per write.
    pub(crate) fn responding(pieces: Vec<&'static [u8]>) -> Raw {
        Raw::new(move |mut stream| {
            stream.set_nodelay(true).unwrap();
            while read_head(&mut stream).is_some() {
                for piece in &pieces {
                    if stream.write_all(piece).is_err() {
                        return;
                    }
                }
            }
        })
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn tls_url(&self) -> String {
        format!("https://{}/", self.address)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_secs(5));
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
    }
}

/// Reads up to the end of a request's head; `None` if the client has closed the connection.
pub(crate) fn read_head(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return None,
        }
    }
    Some(head)
}

/// Waits until the client closes the connection.
pub(crate) fn until_gone(stream: &mut TcpStream) {
    let mut dropped = [0; 4096];
    while let Ok(1..) = stream.read(&mut dropped) {}
}

/// Returns a loopback port on which nothing listens, and a bound socket. Nothing can listen on the
/// port while the socket exists.
pub(crate) fn vacant_port() -> (u16, socket2::Socket) {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
    socket.bind(&any.into()).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    (address.port(), socket)
}
