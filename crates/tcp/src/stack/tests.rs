//! Tests of single segments against a scripted peer, as in packetdrill.

use core::net::{IpAddr, SocketAddr};

use super::*;
use crate::icmp::Unreachable;
use crate::packet::{self, PROTOCOL_ICMP_V4};
use crate::segment::{SackBlocks, Timestamps};

mod handshake;
mod limits;

const MILLI: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLI;
/// Maximum delay with which a timer expires: two slots of the wheel.
const SLACK: u64 = 9 * MILLI;

/// The client's stack, and the state of the scripted peer.
struct Script {
    stack: TcpStack<'static>,
    handle: Handle,
    now: u64,
    local: SocketAddr,
    remote: SocketAddr,
    /// The client's initial sequence number.
    client: Sequence,
    /// The peer's next sequence number.
    peer: Sequence,
    timestamp: u32,
}

/// A packet from the client: its header and its data.
type Sent = (Segment, Vec<u8>);

fn config() -> StackConfig {
    StackConfig {
        mtu: 1500,
        window: 65_536,
        reassembly_bytes: 1 << 20,
        clock_base_millis: 5_000,
        secret: 9,
    }
}

impl Script {
    /// Creates a connection whose SYN was sent.
    fn connecting() -> Script {
        let (local, remote) = ("10.0.0.1:40000", "10.0.0.2:80");
        let (local, remote) = (local.parse().unwrap(), remote.parse().unwrap());
        let mut stack = TcpStack::new(config(), 0);
        let options = ConnectOptions {
            nodelay: true,
            window: None,
        };
        let handle = stack.connect(1, local, remote, options, 0).unwrap();
        let (client, peer) = (Sequence(0), Sequence(u32::MAX - 2_000));
        let mut script = Script {
            stack,
            handle,
            now: 0,
            local,
            remote,
            client,
            peer,
            timestamp: 77,
        };
        let (syn, _) = script.sent().remove(0);
        assert_eq!(syn.flags, Flags::SYN);
        script.client = syn.sequence;
        script
    }

    /// Creates an established connection whose handshake is acknowledged.
    fn established() -> Script {
        let mut script = Script::connecting();
        script.syn_ack(Segment {
            sack_permitted: true,
            ..script.header(Flags::SYN)
        });
        assert_eq!(script.events(), [Event::Connected(1)]);
        assert_eq!(script.sent().len(), 1);
        script
    }

    /// Responds to the SYN, with the options of `segment`.
    fn syn_ack(&mut self, segment: Segment) {
        let segment = Segment {
            flags: Flags::SYN.and(Flags::ACK),
            sequence: self.peer,
            acknowledgment: self.client + 1,
            mss: Some(1460),
            ..segment
        };
        self.peer += 1;
        self.receive(&segment, b"");
    }

    /// Creates a header from the peer that acknowledges the SYN.
    fn header(&self, flags: Flags) -> Segment {
        Segment {
            source_port: 80,
            target_port: 40_000,
            sequence: self.peer,
            acknowledgment: self.client + 1,
            flags,
            window: 65_535,
            timestamps: Some(Timestamps {
                value: self.timestamp,
                echo: 0,
            }),
            ..Segment::default()
        }
    }

    /// Creates a pure acknowledgment of `bytes` bytes of data.
    fn ack(&self, bytes: u32) -> Segment {
        Segment {
            acknowledgment: self.client + 1 + bytes,
            ..self.header(Flags::ACK)
        }
    }

    fn receive(&mut self, segment: &Segment, data: &[u8]) {
        let mut bytes = vec![0; 20 + segment.header_length() + data.len()];
        let at = 20 + segment.header_length();
        bytes[at..].copy_from_slice(data);
        write_packet(&mut bytes, self.remote, self.local, segment, data.len()).unwrap();
        self.stack.handle_packet(self.now, &bytes);
    }

    /// Lets the client receive in-order data from the peer.
    fn receive_data(&mut self, acknowledged: u32, data: &[u8]) {
        let segment = self.ack(acknowledged);
        self.receive(&segment, data);
        self.peer += data.len() as u32;
    }

    fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.stack.poll_event()).collect()
    }

    /// Returns all packets that the client sends now.
    fn sent(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        let mut packet = [0; 1500];
        while let Some(size) = self.stack.poll_transmit(self.now, &mut packet) {
            let ip = IpPacket::parse(&packet[..size]).unwrap();
            let payload = &packet[ip.payload.clone()];
            let (segment, data, _) = Segment::parse(payload, ip.source, ip.target).unwrap();
            sent.push((segment, payload[data].to_vec()));
        }
        sent
    }

    /// Returns the ranges of data that the client sends now, relative to its first byte.
    fn sent_ranges(&mut self) -> Vec<(u32, u32)> {
        let first = self.client + 1;
        let range = |(segment, data): Sent| {
            let start = segment.sequence.since(first);
            (start, start + data.len() as u32)
        };
        self.sent().into_iter().map(range).collect()
    }

    /// Lets time pass until the client sends something; returns the time and what was sent.
    fn wait(&mut self) -> (u64, Vec<Sent>) {
        loop {
            self.now = self.stack.next_timeout().expect("a timer");
            self.stack.handle_timeouts(self.now);
            let sent = self.sent();
            if !sent.is_empty() {
                return (self.now, sent);
            }
        }
    }

    /// Lets this much time pass, and asserts that nothing is sent.
    fn pause(&mut self, nanos: u64) {
        let end = self.now + nanos;
        while let Some(at) = self.stack.next_timeout().filter(|at| *at <= end) {
            self.now = at;
            self.stack.handle_timeouts(at);
            assert_eq!(self.sent(), []);
        }
        self.now = end;
    }

    fn send(&mut self, bytes: usize) {
        let state = self
            .stack
            .send(self.handle, Chunk::Owned(vec![b'x'; bytes]), self.now);
        assert_ne!(state, SendState::Ended);
    }
}

fn is_near(actual: u64, expected: u64) -> bool {
    (expected..=expected + SLACK).contains(&actual)
}

#[test]
fn data_is_repeated_with_doubling_timeouts() {
    let mut script = Script::established();
    script.now = 50 * MILLI;
    script.send(100);
    assert_eq!(script.sent_ranges(), [(0, 100)]);
    let mut expected = 50 * MILLI;
    for timeout in [200, 400, 800, 1_600] {
        expected += timeout * MILLI;
        let (at, sent) = script.wait();
        assert!(
            at >= expected && at - expected <= 5 * SLACK,
            "{at} {expected}"
        );
        assert_eq!(sent[0].0.sequence, script.client + 1);
        assert_eq!(sent[0].1.len(), 100);
    }
    let ack = script.ack(100);
    script.receive(&ack, b"");
    script.pause(10 * SECOND);
    assert_eq!(script.stack.unsent(script.handle), 0);
}

#[test]
fn a_silent_peer_ends_the_connection_after_more_than_100_seconds() {
    let mut script = Script::established();
    script.send(100);
    script.sent();
    while script.stack.connection_count() > 0 {
        script.now = script.stack.next_timeout().unwrap();
        script.stack.handle_timeouts(script.now);
        script.sent();
    }
    assert!(
        (100 * SECOND..400 * SECOND).contains(&script.now),
        "{}",
        script.now
    );
    assert_eq!(script.events(), [Event::Failed(1, Failure::TimedOut)]);
}

#[test]
fn the_third_duplicate_acknowledgment_repeats_the_first_segment() {
    let mut script = Script::established();
    script.send(14_000);
    let size = 1_448;
    assert_eq!(script.sent_ranges().len(), 10);
    for _ in 0..2 {
        let ack = script.ack(0);
        script.receive(&ack, b"");
        assert_eq!(script.sent_ranges(), []);
    }
    let ack = script.ack(0);
    script.receive(&ack, b"");
    assert_eq!(script.sent_ranges(), [(0, size)]);
    // A partial acknowledgment shows the next loss.
    let ack = script.ack(2 * size);
    script.receive(&ack, b"");
    assert_eq!(script.sent_ranges()[0], (2 * size, 3 * size));
}

