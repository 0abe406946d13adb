//! Requests over netlink(7): to the kernel's network tables (rtnetlink(7)), generic netlink families
//! and the list of sockets (sock_diag(7)).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Size of a message header in bytes.
const HEADER: usize = 16;
/// Maximum size in bytes of a datagram from the kernel.
const RESPONSE_BYTES: usize = 64 * 1024;

const FLAG_REQUEST: u16 = 0x01;
const FLAG_ACKNOWLEDGE: u16 = 0x04;
const FLAG_DUMP: u16 = 0x300;
const FLAG_EXCLUSIVE: u16 = 0x200;
const FLAG_CREATE: u16 = 0x400;

const TYPE_ERROR: u16 = 2;
const TYPE_DONE: u16 = 3;

/// Effect of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestKind {
    /// Requests one object.
    Get,
    /// Requests all objects.
    Dump,
    /// Creates or changes an object.
    Create,
    /// Creates an object that doesn't exist yet.
    CreateNew,
}

/// A request: its fixed part and its attributes.
#[derive(Debug, Default)]
pub struct Request(Vec<u8>);

impl Request {
    /// Creates a request from its fixed part, whose size must be a multiple of four.
    pub fn new(fixed: &[u8]) -> Request {
        Request(fixed.to_vec())
    }

