//! Command-line arguments of the HTTP/3 floor program.

use std::net::SocketAddr;

/// Message for invalid arguments.
pub(crate) const USAGE: &str = "\
usage: prony-quic-floor ADDRESS:PORT [--connections N] [--streams N] [--seconds N] [--path PATH]";

/// Settings of a run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Address of the server.
    pub(crate) server: SocketAddr,
    /// Number of concurrent connections, at least 1.
    pub(crate) connections: usize,
    /// Number of concurrent streams per connection, at least 1.
    pub(crate) streams: usize,
    /// Duration in seconds, at least 1.
    pub(crate) seconds: u64,
    /// Path of the request.
    pub(crate) path: String,
}

impl Job {
    /// Encodes the request as one HEADERS frame (RFC 9114 §7.2.2), with the static table of QPACK.
    pub(crate) fn request(&self) -> Vec<u8> {
        // No dynamic table; `:method: GET` and `:scheme: https` (RFC 9204 appendix A).
        let mut fields = vec![0, 0, 0xc0 | 17, 0xc0 | 23];
        // Literal values with the names `:authority` (0) and `:path` (1).
        for (name, value) in [(0, self.server.to_string()), (1, self.path.clone())] {
            fields.push(0x50 | name);
            fields.extend(prefixed(value.len(), 7));
            fields.extend(value.as_bytes());
        }
        let length = u16::try_from(fields.len()).unwrap_or(u16::MAX) | 0x4000;
        let mut frame = vec![0x01];
        frame.extend(length.to_be_bytes());
        frame.extend(fields);
        frame
    }
}

/// Encodes an integer with a prefix of `bits` bits (RFC 7541 §5.1). The other bits of the first
/// byte are 0.
fn prefixed(mut value: usize, bits: u32) -> Vec<u8> {
    let most = (1 << bits) - 1;
    if value < most {
        return vec![value as u8];
    }
    let mut bytes = vec![most as u8];
    value -= most;
    while value >= 128 {
        bytes.push((value % 128) as u8 | 0x80);
        value /= 128;
    }
    bytes.push(value as u8);
    bytes
}

/// Parses the arguments. Returns a message for the user on error.
pub(crate) fn parse(words: &[String]) -> Result<Job, String> {
    let [server, rest @ ..] = words else {
        return Err("the server's address is missing".to_string());
    };
    let mut job = Job {
        server: number("address", server)?,
        connections: 16,
        streams: 32,
        seconds: 6,
        path: "/".to_string(),
    };
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--connections" => job.connections = number(flag, value()?)?,
            "--streams" => job.streams = number(flag, value()?)?,
            "--seconds" => job.seconds = number(flag, value()?)?,
            "--path" => job.path = value()?.clone(),
            _ => return Err(format!("unknown argument: {flag}")),
        }
    }
    if job.connections == 0 || job.streams == 0 || job.seconds == 0 {
        return Err("--connections, --streams and --seconds must be at least 1".to_string());
    }
    if job.path.len() > 1000 {
        return Err("--path is longer than 1,000 bytes".to_string());
    }
    Ok(job)
}

fn number<T: std::str::FromStr>(name: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name}: not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        parse(&words)
    }

    #[test]
    fn the_request_is_one_frame_of_four_fields() {
        let job = parsed("127.0.0.1:9 --path /13 --streams 4").unwrap();
        assert_eq!((job.connections, job.streams), (16, 4));
        let fields = b"\x00\x00\xd1\xd7\x50\x0b127.0.0.1:9\x51\x03/13";
        let expected = [&[1, 0x40, fields.len() as u8][..], fields].concat();
        assert_eq!(job.request(), expected);
        assert_eq!(prefixed(127, 7), [127, 0]);
        assert_eq!(prefixed(300, 7), [127, 0xad, 1]);
    }

    #[test]
    fn invalid_arguments_are_refused() {
        for line in [
            "",
            "127.0.0.1",
            "localhost:80",
            "127.0.0.1:80 --connections 0",
            "127.0.0.1:80 --seconds",
            "127.0.0.1:80 --fast",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
