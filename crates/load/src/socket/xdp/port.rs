//! A worker's end of the link, which sends and receives IP packets in frames.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use prony_record::XdpUse;
use prony_xdp::{
    ETHERNET_HEADER, EtherType, Frame, MacAddress, QueueSocket, RssHash, ether_type, neighbor,
    write_header,
};

use super::link::XdpLink;
use super::packet::{is_in, local_port};

/// Assumed number of data bytes per received frame, for estimating the ring's capacity.
const FRAME_DATA: usize = 1_400;

/// A worker's sockets, one for each of its receive queues.
pub(super) struct LinkPort {
    sockets: Vec<QueueSocket>,
    link: Arc<XdpLink>,
    worker: u32,
    mtu: u32,
    hops: HopTable,
    current: CurrentPacket,
    /// Packets that other workers passed on, in reverse order.
    given: Vec<Vec<u8>>,
    /// The socket from which the next packet is taken.
    next_socket: usize,
    counts: XdpUse,
}

/// The packet that was returned last. Its bytes stay readable until the next packet is taken.
enum CurrentPacket {
    None,
    /// The packet is in a frame of the socket with this index.
    InFrame(usize, Frame),
    /// Another worker received the packet and passed it on.
    Given(Vec<u8>),
}

/// MAC addresses of the next hops, by target.
#[derive(Debug, Default)]
struct HopTable {
    by_target: HashMap<IpAddr, MacAddress>,
    /// Default source address for each target.
    sources: HashMap<SocketAddr, Option<IpAddr>>,
    /// The MAC address of all next hops, if they all have the same one.
    only: Option<MacAddress>,
}

impl HopTable {
    fn mac(&self, packet: &[u8]) -> Option<MacAddress> {
        self.only
            .or_else(|| self.by_target.get(&target_of(packet)?).copied())
    }
}

fn target_of(packet: &[u8]) -> Option<IpAddr> {
    match packet.first()? >> 4 {
        4 => Some(IpAddr::from(*packet.get(16..)?.first_chunk::<4>()?)),
        _ => Some(IpAddr::from(*packet.get(24..)?.first_chunk::<16>()?)),
    }
}

impl LinkPort {
    /// Creates a worker's end of a link.
    pub(super) fn new(link: Arc<XdpLink>, worker: u32) -> LinkPort {
        let mtu = link.mtu();
        let sockets = link.take_sockets(worker);
        precise_timers();
        let counts = XdpUse {
            mode: link.mode().name().to_owned(),
            zero_copy: sockets.iter().all(QueueSocket::is_zero_copy),
            queues: sockets.len() as u64,
            ring_bytes: sockets.iter().map(|it| it.memory_bytes() as u64).sum(),
            ..XdpUse::default()
        };
        LinkPort {
            sockets,
            link,
            worker,
            mtu,
            hops: HopTable::default(),
            current: CurrentPacket::None,
            given: Vec::new(),
            next_socket: 0,
            counts,
        }
    }

    /// Returns the size of the largest IP packet in bytes.
    pub(super) fn mtu(&self) -> u32 {
        self.mtu
    }

    /// Returns the number of data bytes that the receive rings can hold.
    pub(super) fn receive_capacity(&self) -> usize {
        self.sockets.len() * QueueSocket::RECEIVE_FRAMES as usize * FRAME_DATA
    }

    /// Returns the hash that distributes received packets among the queues. Returns `None` if there
    /// is only one worker or the hash is unknown.
    pub(super) fn receive_hash(&self) -> Option<&RssHash> {
        self.link.receive_hash()
    }

    /// Returns true if packets of a receive queue reach this worker.
    pub(super) fn owns_queue(&self, queue: u32) -> bool {
        self.link.worker_of_queue(queue) == self.worker
    }

    /// Prepares to send packets to a target. Returns the connection's source address, which is
    /// `source` or the address that the kernel would use.
    ///
    /// # Errors
    ///
    /// The target can't be reached through the interface, or the source is not one of the load's.
    pub(super) fn prepare(
        &mut self,
        target: SocketAddr,
        source: Option<IpAddr>,
    ) -> io::Result<IpAddr> {
        let default = match self.hops.sources.get(&target) {
            Some(source) => *source,
            None => {
                let hop = self.link.hop(target)?;
                self.hops.by_target.insert(target.ip(), hop.mac);
                self.hops.sources.insert(target, hop.source);
                let mut macs = self.hops.by_target.values();
                self.hops.only = Some(hop.mac).filter(|mac| macs.all(|other| other == mac));
                hop.source
            }
        };
        let no_address = || io::Error::from_raw_os_error(libc::EADDRNOTAVAIL);
        let source = source.or(default).ok_or_else(no_address)?;
        if is_in(self.link.sources(), source) {
            Ok(source)
        } else {
            Err(no_address())
        }
    }

