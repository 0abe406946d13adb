//! HTTP/2 over TLS, where the handshake selects the protocol and may contain the first frames.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::sync::Arc;

use prony_record::{FindingId, Nanos, Outcome};
use rustls::crypto::aws_lc_rs;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion};

use super::server::{NO_ERROR, goaway, limit, settings};
use super::*;
use crate::request::Request;
use crate::request::script::UserStep;

/// A scripted server for HTTP/1.1 and HTTP/2 behind rustls.
pub(super) struct TlsServer {
    /// Returns the TLS configuration for a connection, given its index.
    config: Box<dyn Fn(u64) -> Arc<ServerConfig>>,
    /// Bytes that the server sends as early as possible, in the flight that completes its
    /// handshake.
    early: Vec<u8>,
    one: Box<dyn Server>,
    two: ScriptedH2Server,
    links: HashMap<u64, ServerConnection>,
}

pub(super) fn config(
    version: &'static SupportedProtocolVersion,
    protocols: &[&[u8]],
) -> Arc<ServerConfig> {
    let key = rcgen::KeyPair::generate().unwrap();
    let parameters = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[version])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key.into())
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    config.send_half_rtt_data = true;
    Arc::new(config)
}

impl TlsServer {
    pub(super) fn new(
        config: impl Fn(u64) -> Arc<ServerConfig> + 'static,
        two: ScriptedH2Server,
    ) -> TlsServer {
        TlsServer {
            config: Box::new(config),
            early: Vec::new(),
            one: super::super::steady(ms(10), super::super::OK),
            two,
            links: HashMap::new(),
        }
    }

    /// Replaces the server for HTTP/1.1.
    fn with_one(mut self, one: Box<dyn Server>) -> TlsServer {
        self.one = one;
        self
    }

    pub(super) fn with_early(mut self, early: Vec<u8>) -> TlsServer {
        self.early = early;
        self
    }
}

impl Server for TlsServer {
    fn connect(&mut self, now: Nanos) -> Connect {
        self.two.connect(now)
    }

    fn greet(&mut self, connection: u64) -> Steps {
        let mut tls = ServerConnection::new((self.config)(connection)).unwrap();
        tls.writer().write_all(&self.early).unwrap();
        self.links.insert(connection, tls);
        Vec::new()
    }

    fn sealed(&mut self, connection: u64, bytes: Vec<u8>) -> Vec<u8> {
        let tls = self.links.get_mut(&connection).unwrap();
        tls.writer().write_all(&bytes).unwrap();
        let mut sealed = Vec::new();
        while tls.wants_write() {
            tls.write_tls(&mut sealed).unwrap();
        }
        sealed
    }

    fn response(&mut self, request: &ReceivedRequest) -> Reply {
        let tls = self.links.get_mut(&request.connection).unwrap();
        let mut unread = &request.bytes[..];
        let mut plain = Vec::new();
        while !unread.is_empty() {
            tls.read_tls(&mut unread).unwrap();
            let Ok(state) = tls.process_new_packets() else {
                // The server sends an alert and closes the connection.
                let mut steps = after(Nanos::ZERO, []);
                steps.push((Nanos::ZERO, Step::Close));
                return Reply {
                    steps,
                    ..Reply::default()
                };
            };
            let start = plain.len();
            plain.resize(start + state.plaintext_bytes_to_read(), 0);
            tls.reader().read_exact(&mut plain[start..]).unwrap();
        }
        // If TLS has bytes of the handshake to send, an empty step makes the server send them.
        let mut steps = if tls.wants_write() {
            after(Nanos::ZERO, [])
        } else {
            Vec::new()
        };
        if !plain.is_empty() {
            let is_two = tls.alpn_protocol() == Some(b"h2");
            let request = ReceivedRequest {
                bytes: plain,
                ..*request
            };
            let reply = if is_two {
                self.two.response(&request)
            } else {
                self.one.response(&request)
            };
            steps.extend(reply.steps);
        }
        Reply {
            steps,
            ..Reply::default()
        }
    }
}

pub(super) fn spec(words: &str) -> LoadSpec {
    let words = format!("--threads 1 --insecure {words}");
    let url = Some("https://127.0.0.1:1/");
    LoadSettings::from_flags(&words).resolve(url).unwrap()
}

