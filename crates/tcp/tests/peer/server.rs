//! A server on smoltcp: each connection reads requests and sends the bytes that they request.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

pub(crate) const PORT: u16 = 80;

/// Returns the byte of a response at a position.
pub(crate) fn body_byte(position: usize) -> u8 {
    (position.wrapping_mul(2_654_435_761) >> 7) as u8
}

/// Packets in memory.
#[derive(Debug, Default)]
struct Queues {
    received: VecDeque<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    mtu: usize,
}

struct Received(Vec<u8>);

struct Sent<'a>(&'a mut Vec<Vec<u8>>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

impl TxToken for Sent<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut packet = vec![0; length];
        let result = write(&mut packet);
        self.0.push(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sent<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Received, Sent<'_>)> {
        let packet = self.received.pop_front()?;
        Some((Received(packet), Sent(&mut self.sent)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sent<'_>> {
        Some(Sent(&mut self.sent))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = self.mtu;
        capabilities
    }
}

/// State of one of the server's connections.
#[derive(Debug)]
struct Exchange {
    socket: SocketHandle,
    /// Number of bytes received for the current request.
    request: usize,
    /// Positions of the response: the next byte, and the end.
    response: Option<(usize, usize)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Behavior {
    pub(crate) request_bytes: usize,
    pub(crate) response_bytes: usize,
    /// True if the server closes connections after one response.
    pub(crate) close: bool,
}

pub(crate) struct Server {
    queues: Queues,
    interface: Interface,
    sockets: SocketSet<'static>,
    exchanges: Vec<Exchange>,
    buffer: usize,
    behavior: Behavior,
}

fn instant(now: u64) -> Instant {
    Instant::from_micros((now / 1_000) as i64)
}

impl Server {
    pub(crate) fn new(address: IpAddress, buffer: usize, mtu: usize, behavior: Behavior) -> Server {
        let mut queues = Queues {
            mtu,
            ..Queues::default()
        };
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut queues, instant(0));
        interface.update_ip_addrs(|addresses| {
            let _ = addresses.push(IpCidr::new(address, 24));
        });
        let sockets = SocketSet::new(Vec::new());
        let exchanges = Vec::new();
        let mut server = Server {
            queues,
            interface,
            sockets,
            exchanges,
            buffer,
            behavior,
        };
        server.listen();
        server
    }

    /// Adds a listening socket behind all others. smoltcp offers a SYN to sockets in their order,
    /// so a repeated SYN reaches the connection that it belongs to.
    fn listen(&mut self) {
        let memory = |size| SocketBuffer::new(vec![0; size]);
        let mut socket = Socket::new(memory(self.buffer), memory(16_384));
        socket.listen(PORT).unwrap();
        let socket = self.sockets.add(socket);
        self.exchanges.push(Exchange {
            socket,
            request: 0,
            response: None,
        });
    }

    pub(crate) fn receive(&mut self, now: u64, packet: Vec<u8>) {
        self.queues.received.push_back(packet);
        let _ = self
            .interface
            .poll(instant(now), &mut self.queues, &mut self.sockets);
        let last = self.exchanges.last().map(|exchange| exchange.socket);
        if last.is_some_and(|last| !self.sockets.get::<Socket>(last).is_listening()) {
            self.listen();
        }
    }

    /// Handles everything that has arrived, and returns the packets to send.
    pub(crate) fn poll(&mut self, now: u64) -> Vec<Vec<u8>> {
        let _ = self
            .interface
            .poll(instant(now), &mut self.queues, &mut self.sockets);
        for exchange in &mut self.exchanges {
            exchange.turn(
                self.sockets.get_mut::<Socket>(exchange.socket),
                self.behavior,
            );
        }
        let _ = self
            .interface
            .poll(instant(now), &mut self.queues, &mut self.sockets);
        std::mem::take(&mut self.queues.sent)
    }

    pub(crate) fn next_timeout(&mut self, now: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now), &self.sockets)?;
        Some(((at.total_micros().max(0) as u64) * 1_000).max(now + 1_000))
    }
}

impl Exchange {
    fn turn(&mut self, socket: &mut Socket, behavior: Behavior) {
        if self.response.is_none() && socket.can_recv() {
            let missing = behavior.request_bytes - self.request;
            let taken = socket.recv(|bytes| {
                let count = bytes.len().min(missing);
                (count, count)
            });
            self.request += taken.unwrap_or(0);
            if self.request == behavior.request_bytes {
                self.request = 0;
                self.response = Some((0, behavior.response_bytes));
            }
        }
        if let Some((next, end)) = &mut self.response {
            while *next < *end && socket.can_send() {
                let sent = socket.send(|buffer| {
                    let count = buffer.len().min(*end - *next);
                    for (offset, byte) in buffer[..count].iter_mut().enumerate() {
                        *byte = body_byte(*next + offset);
                    }
                    (count, count)
                });
                match sent {
                    Ok(count) if count > 0 => *next += count,
                    _ => break,
                }
            }
            if next == end {
                self.response = None;
                if behavior.close {
                    socket.close();
                }
            }
        }
        if socket.may_send() && !socket.may_recv() && self.response.is_none() {
            socket.close();
        }
    }
}