    /// Appends an attribute.
    #[must_use]
    pub fn attribute(mut self, kind: u16, value: &[u8]) -> Request {
        self.0
            .extend_from_slice(&(value.len() as u16 + 4).to_ne_bytes());
        self.0.extend_from_slice(&kind.to_ne_bytes());
        self.0.extend_from_slice(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// Sends the request to rtnetlink, and returns the bodies of the responses.
    ///
    /// # Errors
    ///
    /// Returns the error that the kernel reports.
    pub fn send(self, message_type: u16, kind: RequestKind) -> io::Result<Vec<Vec<u8>>> {
        self.send_to(libc::NETLINK_ROUTE, message_type, kind)
    }

    /// Returns the fixed part and the attributes, such as the value of an attribute that contains
    /// other attributes.
    #[must_use]
    pub fn body(&self) -> &[u8] {
        &self.0
    }

    /// Returns the whole message, with the sequence number 0.
    #[must_use]
    pub fn message(&self, message_type: u16, kind: RequestKind) -> Vec<u8> {
        let flags = FLAG_REQUEST
            | match kind {
                RequestKind::Get => 0,
                RequestKind::Dump => FLAG_DUMP,
                RequestKind::Create => FLAG_CREATE | FLAG_ACKNOWLEDGE,
                RequestKind::CreateNew => FLAG_CREATE | FLAG_EXCLUSIVE | FLAG_ACKNOWLEDGE,
            };
        let mut message = Vec::with_capacity(HEADER + self.0.len());
        message.extend_from_slice(&((HEADER + self.0.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&message_type.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(&self.0);
        message
    }

    /// Like [`Request::send`], but for any protocol of netlink(7).
    ///
    /// # Errors
    ///
    /// Returns the error that the kernel reports.
    fn send_to(
        self,
        protocol: libc::c_int,
        message_type: u16,
        kind: RequestKind,
    ) -> io::Result<Vec<Vec<u8>>> {
        let message = self.message(message_type, kind);
        let socket = socket(protocol)?;
        // SAFETY: the pointer refers to the message, whose size is passed along.
        let sent = unsafe {
            libc::send(
                socket.as_raw_fd(),
                message.as_ptr().cast(),
                message.len(),
                0,
            )
        };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let (mut bodies, mut buffer) = (Vec::new(), vec![0; RESPONSE_BYTES]);
        loop {
            // SAFETY: the pointer refers to the buffer, whose size is passed along.
            let size = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    buffer.as_mut_ptr().cast(),
                    buffer.len(),
                    0,
                )
            };
            let Ok(size) = usize::try_from(size) else {
                return Err(io::Error::last_os_error());
            };
            let is_complete = collect(&buffer[..size], &mut bodies)?;
            if is_complete || kind == RequestKind::Get && !bodies.is_empty() {
                return Ok(bodies);
            }
        }
    }
}

/// Lists the sockets that match a request of sock_diag(7), whose size must be a multiple of four.
///
/// # Errors
///
/// Returns the error that the kernel reports.
pub fn sockets(request: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    /// SOCK_DIAG_BY_FAMILY of sock_diag(7).
    const BY_FAMILY: u16 = 20;
    Request::new(request).send_to(libc::NETLINK_SOCK_DIAG, BY_FAMILY, RequestKind::Dump)
}

/// Requests one object from a generic netlink family. The returned response starts with the fixed
/// header, which has [`GENERIC_FIXED`] bytes.
///
/// # Errors
///
/// Returns an error if the kernel doesn't support the family, or if it rejects the request.
pub(crate) fn generic(family: &str, command: u8, attribute: (u16, &[u8])) -> io::Result<Vec<u8>> {
    /// Command and attributes of the controller family, which returns the IDs of other families.
    const CONTROL: u16 = 16;
    const GET_FAMILY: u8 = 3;
    const FAMILY_NUMBER: u16 = 1;
    const FAMILY_NAME: u16 = 2;
    let ask = |family: u16, command: u8, (kind, value): (u16, &[u8])| {
        let request = Request::new(&[command, 1, 0, 0]).attribute(kind, value);
        let found = request.send_to(libc::NETLINK_GENERIC, family, RequestKind::Get)?;
        let first = found.into_iter().next();
        first.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    };
    let name = [family.as_bytes(), &[0]].concat();
    let found = ask(CONTROL, GET_FAMILY, (FAMILY_NAME, &name))?;
    let number = attributes(&found, GENERIC_FIXED)
        .find(|(kind, _)| *kind == FAMILY_NUMBER)
        .and_then(|(_, value)| value.first_chunk());
    let number = number.ok_or(io::ErrorKind::NotFound)?;
    ask(u16::from_ne_bytes(*number), command, attribute)
}

/// Size of the fixed header of generic netlink messages, in bytes.
pub(crate) const GENERIC_FIXED: usize = 4;

fn socket(protocol: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers.
    let number = unsafe {
        libc::socket(
            libc::AF_NETLINK,
            libc::SOCK_RAW | libc::SOCK_CLOEXEC,
            protocol,
        )
    };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just created this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Appends the bodies of the messages to `bodies`. Returns true if the response is complete.
fn collect(mut messages: &[u8], bodies: &mut Vec<Vec<u8>>) -> io::Result<bool> {
    while let Some(header) = messages.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let message_type = u16::from_ne_bytes([header[4], header[5]]);
        let Some(body) = messages.get(HEADER..length) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        match message_type {
            TYPE_ERROR => {
                let number = body.first_chunk().map_or(0, |it| i32::from_ne_bytes(*it));
                return match number {
                    0 => Ok(true),
                    _ => Err(io::Error::from_raw_os_error(number.saturating_neg())),
                };
            }
            TYPE_DONE => return Ok(true),
            _ => bodies.push(body.to_vec()),
        }
        messages = messages
            .get(length.next_multiple_of(4)..)
            .unwrap_or_default();
    }
    Ok(false)
}

/// Iterates over the attributes of a message after its fixed part, or over the attributes within an
/// attribute.
pub fn attributes(body: &[u8], fixed: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(fixed..).unwrap_or_default();
    std::iter::from_fn(move || {
        let header: &[u8; 4] = rest.first_chunk()?;
        let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
        // The two high bits are flags.
        let kind = u16::from_ne_bytes([header[2], header[3]]) & 0x3fff;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

/// Converts the value of an attribute to a number; `None` if the value has fewer than four bytes.
pub(crate) fn u32_value(value: &[u8]) -> Option<u32> {
    value.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes))
}

/// Converts the value of an attribute to an IP address.
pub(crate) fn address(value: &[u8]) -> Option<std::net::IpAddr> {
    match value.len() {
        4 => <[u8; 4]>::try_from(value).ok().map(Into::into),
        16 => <[u8; 16]>::try_from(value).ok().map(Into::into),
        _ => None,
    }
}

/// Returns the address family and the bytes of an IP address.
pub(crate) fn encoded(address: std::net::IpAddr) -> (u8, Vec<u8>) {
    match address {
        std::net::IpAddr::V4(address) => (libc::AF_INET as u8, address.octets().to_vec()),
        std::net::IpAddr::V6(address) => (libc::AF_INET6 as u8, address.octets().to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_padded_and_read_back() {
        let request = Request::new(&[1, 2, 3, 4])
            .attribute(7, &[9])
            .attribute(8, &5u32.to_ne_bytes());
        let seen: Vec<_> = attributes(&request.0, 4).collect();
        assert_eq!(seen, [(7, &[9][..]), (8, &5u32.to_ne_bytes())]);
        assert_eq!(u32_value(seen[1].1), Some(5));
        for end in 0..request.0.len() {
            // A truncated message never has additional attributes.
            assert!(attributes(&request.0[..end], 4).count() <= 2);
        }
    }

    #[test]
    fn truncated_messages_are_errors() {
        let mut message = 40u32.to_ne_bytes().to_vec();
        message.resize(20, 0);
        assert!(collect(&message, &mut Vec::new()).is_err());
        assert!(!collect(&[], &mut Vec::new()).unwrap());
    }
}
