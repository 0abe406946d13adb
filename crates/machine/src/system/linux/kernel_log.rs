//! Reads messages about SYN flooding from the kernel log.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;

/// Maximum number of records that are read at a time.
const RECORDS_MAX: usize = 10_000;
/// Maximum length of a record in bytes.
const RECORD_BYTES_MAX: usize = 8 * 1024;

/// The kernel log, beginning at the time when it was opened.
#[derive(Debug)]
pub(crate) struct KernelLog(File);

impl KernelLog {
    /// Opens the kernel log at its end; `None` if this user lacks the permission.
    pub(crate) fn from_now() -> Option<Self> {
        let mut options = File::options();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        let mut file = options.open("/dev/kmsg").ok()?;
        file.seek(SeekFrom::End(0)).ok()?;
        Some(Self(file))
    }

    /// Returns new messages about SYN flooding, each with the port of its listener.
    pub(crate) fn syn_floods(&mut self) -> Vec<(u16, String)> {
        let mut found = Vec::new();
        let mut record = [0_u8; RECORD_BYTES_MAX];
        for _ in 0..RECORDS_MAX {
            match self.0.read(&mut record) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&record[..length]);
                    found.extend(syn_flood(&text));
                }
                // The kernel has overwritten some records before they were read.
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {}
                Err(_) => break,
            }
        }
        found
    }
}

/// Parses a record about SYN flooding, which has the format `priority,number,time,flags;message`.
fn syn_flood(record: &str) -> Option<(u16, String)> {
    let (_, message) = record.split_once(';')?;
    let message = message.lines().next()?;
    let (_, rest) = message.split_once("SYN flooding on port ")?;
    let address = rest.split([' ', ',']).next()?.trim_end_matches('.');
    let port = address.rsplit(':').next()?.parse().ok()?;
    Some((port, message.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_flooded_listener_is_read() {
        let of = |message: &str| syn_flood(&format!("6,1234,5678,-;{message}\n SUBSYSTEM=x\n"));
        let port = |message: &str| of(message).map(|(port, _)| port);
        let old = "TCP: request_sock_TCP: Possible SYN flooding on port 8080. Sending cookies.  \
                   Check SNMP counters.";
        assert_eq!(port(old), Some(8080));
        let new = "TCP: request_sock_TCP: Possible SYN flooding on port 127.0.0.1:8081. Sending \
                   cookies.";
        assert_eq!(of(new), Some((8081, new.to_owned())));
        let six =
            "TCP: request_sock_TCP: Possible SYN flooding on port [::1]:443. Dropping request.";
        assert_eq!(port(six), Some(443));
        assert_eq!(port("eth0: link up"), None);
        assert_eq!(syn_flood("no record"), None);
    }
}