#[test]
fn with_sack_only_the_holes_are_repeated() {
    let mut script = Script::established();
    script.send(14_000);
    script.sent();
    let size = 1_448;
    let first = script.client + 1;
    let sacked = |script: &Script, blocks: &[(u32, u32)]| {
        let mut sack = SackBlocks::default();
        for (start, end) in blocks {
            sack.push(first + start * size, first + end * size);
        }
        Segment {
            sack,
            ..script.ack(0)
        }
    };
    let ack = sacked(&script, &[(1, 3)]);
    script.receive(&ack, b"");
    assert_eq!(script.sent_ranges(), []);
    let ack = sacked(&script, &[(4, 8), (1, 3)]);
    script.receive(&ack, b"");
    assert_eq!(script.sent_ranges(), [(0, size), (3 * size, 4 * size)]);
    let ack = script.ack(14_000);
    script.receive(&ack, b"");
    script.pause(5 * SECOND);
}

#[test]
fn a_reset_counts_only_with_the_exact_sequence_number() {
    let mut script = Script::established();
    let reset = script.header(Flags::RST);
    script.receive(
        &Segment {
            sequence: script.peer - 1,
            ..reset
        },
        b"",
    );
    assert_eq!((script.events(), script.sent()), (vec![], vec![]));
    script.receive(
        &Segment {
            sequence: script.peer + 1,
            ..reset
        },
        b"",
    );
    assert_eq!(script.events(), []);
    let sent = script.sent();
    assert_eq!(
        (sent.len(), sent[0].0.flags),
        (1, Flags::ACK),
        "a challenge"
    );
    script.receive(&reset, b"");
    assert_eq!(script.events(), [Event::Failed(1, Failure::Reset)]);
}

#[test]
fn a_syn_and_an_impossible_acknowledgment_are_challenged() {
    let mut script = Script::established();
    for segment in [script.header(Flags::SYN), script.ack(50_000)] {
        script.now += 10 * MILLI;
        script.receive(&segment, b"data");
        let sent = script.sent();
        assert_eq!((sent.len(), sent[0].0.flags), (1, Flags::ACK));
        assert_eq!(script.events(), []);
    }
    // Challenges are limited to one per millisecond.
    for _ in 0..100 {
        let segment = script.header(Flags::SYN);
        script.receive(&segment, b"");
    }
    assert_eq!(script.sent(), []);
}

#[test]
fn a_closed_window_is_probed_until_it_opens() {
    let mut script = Script::established();
    let closed = Segment {
        window: 0,
        ..script.ack(0)
    };
    script.receive(&closed, b"");
    script.send(100);
    assert_eq!(script.sent(), []);
    for _ in 0..3 {
        let (_, sent) = script.wait();
        assert_eq!((sent[0].0.sequence, sent[0].1.len()), (script.client, 0));
        script.receive(&closed, b"");
    }
    let open = script.ack(0);
    script.receive(&open, b"");
    assert_eq!(script.sent_ranges(), [(0, 100)]);
}

#[test]
fn acknowledgments_wait_40_ms_or_for_the_second_full_segment() {
    let mut script = Script::established();
    script.receive_data(0, &[1; 1_448]);
    assert_eq!(script.sent(), []);
    let (at, sent) = script.wait();
    assert!(is_near(at, 40 * MILLI), "{at}");
    assert_eq!(sent[0].0.acknowledgment, script.peer);
    script.receive_data(0, &[1; 1_460]);
    script.receive_data(0, &[1; 1_460]);
    assert_eq!(script.sent()[0].0.acknowledgment, script.peer);
    script.pause(SECOND);
}

#[test]
fn data_out_of_order_is_reported_by_sack_and_delivered_in_order() {
    let mut script = Script::established();
    let ahead = Segment {
        sequence: script.peer + 4,
        ..script.ack(0)
    };
    script.receive(&ahead, b"later");
    let sent = script.sent();
    assert_eq!(sent[0].0.acknowledgment, script.peer);
    let blocks: Vec<_> = sent[0].0.sack.iter().collect();
    assert_eq!(blocks, [(script.peer + 4, script.peer + 9)]);
    assert_eq!(script.events(), []);
    script.receive_data(0, b"soon");
    let events = script.events();
    assert!(matches!(events[0], Event::Received(1, _)));
    assert_eq!(events[1], Event::Reassembled(1, b"later".to_vec()));
    assert_eq!(script.sent()[0].0.acknowledgment, script.peer + 5);
}

#[test]
fn a_segment_with_an_old_timestamp_is_not_taken() {
    let mut script = Script::established();
    script.timestamp = 76;
    script.receive_data(0, b"old");
    assert_eq!(script.events(), []);
    assert_eq!(script.sent()[0].0.flags, Flags::ACK);
}

