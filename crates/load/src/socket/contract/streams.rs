//! Rules for sockets whose connections carry streams, applied over real UDP and over the simulated
//! link. The server is independent of this crate's HTTP/3 in both cases.

use std::net::UdpSocket;

use bytes::Bytes;
use prony_origin::{Config, Origin, Tls};
use prony_protocol::h1::{RequestSpec, Version};
use prony_protocol::h2::RequestScheme;
use prony_protocol::h3::EncodedRequest;
use rustls::pki_types::ServerName;

use super::apparatus::{COMPLETION_TIMEOUT, key};
use super::*;
use crate::quic::{QuicClient, QuicEvent, StreamDirection, StreamEnd};
use crate::settings::LoadSettings;
use crate::socket::simulated_datagrams::{LinkQuality, QuicReply, ReplyEnd, SimulatedDatagrams};
use crate::socket::{Completion, Key, QuicSockets, Sockets, StreamSockets, UdpDatagrams};

/// Bytes that begin a control stream: its type and empty SETTINGS (RFC 9114 §6.2.1).
const CONTROL_STREAM: &[u8] = &[0x00, 0x04, 0x00];
/// Code with which the simulated server closes a connection (H3_INTERNAL_ERROR).
const CLOSE_CODE: u32 = 0x102;

/// A server, and sockets that lead to it.
pub(super) trait FarEnd: Sized {
    type Sockets: StreamSockets;

    fn new() -> (Self, Self::Sockets);

    fn peer(&self) -> Peer;

    /// Returns sockets and an address at which the system refuses datagrams; `None` if the link
    /// doesn't refuse any.
    fn nowhere() -> Option<(Self::Sockets, Peer)>;
}

/// The origin over the system's UDP.
pub(super) struct OriginEnd(Origin);

impl FarEnd for OriginEnd {
    type Sockets = QuicSockets<UdpDatagrams>;

    fn new() -> (OriginEnd, QuicSockets<UdpDatagrams>) {
        let origin = Origin::start(Config {
            quic: vec!["127.0.0.1:0".parse().unwrap()],
            tls: Some(Tls::Generated),
            ..Config::default()
        });
        (
            OriginEnd(origin.unwrap()),
            sockets_over(UdpDatagrams::new(8).unwrap()),
        )
    }

    fn peer(&self) -> Peer {
        Peer::Quic(self.0.quic_addresses()[0])
    }

    fn nowhere() -> Option<(QuicSockets<UdpDatagrams>, Peer)> {
        let unused = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = unused.local_addr().unwrap();
        let sockets = sockets_over(UdpDatagrams::new(8).unwrap());
        Some((sockets, Peer::Quic(address)))
    }
}

/// The scripted server at the end of the simulated link.
pub(super) struct SimulatedEnd;

const LINK: LinkQuality = LinkQuality {
    delay: Duration::from_millis(5),
    jitter: Duration::from_millis(2),
    loss: 0.05,
    duplication: 0.05,
};

impl FarEnd for SimulatedEnd {
    type Sockets = QuicSockets<SimulatedDatagrams>;

    fn new() -> (SimulatedEnd, QuicSockets<SimulatedDatagrams>) {
        let datagrams = SimulatedDatagrams::new(8, LINK, 100, 1, reply_with(ReplyEnd::Finish));
        (SimulatedEnd, sockets_over(datagrams))
    }

    fn peer(&self) -> Peer {
        Peer::Quic("127.0.0.1:1".parse().unwrap())
    }

    fn nowhere() -> Option<(QuicSockets<SimulatedDatagrams>, Peer)> {
        None
    }
}

/// A script whose server responds with status 200 and no body, and ends the stream in this way.
fn reply_with(end: ReplyEnd) -> Box<dyn FnMut(u64) -> QuicReply> {
    Box::new(move |_| QuicReply {
        after: Duration::from_millis(1),
        bytes: vec![0x01, 3, 0, 0, 0xd9],
        end,
    })
}

fn sockets_over<D: super::super::datagram::Datagrams>(datagrams: D) -> QuicSockets<D> {
    let settings = LoadSettings::from_flags("--http 3 --insecure");
    let spec = settings.resolve(Some("https://127.0.0.1:1/")).unwrap();
    let client = spec.tls.as_ref().unwrap().client(8);
    QuicSockets::new(datagrams, QuicClient::new(&client).unwrap(), 8)
}

