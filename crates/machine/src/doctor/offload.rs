//! Checks the segmentation offloads of network interfaces.

use std::mem::zeroed;
use std::os::fd::AsRawFd;

use super::check::{CheckResults, CheckStatus, CheckTopic};
use crate::system::linux::read_small_file;

const OFFLOADS: CheckTopic = CheckTopic {
    id: "offloads",
    expected: "segmentation (TSO or GSO) and GRO on, as on the server's production network",
    why: "without these offloads, the kernel processes each packet of 1,500 bytes separately, \
        which takes several times the CPU time for large responses",
    change: "ethtool -K INTERFACE tso on gso on gro on",
    source: "ethtool(8); the kernel's networking/segmentation-offloads",
};

/// Names of the offloads in ethtool(8), each with the ethtool command (linux/ethtool.h) that reads
/// its state.
const ETHTOOL_COMMANDS: [(&str, u32); 3] = [("TSO", 0x1e), ("GSO", 0x23), ("GRO", 0x2b)];
/// Number of the ethtool request in linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

/// The kernel's `struct ethtool_value`.
#[repr(C)]
struct EthtoolValue {
    command: u32,
    data: u32,
}

/// Checks the offloads of each interface that is up.
pub(super) fn check_offloads() -> CheckResults {
    let mut results = CheckResults::default();
    let Ok(socket) = std::net::UdpSocket::bind("127.0.0.1:0") else {
        results.add_undetermined("offloads", "the kernel refuses to open a socket");
        return results;
    };
    for interface in interfaces() {
        let offloads: Vec<(&str, bool)> = ETHTOOL_COMMANDS
            .into_iter()
            .filter_map(|(name, command)| {
                let is_on = read_offload(socket.as_raw_fd(), &interface, command)?;
                Some((name, is_on))
            })
            .collect();
        if offloads.is_empty() {
            results.add_undetermined(
                format!("offloads of {interface}"),
                "the kernel doesn't report the offloads",
            );
            continue;
        }
        let is_on = |name: &str| offloads.iter().any(|(other, on)| *other == name && *on);
        let list = offloads
            .iter()
            .map(|(name, on)| format!("{name} {}", if *on { "on" } else { "off" }));
        let text = format!("{interface}: {}", list.collect::<Vec<_>>().join(", "));
        let all_on = (is_on("TSO") || is_on("GSO")) && is_on("GRO");
        let status = if all_on {
            CheckStatus::Ok
        } else {
            CheckStatus::Note
        };
        results.add(OFFLOADS.check(status, text));
    }
    results
}

/// Returns the names of the interfaces that are up, including the loopback interface.
fn interfaces() -> Vec<String> {
    let entries = std::fs::read_dir("/sys/class/net")
        .into_iter()
        .flatten()
        .flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| {
            let state = read_small_file(entry.path().join("operstate")).unwrap_or_default();
            // The operational state of the loopback interface is always "unknown".
            state == "up" || entry.file_name() == "lo"
        })
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Reads the state of an offload; `None` if the kernel doesn't report it.
fn read_offload(socket: i32, interface: &str, command: u32) -> Option<bool> {
    let mut value = EthtoolValue { command, data: 0 };
    // SAFETY: a zeroed request is valid and has an empty name.
    let mut request: libc::ifreq = unsafe { zeroed() };
    let name = interface.as_bytes();
    // Leave room for the NUL at the end of the name.
    if name.len() >= request.ifr_name.len() {
        return None;
    }
    for (target, byte) in request.ifr_name.iter_mut().zip(name) {
        *target = *byte as libc::c_char;
    }
    request.ifr_ifru.ifru_data = (&raw mut value).cast();
    // SAFETY: the request and the value that it points to outlive the call, and these commands
    // write at most a `struct ethtool_value`.
    let result = unsafe { libc::ioctl(socket, SIOCETHTOOL, &raw mut request) };
    (result == 0).then_some(value.data != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_offloads() {
        let results = check_offloads();
        let line = results
            .checks
            .iter()
            .find(|line| line.observed.starts_with("lo: "));
        assert!(
            line.is_some_and(|line| line.observed.contains("GRO on")),
            "{results:?}"
        );
    }
}
