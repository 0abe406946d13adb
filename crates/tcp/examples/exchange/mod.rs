//! A client, and a peer that responds to each request with one small segment.

use std::net::{IpAddr, SocketAddr};

use prony_tcp::{Chunk, ConnectOptions, Event, Handle, StackConfig, TcpStack};

/// A connection whose peer responds to each request.
pub(crate) struct Echo {
    stack: TcpStack<'static>,
    handle: Handle,
    now: u64,
    packet: [u8; 1500],
    response: Vec<u8>,
}

/// Headers of the peer's packets: IPv4, TCP and timestamps.
const HEADERS: usize = 20 + 32;
/// Size of a response in bytes.
const RESPONSE: usize = 250;

impl Echo {
    /// Opens a connection.
    pub(crate) fn new() -> Echo {
        let config = StackConfig {
            mtu: 1500,
            window: 65_535,
            reassembly_bytes: 1 << 20,
            clock_base_millis: 1_000,
            secret: 1,
        };
        let mut stack = TcpStack::new(config, 0);
        let local = IpAddr::from([10, 0, 0, 1]);
        let remote = SocketAddr::from(([10, 0, 0, 2], 80));
        let options = ConnectOptions {
            nodelay: true,
            window: None,
        };
        let handle = stack
            .connect_from(1, local, 1_024..=1_024, remote, options, 0)
            .unwrap();
        let response = vec![0; HEADERS + RESPONSE];
        let mut echo = Echo {
            stack,
            handle,
            now: 0,
            packet: [0; 1500],
            response,
        };
        echo.stack.poll_transmit(0, &mut echo.packet);
        assert_eq!(echo.answer(HEADERS, 0x12), Some(Event::Connected(1)));
        echo
    }

    /// Sends a request and handles its response.
    pub(crate) fn exchange(&mut self, request: Chunk<'static>) -> Option<Event> {
        self.now += 10_000;
        self.stack.handle_timeouts(self.now);
        self.stack.send(self.handle, request, self.now);
        let size = self.stack.poll_transmit(self.now, &mut self.packet);
        assert!(size.is_some());
        assert_eq!(
            self.stack.poll_transmit(self.now, &mut self.packet[..]),
            None
        );
        self.now += 10_000;
        self.answer(HEADERS + RESPONSE, 0x18)
    }

    /// Responds to the client's last packet with a packet of this size.
    fn answer(&mut self, size: usize, flags: u8) -> Option<Event> {
        let request = &self.packet;
        let length = usize::from(u16::from_be_bytes([request[2], request[3]]));
        let header = usize::from(request[32] >> 4) * 4;
        let word = |at: usize| {
            u32::from_be_bytes([
                request[at],
                request[at + 1],
                request[at + 2],
                request[at + 3],
            ])
        };
        let syn = u32::from(flags & 2 != 0);
        let acknowledgment = word(24).wrapping_add((length - 20 - header) as u32 + syn);
        let response = &mut self.response[..size];
        response[0] = 0x45;
        response[2..4].copy_from_slice(&(size as u16).to_be_bytes());
        response[8..10].copy_from_slice(&[64, 6]);
        response[10..12].copy_from_slice(&[0; 2]);
        response[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        let sum = sum(&response[..20]);
        response[10..12].copy_from_slice(&(!sum).to_be_bytes());
        response[20..24].copy_from_slice(&[0, 80, 4, 0]);
        response[24..28].copy_from_slice(&word(28).to_be_bytes());
        response[28..32].copy_from_slice(&acknowledgment.to_be_bytes());
        response[32..36].copy_from_slice(&[0x80, flags, 0xff, 0xff]);
        response[40..44].copy_from_slice(&[1, 1, 8, 10]);
        response[44..48].copy_from_slice(&((self.now / 1_000_000) as u32).to_be_bytes());
        // Only the pseudo-header is summed, as on a virtual link, which leaves the rest to an
        // adapter.
        let mut pseudo = [0; 12];
        pseudo[..8].copy_from_slice(&response[12..20]);
        pseudo[9] = 6;
        pseudo[10..].copy_from_slice(&((size - 20) as u16).to_be_bytes());
        let partial = self::sum(&pseudo);
        response[36..38].copy_from_slice(&partial.to_be_bytes());
        self.stack.handle_packet(self.now, response);
        self.stack.poll_event()
    }
}

/// Sum of 16-bit words in one's complement (RFC 1071).
fn sum(bytes: &[u8]) -> u16 {
    let words = bytes
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}
