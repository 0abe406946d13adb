//! AF_XDP sockets.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use crate::attachment::Attachment;
use crate::error::XdpError;
use crate::ring::{ConsumerRing, ProducerRing, RingPlace};
use crate::umem::FrameMemory;

/// Number of frames per socket. One half is used for receiving, and the other half for sending.
const FRAMES: u32 = 4096;
/// Number of entries in each ring.
const RING_ENTRIES: u32 = FRAMES / 2;
/// Size of small frames, in bytes.
const SMALL_FRAME: usize = 2048;
/// Size of large frames in bytes. They are used if the interface's packets don't fit into small
/// frames.
const LARGE_FRAME: usize = 4096;
/// Number of bytes that the kernel reserves at the start of a received frame (XDP_PACKET_HEADROOM).
const HEADROOM: usize = 256;
/// Number of bytes that some drivers reserve for a `struct skb_shared_info` at the end of a frame.
const TAILROOM: usize = 320;
/// Maximum number of attempts to bind a socket to a busy queue, and the pause between them.
const BIND_RETRIES_MAX: u32 = 100;
const BIND_RETRY_PAUSE: Duration = Duration::from_millis(10);
/// Socket option (since Linux 6.17) for the maximum number of frames that one call sends in copy
/// mode. Older kernels send at most 32 frames per call.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;
/// Maximum number of calls that one flush makes to empty the transmit ring.
const KICKS_MAX: u32 = FRAMES / 32;

/// Settings of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketOptions {
    /// Maximum size of an IP packet in bytes.
    pub mtu: u32,
}

/// A received frame, which stays valid until it is released.
#[derive(Debug)]
pub struct Frame {
    offset: u64,
    length: u32,
}

/// Number of frames that the kernel dropped, by reason (XDP_STATISTICS).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RingDrops {
    /// Received frames that were dropped because they were larger than the socket's frames, or
    /// because no memory was available.
    pub dropped: u64,
    /// Received frames that were dropped because the receive ring was full.
    pub receive_ring_full: u64,
    /// Received frames that were dropped because the fill ring was empty.
    pub fill_ring_empty: u64,
    /// Frames to be sent that were dropped because their entry in the ring was invalid.
    pub transmit_invalid: u64,
}

impl RingDrops {
    /// Returns the number of received frames that were dropped for any reason.
    pub fn received(self) -> u64 {
        self.dropped + self.receive_ring_full + self.fill_ring_empty
    }
}

impl std::ops::Add for RingDrops {
    type Output = RingDrops;

    fn add(self, other: RingDrops) -> RingDrops {
        RingDrops {
            dropped: self.dropped + other.dropped,
            receive_ring_full: self.receive_ring_full + other.receive_ring_full,
            fill_ring_empty: self.fill_ring_empty + other.fill_ring_empty,
            transmit_invalid: self.transmit_invalid + other.transmit_invalid,
        }
    }
}

/// An AF_XDP socket for one receive queue, and its frame memory (UMEM).
///
/// Received frames stay in this memory until [`QueueSocket::release`] is called. Frames to be sent
/// are written into the memory ([`QueueSocket::next_buffer`], [`QueueSocket::commit`]) and then
/// sent by [`QueueSocket::flush`].
#[derive(Debug)]
pub struct QueueSocket {
    // This field is declared first, so that the kernel stops using the memory before it is freed.
    descriptor: OwnedFd,
    memory: FrameMemory,
    receive: ConsumerRing<libc::xdp_desc>,
    fill: ProducerRing<u64>,
    transmit: ProducerRing<libc::xdp_desc>,
    completion: ConsumerRing<u64>,
    /// Offsets of frames that can be used for sending.
    free: Vec<u64>,
    is_zero_copy: bool,
    /// True if frames were released since the fill ring was last submitted.
    has_released: bool,
    /// True if frames were committed since the last flush.
    has_committed: bool,
}

/// Creates the error for a setup step that the system refused.
fn refused(step: &'static str) -> impl Fn(io::Error) -> XdpError {
    move |error| XdpError::System(step, error)
}

