//! Event loop of the responder.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The response to each request. Its length is a multiple of four.
pub(crate) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHello, world!";

/// End of a request without a body.
const REQUEST_END: &[u8; 4] = b"\r\n\r\n";

/// Size of the receive buffer, shared by all connections.
const BUFFER_BYTES: usize = 64 * 1024;

/// Maximum number of sockets reported by one wait.
const EVENTS_MAX: usize = 1024;

/// Number of arrivals that fit without reallocation: 4 s at 500,000 requests per second.
const ARRIVALS_RESERVED: usize = 2_000_000;

static IS_STOPPED: AtomicBool = AtomicBool::new(false);

/// A connection and its progress toward the end of a request.
struct Connection {
    stream: TcpStream,
    number: u32,
    /// Length of the longest prefix of [`REQUEST_END`] that the received bytes end with.
    matched: usize,
}

/// Arrival time of one request.
#[derive(Clone, Copy)]
struct Arrival {
    connection: u32,
    at_ns: u64,
}

/// Serves until SIGTERM, then writes the arrivals to `file`. Returns a message for the user on
/// error.
pub(crate) fn run(address: &str, file: &str) -> Result<(), String> {
    stop_at_sigterm();
    let listener = TcpListener::bind(address).map_err(|e| format!("{address}: {e}"))?;
    let arrivals = serve(&listener).map_err(|e| e.to_string())?;
    let mut bytes = Vec::with_capacity(arrivals.len() * 12);
    for arrival in arrivals {
        bytes.extend_from_slice(&arrival.connection.to_le_bytes());
        bytes.extend_from_slice(&arrival.at_ns.to_le_bytes());
    }
    std::fs::write(file, bytes).map_err(|e| format!("{file}: {e}"))
}

fn serve(listener: &TcpListener) -> io::Result<Vec<Arrival>> {
    listener.set_nonblocking(true)?;
    // SAFETY: the call takes no pointers; the result is checked before use.
    let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
    checked(epoll)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
    watch(&epoll, listener.as_raw_fd())?;
    let mut connections: HashMap<RawFd, Connection> = HashMap::new();
    let mut opened = 0;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut events = vec![libc::epoll_event { events: 0, u64: 0 }; EVENTS_MAX];
    // Write every element once to avoid page faults during the measurement.
    let unused = Arrival {
        connection: u32::MAX,
        at_ns: u64::MAX,
    };
    let mut arrivals = vec![unused; ARRIVALS_RESERVED];
    arrivals.clear();
    while !IS_STOPPED.load(Ordering::Relaxed) {
        let room = events.len() as i32;
        // SAFETY: the kernel writes at most `room` events, and the vector has that length.
        let found = unsafe { libc::epoll_wait(epoll.as_raw_fd(), events.as_mut_ptr(), room, -1) };
        let Ok(found) = usize::try_from(found) else {
            let error = io::Error::last_os_error();
            match error.kind() {
                ErrorKind::Interrupted => continue,
                _ => return Err(error),
            }
        };
        let at_ns = now_ns();
        for event in &events[..found] {
            let fd = event.u64 as RawFd;
            if fd == listener.as_raw_fd() {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    watch(&epoll, stream.as_raw_fd())?;
                    let connection = Connection {
                        stream,
                        number: opened,
                        matched: 0,
                    };
                    connections.insert(connection.stream.as_raw_fd(), connection);
                    opened += 1;
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&fd) else {
                continue;
            };
            match respond(connection, &mut buffer) {
                Ok(Some(requests)) => {
                    let arrival = Arrival {
                        connection: connection.number,
                        at_ns,
                    };
                    arrivals.extend(std::iter::repeat_n(arrival, requests));
                }
                // Dropping the stream closes the socket, which also removes it from epoll.
                Ok(None) | Err(_) => {
                    connections.remove(&fd);
                }
            }
        }
    }
    Ok(arrivals)
}

/// Reads once and responds to each complete request. Returns the number of responses, or `None` at
/// the end of the stream.
fn respond(connection: &mut Connection, buffer: &mut [u8]) -> io::Result<Option<usize>> {
    let got = match connection.stream.read(buffer) {
        Ok(0) => return Ok(None),
        Ok(got) => got,
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Some(0)),
        Err(error) => return Err(error),
    };
    let requests = count_ends(&buffer[..got], &mut connection.matched);
    for _ in 0..requests {
        connection.stream.write_all(RESPONSE)?;
    }
    Ok(Some(requests))
}

/// Counts the requests that end in `bytes`. `matched` is the length of the matched prefix of
/// [`REQUEST_END`], before and after the call.
fn count_ends(bytes: &[u8], matched: &mut usize) -> usize {
    let mut ends = 0;
    for &byte in bytes {
        *matched = match byte {
            _ if byte == REQUEST_END[*matched] => *matched + 1,
            b'\r' => 1,
            _ => 0,
        };
        if *matched == REQUEST_END.len() {
            *matched = 0;
            ends += 1;
        }
    }
    ends
}

fn watch(epoll: &OwnedFd, fd: RawFd) -> io::Result<()> {
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: fd as u64,
    };
    // SAFETY: `event` is valid during the call; the kernel copies it.
    checked(unsafe { libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &mut event) })
}

fn now_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the pointer refers to a local value; `CLOCK_MONOTONIC` always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Sleeps until SIGTERM.
pub(crate) fn wait_for_sigterm() {
    stop_at_sigterm();
    while !IS_STOPPED.load(Ordering::Relaxed) {
        // A signal between the check and the sleep is noticed after the sleep.
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

extern "C" fn stop(_: libc::c_int) {
    IS_STOPPED.store(true, Ordering::Relaxed);
}

fn stop_at_sigterm() {
    // SAFETY: all zeroes is a valid `sigaction`; the handler only stores to an atomic. Without
    // SA_RESTART, the signal interrupts the wait.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stop as extern "C" fn(libc::c_int) as usize;
        libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut());
    }
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_found_however_the_bytes_are_split() {
        let bytes = b"GET / HTTP/1.1\r\nA: b\r\r\n\r\nGET / HTTP/1.1\r\n\r\nGET";
        for split in 0..bytes.len() {
            let (first, second) = bytes.split_at(split);
            let mut matched = 0;
            let ends = count_ends(first, &mut matched) + count_ends(second, &mut matched);
            assert_eq!(ends, 2, "split at {split}");
        }
    }
}
