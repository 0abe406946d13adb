//! An HTTP/2 server that runs a script on each connection, and records protocol violations by
//! clients.

use std::io;
use std::net::TcpStream;
use std::sync::{Arc, MutexGuard, mpsc};
use std::time::Duration;

use prony_record::{Outcome, Record};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::h2_peer::{ClientRecord, Link, Peer, Shared};
use crate::harness::{Raw, errors, load, outcomes};

/// Time after which a load counts as hung. It is long enough for a busy machine.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);

/// Guard that counts a script as running until it is dropped.
struct Running(Arc<Shared>);

impl Running {
    fn begin(shared: Arc<Shared>) -> Running {
        shared.seen().running += 1;
        Running(shared)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut seen = self.0.seen();
        seen.running -= 1;
        if std::thread::panicking() {
            seen.wrongs
                .push("the script panicked (see the message above)".to_owned());
        }
        self.0.ended.notify_all();
    }
}

/// A server that runs its script on each connection once the client's preface has arrived.
pub(crate) struct Scripted {
    raw: Raw,
    tls: bool,
    shared: Arc<Shared>,
}

impl Scripted {
    /// Starts a cleartext server.
    pub(crate) fn clear(
        script: impl Fn(&mut Peer) -> Option<()> + Send + Sync + 'static,
    ) -> Scripted {
        Scripted::new(false, script, |stream| Ok(Link::Clear(stream)))
    }

    /// Starts a server that sends these bytes after the first request on each connection, and
    /// nothing more.
    pub(crate) fn sending_once(reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Scripted {
        Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            let stream = peer.request()?;
            peer.send(&reply(stream))?;
            peer.read_to_end()
        })
    }

    /// Starts a server that sends these bytes for each request.
    pub(crate) fn responding(reply: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Scripted {
        Scripted::clear(move |peer| {
            peer.send_settings(&[])?;
            loop {
                let stream = peer.request()?;
                peer.send(&reply(stream))?;
            }
        })
    }

    /// Starts a TLS server that has a self-signed certificate and supports these ALPN protocols.
    pub(crate) fn secured(
        protocols: &[&str],
        script: impl Fn(&mut Peer) -> Option<()> + Send + Sync + 'static,
    ) -> Scripted {
        let config = server_config(protocols);
        Scripted::new(true, script, move |mut stream| {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            while connection.is_handshaking() {
                connection.complete_io(&mut stream)?;
            }
            let stream = StreamOwned::new(connection, stream);
            Ok(Link::Secured(Box::new(stream)))
        })
    }

    fn new(
        tls: bool,
        script: impl Fn(&mut Peer) -> Option<()> + Send + Sync + 'static,
        link: impl Fn(TcpStream) -> io::Result<Link> + Send + Sync + 'static,
    ) -> Scripted {
        let shared = Arc::<Shared>::default();
        let of_all = shared.clone();
        let raw = Raw::new(move |stream| {
            let _running = Running::begin(of_all.clone());
            stream.set_nodelay(true).unwrap();
            let peer = link(stream)
                .ok()
                .and_then(|link| Peer::accept(link, of_all.clone()));
            if let Some(mut peer) = peer {
                let _ = script(&mut peer);
            }
        });
        Scripted { raw, tls, shared }
    }

    /// Runs an HTTP/2 load until all scripts have ended, and asserts that the client broke no rule.
    pub(crate) fn load(&self, words: &str) -> Record {
        let record = if self.tls {
            load_h2(&self.raw.tls_url(), &format!("{words} --insecure"))
        } else {
            load_h2(&self.raw.url(), words)
        };
        let (seen, waited) = self
            .shared
            .ended
            .wait_timeout_while(self.seen(), HANG_TIMEOUT, |seen| seen.running > 0)
            .unwrap();
        assert!(
            !waited.timed_out(),
            "{words}: a connection outlives its load"
        );
        assert!(seen.wrongs.is_empty(), "{words}: {:?}", seen.wrongs);
        record
    }

    pub(crate) fn url(&self) -> String {
        self.raw.url()
    }

    pub(crate) fn tls_url(&self) -> String {
        self.raw.tls_url()
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, ClientRecord> {
        self.shared.seen()
    }
}

/// Runs an HTTP/2 load, and asserts that it ends and accounts for every request.
pub(crate) fn load_h2(url: &str, words: &str) -> Record {
    let (sender, receiver) = mpsc::channel();
    let (url, all) = (url.to_owned(), format!("--http 2 {words}"));
    std::thread::spawn(move || sender.send(Box::new(load(&url, &all))));
    let record = match receiver.recv_timeout(HANG_TIMEOUT) {
        Ok(record) => *record,
        Err(why) => panic!("{words}: the load hangs or panicked: {why}"),
    };
    let totals = &record.totals;
    let accounted = totals.ok + totals.failed + totals.unfinished;
    assert_eq!(totals.started, accounted, "{words}: {totals:?}");
    let outcomes: u64 = record.outcomes.values().sum();
    assert_eq!(
        outcomes,
        accounted + totals.unstarted,
        "{words}: {totals:?}"
    );
    record
}

/// Asserts these outcomes, and an error text that contains `reason`. Alternatives in `reason` are
/// separated by `|`.
pub(crate) fn expect(record: &Record, expected: &[(Outcome, u64)], reason: &str) {
    let errors = errors(record);
    assert_eq!(outcomes(record), expected, "{reason}: {errors}");
    let is_reported = reason.split('|').any(|reason| errors.contains(reason));
    assert!(is_reported, "{reason}: {errors}");
}

/// Asserts that all requests of a load ended with this outcome.
pub(crate) fn expect_all(record: &Record, outcome: Outcome, reason: &str) {
    expect(record, &[(outcome, record.load.requests.unwrap())], reason);
}

/// Asserts that all requests of a load succeeded over HTTP/2.
pub(crate) fn expect_fine(record: &Record) {
    let n = record.load.requests.unwrap();
    expect(record, &[(Outcome::Ok, n)], "");
    assert_eq!(record.negotiated.http.as_deref(), Some("2"));
}

fn server_config(protocols: &[&str]) -> Arc<ServerConfig> {
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| (*name).into()).collect();
    Arc::new(config)
}
