//! Event loop that sends the requests and reads the responses.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::arguments::Job;
use crate::sys::{self, Epoll, Ready, Watch};

/// Size of the receive buffer, shared by all connections.
const BUFFER_BYTES: usize = 256 * 1024;

/// Maximum number of sockets reported by one wait.
const EVENTS_MAX: usize = 1024;

/// Epoll key of the timer that ends the run.
const END_TIMER_KEY: u64 = u64::MAX;

/// Epoll key of the timer that paces the requests.
const TICK_TIMER_KEY: u64 = u64::MAX - 1;

/// A connection and the state of its response.
struct Connection {
    socket: OwnedFd,
    /// Bytes received so far of the current response.
    got: usize,
    /// True if the request has been sent.
    sent: bool,
}

struct Engine<'a> {
    job: &'a Job,
    server: libc::sockaddr_in,
    request: Vec<u8>,
    /// Size of one response in bytes, head and body.
    response_bytes: usize,
    epoll: Epoll,
    buffer: Vec<u8>,
    responses: u64,
    /// Keys of the connections that wait for the next tick.
    free: Vec<u64>,
    /// Ticks for which no connection was free yet.
    pending_ticks: u64,
}

/// Runs the load; returns the number of complete responses.
pub(crate) fn run(job: &Job) -> Result<u64, String> {
    let request = job.request();
    let mut engine = Engine {
        response_bytes: first_response(job, &request)
            .map_err(|e| format!("the first response: {e}"))?,
        job,
        server: sys::address(job.server),
        request,
        epoll: Epoll::new(EVENTS_MAX).map_err(|e| format!("epoll: {e}"))?,
        buffer: vec![0; BUFFER_BYTES],
        responses: 0,
        free: Vec::with_capacity(job.connections),
        pending_ticks: 0,
    };
    let second = Duration::from_secs(1);
    let end = engine.watch_timer(END_TIMER_KEY, second * job.seconds, Duration::ZERO)?;
    let tick = match job.rate {
        Some(rate) => Some(engine.watch_timer(TICK_TIMER_KEY, second / rate, second / rate)?),
        None => None,
    };
    let mut connections = Vec::with_capacity(job.connections);
    for key in 0..job.connections {
        connections.push(engine.open(key as u64)?);
    }
    loop {
        let found = engine.epoll.wait().map_err(|e| format!("wait: {e}"))?;
        for index in 0..found {
            let ready = engine.epoll.ready(index);
            if ready.key == END_TIMER_KEY {
                drop(end);
                return Ok(engine.responses);
            }
            if let (TICK_TIMER_KEY, Some(tick)) = (ready.key, &tick) {
                engine.pending_ticks += sys::ticks(tick).map_err(|e| format!("timer: {e}"))?;
                engine.start_pending(&connections)?;
                continue;
            }
            engine.turn(&mut connections[ready.key as usize], ready)?;
        }
    }
}

impl Engine<'_> {
    fn watch_timer(&self, key: u64, first: Duration, then: Duration) -> Result<OwnedFd, String> {
        let problem = |e: std::io::Error| format!("timer: {e}");
        let timer = sys::timer(first, then).map_err(problem)?;
        self.epoll
            .add(timer.as_raw_fd(), key, Watch::Input)
            .map_err(problem)?;
        Ok(timer)
    }

    /// Starts requests for pending ticks, as long as there are free connections.
    fn start_pending(&mut self, connections: &[Connection]) -> Result<(), String> {
        while self.pending_ticks > 0
            && let Some(key) = self.free.pop()
        {
            let fd = connections[key as usize].socket.as_raw_fd();
            sys::send(fd, &self.request).map_err(|e| format!("send: {e}"))?;
            self.pending_ticks -= 1;
        }
        Ok(())
    }

    /// Starts to connect and sends the request. On loopback the connection is established when
    /// `connect` returns; elsewhere the send fails with an error.
    fn open(&self, key: u64) -> Result<Connection, String> {
        let socket = sys::connect(&self.server).map_err(|e| format!("connect: {e}"))?;
        let mut connection = Connection {
            socket,
            got: 0,
            sent: true,
        };
        let fd = connection.socket.as_raw_fd();
        let watch = match sys::send(fd, &self.request) {
            Ok(_) => Watch::Input,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                connection.sent = false;
                Watch::Connect
            }
            Err(error) => return Err(format!("send: {error}")),
        };
        self.epoll
            .add(fd, key, watch)
            .map_err(|e| format!("epoll: {e}"))?;
        Ok(connection)
    }

    /// Continues a connection that is ready: sends the request, or reads from the response.
    fn turn(&mut self, connection: &mut Connection, ready: Ready) -> Result<(), String> {
        let fd = connection.socket.as_raw_fd();
        if !connection.sent {
            sys::send(fd, &self.request).map_err(|e| format!("send: {e}"))?;
            connection.sent = true;
            return self
                .epoll
                .change(fd, ready.key, Watch::Input)
                .map_err(|e| format!("epoll: {e}"));
        }
        let got = sys::receive(fd, &mut self.buffer).map_err(|e| format!("receive: {e}"))?;
        connection.got += got;
        if self.job.close {
            // The peer closed before this read, and the read didn't fill the buffer, so no data is
            // left.
            if got == 0 || ready.ended && got < self.buffer.len() {
                self.complete(connection)?;
                *connection = self.open(ready.key)?;
            }
            return Ok(());
        }
        if connection.got < self.response_bytes {
            if got == 0 {
                return Err("the server closed a connection unexpectedly".to_string());
            }
            return Ok(());
        }
        self.complete(connection)?;
        connection.got = 0;
        if self.job.rate.is_some() {
            self.free.push(ready.key);
            return Ok(());
        }
        sys::send(fd, &self.request).map_err(|e| format!("send: {e}"))?;
        Ok(())
    }

    fn complete(&mut self, connection: &Connection) -> Result<(), String> {
        if connection.got != self.response_bytes {
            let (got, expected) = (connection.got, self.response_bytes);
            return Err(format!(
                "response of {got} bytes; the first response had {expected}"
            ));
        }
        self.responses += 1;
        Ok(())
    }
}

