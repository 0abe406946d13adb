//! Exercises the TCP stack with hostile peers.
//!
//! This file isn't part of the fuzz library: the tests of `crates/protocol` include the library and
//! don't depend on `prony_tcp`.

use std::net::{IpAddr, SocketAddr};

use prony_tcp::{Chunk, CloseMode, ConnectOptions, Event, Handle, StackConfig, TcpStack};

/// Maximum number of packets that one operation may cause: a full window of the smallest segments,
/// plus a margin.
const PACKETS_MAX: usize = 1 << 13;
/// Memory limit for out-of-order data of all connections, in bytes.
const REASSEMBLY_BYTES: usize = 1 << 16;

/// Kinds of events that a run reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventKind {
    Connected,
    SendSpace,
    Received,
    Reassembled,
    Closed,
    Failed,
}

/// Source of operations: the input bytes, followed by zeros.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((byte, rest)) => {
                self.0 = rest;
                *byte
            }
            None => 0,
        }
    }

    fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// The client's last segment, from which hostile ones are derived.
#[derive(Debug, Clone, Copy, Default)]
struct LastSegment {
    port: u16,
    sequence: u32,
    acknowledgment: u32,
    timestamp: u32,
}

/// Runs operations: segments with valid and invalid fields, garbage, sends, closes, and the passing
/// of time. Checks that no packet exceeds the MTU, and that each operation causes a bounded number
/// of packets and events.
pub fn run(data: &[u8]) -> Vec<EventKind> {
    let mut input = Input(data);
    let config = StackConfig {
        mtu: 68 + u32::from(input.half() % 1_433),
        window: u32::from(input.half()) << (input.byte() % 8),
        reassembly_bytes: REASSEMBLY_BYTES,
        clock_base_millis: u64::from(input.half()),
        secret: u64::from(input.half()),
    };
    let mut stack = TcpStack::new(config, 0);
    let mut handles = Vec::new();
    let mut last = LastSegment::default();
    let mut reached = Vec::new();
    let mut now = 0;
    while !input.0.is_empty() {
        match input.byte() % 8 {
            0 => connect(&mut stack, &mut input, &mut handles, now),
            1 => {
                let packet = input.bytes(20);
                stack.handle_packet(now, &packet);
            }
            2 => {
                let length = usize::from(input.half()) * 4;
                if let Some(handle) = choose(&handles, &mut input) {
                    stack.send(handle, Chunk::Owned(vec![7; length]), now);
                }
            }
            3 => {
                let mode = match input.byte() % 2 {
                    0 => CloseMode::Orderly,
                    _ => CloseMode::Abort,
                };
                if let Some(handle) = choose(&handles, &mut input) {
                    stack.close(handle, mode, now);
                }
            }
            4 => {
                now += u64::from(input.half()) << (input.byte() % 24);
                stack.handle_timeouts(now);
            }
            _ => {
                let packet = segment(&mut input, last);
                stack.handle_packet(now, &packet);
            }
        }
        observe(&mut stack, &mut reached);
        transmit(&mut stack, config.mtu as usize, now, &mut last);
    }
    reached
}

fn addresses() -> (IpAddr, SocketAddr) {
    let local = IpAddr::from([10, 0, 0, 1]);
    (local, SocketAddr::from(([10, 0, 0, 2], 80)))
}

fn connect(stack: &mut TcpStack<'static>, input: &mut Input, handles: &mut Vec<Handle>, now: u64) {
    let (local, remote) = addresses();
    let options = ConnectOptions {
        nodelay: input.byte() < 128,
        window: None,
    };
    let tag = handles.len() as u64;
    let connected = stack.connect_from(tag, local, 40_000..=40_003, remote, options, now);
    handles.extend(connected.ok());
}

fn choose(handles: &[Handle], input: &mut Input) -> Option<Handle> {
    let index = usize::from(input.byte()).checked_rem(handles.len())?;
    handles.get(index).copied()
}

fn observe(stack: &mut TcpStack, reached: &mut Vec<EventKind>) {
    for _ in 0..PACKETS_MAX {
        let Some(event) = stack.poll_event() else {
            return;
        };
        reached.push(match event {
            Event::Connected(_) => EventKind::Connected,
            Event::SendSpace(_) => EventKind::SendSpace,
            Event::Received(_, range) => {
                assert!(!range.is_empty());
                EventKind::Received
            }
            Event::Reassembled(_, data) => {
                assert!(!data.is_empty());
                EventKind::Reassembled
            }
            Event::Closed(_) => EventKind::Closed,
            Event::Failed(..) => EventKind::Failed,
        });
    }
    panic!("too many events");
}