fn load(words: &str, server: TlsServer) -> Outcomes {
    simulate(&spec(words), vec![Box::new(server)])
}

#[test]
fn a_load_over_tls_uses_every_stream() {
    for version in [&TLS12, &TLS13] {
        let config = config(version, &[b"h2", b"http/1.1"]);
        let two = steady(ms(10)).connecting(|_| Connect::Accept(ms(3)));
        let seen = two.seen();
        let server = TlsServer::new(move |_| config.clone(), two);
        let outcomes = load("-c 2 --streams 4 -n 80", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 80)]);
        let record = &outcomes.record;
        assert_eq!(record.negotiated.http.as_deref(), Some("2"));
        assert_eq!(record.totals.tls_handshakes, 2);
        assert!((0..10).all(|round| seen.borrow().at(ms(3 + 10 * round)) == 8));
        assert_us(record.response_time_us.max, 13_000);
        assert_us(record.response_time_us.p90, 10_000);
        assert_eq!(record.totals.elapsed_s, 0.103);
    }
}

#[test]
fn settings_may_arrive_with_the_end_of_the_handshake() {
    for version in [&TLS12, &TLS13] {
        let config = config(version, &[b"h2"]);
        let two = steady(ms(10)).greeting(|_| Vec::new());
        let seen = two.seen();
        let server = TlsServer::new(move |_| config.clone(), two).with_early(limit(3));
        let outcomes = load("--http 2 -c 1 --streams 8 -n 60", server);
        assert_eq!(outcomes.all(), [(Outcome::Ok, 60)]);
        assert!((0..20).all(|round| seen.borrow().at(ms(10 * round)) == 3));
        assert_us(outcomes.record.response_time_us.max, 10_000);
        assert!(has_finding(&outcomes, "streams-limited"));
    }
}

#[test]
fn a_server_may_allow_no_stream_from_the_start() {
    for version in [&TLS12, &TLS13] {
        let config = config(version, &[b"h2"]);
        let two = steady(ms(10)).greeting(|_| Vec::new());
        let server = TlsServer::new(move |_| config.clone(), two).with_early(limit(0));
        let outcomes = load("-c 1 --streams 8 -n 10 --timeout 100ms", server);
        assert_eq!(outcomes.all(), [(Outcome::Timeout, 10)]);
        assert_eq!(outcomes.record.negotiated.http.as_deref(), Some("2"));
        assert_eq!(outcomes.connects(), 1);
        assert_eq!(outcomes.record.totals.elapsed_s, 1.0);
    }
}

#[test]
fn a_server_may_send_goaway_from_the_start() {
    for version in [&TLS12, &TLS13] {
        for words in [
            "-c 2 --streams 8 -n 20",
            "-c 2 -n 20",
            "-c 2 --no-keepalive -n 20",
            "-c 2 --streams 8 -r 1000 -n 20",
        ] {
            let config = config(version, &[b"h2"]);
            let two = steady(ms(10)).greeting(|_| Vec::new());
            let early = [settings(&[]), goaway(0, NO_ERROR)].concat();
            let server = TlsServer::new(move |_| config.clone(), two).with_early(early);
            let outcomes = load(&format!("{words} --timeout 100ms"), server);
            let totals = &outcomes.record.totals;
            assert_eq!((totals.started, totals.failed), (20, 20), "{words}");
            let negotiated = &outcomes.record.negotiated;
            assert_eq!(negotiated.http.as_deref(), Some("2"), "{words}");
            assert!(outcomes.connects() <= 60, "{words} {}", outcomes.connects());
        }
    }
}

#[test]
fn an_http1_server_gets_one_request_at_a_time() {
    let config = config(&TLS13, &[b"http/1.1"]);
    let server = TlsServer::new(move |_| config.clone(), steady(ms(10)));
    let outcomes = load("-c 2 --streams 4 -n 20", server);
    assert_eq!(outcomes.all(), [(Outcome::Ok, 20)]);
    let record = &outcomes.record;
    assert_eq!(record.negotiated.http.as_deref(), Some("1.1"));
    assert_us(record.response_time_us.max, 10_000);
    assert_eq!(record.totals.elapsed_s, 0.1);
    let is_reported = |finding: &prony_record::Finding| {
        finding.id == FindingId::StreamsLimited && finding.text.contains("HTTP/1.1")
    };
    assert!(
        record.findings.iter().any(is_reported),
        "{:?}",
        record.findings
    );
}