/// Sends one request and returns the size of its response in bytes.
fn first_response(job: &Job, request: &[u8]) -> Result<usize, String> {
    let text = |e: std::io::Error| e.to_string();
    let mut stream = TcpStream::connect(job.server).map_err(text)?;
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .map_err(text)?;
    stream.write_all(request).map_err(text)?;
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let got = stream.read(&mut buffer).map_err(text)?;
        if got == 0 {
            return Err("ended before the end of its head".to_string());
        }
        head.extend_from_slice(&buffer[..got]);
        if let Some(bytes) = response_bytes(&head)? {
            return Ok(bytes);
        }
    }
}

/// Size of the response at the start of `bytes`, head and body; `None` while the head is
/// incomplete.
fn response_bytes(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let body: usize = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or("has no Content-Length")?;
    Ok(Some(end + 4 + body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddrV4, TcpListener};

    /// Starts a server that sends `keep` responses on each connection and ends after the client has
    /// closed.
    fn server(keep: usize) -> SocketAddrV4 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let Ok(std::net::SocketAddr::V4(address)) = listener.local_addr() else {
            panic!("an IPv4 listener")
        };
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                std::thread::spawn(move || {
                    let mut request = [0; 1024];
                    for _ in 0..keep {
                        if !matches!(stream.read(&mut request), Ok(n) if n > 0) {
                            return;
                        }
                        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
                        let _ = stream.write_all(head);
                        let _ = stream.write_all(b"hello");
                    }
                });
            }
        });
        address
    }

    fn job(server: SocketAddrV4, close: bool) -> Job {
        Job {
            server,
            connections: 3,
            seconds: 1,
            path: "/".to_string(),
            host: "a".to_string(),
            close,
            rate: None,
        }
    }

    #[test]
    fn a_rate_bounds_the_responses() {
        let paced = Job {
            rate: Some(50),
            ..job(server(usize::MAX), false)
        };
        // Each connection sends one request at the start; then there is one request per tick.
        let responses = run(&paced).unwrap();
        assert!((4..=3 + 50).contains(&responses), "{responses}");
    }

    #[test]
    fn responses_are_counted_on_kept_and_on_new_connections() {
        assert!(run(&job(server(usize::MAX), false)).unwrap() > 0);
        assert!(run(&job(server(1), true)).unwrap() > 0);
    }

    #[test]
    fn a_server_that_closes_a_connection_ends_the_run() {
        let problem = run(&job(server(1), false)).unwrap_err();
        // The server answers data that arrives after its close with a reset.
        let is_reported = problem.contains("closed") || problem.contains("reset");
        assert!(is_reported, "{problem}");
    }

    #[test]
    fn the_length_is_read_from_the_head() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHel";
        assert_eq!(response_bytes(head), Ok(Some(head.len() - 3 + 13)));
        assert_eq!(response_bytes(&head[..30]), Ok(None));
        assert!(response_bytes(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
