//! A server on the kernel's sockets.

use std::io::{Read, Write};
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Time without progress after which the server abandons a connection.
const SILENCE_MAX: Duration = Duration::from_secs(600);
/// Size of a request's header, in bytes.
pub(crate) const HEADER: usize = 9;

/// The server's action after a request. Each request selects its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The connection stays open for more requests.
    Keep,
    /// The server closes after the response.
    Close,
    /// The server resets the connection after part of the response.
    Reset,
    /// The server reads slowly, and keeps the connection.
    Slow,
}

pub(crate) fn body_byte(position: usize) -> u8 {
    (position.wrapping_mul(2_654_435_761) >> 9) as u8
}

/// Creates a request with its header and body.
pub(crate) fn request(upload: usize, download: usize, end: End) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + upload);
    bytes.extend((upload as u32).to_be_bytes());
    bytes.extend((download as u32).to_be_bytes());
    bytes.push(end as u8);
    bytes.extend((0..upload).map(body_byte));
    bytes
}

#[derive(Debug, Default)]
pub(crate) struct ServerCounts {
    /// Requests with wrong bytes.
    pub(crate) wrong: AtomicU64,
    /// Connections that the client reset.
    pub(crate) resets: AtomicU64,
}

/// The server, which stops accepting connections when it is dropped.
pub(crate) struct Server {
    listener: Arc<TcpListener>,
    pub(crate) counts: Arc<ServerCounts>,
}

impl Server {
    /// Listens for IPv4 and IPv6 in the namespace of this thread. `receive_buffer` is the size of
    /// the sockets' buffers in bytes, or 0 for the kernel's choice.
    pub(crate) fn new(receive_buffer: usize) -> Server {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80));
        let listener = Arc::new(TcpListener::bind(any).unwrap());
        if receive_buffer > 0 {
            let size = receive_buffer as libc::c_int;
            set_option(listener.as_raw_fd(), libc::SO_RCVBUF, &size);
        }
        let counts = Arc::<ServerCounts>::default();
        let server = Server {
            listener: Arc::clone(&listener),
            counts: Arc::clone(&counts),
        };
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || serve(stream, &counts));
            }
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SAFETY: a plain system call on an open descriptor; it ends the `accept` of the thread.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

fn set_option<T>(descriptor: libc::c_int, option: libc::c_int, value: &T) {
    // SAFETY: the value outlives the call, and its size is given.
    let set = unsafe {
        libc::setsockopt(
            descriptor,
            libc::SOL_SOCKET,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    assert_eq!(set, 0, "{}", std::io::Error::last_os_error());
}

fn serve(mut stream: TcpStream, counts: &ServerCounts) {
    stream.set_read_timeout(Some(SILENCE_MAX)).unwrap();
    stream.set_write_timeout(Some(SILENCE_MAX)).unwrap();
    stream.set_nodelay(true).unwrap();
    loop {
        match serve_request(&mut stream, counts) {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                counts.resets.fetch_add(1, Ordering::Relaxed);
                return;
            }
            Err(_) => return,
        }
    }
}

/// Serves one request. Returns false at the end of the connection.
fn serve_request(stream: &mut TcpStream, counts: &ServerCounts) -> std::io::Result<bool> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let [a, b, c, d, e, f, g, h, end] = header;
    let upload = u32::from_be_bytes([a, b, c, d]) as usize;
    let download = u32::from_be_bytes([e, f, g, h]) as usize;
    let mut buffer = [0; 4_096];
    let mut position = 0;
    while position < upload {
        let limit = buffer.len().min(upload - position);
        let count = stream.read(&mut buffer[..limit])?;
        if count == 0 {
            return Ok(false);
        }
        let is_right = |(at, byte): (usize, &u8)| *byte == body_byte(position + at);
        if !buffer[..count].iter().enumerate().all(is_right) {
            counts.wrong.fetch_add(1, Ordering::Relaxed);
        }
        position += count;
        if end == End::Slow as u8 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let body: Vec<u8> = (0..download).map(body_byte).collect();
    if end == End::Reset as u8 {
        stream.write_all(&body[..download / 2])?;
        let linger = libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        set_option(stream.as_raw_fd(), libc::SO_LINGER, &linger);
        return Ok(false);
    }
    stream.write_all(&body)?;
    Ok(end != End::Close as u8)
}
