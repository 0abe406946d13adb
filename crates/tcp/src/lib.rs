//! TCP as a client, without I/O: packets and events.
//!
//! Input: IP packets that a peer sent, bytes to send, and the time. Output: events (connected,
//! data, closed, failed) and IP packets to send.
//!
//! Invariants of this crate:
//!
//! - It never uses a clock, a socket, a thread or a file. Time is an argument: nanoseconds since an
//!   arbitrary origin.
//! - The caller owns the packet buffers. Data that is in order is returned as a range of its
//!   packet.
//! - Memory is bounded, whatever a peer sends. [`StackConfig::reassembly_bytes`] limits
//!   out-of-order data, and constants limit queued resets and closing connections.
//! - No packet causes a panic. Packets that aren't used are counted by reason ([`TcpCounts`]).
//! - An exchange on an open connection allocates nothing.
//!
//! [`TcpStack`] manages all connections of a link. The caller drives it:
//!
//! ```
//! use prony_tcp::{Chunk, CloseMode, ConnectOptions, TcpStack, StackConfig, Event};
//!
//! let config = StackConfig {
//!     mtu: 1500,
//!     window: 65_536,
//!     reassembly_bytes: 1 << 20,
//!     clock_base_millis: 86_400_000,
//!     secret: 1,
//! };
//! let mut stack = TcpStack::new(config, 0);
//! let options = ConnectOptions { nodelay: true, window: None };
//! let local = "10.0.0.1:40000".parse()?;
//! let remote = "10.0.0.2:80".parse()?;
//! let connection = stack.connect(7, local, remote, options, 0).expect("the port is free");
//!
//! // The SYN. A caller sends each packet, then waits for packets or the next timeout.
//! let mut packet = [0; 1500];
//! let size = stack.poll_transmit(0, &mut packet).expect("the SYN is due");
//! assert_eq!(size, 20 + 44);
//! assert!(stack.poll_transmit(0, &mut packet).is_none());
//!
//! // Nothing arrives, so the SYN is sent again after a second.
//! let at = stack.next_timeout().expect("the SYN has a timer");
//! stack.handle_timeouts(at);
//! assert!(stack.poll_transmit(at, &mut packet).is_some());
//!
//! stack.handle_packet(at, b"not a packet");
//! assert_eq!(stack.poll_event(), None::<Event>);
//! stack.send(connection, Chunk::Shared(b"GET / HTTP/1.1\r\n\r\n"), at);
//! stack.close(connection, CloseMode::Abort, at);
//! # Ok::<(), std::net::AddrParseError>(())
//! ```

mod checksum;
mod connection;
mod icmp;
mod initial_sequence;
mod packet;
mod reassembly;
mod receiver;
mod round_trip;
mod scoreboard;
mod segment;
mod send_queue;
mod sender;
mod sequence;
mod slots;
mod stack;
mod timers;
mod tuple;

pub use connection::Failure;
pub use icmp::Unreachable;
pub use send_queue::Chunk;
pub use slots::Handle;
pub use stack::{
    CloseMode, ConnectError, ConnectOptions, Event, SEND_QUEUE_BYTES, SendState, StackConfig,
    TcpCounts, TcpStack,
};