fn name() -> ServerName<'static> {
    ServerName::try_from("localhost").unwrap()
}

fn route<'a>(peer: &'a Peer, name: &'a ServerName<'static>) -> Route<'a> {
    Route {
        server_name: Some(name),
        ..super::apparatus::to(peer)
    }
}

fn next<S: StreamSockets>(sockets: &mut S) -> Completion {
    let begun = Instant::now();
    while begun.elapsed() < COMPLETION_TIMEOUT {
        if let Some(completion) = sockets.next() {
            return completion;
        }
        let until = sockets.now() + Nanos::from_millis(100);
        sockets.wait(until).unwrap();
    }
    panic!("no completion arrived in time");
}

/// Sends a request on a new stream of a connection. Returns the stream.
fn request<S: StreamSockets>(sockets: &mut S, key: Key) -> u64 {
    let encoded = EncodedRequest::new(
        &RequestSpec {
            method: "GET",
            target: "/",
            version: Version::Http11,
            host: "localhost",
            headers: &[],
            body: b"",
            keep_alive: true,
        },
        RequestScheme::Https,
    );
    let streams = sockets.streams(key).unwrap();
    let control = streams.open(StreamDirection::One).unwrap();
    assert_eq!(streams.write(control, CONTROL_STREAM), CONTROL_STREAM.len());
    let stream = streams.open(StreamDirection::Both).unwrap();
    let mut bytes = Bytes::copy_from_slice(encoded.unwrap().wire());
    streams.write_shared(stream, &mut bytes);
    assert!(bytes.is_empty());
    streams.finish(stream);
    stream
}

/// Reads the events of a connection until the stream of a request ends. Returns the bytes of its
/// response.
fn response<S: StreamSockets>(sockets: &mut S, key: Key, stream: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let streams = sockets.streams(key).unwrap();
        while let Some(event) = streams.next_event() {
            let QuicEvent::Readable(readable) = event else {
                continue;
            };
            let end = streams.read(readable, |part| {
                if readable == stream {
                    bytes.extend_from_slice(part);
                }
                true
            });
            if readable == stream && matches!(end, StreamEnd::Finished) {
                return bytes;
            }
        }
        let completion = next(sockets);
        assert!(
            matches!(completion, Completion::Received(of) if of == key),
            "{completion:?}"
        );
    }
}

fn is_other<S: StreamSockets>(sockets: &mut S, key: Key, within: Nanos) -> bool {
    let until = sockets.now() + within;
    while sockets.now() < until {
        sockets.wait(until).unwrap();
        while let Some(completion) = sockets.next() {
            if completion.key() == key && !matches!(completion, Completion::Received(_)) {
                return true;
            }
        }
    }
    false
}

pub(super) fn indices_are_reused_with_new_generations<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    for generation in 1..6 {
        let key = key(3, generation);
        connect(&mut sockets, key, &far.peer());
        let stream = request(&mut sockets, key);
        sockets.flush();
        assert!(!response(&mut sockets, key, stream).is_empty());
        sockets.close(key, Close::Orderly);
    }
}

pub(super) fn a_connect_completes_once<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    connect(&mut sockets, key(0, 1), &far.peer());
    assert!(!is_other(&mut sockets, key(0, 1), Nanos::from_millis(30)));
    let Some((mut sockets, nowhere)) = F::nowhere() else {
        return;
    };
    sockets.connect(key(0, 2), route(&nowhere, &name()));
    let failed = next(&mut sockets);
    assert!(
        matches!(failed, Completion::Failed(of, Operation::Connect, _) if of == key(0, 2)),
        "{failed:?}"
    );
    assert!(!is_other(&mut sockets, key(0, 2), Nanos::from_millis(30)));
}

pub(super) fn streams_exist_from_connected_until_close<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    assert!(sockets.streams(key(0, 1)).is_none());
    connect(&mut sockets, key(0, 1), &far.peer());
    assert!(sockets.streams(key(0, 1)).is_some());
    assert!(sockets.streams(key(0, 2)).is_none());
    let local = sockets.local_address(key(0, 1)).unwrap();
    assert!(local.ip().is_loopback());
    assert_eq!(sockets.local_address(key(0, 2)), None);
    sockets.close(key(0, 1), Close::Abort);
    assert!(sockets.streams(key(0, 1)).is_none());
    assert_eq!(sockets.local_address(key(0, 1)), None);
}