impl QueueSocket {
    /// Number of frames that are used for receiving.
    pub const RECEIVE_FRAMES: u32 = FRAMES / 2;

    /// Opens a socket for a receive queue and redirects the load's packets from that queue to it.
    /// Zero copy is used if the driver supports it.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses a step, for example because another socket is bound
    /// to the queue.
    pub fn open(
        attachment: &Attachment,
        queue: u32,
        options: SocketOptions,
    ) -> Result<QueueSocket, XdpError> {
        let (mtu, small) = (options.mtu as usize + crate::ETHERNET_HEADER, SMALL_FRAME);
        let frame_bytes = if mtu <= small - HEADROOM - TAILROOM / 2 {
            SMALL_FRAME
        } else {
            LARGE_FRAME
        };
        let memory = FrameMemory::new(FRAMES, frame_bytes).map_err(refused("allocating frames"))?;
        // SAFETY: the call takes no pointers.
        let number = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if number < 0 {
            return Err(refused("creating an AF_XDP socket")(
                io::Error::last_os_error(),
            ));
        }
        // SAFETY: the kernel has just created this descriptor for us.
        let descriptor = unsafe { OwnedFd::from_raw_fd(number) };
        let set_up = refused("setting up the rings of an AF_XDP socket");
        register(&descriptor, &memory).map_err(&set_up)?;
        let rings = Rings::new(&descriptor).map_err(&set_up)?;
        // Ignore errors: older kernels don't know this option, and need more calls to send all
        // frames.
        let _ = set_option(&descriptor, XDP_MAX_TX_SKB_BUDGET, &RING_ENTRIES);
        bind_patiently(&descriptor, attachment.interface(), queue).map_err(refused(
            "binding an AF_XDP socket to a receive queue (another program may use the queue)",
        ))?;
        let is_zero_copy = is_zero_copy(&descriptor).map_err(&set_up)?;
        let frames = u64::from(FRAMES) * frame_bytes as u64;
        let mut socket = QueueSocket {
            descriptor,
            memory,
            receive: rings.receive,
            fill: rings.fill,
            transmit: rings.transmit,
            completion: rings.completion,
            free: (frames / 2..frames).step_by(frame_bytes).collect(),
            is_zero_copy,
            has_released: true,
            has_committed: false,
        };
        for offset in (0..frames / 2).step_by(frame_bytes) {
            socket.fill.push(offset);
        }
        socket.refill();
        attachment
            .add_socket(queue, &socket.descriptor)
            .map_err(refused("adding an AF_XDP socket to its map"))?;
        Ok(socket)
    }

    /// Returns the size in bytes of the socket's frames and rings.
    pub fn memory_bytes(&self) -> usize {
        let rings = 2 * RING_ENTRIES as usize * (size_of::<libc::xdp_desc>() + size_of::<u64>());
        self.memory.len() + rings
    }

    /// Returns true if frames are not copied between the driver and this socket.
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Returns the next received frame, if one is waiting.
    pub fn receive(&mut self) -> Option<Frame> {
        let entry = self.receive.pop()?;
        Some(Frame {
            offset: entry.addr,
            length: entry.len,
        })
    }

    /// Returns true if a received frame is waiting.
    pub fn has_received(&mut self) -> bool {
        !self.receive.is_empty()
    }

    /// Returns the number of received frames that are waiting.
    pub fn received_count(&mut self) -> u32 {
        self.receive.available()
    }

    /// Returns the bytes of a received frame.
    pub fn bytes(&self, frame: &Frame) -> &[u8] {
        self.memory.bytes(frame.offset, frame.length)
    }

    /// Releases the memory of a received frame. The kernel can use the memory after the next
    /// [`QueueSocket::refill`].
    pub fn release(&mut self, frame: Frame) {
        let begin = frame.offset - frame.offset % self.memory.frame_bytes() as u64;
        // The fill ring has an entry for each frame that is used for receiving, so it is never
        // full.
        self.fill.push(begin);
        self.has_released = true;
    }

