//! Tests of the contract in [`super::Datagrams`], applied to real UDP and to the simulated link.

use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_proto::EcnCodepoint;

use super::simulated::{LinkQuality, SimulatedDatagrams};
use super::{DatagramEvent, Datagrams, UdpDatagrams};
use crate::quic::DatagramBatch;
use crate::socket::{Key, Peer, Route};

pub(super) const KEY: Key = Key {
    index: 0,
    generation: 3,
};
const OTHER: Key = Key {
    index: 1,
    generation: 1,
};
/// Time after which an event counts as lost. No rule depends on its exact length.
const EVENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The program at the other end of the link.
trait FarEnd {
    type Backend: Datagrams;

    fn new() -> (Self, Self::Backend)
    where
        Self: Sized;

    fn address(&self) -> SocketAddr;

    /// Waits for a datagram. Returns its source address and its bytes.
    fn receive(&mut self, backend: &mut Self::Backend) -> (SocketAddr, Vec<u8>);

    fn send(&mut self, backend: &mut Self::Backend, to: SocketAddr, bytes: &[u8]);
}

struct UdpFarEnd(UdpSocket);

impl FarEnd for UdpFarEnd {
    type Backend = UdpDatagrams;

    fn new() -> (UdpFarEnd, UdpDatagrams) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(EVENT_TIMEOUT)).unwrap();
        (UdpFarEnd(socket), UdpDatagrams::new(2).unwrap())
    }

    fn address(&self) -> SocketAddr {
        self.0.local_addr().unwrap()
    }

    fn receive(&mut self, _backend: &mut UdpDatagrams) -> (SocketAddr, Vec<u8>) {
        let mut buffer = [0; 2000];
        let (length, from) = self.0.recv_from(&mut buffer).unwrap();
        (from, buffer[..length].to_vec())
    }

    fn send(&mut self, _backend: &mut UdpDatagrams, to: SocketAddr, bytes: &[u8]) {
        self.0.send_to(bytes, to).unwrap();
    }
}

struct SimulatedFarEnd;

impl FarEnd for SimulatedFarEnd {
    type Backend = SimulatedDatagrams;

    fn new() -> (SimulatedFarEnd, SimulatedDatagrams) {
        let link = LinkQuality {
            delay: Duration::from_millis(5),
            jitter: Duration::ZERO,
            loss: 0.0,
            duplication: 0.0,
        };
        (SimulatedFarEnd, SimulatedDatagrams::without_server(2, link))
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }

    fn receive(&mut self, backend: &mut SimulatedDatagrams) -> (SocketAddr, Vec<u8>) {
        backend.wait(Duration::ZERO).unwrap();
        loop {
            if let Some((port, bytes)) = backend.take_unserved() {
                return (SocketAddr::from(([127, 0, 0, 1], port)), bytes);
            }
            backend.wait(Duration::from_millis(1)).unwrap();
        }
    }

    fn send(&mut self, backend: &mut SimulatedDatagrams, to: SocketAddr, bytes: &[u8]) {
        backend.send_back(to.port(), bytes);
    }
}

pub(super) fn open(datagrams: &mut impl Datagrams, key: Key, peer: SocketAddr) {
    let route = Route {
        peer: &Peer::Quic(peer),
        server_name: None,
        source: None,
        buffers: None,
        nodelay: true,
        keepalive: true,
    };
    datagrams.open(key, peer, &route).unwrap();
}

/// Waits for the next event.
pub(super) fn event(datagrams: &mut impl Datagrams) -> DatagramEvent {
    loop {
        if let Some(event) = datagrams.next() {
            return event;
        }
        datagrams.wait(EVENT_TIMEOUT).unwrap();
    }
}

pub(super) fn batch(segment_bytes: usize) -> DatagramBatch {
    DatagramBatch {
        segment_bytes,
        ecn: Some(EcnCodepoint::Ect0),
    }
}

/// Waits for `count` datagrams. Returns them with their keys.
fn received(datagrams: &mut impl Datagrams, count: usize) -> Vec<(Key, Vec<u8>)> {
    let mut all = Vec::new();
    while all.len() < count {
        let DatagramEvent::Received(key) = event(datagrams) else {
            panic!("expected datagrams, but another event arrived");
        };
        loop {
            let arrived = datagrams.received();
            let each = arrived.bytes.chunks(arrived.segment_bytes);
            all.extend(each.map(|bytes| (key, bytes.to_vec())));
            if !datagrams.next_received() {
                break;
            }
        }
    }
    all
}