/// A wait sends what was written, too.
pub(super) fn written_bytes_are_sent_by_the_next_wait<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    for generation in 1..3 {
        let key = key(1, generation);
        connect(&mut sockets, key, &far.peer());
        let stream = request(&mut sockets, key);
        if generation == 1 {
            sockets.flush();
        }
        assert!(!response(&mut sockets, key, stream).is_empty());
        sockets.close(key, Close::Orderly);
    }
}

pub(super) fn events_stay_until_they_are_read<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    let key = key(2, 1);
    connect(&mut sockets, key, &far.peer());
    let stream = request(&mut sockets, key);
    sockets.flush();
    // The response arrives, but nobody reads it.
    assert!(!is_other(&mut sockets, key, Nanos::from_millis(200)));
    assert!(!response(&mut sockets, key, stream).is_empty());
}

pub(super) fn a_closed_key_gets_no_more_completions<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    for index in 0..3 {
        connect(&mut sockets, key(index, 1), &far.peer());
        request(&mut sockets, key(index, 1));
    }
    sockets.flush();
    for index in 0..2 {
        sockets.close(key(index, 1), Close::Orderly);
        sockets.close(key(index, 1), Close::Orderly);
    }
    connect(&mut sockets, key(1, 2), &far.peer());
    let until = sockets.now() + Nanos::from_millis(100);
    while sockets.now() < until {
        sockets.wait(until).unwrap();
        while let Some(completion) = sockets.next() {
            let key = completion.key();
            assert!(
                key == self::key(2, 1) || key == self::key(1, 2),
                "{completion:?}"
            );
        }
    }
}

/// Connects. Other connections may have received something.
fn connect<S: StreamSockets>(sockets: &mut S, key: Key, peer: &Peer) {
    sockets.connect(key, route(peer, &name()));
    loop {
        match next(sockets) {
            Completion::Connected(connected) => return assert_eq!(connected, key),
            Completion::Received(_) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(super) fn time_advances_and_waits_end<F: FarEnd>() {
    let (far, mut sockets) = F::new();
    connect(&mut sockets, key(0, 1), &far.peer());
    let batch = WaitBatch {
        max_completions: 1_000,
        max_wait: Nanos::from_millis(1),
    };
    let mut before = sockets.now();
    let until = before + Nanos::from_millis(20);
    while sockets.now() < until {
        sockets.wait_coalesced(until, batch).unwrap();
        while sockets.next().is_some() {}
        assert!(sockets.now() >= before);
        before = sockets.now();
    }
}

/// The end of an established connection is an event, and no other completion.
#[test]
fn an_established_connection_ends_with_an_event() {
    let script = reply_with(ReplyEnd::Close(CLOSE_CODE));
    let datagrams = SimulatedDatagrams::new(8, LINK, 100, 1, script);
    let mut sockets = sockets_over(datagrams);
    let key = key(0, 1);
    connect(&mut sockets, key, &SimulatedEnd.peer());
    request(&mut sockets, key);
    sockets.flush();
    loop {
        let completion = next(&mut sockets);
        assert!(
            matches!(completion, Completion::Received(_)),
            "{completion:?}"
        );
        let streams = sockets.streams(key).unwrap();
        let mut events = std::iter::from_fn(|| streams.next_event());
        if events.any(|event| matches!(event, QuicEvent::Ended(_))) {
            break;
        }
    }
    assert!(!is_other(&mut sockets, key, Nanos::from_millis(100)));
    assert!(
        sockets.streams(key).is_some(),
        "the worker closes the connection"
    );
}

/// Turns the rules into tests for each far end.
macro_rules! stream_contract {
    ($($rule:ident,)*) => {
        $(mod $rule {
            #[test]
            fn udp() {
                super::$rule::<super::OriginEnd>();
            }

            #[test]
            fn simulated() {
                super::$rule::<super::SimulatedEnd>();
            }
        })*
    };
}

stream_contract! {
    indices_are_reused_with_new_generations,
    a_connect_completes_once,
    streams_exist_from_connected_until_close,
    written_bytes_are_sent_by_the_next_wait,
    events_stay_until_they_are_read,
    a_closed_key_gets_no_more_completions,
    time_advances_and_waits_end,
}
