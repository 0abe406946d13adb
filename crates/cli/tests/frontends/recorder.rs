//! A server that records its requests.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

/// A request that the server received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    /// Index of the connection, from 0.
    pub(crate) connection: usize,
    /// Address of the client.
    pub(crate) from: IpAddr,
    pub(crate) line: String,
    /// Header lines as received.
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
}

impl RecordedRequest {
    /// Returns the value of a header. The name is case-insensitive.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Returns the status and additional header lines of a response, such as `200 OK\r\nA: b`.
type Respond = dyn Fn(&RecordedRequest) -> String + Send + Sync;

/// A server that records every request and responds with `hello`. Dropping this value stops it.
pub(crate) struct Recorder {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<RecordedRequest>>>,
    is_over: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Starts a server on a free loopback port.
    pub(crate) fn start() -> Recorder {
        Recorder::responding(|_| "200 OK".to_owned())
    }

    /// Starts a server. `respond` returns the status and the additional header lines of each
    /// response.
    pub(crate) fn responding(
        respond: impl Fn(&RecordedRequest) -> String + Send + Sync + 'static,
    ) -> Recorder {
        let respond: Arc<Respond> = Arc::new(respond);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let is_over = Arc::new(AtomicBool::new(false));
        let (kept, over) = (asked.clone(), is_over.clone());
        let listening = thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (stream, kept, respond) = (stream.unwrap(), kept.clone(), respond.clone());
                // The thread for a connection exits when its client disconnects.
                thread::spawn(move || serve(&stream, number, &kept, &*respond));
            }
        });
        Recorder {
            address,
            asked,
            is_over,
            listening: Some(listening),
        }
    }

    /// Returns the server's address, `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    /// Returns a URL on the server.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests since the previous call.
    pub(crate) fn take(&self) -> Vec<RecordedRequest> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Connect once, so that the listening thread wakes up and exits.
        let _ = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ = listening.join();
        }
    }
}

fn serve(
    stream: &TcpStream,
    connection: usize,
    kept: &Mutex<Vec<RecordedRequest>>,
    respond: &Respond,
) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader, connection) {
        // HTTP/1.0 closes the connection unless a header asks to keep it open.
        let connection_header = asked.header("connection").map(str::to_ascii_lowercase);
        let stays = connection_header.as_deref() == Some("keep-alive");
        let closes = connection_header.as_deref() == Some("close")
            || (asked.line.ends_with("/1.0") && !stays);
        let is_head = asked.line.starts_with("HEAD ");
        let status = respond(&asked);
        kept.lock().unwrap().push(asked);
        let body = if is_head { "" } else { "hello" };
        let connection = match (closes, stays) {
            (true, _) => "Connection: close\r\n",
            (false, true) => "Connection: Keep-Alive\r\n",
            (false, false) => "",
        };
        let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 5\r\n{connection}\r\n{body}");
        if reader.get_mut().write_all(answer.as_bytes()).is_err() || closes {
            return;
        }
    }
}

fn read(reader: &mut BufReader<&TcpStream>, connection: usize) -> Option<RecordedRequest> {
    let mut line = || {
        let mut line = String::new();
        let read = reader.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim_end().to_owned())
    };
    let first = line()?;
    let mut headers = Vec::new();
    loop {
        match line()? {
            empty if empty.is_empty() => break,
            header => headers.push(header),
        }
    }
    let mut asked = RecordedRequest {
        connection,
        from: reader.get_ref().peer_addr().ok()?.ip(),
        line: first,
        headers,
        body: Vec::new(),
    };
    let length = asked
        .header("content-length")
        .map_or(0, |n| n.parse().unwrap());
    asked.body = vec![0; length];
    reader.read_exact(&mut asked.body).ok()?;
    Some(asked)
}
