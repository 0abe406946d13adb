//! What network interfaces do for the kernel: segments put together and taken apart in large pieces.

use std::mem::zeroed;
use std::os::fd::AsRawFd;

use super::line::{Level, Seen, Topic};
use crate::host::linux::read;

const OFFLOADS: Topic = Topic {
    id: "offloads",
    expected: "segmentation (TSO or GSO) and GRO on, as on the network that the server will serve",
    why: "without them the kernel handles every packet of 1,500 bytes by itself: several times the \
        CPU for large answers",
    change: "ethtool -K INTERFACE tso on gso on gro on",
    source: "ethtool(8); the kernel's networking/segmentation-offloads",
};

/// Commands of linux/ethtool.h, by the name that ethtool(8) gives what they ask for.
const QUESTIONS: [(&str, u32); 3] = [("TSO", 0x1e), ("GSO", 0x23), ("GRO", 0x2b)];
/// SIOCETHTOOL of linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// `struct ethtool_value`.
#[repr(C)]
struct Value {
    command: u32,
    data: u32,
}

/// A line for every interface that is up.
pub(super) fn look() -> Seen {
    let mut seen = Seen::default();
    let Ok(socket) = std::net::UdpSocket::bind("127.0.0.1:0") else {
        seen.unknown("offloads", "no socket can be opened");
        return seen;
    };
    for name in interfaces() {
        let answers: Vec<(&str, bool)> = QUESTIONS
            .into_iter()
            .filter_map(|(what, command)| Some((what, ask(socket.as_raw_fd(), &name, command)?)))
            .collect();
        if answers.is_empty() {
            seen.unknown(format!("offloads of {name}"), "the kernel doesn't tell");
            continue;
        }
        let is = |wanted: &str| answers.iter().any(|(what, on)| *what == wanted && *on);
        let list = answers
            .iter()
            .map(|(what, on)| format!("{what} {}", if *on { "on" } else { "off" }));
        let text = format!("{name}: {}", list.collect::<Vec<_>>().join(", "));
        let well = (is("TSO") || is("GSO")) && is("GRO");
        let level = if well { Level::Ok } else { Level::Note };
        seen.line(OFFLOADS.line(level, text));
    }
    seen
}

/// The interfaces that are up, the loopback included.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            let state = read(entry.path().join("operstate")).unwrap_or_default();
            // The loopback's state is always unknown.
            state == "up" || entry.file_name() == "lo"
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

fn ask(socket: i32, interface: &str, command: u32) -> Option<bool> {
    let mut value = Value { command, data: 0 };
    // SAFETY: a request of zeroes is one with an empty name.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let name = interface.as_bytes();
    // The last byte stays the NUL that ends the name.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (place, byte) in request.ifr_name.iter_mut().zip(name) {
        *place = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request and the value that it points to outlive the call, and these commands write
    // a `struct ethtool_value` at most.
    let answered = unsafe { libc::ioctl(socket, SIOCETHTOOL, &raw mut request) };
    (answered == 0).then_some(value.data != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_tells_its_offloads() {
        let seen = look();
        let line = seen.lines.iter().find(|line| line.seen.starts_with("lo: "));
        assert!(
            line.is_some_and(|line| line.seen.contains("GRO on")),
            "{seen:?}"
        );
    }
}