fn transmit(stack: &mut TcpStack, mtu: usize, now: u64, last: &mut LastSegment) {
    let mut packet = vec![0; mtu];
    for _ in 0..PACKETS_MAX {
        let Some(size) = stack.poll_transmit(now, &mut packet) else {
            assert!(stack.next_timeout().is_none_or(|at| at + (8 << 22) > now));
            return;
        };
        assert!(size <= mtu);
        let word = |at: usize| {
            let bytes = packet.get(at..at + 4).and_then(|b| b.try_into().ok());
            u32::from_be_bytes(bytes.unwrap_or_default())
        };
        *last = LastSegment {
            port: (word(20) >> 16) as u16,
            sequence: word(24),
            acknowledgment: word(28),
            timestamp: word(44),
        };
    }
    panic!("too many packets");
}

/// Creates a segment to the client with a correct checksum, mostly with numbers close to the
/// expected ones.
fn segment(input: &mut Input, last: LastSegment) -> Vec<u8> {
    let shape = input.byte();
    let near = |base: u32, input: &mut Input| match input.byte() {
        byte @ 0..128 => base.wrapping_add(u32::from(byte % 4)),
        byte @ 128..248 => base.wrapping_add(u32::from(byte).wrapping_sub(188).wrapping_mul(64)),
        _ => u32::from(input.half()) << 16 | u32::from(input.half()),
    };
    let sequence = near(last.acknowledgment, input);
    let acknowledgment = near(last.sequence, input);
    let flags = match shape % 8 {
        0 => 0x12,
        1 => 0x11,
        2 => input.byte(),
        3 => 0x04,
        _ => 0x10,
    };
    let window = if shape & 0x40 == 0 {
        0xffff
    } else {
        input.half() % 3
    };
    let options = options(input, last, shape, sequence);
    let length = if shape & 0x80 == 0 {
        0
    } else {
        usize::from(input.byte()) * 4
    };
    let mut tcp = vec![0; 20];
    tcp[0..2].copy_from_slice(&80u16.to_be_bytes());
    tcp[2..4].copy_from_slice(&last.port.to_be_bytes());
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    tcp[8..12].copy_from_slice(&acknowledgment.to_be_bytes());
    tcp[12] = ((20 + options.len()) / 4 * 16) as u8;
    tcp[13] = flags;
    tcp[14..16].copy_from_slice(&window.to_be_bytes());
    tcp.extend(options);
    tcp.resize(tcp.len() + length, 9);
    packet(tcp)
}

fn options(input: &mut Input, last: LastSegment, shape: u8, sequence: u32) -> Vec<u8> {
    match shape >> 3 & 7 {
        0 => Vec::new(),
        1 => {
            let words = input.byte() % 11;
            input.bytes(usize::from(words) * 4)
        }
        2 => {
            let mut options = vec![1, 1, 5, 10];
            options.extend(
                last.sequence
                    .wrapping_add(u32::from(input.byte()))
                    .to_be_bytes(),
            );
            options.extend(
                last.sequence
                    .wrapping_add(u32::from(input.half()))
                    .to_be_bytes(),
            );
            options
        }
        3 => [
            &[2, 4][..],
            &input.half().to_be_bytes(),
            &[1, 3, 3, input.byte()],
        ]
        .concat(),
        4 => vec![1, 1, 4, 2],
        _ => {
            let mut options = vec![1, 1, 8, 10];
            options.extend((sequence / 1_000).to_be_bytes());
            options.extend(last.timestamp.to_be_bytes());
            options
        }
    }
}

/// Wraps a segment in an IPv4 packet and sets both checksums.
fn packet(mut tcp: Vec<u8>) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&((20 + tcp.len()) as u16).to_be_bytes());
    header[8..10].copy_from_slice(&[64, 6]);
    header[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
    let sum = checksum(&[&header]);
    header[10..12].copy_from_slice(&sum);
    let length = (tcp.len() as u32).to_be_bytes();
    let sum = checksum(&[&header[12..20], &length, &[0, 0, 0, 6], &tcp]);
    tcp[16..18].copy_from_slice(&sum);
    [header, tcp].concat()
}

fn checksum(parts: &[&[u8]]) -> [u8; 2] {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | word.get(1).copied().map_or(0, u32::from))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!((folded & 0xffff) + (folded >> 16)) as u16).to_be_bytes()
}
