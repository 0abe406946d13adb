//! The response to the opening handshake (RFC 6455 §4.1).

use std::fmt;

/// Maximum length of the response's head.
const HEAD_MAX: usize = 16 * 1024;

/// Returns the text whose SHA-1 in base64 a server must send for a client's key.
#[must_use]
pub fn accept_source(key: &str) -> String {
    format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
}

/// Reason why a server did not open a WebSocket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeError {
    /// The server responded with another status than 101.
    Status(u16),
    /// The response is not valid HTTP/1.1.
    Malformed,
    /// The head is too long.
    TooLong,
    /// A header that the response must have is missing or wrong.
    Header(&'static str),
    /// The server chose an extension that was not offered.
    Extension,
}

impl fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HandshakeError::Status(status) => {
                write!(f, "the server did not open a WebSocket (status {status})")
            }
            HandshakeError::Malformed => f.write_str("the response to the handshake is not HTTP"),
            HandshakeError::TooLong => f.write_str("the response to the handshake is too long"),
            HandshakeError::Header(name) => {
                write!(
                    f,
                    "the header {name} of the response to the handshake is missing or wrong"
                )
            }
            HandshakeError::Extension => {
                f.write_str("the server chose an extension that was not offered")
            }
        }
    }
}

/// Reads the response to a handshake.
#[derive(Debug, Default)]
pub struct Handshake {
    head: Vec<u8>,
}

impl Handshake {
    /// Adds bytes from the server. Returns true once the WebSocket is open; the bytes that follow
    /// the head are then left in `bytes`. `accept` and `protocols` are the expected values of
    /// `Sec-WebSocket-Accept` and, separated by commas, of `Sec-WebSocket-Protocol`.
    ///
    /// # Errors
    ///
    /// The server does not open a WebSocket.
    pub fn add(
        &mut self,
        bytes: &mut &[u8],
        accept: &str,
        protocols: &str,
    ) -> Result<bool, HandshakeError> {
        loop {
            let Some((&first, rest)) = bytes.split_first() else {
                return Ok(false);
            };
            if self.head.len() == HEAD_MAX {
                return Err(HandshakeError::TooLong);
            }
            *bytes = rest;
            self.head.push(first);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = std::mem::take(&mut self.head);
                return check(&head, accept, protocols).map(|()| true);
            }
        }
    }
}

fn check(head: &[u8], accept: &str, protocols: &str) -> Result<(), HandshakeError> {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| {
        let (version, rest) = line.split_once(' ')?;
        let code = rest.get(..3)?.parse::<u16>().ok()?;
        (version == "HTTP/1.1" || version == "HTTP/1.0").then_some(code)
    });
    match status {
        None => return Err(HandshakeError::Malformed),
        Some(101) => {}
        Some(status) => return Err(HandshakeError::Status(status)),
    }
    let (mut upgrade, mut connection, mut accepted) = (false, false, false);
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(HandshakeError::Malformed)?;
        let value = value.trim_matches([' ', '\t']);
        let has = |token: &str| {
            value
                .split(',')
                .any(|it| it.trim().eq_ignore_ascii_case(token))
        };
        match name.to_ascii_lowercase().as_str() {
            "upgrade" => upgrade |= has("websocket"),
            "connection" => connection |= has("upgrade"),
            "sec-websocket-accept" => accepted = value == accept,
            "sec-websocket-extensions" if !value.is_empty() => {
                return Err(HandshakeError::Extension);
            }
            "sec-websocket-protocol" => {
                // Names of subprotocols are case-sensitive.
                let is_offered = protocols.split(',').any(|it| it.trim() == value);
                if !is_offered {
                    return Err(HandshakeError::Header("Sec-WebSocket-Protocol"));
                }
            }
            _ => {}
        }
    }
    for (is_right, name) in [
        (upgrade, "Upgrade"),
        (connection, "Connection"),
        (accepted, "Sec-WebSocket-Accept"),
    ] {
        if !is_right {
            return Err(HandshakeError::Header(name));
        }
    }
    Ok(())
}