#[test]
fn the_peer_closes_first_and_this_side_still_sends() {
    let mut script = Script::established();
    let fin = Segment {
        flags: Flags::FIN.and(Flags::ACK),
        ..script.ack(0)
    };
    script.receive(&fin, b"bye");
    let events = script.events();
    assert!(matches!(events[0], Event::Received(1, _)));
    assert_eq!(events[1], Event::Closed(1));
    script.send(10);
    let sent = script.sent();
    assert_eq!(sent[0].0.acknowledgment, script.peer + 4);
    script
        .stack
        .close(script.handle, CloseMode::Orderly, script.now);
    assert_eq!(
        script.sent()[0].0.flags,
        Flags::FIN.and(Flags::ACK).and(Flags::PSH)
    );
    script.peer += 4;
    let ack = script.ack(11);
    script.receive(&ack, b"");
    script.sent();
    assert_eq!(script.stack.connection_count(), 0);
}

#[test]
fn this_side_closes_first_and_the_fin_follows_the_data() {
    let mut script = Script::established();
    script.send(10);
    script
        .stack
        .close(script.handle, CloseMode::Orderly, script.now);
    let sent = script.sent();
    assert_eq!(sent.len(), 1);
    assert!(sent[0].0.flags.has(Flags::FIN) && sent[0].1.len() == 10);
    let fin = Segment {
        flags: Flags::FIN.and(Flags::ACK),
        ..script.ack(11)
    };
    script.receive(&fin, b"");
    let sent = script.sent();
    assert_eq!((sent.len(), sent[0].0.acknowledgment), (1, script.peer + 1));
    assert_eq!(
        (script.events(), script.stack.connection_count()),
        (vec![], 0)
    );
}

#[test]
fn both_sides_close_at_the_same_time() {
    let mut script = Script::established();
    script
        .stack
        .close(script.handle, CloseMode::Orderly, script.now);
    assert_eq!(script.sent().len(), 1);
    let fin = Segment {
        flags: Flags::FIN.and(Flags::ACK),
        ..script.ack(0)
    };
    script.receive(&fin, b"");
    assert_eq!(script.sent()[0].0.acknowledgment, script.peer + 1);
    assert_eq!(script.stack.connection_count(), 1);
    script.peer += 1;
    let ack = script.ack(1);
    script.receive(&ack, b"");
    script.sent();
    assert_eq!(script.stack.connection_count(), 0);
}

#[test]
fn data_after_an_orderly_close_is_answered_with_a_reset() {
    let mut script = Script::established();
    script
        .stack
        .close(script.handle, CloseMode::Orderly, script.now);
    script.sent();
    script.receive_data(1, b"more");
    let sent = script.sent();
    assert!(
        sent.iter()
            .any(|(segment, _)| segment.flags.has(Flags::RST)),
        "{sent:?}"
    );
    assert_eq!(
        (script.events(), script.stack.connection_count()),
        (vec![], 0)
    );
}

#[test]
fn an_aborted_connection_sends_one_reset() {
    let mut script = Script::established();
    script.send(10);
    script.sent();
    script
        .stack
        .close(script.handle, CloseMode::Abort, script.now);
    let sent = script.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].0.flags, Flags::RST.and(Flags::ACK));
    assert_eq!(sent[0].0.sequence, script.client + 11);
}

/// Creates an ICMP error for IPv4 that quotes a segment of the client.
fn icmp(script: &Script, kind: [u8; 2], mtu: u16, sequence: Sequence) -> Vec<u8> {
    let mut quoted = vec![0; 40];
    let segment = Segment {
        source_port: 40_000,
        target_port: 80,
        sequence,
        ..Segment::default()
    };
    write_packet(&mut quoted, script.local, script.remote, &segment, 0).unwrap();
    let mut bytes = vec![0; 28 + 28];
    bytes[20..22].copy_from_slice(&kind);
    bytes[26..28].copy_from_slice(&mtu.to_be_bytes());
    bytes[28..].copy_from_slice(&quoted[..28]);
    packet::write_header(&mut bytes, script.remote.ip(), script.local.ip(), 36);
    bytes[9] = PROTOCOL_ICMP_V4;
    bytes[10..12].copy_from_slice(&[0; 2]);
    let checksum = crate::checksum::Sum::default().add(&bytes[..20]).checksum();
    bytes[10..12].copy_from_slice(&checksum);
    bytes
}