#[test]
fn a_server_that_falls_back_to_http1_gets_waiting_requests_one_by_one() {
    let (two, one) = (config(&TLS13, &[b"h2"]), config(&TLS13, &[b"http/1.1"]));
    let server = ScriptedH2Server::new(|call| match call.number {
        9 => after(Nanos::ZERO, goaway(call.stream - 4, NO_ERROR)),
        8 | 10.. => Vec::new(),
        _ => after(ms(10), ok(call.stream)),
    });
    let configs = move |connection| match connection {
        0 => two.clone(),
        _ => one.clone(),
    };
    let outcomes = load("-c 1 --streams 4 -n 40", TlsServer::new(configs, server));
    assert_eq!(outcomes.all(), [(Outcome::Ok, 40)]);
    assert_eq!(outcomes.record.totals.retried, 4);
}

#[test]
fn a_server_without_the_requested_version_fails_the_requests() {
    let config = config(&TLS13, &[]);
    let server = TlsServer::new(move |_| config.clone(), steady(ms(10)));
    let outcomes = load("--http 2 -c 2 --streams 4 -n 20", server);
    assert_eq!(outcomes.all(), [(Outcome::Protocol, 20)]);
}

#[test]
fn a_load_whose_handshakes_all_fail_for_over_a_second_ends() {
    let load = |words: &str, server: TlsServer| {
        let url = Some("https://127.0.0.1:1/");
        let spec = LoadSettings::from_flags(words).resolve(url).unwrap();
        simulate(&spec, vec![Box::new(server)])
    };
    let slow = || steady(ms(10)).connecting(|_| Connect::Accept(ms(20)));
    for words in ["-d 10s -c 1", "-d 10s -r 50 -c 4"] {
        // No CA has signed the server's certificate.
        let config = config(&TLS13, &[]);
        let server = TlsServer::new(move |_| config.clone(), slow());
        let outcomes = load(&format!("--threads 1 {words}"), server);
        let text = outcomes.finding("tls-failed").unwrap();
        assert!(text.contains("TLS handshakes in 1 s failed"), "{text}");
        assert!(text.contains("UnknownIssuer"), "{text}");
        let record = &outcomes.record;
        assert!(record.totals.elapsed_s <= 2.0, "{words}");
        assert_eq!(record.response_time_us.max, 0.0, "{words}");
    }
    // One connection is accepted, so the load goes on.
    let (good, bad) = (config(&TLS13, &[b"http/1.1"]), config(&TLS12, &[]));
    let server = TlsServer::new(
        move |connection| match connection {
            0 => good.clone(),
            _ => bad.clone(),
        },
        slow(),
    );
    let outcomes = load("--threads 1 -d 3s -c 2 -k --tls-min 1.3", server);
    assert_eq!(outcomes.finding("tls-failed"), None);
    assert_eq!(outcomes.record.totals.elapsed_s, 3.0);
}

/// A script that sends batches of two pipelined requests.
struct Batches(Arc<Request>);

impl Script for Batches {
    fn next(&mut self, _user: u32, _now: Nanos) -> UserStep {
        UserStep::Request(self.0.clone())
    }
}

#[test]
fn pipelined_responses_may_arrive_in_several_records() {
    let response = [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n"[..],
        &[b'a'; 90],
    ]
    .concat();
    for (count, outcome) in [(2, Outcome::Ok), (3, Outcome::Protocol)] {
        let responses = response.repeat(count);
        let one = responding(move |_| reply([(ms(1), Step::Send(responses.clone()))]));
        let mut config = Arc::unwrap_or_clone(config(&TLS13, &[b"http/1.1"]));
        config.max_fragment_size = Some(64);
        let config = Arc::new(config);
        let server = TlsServer::new(move |_| config.clone(), steady(ms(10))).with_one(one);
        let spec = spec("-c 1 -n 1");
        let writer = spec.writer();
        let two = b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(2);
        let script = Batches(writer.batch(writer.raw("GET", two), 2));
        let outcomes = simulate_script(&spec, Box::new(server), script, CaptureSpec::default());
        assert_eq!(outcomes.all(), [(outcome, 1)], "{count} responses");
    }
}
