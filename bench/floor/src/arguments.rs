//! Command-line arguments of the floor program.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Message for invalid arguments.
pub(crate) const USAGE: &str = "\
usage: prony-floor ADDRESS PORT [--connections N] [--seconds N] [--path PATH] [--host NAME]
                   [--close | --rate N]";

/// Settings of one run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Address of the server.
    pub(crate) server: SocketAddrV4,
    /// Number of concurrent connections (at least 1).
    pub(crate) connections: usize,
    /// Duration of the load in seconds (at least 1).
    pub(crate) seconds: u32,
    /// Request target.
    pub(crate) path: String,
    /// Value of the Host header; the server's address by default.
    pub(crate) host: String,
    /// Open a new connection for each request.
    pub(crate) close: bool,
    /// Requests per second, evenly spaced; `None` means as fast as possible.
    pub(crate) rate: Option<u32>,
}

impl Job {
    /// Encodes the request.
    pub(crate) fn request(&self) -> Vec<u8> {
        let close = if self.close {
            "Connection: close\r\n"
        } else {
            ""
        };
        let (path, host) = (&self.path, &self.host);
        format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n{close}\r\n").into_bytes()
    }
}

/// Parses the arguments. Returns a message for the user on error.
pub(crate) fn parse(words: &[String]) -> Result<Job, String> {
    let [address, port, rest @ ..] = words else {
        return Err("where to?".to_string());
    };
    let address: Ipv4Addr = number("address", address)?;
    let server = SocketAddrV4::new(address, number("port", port)?);
    let mut job = Job {
        server,
        connections: 64,
        seconds: 6,
        path: "/".to_string(),
        host: server.to_string(),
        close: false,
        rate: None,
    };
    let mut rest = rest.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "--connections" => job.connections = number(flag, value()?)?,
            "--seconds" => job.seconds = number(flag, value()?)?,
            "--path" => job.path = value()?.clone(),
            "--host" => job.host = value()?.clone(),
            "--close" => job.close = true,
            "--rate" => job.rate = Some(number(flag, value()?)?),
            _ => return Err(format!("unknown argument: {flag}")),
        }
    }
    if job.connections == 0 || job.seconds == 0 || job.rate == Some(0) {
        return Err("--connections, --seconds and --rate must be at least 1".to_string());
    }
    if job.close && job.rate.is_some() {
        return Err("--close can't be combined with --rate".to_string());
    }
    Ok(job)
}

fn number<T: std::str::FromStr>(what: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{what}: not {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Job, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        parse(&words)
    }

    #[test]
    fn the_request_matches_the_arguments() {
        let job = parsed("127.0.0.2 8080 --path /1k --connections 10 --seconds 2").unwrap();
        assert_eq!((job.connections, job.seconds), (10, 2));
        let keep = "GET /1k HTTP/1.1\r\nHost: 127.0.0.2:8080\r\n\r\n";
        assert_eq!(job.request(), keep.as_bytes());
        let job = parsed("127.0.0.1 80 --host a.test --close").unwrap();
        let close = "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
        assert_eq!(job.request(), close.as_bytes());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "127.0.0.1",
            "localhost 80",
            "127.0.0.1 80 --connections 0",
            "127.0.0.1 80 --seconds",
            "127.0.0.1 80 --fast",
            "127.0.0.1 80 --rate 0",
            "127.0.0.1 80 --rate 5 --close",
        ] {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
