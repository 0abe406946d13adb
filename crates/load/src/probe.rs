//! One request at a time, with its answer kept: to see whether a server is ready, and whether
//! variants return the same bytes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use prony_record::{Negotiated, Outcome};
use sha2::{Digest, Sha256};

use crate::connection::{Connection, Progress};
use crate::socket::Peer;
use crate::spec::LoadSpec;

/// What came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Method and URL.
    pub request: String,
    /// The final status.
    pub status: u16,
    /// The body's length in bytes.
    pub length: u64,
    /// The body's SHA-256.
    pub sha256: [u8; 32],
    /// What was agreed on.
    pub negotiated: Negotiated,
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

/// Sends the spec's request number `index` over a connection of its own and reads the answer,
/// whatever its status.
///
/// # Errors
///
/// In words why there is no whole answer within `timeout`.
pub fn probe(spec: &LoadSpec, index: usize, timeout: Duration) -> Result<Answer, String> {
    let until = Instant::now() + timeout;
    let request = &spec.requests[index];
    let target = &spec.targets[request.target as usize];
    let mut stream = connect(&target.peer, timeout)?;
    let mut connection = Connection::new();
    connection.keep_body();
    match (&target.tls, &spec.tls) {
        (Some(name), Some(config)) => {
            connection
                .open_tls(config, name)
                .map_err(|reason| reason.to_string())?;
            flush(&mut connection, &mut *stream)?;
        }
        _ => {
            connection.open();
            connection.begin(request, &spec.expect);
            stream
                .write_all(&request.bytes)
                .map_err(|error| error.to_string())?;
        }
    }
    let mut buffer = vec![0; 64 * 1024];
    loop {
        if Instant::now() >= until {
            return Err(format!("no whole answer within {timeout:?}"));
        }
        let progress = match stream.read(&mut buffer) {
            Ok(0) => connection.closed(&spec.expect),
            Ok(length) => connection.receive(&buffer[..length], &spec.expect),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Progress::Waiting,
            Err(error) => return Err(format!("reading the answer: {error}")),
        };
        match progress {
            Progress::Waiting => flush(&mut connection, &mut *stream)?,
            Progress::Secured => {
                connection.begin(request, &spec.expect);
                flush(&mut connection, &mut *stream)?;
            }
            Progress::Answered { .. } => {
                let body = connection.take_body();
                return Ok(Answer {
                    request: request.name.clone(),
                    status: connection.status().unwrap_or(0),
                    length: body.len() as u64,
                    sha256: Sha256::digest(&body).into(),
                    negotiated: connection.negotiated(),
                });
            }
            Progress::Broken(outcome, reason) => {
                return Err(format!("{}: {reason}", outcome.name()));
            }
            Progress::Lost | Progress::Idle | Progress::Unasked => {
                return Err(Outcome::ClosedEarly.name().to_owned());
            }
        }
    }
}

fn flush(connection: &mut Connection, stream: &mut dyn Stream) -> Result<(), String> {
    let mut out = Vec::new();
    connection.take_out(&mut out);
    stream
        .write_all(&out)
        .map_err(|error| format!("sending the request: {error}"))
}

fn connect(peer: &Peer, timeout: Duration) -> Result<Box<dyn Stream>, String> {
    let failed = |error: std::io::Error| format!("connecting: {error}");
    match peer {
        Peer::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, timeout).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            stream.set_write_timeout(Some(timeout)).map_err(failed)?;
            Ok(Box::new(stream))
        }
        Peer::Unix(path) => {
            let stream = UnixStream::connect(path).map_err(failed)?;
            stream.set_read_timeout(Some(timeout)).map_err(failed)?;
            stream.set_write_timeout(Some(timeout)).map_err(failed)?;
            Ok(Box::new(stream))
        }
    }
}
