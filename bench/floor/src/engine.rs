//! The loop.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use crate::arguments::Job;
use crate::sys::{self, Epoll, Ready, Watch};

/// The buffer that every answer is received into.
const BUFFER_BYTES: usize = 256 * 1024;

/// Sockets reported by one wait at most.
const EVENTS: usize = 1024;

/// The key of the timer that ends the run.
const END: u64 = u64::MAX;

/// The key of the timer that a rate is kept by.
const TICK: u64 = u64::MAX - 1;

/// One connection at a time, and how far its answer is.
struct Connection {
    socket: OwnedFd,
    /// Bytes of the answer that have come.
    got: usize,
    /// Whether the request has been sent.
    sent: bool,
}

struct Engine<'a> {
    job: &'a Job,
    server: libc::sockaddr_in,
    request: Vec<u8>,
    /// Bytes of one answer, head and body.
    answer_bytes: usize,
    epoll: Epoll,
    buffer: Vec<u8>,
    answers: u64,
    /// Connections that wait for the next tick.
    free: Vec<u64>,
    /// Ticks that found no connection.
    owed: u64,
}

/// Runs to its end; returns the number of whole answers.
pub(crate) fn run(job: &Job) -> Result<u64, String> {
    let request = job.request();
    let mut engine = Engine {
        answer_bytes: first_answer(job, &request).map_err(|e| format!("the first answer: {e}"))?,
        job,
        server: sys::address(job.server),
        request,
        epoll: Epoll::new(EVENTS).map_err(|e| format!("epoll: {e}"))?,
        buffer: vec![0; BUFFER_BYTES],
        answers: 0,
        free: Vec::with_capacity(job.connections),
        owed: 0,
    };
    let second = Duration::from_secs(1);
    let end = engine.watch_timer(END, second * job.seconds, Duration::ZERO)?;
    let tick = match job.rate {
        Some(rate) => Some(engine.watch_timer(TICK, second / rate, second / rate)?),
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
            if ready.key == END {
                drop(end);
                return Ok(engine.answers);
            }
            if let (TICK, Some(tick)) = (ready.key, &tick) {
                engine.owed += sys::ticks(tick).map_err(|e| format!("timer: {e}"))?;
                engine.start_owed(&connections)?;
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
            .add(timer.as_raw_fd(), key, Watch::Answer)
            .map_err(problem)?;
        Ok(timer)
    }

    /// Sends what ticks have asked for, as far as there are connections.
    fn start_owed(&mut self, connections: &[Connection]) -> Result<(), String> {
        while self.owed > 0
            && let Some(key) = self.free.pop()
        {
            let fd = connections[key as usize].socket.as_raw_fd();
            sys::send(fd, &self.request).map_err(|e| format!("send: {e}"))?;
            self.owed -= 1;
        }
        Ok(())
    }

    /// Connects and sends. On the loopback a connect is through when the call returns, so that no
    /// wait is needed before the send; elsewhere the send says so.
    fn open(&self, key: u64) -> Result<Connection, String> {
        let socket = sys::connect(&self.server).map_err(|e| format!("connect: {e}"))?;
        let mut connection = Connection {
            socket,
            got: 0,
            sent: true,
        };
        let fd = connection.socket.as_raw_fd();
        let watch = match sys::send(fd, &self.request) {
            Ok(_) => Watch::Answer,
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

    /// Takes one step with a connection that is ready.
    fn turn(&mut self, connection: &mut Connection, ready: Ready) -> Result<(), String> {
        let fd = connection.socket.as_raw_fd();
        if !connection.sent {
            sys::send(fd, &self.request).map_err(|e| format!("send: {e}"))?;
            connection.sent = true;
            return self
                .epoll
                .change(fd, ready.key, Watch::Answer)
                .map_err(|e| format!("epoll: {e}"));
        }
        let got = sys::receive(fd, &mut self.buffer).map_err(|e| format!("receive: {e}"))?;
        connection.got += got;
        if self.job.close {
            // The end was there before the bytes were read, and they left room: nothing is left.
            if got == 0 || ready.ended && got < self.buffer.len() {
                self.complete(connection)?;
                *connection = self.open(ready.key)?;
            }
            return Ok(());
        }
        if connection.got < self.answer_bytes {
            if got == 0 {
                return Err("the server closed a connection".to_string());
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
        if connection.got != self.answer_bytes {
            let (got, expected) = (connection.got, self.answer_bytes);
            return Err(format!(
                "an answer of {got} bytes, the first had {expected}"
            ));
        }
        self.answers += 1;
        Ok(())
    }
}

/// The length of an answer, learned from one that is asked for before the load begins.
fn first_answer(job: &Job, request: &[u8]) -> Result<usize, String> {
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
            return Err("ended within its head".to_string());
        }
        head.extend_from_slice(&buffer[..got]);
        if let Some(bytes) = answer_bytes(&head)? {
            return Ok(bytes);
        }
    }
}

/// Bytes of the answer whose beginning is `bytes`, head and body; none until the head is whole.
fn answer_bytes(bytes: &[u8]) -> Result<Option<usize>, String> {
    let Some(end) = bytes.windows(4).position(|w| w == b"\r\n\r\n") else {
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&bytes[..end]);
    let body: usize = head
        .lines()
        .filter_map(|l| l.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
        .and_then(|(_, value)| value.trim().parse().ok())
        .ok_or("says no Content-Length")?;
    Ok(Some(end + 4 + body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{SocketAddrV4, TcpListener};

    /// Answers until the client is gone; `keep` answers on each connection.
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
    fn a_rate_bounds_the_answers() {
        let paced = Job {
            rate: Some(50),
            ..job(server(usize::MAX), false)
        };
        // One for each connection at the beginning, and no more than the ticks of a second.
        let answers = run(&paced).unwrap();
        assert!((4..=3 + 50).contains(&answers), "{answers}");
    }

    #[test]
    fn answers_are_counted_on_connections_that_stay_and_on_new_ones() {
        assert!(run(&job(server(usize::MAX), false)).unwrap() > 0);
        assert!(run(&job(server(1), true)).unwrap() > 0);
    }

    #[test]
    fn a_server_that_closes_a_connection_ends_the_run() {
        let problem = run(&job(server(1), false)).unwrap_err();
        // What was sent to it meanwhile is answered with a reset.
        let is_told = problem.contains("closed") || problem.contains("reset");
        assert!(is_told, "{problem}");
    }

    #[test]
    fn the_length_comes_from_the_head() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\nHel";
        assert_eq!(answer_bytes(head), Ok(Some(head.len() - 3 + 13)));
        assert_eq!(answer_bytes(&head[..30]), Ok(None));
        assert!(answer_bytes(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
