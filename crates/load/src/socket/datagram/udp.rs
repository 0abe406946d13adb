//! The system's UDP sockets.
//!
//! Sending or receiving a batch takes one system call: the system splits sent batches (UDP_SEGMENT)
//! and joins received datagrams (UDP_GRO of udp(7)).

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use prony_record::Nanos;
use quinn_proto::EcnCodepoint;
use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockAddr, Socket, Type};

use super::{DatagramEvent, Datagrams, ReceivedDatagrams};
use crate::quic::DatagramBatch;
use crate::socket::poller::{Interest, ReadyEvent, SocketPoller};
use crate::socket::{Key, Route, local, system};

/// Length of a receive buffer, in bytes. The system never joins datagrams into a longer batch.
const BUFFER_BYTES: usize = 64 * 1024;
/// Number of batches that one system call may return.
const BUFFERS: usize = 16;
/// Default size of a socket's receive buffer, in bytes. If a hundred responses arrive at the same
/// time, the system's default of about 200 KiB has room for only a few of them.
const RECEIVE_BUFFER_BYTES: usize = 2 * 1024 * 1024;

/// The UDP backend. See [`Datagrams`].
pub(crate) struct UdpDatagrams {
    poller: SocketPoller,
    sockets: Vec<Option<UdpSocket>>,
    buffers: Vec<u8>,
    /// Batches in the buffers that have not been returned yet.
    arrived: VecDeque<(Key, usize, RecvMeta)>,
    /// The batch that was returned last.
    current: Option<(usize, RecvMeta)>,
    epoch: Instant,
    send_calls: u64,
    receive_calls: u64,
}

struct UdpSocket {
    key: Key,
    socket: Socket,
    state: UdpSocketState,
    peer: SocketAddr,
    /// True if a batch is waiting for room in the socket's buffer.
    is_blocked: bool,
}

impl UdpDatagrams {
    /// Creates a backend for up to `capacity` connections. Its clock starts now, unless
    /// [`UdpDatagrams::start_clock`] sets another start.
    ///
    /// # Errors
    ///
    /// The system can't create a poller.
    pub(crate) fn new(capacity: usize) -> io::Result<UdpDatagrams> {
        let mut sockets = Vec::new();
        sockets.resize_with(capacity, || None);
        Ok(UdpDatagrams {
            poller: SocketPoller::new()?,
            sockets,
            buffers: vec![0; BUFFER_BYTES * BUFFERS],
            arrived: VecDeque::with_capacity(BUFFERS),
            current: None,
            epoch: Instant::now(),
            send_calls: 0,
            receive_calls: 0,
        })
    }

    /// Starts the clock at `epoch`, which all workers of a load share.
    pub(crate) fn start_clock(&mut self, epoch: Instant) {
        self.epoch = epoch;
    }

    fn socket(&self, key: Key) -> Option<&UdpSocket> {
        let socket = self.sockets.get(key.index as usize)?.as_ref()?;
        (socket.key == key).then_some(socket)
    }

    /// Reads the batches that have arrived on a socket, up to the number of buffers.
    fn read(&mut self, index: usize) -> Option<DatagramEvent> {
        let socket = self.sockets.get(index)?.as_ref()?;
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut chunks = self.buffers.chunks_exact_mut(BUFFER_BYTES);
        let mut slices: [IoSliceMut<'_>; BUFFERS] =
            std::array::from_fn(|_| IoSliceMut::new(chunks.next().unwrap_or_default()));
        let received = socket
            .state
            .recv((&socket.socket).into(), &mut slices, &mut metas);
        match received {
            Ok(count) => {
                self.receive_calls += 1;
                let batches = metas.into_iter().take(count).enumerate();
                self.arrived
                    .extend(batches.map(|(buffer, meta)| (socket.key, buffer, meta)));
                None
            }
            Err(error) if is_transient(&error) => None,
            Err(error) => Some(DatagramEvent::Failed(socket.key, error)),
        }
    }

    fn on_event(&mut self, event: ReadyEvent) -> Option<DatagramEvent> {
        let index = event.key.index as usize;
        let socket = self.sockets.get_mut(index)?.as_mut()?;
        // The event may concern an earlier connection with the same index.
        if socket.key != event.key {
            return None;
        }
        if event.writable && std::mem::take(&mut socket.is_blocked) {
            // The next wait reports datagrams that have already arrived.
            if let Err(error) = socket.set_interest(&self.poller) {
                return Some(DatagramEvent::Failed(socket.key, error));
            }
            return Some(DatagramEvent::Writable(socket.key));
        }
        self.read(index)
    }
}

impl UdpSocket {
    fn interest(&self) -> Interest {
        Interest {
            reading: true,
            writing: self.is_blocked,
        }
    }

    fn set_interest(&self, poller: &SocketPoller) -> io::Result<()> {
        poller.modify(&self.socket, self.key, self.interest())
    }
}

/// Returns the number of datagrams that the system dropped because the socket's receive buffer was
/// full (SK_MEMINFO_DROPS of linux/sock_diag.h).
fn dropped(socket: &Socket) -> u64 {
    /// SO_MEMINFO of asm/socket.h.
    const MEMORY_INFO: libc::c_int = 55;
    const DROPS: usize = 8;
    let mut info = [0u32; 9];
    let mut length = size_of_val(&info) as libc::socklen_t;
    // SAFETY: the pointers refer to local values, and the length is the length of the array.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            MEMORY_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    match result {
        0 => u64::from(info[DROPS]),
        _ => 0,
    }
}

fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

impl Datagrams for UdpDatagrams {
    fn now(&self) -> Nanos {
        Nanos::from(self.epoch.elapsed())
    }