    /// Returns the memory of released frames to the kernel.
    pub fn refill(&mut self) {
        if std::mem::take(&mut self.has_released) {
            self.receive.release();
            self.fill.submit();
        }
        if self.fill.needs_wakeup() {
            // This call wakes a zero-copy driver that is waiting for frames. Ignore errors, because
            // the next wait reports them again. SAFETY: the call has no buffers.
            unsafe {
                libc::recvfrom(
                    self.descriptor.as_raw_fd(),
                    std::ptr::null_mut(),
                    0,
                    libc::MSG_DONTWAIT,
                    std::ptr::null_mut(),
                    std::ptr::null_mut(),
                );
            }
        }
    }

    /// Returns a buffer for the next frame to send; `None` while all buffers are in use.
    pub fn next_buffer(&mut self) -> Option<&mut [u8]> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let offset = *self.free.last()?;
        Some(self.memory.frame_mut(offset))
    }

    /// Queues the frame in the buffer that [`QueueSocket::next_buffer`] returned last. `length` is
    /// the size of the frame.
    pub fn commit(&mut self, length: usize) {
        let Some(&offset) = self.free.last() else {
            return;
        };
        let entry = libc::xdp_desc {
            addr: offset,
            len: length.min(self.memory.frame_bytes()) as u32,
            options: 0,
        };
        // The ring has an entry for each frame that can be used for sending, so it is never full.
        if self.transmit.push(entry) {
            self.free.pop();
            self.has_committed = true;
        }
    }

    /// Sends all queued frames. Frames that the interface doesn't accept yet are sent by a later
    /// flush.
    ///
    /// # Errors
    ///
    /// Returns an error if the interface is down or was removed.
    pub fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_committed) {
            self.transmit.submit();
        }
        let mut kicks = 0;
        while self.transmit.pending() > 0 && self.transmit.needs_wakeup() && kicks < KICKS_MAX {
            kicks += 1;
            if !self.kick()? {
                break;
            }
        }
        self.reclaim();
        Ok(())
    }

    /// Makes the kernel send some frames. Returns false if the kernel can't send more frames at
    /// present.
    fn kick(&self) -> io::Result<bool> {
        // SAFETY: the call has no buffers.
        let result = unsafe {
            libc::sendto(
                self.descriptor.as_raw_fd(),
                std::ptr::null(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null(),
                0,
            )
        };
        if result >= 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            // The kernel has sent only part of the frames, because it sends only a few dozen frames
            // per call.
            Some(libc::EAGAIN | libc::EINTR) => Ok(true),
            Some(libc::ENOBUFS | libc::EBUSY) => Ok(false),
            _ => Err(error),
        }
    }

    /// Returns true if some frames have not been accepted by the interface yet.
    pub fn has_unsent(&self) -> bool {
        self.transmit.pending() > 0
    }

    /// Reclaims the memory of frames that the kernel has sent.
    fn reclaim(&mut self) {
        while let Some(offset) = self.completion.pop() {
            self.free.push(offset);
        }
        self.completion.release();
    }

    /// Returns the numbers of frames that the kernel has dropped so far.
    ///
    /// # Errors
    ///
    /// Returns an error if the system does not report the numbers.
    pub fn drops(&self) -> io::Result<RingDrops> {
        // SAFETY: a structure of integers, for which zero is valid.
        let mut counts: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        get_option(&self.descriptor, libc::XDP_STATISTICS, &mut counts)?;
        Ok(RingDrops {
            dropped: counts.rx_dropped,
            receive_ring_full: counts.rx_ring_full,
            fill_ring_empty: counts.rx_fill_ring_empty_descs,
            transmit_invalid: counts.tx_invalid_descs,
        })
    }
}

impl AsFd for QueueSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

struct Rings {
    receive: ConsumerRing<libc::xdp_desc>,
    fill: ProducerRing<u64>,
    transmit: ProducerRing<libc::xdp_desc>,
    completion: ConsumerRing<u64>,
}

