//! Thin wrappers around system calls.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Event that a socket is watched for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Watch {
    /// Input or end of stream.
    Input,
    /// Completion of a connection attempt.
    Connect,
}

/// Readiness of one socket, as reported by a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ready {
    /// Key under which the socket was added.
    pub(crate) key: u64,
    /// True if the peer has closed its side of the connection.
    pub(crate) ended: bool,
}

/// An epoll instance with its event buffer.
pub(crate) struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// Creates an instance that reports at most `room` sockets per wait.
    pub(crate) fn new(room: usize) -> io::Result<Epoll> {
        // SAFETY: the call takes no pointers; `owned` checks the result.
        let fd = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        let events = vec![libc::epoll_event { events: 0, u64: 0 }; room];
        Ok(Epoll { fd, events })
    }

    /// Adds a socket, level-triggered.
    pub(crate) fn add(&self, fd: RawFd, key: u64, watch: Watch) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, key, watch)
    }

    /// Changes the event that a socket is watched for.
    pub(crate) fn change(&self, fd: RawFd, key: u64, watch: Watch) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, key, watch)
    }

    fn control(&self, operation: i32, fd: RawFd, key: u64, watch: Watch) -> io::Result<()> {
        let events = match watch {
            Watch::Input => libc::EPOLLIN | libc::EPOLLRDHUP,
            Watch::Connect => libc::EPOLLOUT,
        };
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: key,
        };
        // SAFETY: `event` is valid during the call; the kernel copies it.
        checked(unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), operation, fd, &mut event) })
    }

    /// Waits for at least one socket; returns the number of entries for [`Epoll::ready`].
    pub(crate) fn wait(&mut self) -> io::Result<usize> {
        let room = self.events.len() as i32;
        // SAFETY: the kernel writes at most `room` events, and the vector has that length.
        let found =
            unsafe { libc::epoll_wait(self.fd.as_raw_fd(), self.events.as_mut_ptr(), room, -1) };
        usize::try_from(found).map_err(|_| io::Error::last_os_error())
    }

    /// Returns entry `index` of the last wait.
    pub(crate) fn ready(&self, index: usize) -> Ready {
        let event = self.events[index];
        Ready {
            key: event.u64,
            ended: event.events & libc::EPOLLRDHUP as u32 != 0,
        }
    }
}

/// Creates a timer that expires after `first` and then every `then`; if `then` is zero, it expires
/// once.
pub(crate) fn timer(first: Duration, then: Duration) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers; `owned` checks the result.
    let fd = owned(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) })?;
    let span = |time: Duration| libc::timespec {
        tv_sec: time.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(time.subsec_nanos() as i32),
    };
    let times = libc::itimerspec {
        it_interval: span(then),
        it_value: span(first),
    };
    // SAFETY: `times` is valid during the call; a null pointer for the old value is allowed.
    checked(unsafe { libc::timerfd_settime(fd.as_raw_fd(), 0, &times, std::ptr::null_mut()) })?;
    Ok(fd)
}

/// Returns the expiration count of a readable timer since the last call.
pub(crate) fn ticks(timer: &OwnedFd) -> io::Result<u64> {
    let mut count = [0; 8];
    // SAFETY: the pointer and the length describe `count`, which is writable.
    let got = unsafe { libc::read(timer.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
    Ok(u64::from_ne_bytes(count))
}

/// Creates a nonblocking socket and starts to connect it to `server`.
pub(crate) fn connect(server: &libc::sockaddr_in) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the call takes no pointers; `owned` checks the result.
    let fd = owned(unsafe { libc::socket(libc::AF_INET, kind, 0) })?;
    let length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: the pointer refers to a complete `sockaddr_in`, and `length` is its size.
    let result = unsafe { libc::connect(fd.as_raw_fd(), (&raw const *server).cast(), length) };
    match checked(result) {
        Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => Ok(fd),
        result => result.map(|()| fd),
    }
}

/// Converts an address to the kernel's representation.
pub(crate) fn address(server: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: server.port().to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_ne_bytes(server.ip().octets()),
        },
        sin_zero: [0; 8],
    }
}

/// Sends without blocking.
pub(crate) fn send(fd: RawFd, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe `bytes`.
    let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Receives without blocking; 0 is the end of the stream.
pub(crate) fn receive(fd: RawFd, buffer: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and the length describe `buffer`, which is writable.
    let got = unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

fn owned(fd: RawFd) -> io::Result<OwnedFd> {
    checked(fd)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