    fn instant(&self) -> Instant {
        Instant::now()
    }

    fn open(&mut self, key: Key, peer: SocketAddr, route: &Route<'_>) -> io::Result<()> {
        let domain = Domain::for_address(peer);
        let socket = Socket::new(domain, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        match route.buffers {
            Some(bytes) => local::size_buffers(&socket, bytes)?,
            // The system may grant a smaller buffer (net.core.rmem_max).
            None => socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?,
        }
        if let Some(source) = route.source {
            local::bind_to_source(&socket, source)?;
        }
        socket.connect(&SockAddr::from(peer))?;
        let state = UdpSocketState::new((&socket).into())?;
        let socket = UdpSocket {
            key,
            socket,
            state,
            peer,
            is_blocked: false,
        };
        self.poller.add(&socket.socket, key, socket.interest())?;
        self.sockets[key.index as usize] = Some(socket);
        Ok(())
    }

    fn segments_max(&self, key: Key) -> usize {
        self.socket(key)
            .map_or(1, |socket| socket.state.max_gso_segments())
    }

    fn send(&mut self, key: Key, bytes: &[u8], batch: DatagramBatch) -> io::Result<bool> {
        let socket = self.sockets.get_mut(key.index as usize);
        let Some(socket) = socket
            .and_then(Option::as_mut)
            .filter(|socket| socket.key == key)
        else {
            return Ok(true);
        };
        let transmit = Transmit {
            destination: socket.peer,
            ecn: batch.ecn.map(|ecn| match ecn {
                EcnCodepoint::Ect0 => quinn_udp::EcnCodepoint::Ect0,
                EcnCodepoint::Ect1 => quinn_udp::EcnCodepoint::Ect1,
                EcnCodepoint::Ce => quinn_udp::EcnCodepoint::Ce,
            }),
            contents: bytes,
            segment_size: (batch.segment_bytes < bytes.len()).then_some(batch.segment_bytes),
            src_ip: None,
        };
        self.send_calls += 1;
        match socket.state.try_send((&socket.socket).into(), &transmit) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.is_blocked = true;
                socket.set_interest(&self.poller)?;
                Ok(false)
            }
            // A path MTU probe (RFC 8899) was too long for the path. It counts as lost.
            Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn local_address(&self, key: Key) -> Option<SocketAddr> {
        self.socket(key)?.socket.local_addr().ok()?.as_socket()
    }

    fn close(&mut self, key: Key) -> u64 {
        let entry = self.sockets.get_mut(key.index as usize);
        let Some(socket) = entry.and_then(|entry| entry.take_if(|socket| socket.key == key)) else {
            return 0;
        };
        self.arrived.retain(|(of, ..)| *of != key);
        self.poller.remove(&socket.socket);
        dropped(&socket.socket)
    }

    fn calls(&self) -> (u64, u64) {
        (self.send_calls, self.receive_calls)
    }

    fn gather(&mut self, time: Duration) {
        if self.arrived.is_empty() && !self.poller.has_events() {
            system::sleep_precisely(time);
        }
    }

    fn wait(&mut self, time: Duration) -> io::Result<()> {
        if !self.arrived.is_empty() {
            return Ok(());
        }
        self.poller.wait(time)
    }

    fn next(&mut self) -> Option<DatagramEvent> {
        loop {
            if let Some((key, buffer, meta)) = self.arrived.pop_front() {
                self.current = Some((buffer, meta));
                return Some(DatagramEvent::Received(key));
            }
            let event = self.poller.next()?;
            if let Some(event) = self.on_event(event) {
                return Some(event);
            }
        }
    }

    fn next_received(&mut self) -> bool {
        // All batches of one system call arrived on the same socket.
        match self.arrived.pop_front() {
            Some((_, buffer, meta)) => {
                self.current = Some((buffer, meta));
                true
            }
            None => false,
        }
    }

    fn received(&self) -> ReceivedDatagrams<'_> {
        let (buffer, meta) = self.current.unwrap_or_default();
        let start = buffer * BUFFER_BYTES;
        ReceivedDatagrams {
            bytes: &self.buffers[start..start + meta.len],
            segment_bytes: meta.stride,
            ecn: meta.ecn.map(|ecn| match ecn {
                quinn_udp::EcnCodepoint::Ect0 => EcnCodepoint::Ect0,
                quinn_udp::EcnCodepoint::Ect1 => EcnCodepoint::Ect1,
                quinn_udp::EcnCodepoint::Ce => EcnCodepoint::Ce,
            }),
        }
    }
}

impl Drop for UdpDatagrams {
    fn drop(&mut self) {
        for socket in self.sockets.iter().flatten() {
            self.poller.remove(&socket.socket);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Server;

    use super::super::contract::{KEY, batch, event, open};
    use super::*;

    #[test]
    fn a_batch_takes_one_system_call() {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let mut datagrams = UdpDatagrams::new(1).unwrap();
        open(&mut datagrams, KEY, server.local_addr().unwrap());
        let segments = datagrams.segments_max(KEY).min(3);
        assert!(
            datagrams
                .send(KEY, &vec![7; 100 * segments], batch(100))
                .unwrap()
        );
        assert_eq!(datagrams.calls().0, 1);
    }

    #[test]
    fn a_port_at_which_nothing_listens_is_reported() {
        let server = Server::bind("127.0.0.1:0").unwrap();
        let mut datagrams = UdpDatagrams::new(1).unwrap();
        open(&mut datagrams, KEY, server.local_addr().unwrap());
        drop(server);
        assert!(datagrams.send(KEY, b"x", batch(1)).unwrap());
        let DatagramEvent::Failed(KEY, error) = event(&mut datagrams) else {
            panic!("the closed port was not reported");
        };
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