impl Rings {
    fn new(descriptor: &OwnedFd) -> io::Result<Rings> {
        for option in [
            libc::XDP_UMEM_FILL_RING,
            libc::XDP_UMEM_COMPLETION_RING,
            libc::XDP_RX_RING,
            libc::XDP_TX_RING,
        ] {
            set_option(descriptor, option, &RING_ENTRIES)?;
        }
        // SAFETY: a structure of integers, for which zero is valid.
        let mut offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        get_option(descriptor, libc::XDP_MMAP_OFFSETS, &mut offsets)?;
        let place = |file_offset, offsets| RingPlace {
            descriptor: descriptor.as_raw_fd(),
            file_offset,
            offsets,
            size: RING_ENTRIES,
        };
        let fill = libc::XDP_UMEM_PGOFF_FILL_RING as i64;
        let completion = libc::XDP_UMEM_PGOFF_COMPLETION_RING as i64;
        Ok(Rings {
            receive: ConsumerRing::new(place(libc::XDP_PGOFF_RX_RING, offsets.rx))?,
            fill: ProducerRing::new(place(fill, offsets.fr))?,
            transmit: ProducerRing::new(place(libc::XDP_PGOFF_TX_RING, offsets.tx))?,
            completion: ConsumerRing::new(place(completion, offsets.cr))?,
        })
    }
}

fn register(descriptor: &OwnedFd, memory: &FrameMemory) -> io::Result<()> {
    /// The first version of `struct xdp_umem_reg`, which every kernel accepts.
    #[repr(C)]
    struct Registration {
        address: u64,
        bytes: u64,
        frame_bytes: u32,
        headroom: u32,
    }
    let registration = Registration {
        address: memory.address(),
        bytes: memory.len() as u64,
        frame_bytes: memory.frame_bytes() as u32,
        headroom: 0,
    };
    set_option(descriptor, libc::XDP_UMEM_REG, &registration)
}

/// Binds a socket to a queue. The kernel frees the queue of a closed socket only after some
/// milliseconds, so binding to a busy queue is retried.
fn bind_patiently(descriptor: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    for _ in 0..BIND_RETRIES_MAX {
        match bind(descriptor, interface, queue) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(BIND_RETRY_PAUSE);
            }
            result => return result,
        }
    }
    bind(descriptor, interface, queue)
}

fn bind(descriptor: &OwnedFd, interface: u32, queue: u32) -> io::Result<()> {
    let address = libc::sockaddr_xdp {
        sxdp_family: libc::AF_XDP as u16,
        // As no flag selects a mode, the kernel uses zero copy if the driver supports it.
        sxdp_flags: libc::XDP_USE_NEED_WAKEUP,
        sxdp_ifindex: interface,
        sxdp_queue_id: queue,
        sxdp_shared_umem_fd: 0,
    };
    // SAFETY: the pointer refers to a complete local address, whose size is passed along.
    let result = unsafe {
        libc::bind(
            descriptor.as_raw_fd(),
            (&raw const address).cast(),
            size_of_val(&address) as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_zero_copy(descriptor: &OwnedFd) -> io::Result<bool> {
    let mut options = libc::xdp_options { flags: 0 };
    get_option(descriptor, libc::XDP_OPTIONS, &mut options)?;
    Ok(options.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
}

fn set_option<T>(descriptor: &OwnedFd, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer refers to a value, whose size is passed along.
    let result = unsafe {
        libc::setsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads a socket option whose value consists of integers. The kernel may fill only part of the
/// value.
fn get_option<T>(descriptor: &OwnedFd, option: i32, value: &mut T) -> io::Result<()> {
    let mut size = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer refers to a value of integers, whose size is passed along.
    let result = unsafe {
        libc::getsockopt(
            descriptor.as_raw_fd(),
            libc::SOL_XDP,
            option,
            std::ptr::from_mut(value).cast(),
            &raw mut size,
        )
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