    /// Returns a buffer for the next packet to send; `None` while all buffers are in use.
    pub(super) fn packet_buffer(&mut self) -> io::Result<Option<&mut [u8]>> {
        let socket = &mut self.sockets[0];
        if socket.next_buffer().is_none() {
            socket.flush()?;
        }
        let end = ETHERNET_HEADER + self.mtu as usize;
        let buffer = socket.next_buffer();
        Ok(buffer.and_then(|frame| frame.get_mut(ETHERNET_HEADER..end)))
    }

    /// Queues the packet in the buffer for sending. The packet has this length.
    pub(super) fn commit(&mut self, length: usize) {
        let socket = &mut self.sockets[0];
        let Some(frame) = socket.next_buffer() else {
            return;
        };
        let packet = &frame[ETHERNET_HEADER..];
        // Connections begin after `prepare`, so the next hop of each packet is known.
        let Some(mac) = self.hops.mac(packet) else {
            return;
        };
        let protocol = match packet[0] >> 4 {
            4 => EtherType::Ipv4,
            _ => EtherType::Ipv6,
        };
        write_header(frame, mac, self.link.interface().mac(), protocol);
        socket.commit(ETHERNET_HEADER + length);
        self.counts.packets_sent += 1;
    }

    /// Sends all queued packets.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.sockets[0].flush()
    }

    /// Returns true if packets are waiting for the interface to accept them.
    pub(super) fn has_unsent(&self) -> bool {
        self.sockets[0].has_unsent()
    }

    /// Returns the memory of handled frames to the kernel.
    pub(super) fn refill(&mut self) {
        for socket in &mut self.sockets {
            socket.refill();
        }
    }

    /// Returns true if a received packet is waiting.
    pub(super) fn has_received(&mut self) -> bool {
        !self.given.is_empty()
            || self.sockets.iter_mut().any(QueueSocket::has_received)
            || self.link.exchange.has(self.worker)
    }

    /// Returns the number of frames in the receive rings.
    pub(super) fn received_count(&mut self) -> u32 {
        self.sockets
            .iter_mut()
            .map(QueueSocket::received_count)
            .sum()
    }

    /// Releases the current packet and takes the next one for this worker, if there is one. Replies
    /// to frames that ask for a MAC address, and passes on packets that belong to other workers.
    pub(super) fn next_packet(&mut self) -> Option<()> {
        self.release();
        loop {
            if self.given.is_empty() {
                self.link.exchange.take(self.worker, &mut self.given);
                self.given.reverse();
            }
            if let Some(packet) = self.given.pop() {
                self.current = CurrentPacket::Given(packet);
                return Some(());
            }
            let (at, frame) = self.next_frame()?;
            self.counts.packets_received += 1;
            self.current = CurrentPacket::InFrame(at, frame);
            if self.is_for_stack() {
                return Some(());
            }
            self.release();
        }
    }

    fn next_frame(&mut self) -> Option<(usize, Frame)> {
        let count = self.sockets.len();
        for _ in 0..count {
            let at = self.next_socket;
            if let Some(frame) = self.sockets[at].receive() {
                return Some((at, frame));
            }
            self.next_socket = (at + 1) % count;
        }
        None
    }

    fn release(&mut self) {
        let current = std::mem::replace(&mut self.current, CurrentPacket::None);
        if let CurrentPacket::InFrame(at, frame) = current {
            self.sockets[at].release(frame);
        }
    }

    /// Returns true if the current frame contains a packet for this worker. Handles all other
    /// frames.
    fn is_for_stack(&mut self) -> bool {
        let CurrentPacket::InFrame(at, frame) = &self.current else {
            return false;
        };
        let frame = self.sockets[*at].bytes(frame);
        let packet = frame.get(ETHERNET_HEADER..).unwrap_or_default();
        let answered = self.link.answered();
        if !answered.is_empty() {
            let mut reply = [0; neighbor::REPLY_BYTES];
            let own = self.link.interface().mac();
            let is_ours = |address| is_in(answered, address);
            if let Some(size) = neighbor::reply(frame, own, is_ours, &mut reply) {
                self.send_reply(&reply[..size]);
                return false;
            }
        }
        if ether_type(frame) == Some(EtherType::Arp) {
            return false;
        }
        let owner = if !self.link.is_shared() {
            self.worker
        } else {
            local_port(packet).map_or(self.worker, |port| self.link.owner_of(port))
        };
        if owner == self.worker {
            return true;
        }
        if self.link.exchange.give(owner, packet) {
            self.counts.packets_exchanged += 1
        } else {
            self.counts.exchange_dropped += 1
        }
        false
    }

    /// Queues the reply to a request for a MAC address.
    fn send_reply(&mut self, reply: &[u8]) {
        self.counts.neighbor_replies += 1;
        let socket = &mut self.sockets[0];
        // If no frame is free, no reply is sent, but the neighbor will ask again.
        if let Some(frame) = socket
            .next_buffer()
            .and_then(|it| it.get_mut(..reply.len()))
        {
            frame.copy_from_slice(reply);
            socket.commit(reply.len());
        }
    }

    /// Returns the current packet, which is empty if there is none.
    pub(super) fn packet(&self) -> &[u8] {
        match &self.current {
            CurrentPacket::None => &[],
            CurrentPacket::InFrame(at, frame) => self.sockets[*at]
                .bytes(frame)
                .get(ETHERNET_HEADER..)
                .unwrap_or_default(),
            CurrentPacket::Given(packet) => packet,
        }
    }

    /// Sleeps until `limit` nanoseconds after `created`, even if packets arrive. Does nothing if
    /// workers spin.
    pub(super) fn pause(&mut self, created: &Instant, limit: u64) {
        let left = limit.saturating_sub(created.elapsed().as_nanos() as u64);
        if left > 0 && !self.link.busy_poll() {
            self.counts.pauses += 1;
            std::thread::sleep(Duration::from_nanos(left));
        }
    }

    /// Sleeps until a packet arrives, or until `limit` nanoseconds after `created`.
    pub(super) fn sleep(&mut self, created: &Instant, limit: u64) -> io::Result<()> {
        if self.link.busy_poll() {
            while !self.has_received() && (created.elapsed().as_nanos() as u64) < limit {
                std::hint::spin_loop();
            }
            return Ok(());
        }
        let left = limit.saturating_sub(created.elapsed().as_nanos() as u64);
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        let entry = |descriptor| libc::pollfd {
            fd: descriptor,
            events: libc::POLLIN,
            revents: 0,
        };
        let mut entries: [libc::pollfd; 2] = [entry(-1), entry(-1)];
        let mut many = Vec::new();
        let event = self.link.exchange.event(self.worker);
        let event = event.map_or(-1, |event| event.as_raw_fd());
        let entries = match &self.sockets[..] {
            [socket] => {
                entries[0].fd = socket.as_fd().as_raw_fd();
                entries[1].fd = event;
                &mut entries[..]
            }
            sockets => {
                many.extend(sockets.iter().map(|it| entry(it.as_fd().as_raw_fd())));
                many.push(entry(event));
                &mut many[..]
            }
        };
        self.counts.polls += 1;
        // SAFETY: the pointers refer to local entries, whose number is passed along, and to a local
        // time.
        let result = unsafe {
            libc::ppoll(
                entries.as_mut_ptr(),
                entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if result < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(()),
                _ => Err(error),
            };
        }
        self.counts.wakes += u64::from(result > 0);
        Ok(())
    }

    /// Passes packets on to other workers until the last of them has ended. Packets for this worker
    /// are dropped.
    ///
    /// # Errors
    ///
    /// The interface is gone.
    pub(super) fn serve_others(&mut self, created: &Instant) -> io::Result<()> {
        /// Maximum delay until this worker notices that another one has ended.
        const PAUSE_NANOS: u64 = 5_000_000;
        self.link.end_worker();
        while self.link.has_active_workers() {
            while self.next_packet().is_some() {}
            self.refill();
            self.flush()?;
            let now = created.elapsed().as_nanos() as u64;
            self.sleep(created, now + PAUSE_NANOS)?;
        }
        Ok(())
    }

    /// Returns the counts of packets and drops so far.
    pub(super) fn usage(&self) -> XdpUse {
        let mut used = self.counts.clone();
        for socket in &self.sockets {
            // The kernel counts drops separately for each socket.
            let drops = socket.drops().unwrap_or_default();
            used.receive_drops += drops.received();
            used.transmit_drops += drops.transmit_invalid;
        }
        used
    }
}

/// Makes this thread's sleeps end on time. By default, the kernel may delay the end of a sleep by
/// 50 µs so that several threads wake up together (prctl(2), PR_SET_TIMERSLACK).
fn precise_timers() {
    // SAFETY: a plain system call. If it fails, sleeps end later.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong);
    }
}