#[test]
fn an_unreachable_target_fails_a_connect_but_no_established_connection() {
    let mut script = Script::connecting();
    let error = icmp(&script, [3, 1], 0, script.client + 1);
    script.stack.handle_packet(0, &error);
    assert_eq!(script.events(), [], "another sequence number");
    let error = icmp(&script, [3, 1], 0, script.client);
    script.stack.handle_packet(0, &error);
    let failure = Failure::Unreachable(Unreachable::Host);
    assert_eq!(script.events(), [Event::Failed(1, failure)]);

    let mut script = Script::established();
    script.send(10);
    script.sent();
    let error = icmp(&script, [3, 1], 0, script.client + 1);
    script.stack.handle_packet(0, &error);
    assert_eq!(script.events(), []);
}

#[test]
fn a_router_with_a_smaller_mtu_makes_segments_smaller() {
    let mut script = Script::established();
    script.send(4_000);
    assert_eq!(script.sent_ranges().len(), 3);
    let error = icmp(&script, [3, 4], 1_052, script.client + 1);
    script.stack.handle_packet(0, &error);
    assert_eq!(
        script.sent_ranges(),
        [(0, 1_000), (1_000, 2_000), (2_000, 3_000), (3_000, 4_000)]
    );
}

#[test]
fn segments_of_unknown_connections_get_a_bounded_number_of_resets() {
    let mut script = Script::connecting();
    script.local.set_port(40_001);
    for _ in 0..1_000 {
        let segment = Segment {
            target_port: 40_001,
            ..script.header(Flags::ACK)
        };
        script.receive(&segment, b"x");
    }
    assert_eq!(script.sent().len(), STRAY_RESETS_MAX);
    let counts = script.stack.counts();
    assert_eq!(counts.strays, 1_000);
    assert_eq!(counts.dropped_resets, 1_000 - STRAY_RESETS_MAX as u64);
    let reset = Segment {
        target_port: 40_001,
        ..script.header(Flags::RST)
    };
    script.receive(&reset, b"");
    assert_eq!(script.sent(), []);
}

#[test]
fn small_segments_wait_for_acknowledgments_without_nodelay() {
    let mut stack = TcpStack::new(config(), 0);
    let options = ConnectOptions {
        nodelay: false,
        window: None,
    };
    let template = Script::connecting();
    let handle = stack
        .connect(1, template.local, template.remote, options, 0)
        .unwrap();
    let mut script = Script {
        stack,
        handle,
        ..template
    };
    script.client = script.sent()[0].0.sequence;
    script.syn_ack(script.header(Flags::SYN));
    script.send(10);
    script.send(10);
    assert_eq!(script.sent_ranges(), [(0, 20)]);
    script.send(10);
    assert_eq!(script.sent_ranges(), []);
    let ack = script.ack(20);
    script.receive(&ack, b"");
    assert_eq!(script.sent_ranges(), [(20, 30)]);
}

#[test]
fn a_long_queue_waits_and_reports_space() {
    let mut script = Script::established();
    let chunk = Chunk::Owned(vec![0; 2 * SEND_QUEUE_BYTES]);
    let state = script.stack.send(script.handle, chunk, 0);
    assert_eq!(state, SendState::Waiting);
    let mut acknowledged = 0;
    while !script.events().contains(&Event::SendSpace(1)) {
        acknowledged = script.sent_ranges().last().expect("progress").1;
        let ack = script.ack(acknowledged);
        script.receive(&ack, b"");
    }
    assert!(acknowledged as usize >= SEND_QUEUE_BYTES);
}

#[test]
fn a_connection_takes_at_most_512_bytes_and_a_million_fit_2_gib() {
    let connection = size_of::<Connection>();
    assert!(connection <= 512, "{connection}");
    // The memory of a connection consists of a slot, an entry of the hash map (at 7/8 load after
    // doubling), and entries of the timer wheel.
    let entry = size_of::<(FourTuple, u32)>() + 1;
    let all = 1_000_000 * (connection + 16 + 3 * entry + 2 * size_of::<Reminder>());
    assert!(all <= 2 << 30, "{all}");
}