fn opening_a_socket_sends_nothing<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    open(&mut datagrams, OTHER, far.address());
    assert!(datagrams.send(OTHER, b"first", batch(5)).unwrap());
    let (from, bytes) = far.receive(&mut datagrams);
    assert_eq!(Some(from), datagrams.local_address(OTHER));
    assert_eq!(bytes, b"first");
}

fn a_batch_arrives_as_its_datagrams<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    let segments = datagrams.segments_max(KEY).min(3);
    let bytes: Vec<u8> = (0..100 * segments - 40).map(|n| n as u8).collect();
    assert!(datagrams.send(KEY, &bytes, batch(100)).unwrap());
    for expected in bytes.chunks(100) {
        assert_eq!(far.receive(&mut datagrams).1, expected);
    }
}

fn datagrams_are_received_in_order<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    let to = datagrams.local_address(KEY).unwrap();
    let sent: Vec<(Key, Vec<u8>)> = (0..40u8).map(|n| (KEY, vec![n; 50])).collect();
    for (_, bytes) in &sent {
        far.send(&mut datagrams, to, bytes);
    }
    assert_eq!(received(&mut datagrams, sent.len()), sent);
}

fn datagrams_of_different_lengths_stay_apart<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    let to = datagrams.local_address(KEY).unwrap();
    for length in [60, 60, 20, 80, 1] {
        far.send(&mut datagrams, to, &vec![7; length]);
    }
    let lengths = received(&mut datagrams, 5).into_iter();
    let lengths: Vec<usize> = lengths.map(|(_, bytes)| bytes.len()).collect();
    assert_eq!(lengths, [60, 60, 20, 80, 1]);
}

fn each_socket_has_its_own_datagrams<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    for key in [KEY, OTHER] {
        open(&mut datagrams, key, far.address());
        let to = datagrams.local_address(key).unwrap();
        far.send(&mut datagrams, to, &[key.index as u8]);
    }
    let mut all = received(&mut datagrams, 2);
    all.sort_by_key(|(key, _)| key.index);
    assert_eq!(all, [(KEY, vec![0]), (OTHER, vec![1])]);
}

fn a_closed_socket_has_no_events_and_its_index_is_free<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    let to = datagrams.local_address(KEY).unwrap();
    far.send(&mut datagrams, to, b"early");
    datagrams.wait(EVENT_TIMEOUT).unwrap();
    assert_eq!(datagrams.close(KEY), 0);
    assert!(datagrams.next().is_none());
    let next = Key {
        generation: 4,
        ..KEY
    };
    open(&mut datagrams, next, far.address());
    assert_eq!(datagrams.local_address(KEY), None);
    assert!(datagrams.send(KEY, b"stale", batch(5)).unwrap());
    let to = datagrams.local_address(next).unwrap();
    far.send(&mut datagrams, to, b"later");
    assert_eq!(received(&mut datagrams, 1), [(next, b"later".to_vec())]);
}

fn waits_end_and_time_never_goes_back<F: FarEnd>() {
    let (mut far, mut datagrams) = F::new();
    open(&mut datagrams, KEY, far.address());
    let to = datagrams.local_address(KEY).unwrap();
    let (before, instant) = (datagrams.now(), datagrams.instant());
    datagrams.wait(Duration::from_millis(2)).unwrap();
    assert!(datagrams.next().is_none());
    assert!(datagrams.now() > before && datagrams.instant() > instant);
    far.send(&mut datagrams, to, b"one");
    far.send(&mut datagrams, to, b"two");
    datagrams.gather(Duration::from_micros(50));
    let all = received(&mut datagrams, 2);
    assert_eq!(all, [(KEY, b"one".to_vec()), (KEY, b"two".to_vec())]);
}

macro_rules! contract {
    ($($backend:ident: $far_end:ty;)*) => {
        $(mod $backend {
            use super::*;

            contract! { @each $far_end;
                opening_a_socket_sends_nothing,
                a_batch_arrives_as_its_datagrams,
                datagrams_are_received_in_order,
                datagrams_of_different_lengths_stay_apart,
                each_socket_has_its_own_datagrams,
                a_closed_socket_has_no_events_and_its_index_is_free,
                waits_end_and_time_never_goes_back,
            }
        })*
    };
    (@each $far_end:ty; $($promise:ident,)*) => {
        $(#[test]
        fn $promise() {
            super::$promise::<$far_end>();
        })*
    };
}

contract! {
    udp: UdpFarEnd;
    simulated: SimulatedFarEnd;
}
