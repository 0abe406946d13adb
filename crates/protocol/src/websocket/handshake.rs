//! The response to the opening handshake (RFC 6455 §4.1).

use std::fmt;

use super::deflate::DeflateParameters;

/// Maximum length of the response's head.
const HEAD_MAX: usize = 16 * 1024;

/// Returns the text whose SHA-1 in base64 a server must send for a client's key.
#[must_use]
pub fn accept_source(key: &str) -> String {
    format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11")
}

/// Reason why a server did not open a WebSocket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeError {
    /// The server responded with another status than 101 or, over HTTP/2, than one from 200 to 299.
    Status(u16),
    /// The response is not valid HTTP/1.1.
    Malformed,
    /// The head is too long.
    TooLong,
    /// A header that the response must have is missing or wrong.
    Header(HandshakeHeader),
    /// The server chose an extension that was not offered, or parameters that don't fit the offer.
    Extension,
}

/// A header that the response to a handshake must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandshakeHeader {
    /// `Upgrade: websocket`.
    Upgrade,
    /// `Connection: Upgrade`.
    Connection,
    /// The hash of the client's key.
    Accept,
    /// The subprotocol, which must have been offered.
    Protocol,
}

impl HandshakeHeader {
    fn name(self) -> &'static str {
        match self {
            HandshakeHeader::Upgrade => "Upgrade",
            HandshakeHeader::Connection => "Connection",
            HandshakeHeader::Accept => "Sec-WebSocket-Accept",
            HandshakeHeader::Protocol => "Sec-WebSocket-Protocol",
        }
    }
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
                    "the header {} of the response to the handshake is missing or wrong",
                    name.name()
                )
            }
            HandshakeError::Extension => f.write_str(
                "the server chose an extension, or parameters of one, that were not offered",
            ),
        }
    }
}

/// The extensions and subprotocols that the client offers.
#[derive(Debug, Clone, Default)]
pub struct Offer {
    /// The subprotocols, separated by commas.
    pub protocols: String,
    /// The parameters of permessage-deflate, if it is offered.
    pub deflate: Option<DeflateParameters>,
}

/// Choices of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Agreed {
    /// The parameters of permessage-deflate, if the server chose it.
    pub deflate: Option<DeflateParameters>,
}

impl Offer {
    /// Reads the field lines of a response that opens a WebSocket over HTTP/2 (RFC 8441 §5).
    ///
    /// # Errors
    ///
    /// The server chose something that was not offered.
    pub fn read_fields(&self, lines: &[u8]) -> Result<Agreed, HandshakeError> {
        let lines = String::from_utf8_lossy(lines);
        let mut agreed = Agreed::default();
        for line in lines.split("\r\n") {
            if let Some((name, value)) = line.split_once(':') {
                self.read_field(name, value, &mut agreed)?;
            }
        }
        Ok(agreed)
    }

    fn read_field(
        &self,
        name: &str,
        value: &str,
        agreed: &mut Agreed,
    ) -> Result<(), HandshakeError> {
        let value = value.trim_matches([' ', '\t']);
        if name.eq_ignore_ascii_case("sec-websocket-extensions") && !value.is_empty() {
            let offered = self.deflate.as_ref().filter(|_| agreed.deflate.is_none());
            let deflate = offered.and_then(|offer| offer.agree(value));
            agreed.deflate = Some(deflate.ok_or(HandshakeError::Extension)?);
        }
        if name.eq_ignore_ascii_case("sec-websocket-protocol") {
            // Names of subprotocols are case-sensitive.
            let mut offered = self.protocols.split(',');
            if !offered.any(|it| it.trim() == value) {
                return Err(HandshakeError::Header(HandshakeHeader::Protocol));
            }
        }
        Ok(())
    }
}

/// Reads the response to a handshake over HTTP/1.1.
#[derive(Debug, Default)]
pub struct Handshake {
    head: Vec<u8>,
}

impl Handshake {
    /// Adds bytes from the server. Returns the server's choices once the WebSocket is open; the
    /// bytes that follow the head are then left in `bytes`. `accept` is the expected value of
    /// `Sec-WebSocket-Accept`.
    ///
    /// # Errors
    ///
    /// The server does not open a WebSocket.
    pub fn add(
        &mut self,
        bytes: &mut &[u8],
        accept: &str,
        offer: &Offer,
    ) -> Result<Option<Agreed>, HandshakeError> {
        loop {
            let Some((&first, rest)) = bytes.split_first() else {
                return Ok(None);
            };
            if self.head.len() == HEAD_MAX {
                return Err(HandshakeError::TooLong);
            }
            *bytes = rest;
            self.head.push(first);
            if self.head.ends_with(b"\r\n\r\n") {
                let head = std::mem::take(&mut self.head);
                return check(&head, accept, offer).map(Some);
            }
        }
    }
}

fn check(head: &[u8], accept: &str, offer: &Offer) -> Result<Agreed, HandshakeError> {
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
    let mut agreed = Agreed::default();
    let (mut upgrade, mut connection, mut accepted) = (false, false, false);
    for line in lines.filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(HandshakeError::Malformed)?;
        let has = |token: &str| {
            value
                .split(',')
                .any(|it| it.trim().eq_ignore_ascii_case(token))
        };
        match name.to_ascii_lowercase().as_str() {
            "upgrade" => upgrade |= has("websocket"),
            "connection" => connection |= has("upgrade"),
            "sec-websocket-accept" => accepted = value.trim_matches([' ', '\t']) == accept,
            _ => offer.read_field(name, value, &mut agreed)?,
        }
    }
    for (is_right, name) in [
        (upgrade, HandshakeHeader::Upgrade),
        (connection, HandshakeHeader::Connection),
        (accepted, HandshakeHeader::Accept),
    ] {
        if !is_right {
            return Err(HandshakeError::Header(name));
        }
    }
    Ok(agreed)
}
