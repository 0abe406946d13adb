//! Linux: processes, counters and facts from /proc and /sys.

mod facts;
mod follow;
pub(crate) mod hardware;
pub(crate) mod kernel_log;
mod network_cards;
mod sampler;
mod service_history;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use procfs::process::FDTarget;
use prony_plan::service::PortProtocol;

use super::proc_files;
use super::process::{PortHolder, Process, ProcessTable};

pub(crate) use facts::{SYSCTLS, cpu_facts, distribution, environment, memory_available_bytes};
pub(crate) use sampler::{SampledService, Sampler};

/// Returns the ID of the current boot; empty if the kernel doesn't report it.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// Returns the start time of a process in clock ticks since boot; `None` if the process doesn't
/// exist.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    let stat = read_small_file(format!("/proc/{pid}/stat"))?;
    proc_files::process(&stat, page_bytes()).map(|process| process.start)
}

/// Returns all processes except kernel threads. Reads only one file per process, because this
/// function is called during loads.
pub(crate) fn processes() -> ProcessTable {
    const KTHREADD_PID: i32 = 2;
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return ProcessTable::default();
    };
    let mut bytes = Vec::with_capacity(1024);
    let mut path = String::with_capacity(32);
    let page_bytes = page_bytes();
    let mut read = |pid: &str| -> Option<Process> {
        path.clear();
        path.extend(["/proc/", pid, "/stat"]);
        bytes.clear();
        File::open(&path).ok()?.read_to_end(&mut bytes).ok()?;
        proc_files::process(&String::from_utf8_lossy(&bytes), page_bytes)
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let pid = name
                .to_str()
                .filter(|name| name.starts_with(|c: char| c.is_ascii_digit()))?;
            read(pid)
        })
        .filter(|process| process.parent != KTHREADD_PID && process.pid != KTHREADD_PID)
        .collect()
}

/// Returns the folder of a process in /proc.
fn proc_dir(pid: i32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}

fn page_bytes() -> u64 {
    rustix::param::page_size() as u64
}

/// Returns the most distant ancestor in an unbroken chain of processes that run the same program.
/// The programs of other users' processes can't be read, so these processes are compared by name.
pub(crate) fn program_root(table: &ProcessTable, pid: i32) -> i32 {
    let program = |pid: i32| {
        procfs::process::Process::new(pid)
            .and_then(|process| process.exe())
            .ok()
    };
    let name = |pid: i32| table.get(pid).map(|process| process.name.clone());
    let mut current = pid;
    while let Some(parent) = table.get(current).map(|process| process.parent) {
        let same = match (program(current), program(parent)) {
            (Some(own), Some(other)) => own == other,
            _ => name(current).is_some() && name(current) == name(parent),
        };
        if parent <= 1 || !same {
            break;
        }
        current = parent;
    }
    current
}

/// Returns the process that listens on a TCP address or has bound a UDP address. Finds the socket's
/// inode in the socket table, then the process that has it open.
pub(crate) fn port_holder(address: SocketAddr, protocol: PortProtocol) -> Option<PortHolder> {
    let inodes: HashSet<u64> = bound_sockets(protocol)
        .into_iter()
        .filter(|(local, _)| {
            local.port() == address.port()
                && (local.ip().to_canonical() == address.ip()
                    || local.ip().is_unspecified()
                    || address.ip().is_unspecified())
        })
        .map(|(_, inode)| inode)
        .collect();
    holder(&inodes)
}

/// Returns the process that listens on a UNIX socket with the given path.
pub(crate) fn unix_socket_holder(path: &Path) -> Option<PortHolder> {
    let all = procfs::net::unix().ok()?;
    let bound = all.iter().filter(|it| it.path.as_deref() == Some(path));
    holder(&bound.map(|it| it.inode).collect())
}

/// Returns the oldest process that has one of the sockets open.
fn holder(inodes: &HashSet<u64>) -> Option<PortHolder> {
    if inodes.is_empty() {
        return None;
    }
    let holds = |process: &procfs::process::Process| {
        let Ok(files) = process.fd() else {
            return false;
        };
        files
            .flatten()
            .any(|file| matches!(file.target, FDTarget::Socket(inode) if inodes.contains(&inode)))
    };
    let holders = procfs::process::all_processes().ok()?.flatten();
    let started = holders.filter(holds).filter_map(|it| it.stat().ok());
    // A new child process shares its parent's sockets until it executes its program, so choose the
    // oldest process.
    let holder = started.min_by_key(|stat| stat.starttime)?;
    Some(PortHolder {
        pid: holder.pid,
        name: holder.comm,
    })
}

/// Returns the local addresses and inodes of listening TCP sockets, or of all UDP sockets.
fn bound_sockets(protocol: PortProtocol) -> Vec<(SocketAddr, u64)> {
    match protocol {
        PortProtocol::Tcp => {
            let all = procfs::net::tcp().into_iter().chain(procfs::net::tcp6());
            let all = all.flatten();
            all.filter(|socket| socket.state == procfs::net::TcpState::Listen)
                .map(|socket| (socket.local_address, socket.inode))
                .collect()
        }
        PortProtocol::Udp => {
            let all = procfs::net::udp().into_iter().chain(procfs::net::udp6());
            let all = all.flatten();
            all.map(|socket| (socket.local_address, socket.inode))
                .collect()
        }
    }
}

/// Returns true if a socket is bound to the UDP port in the network of the calling thread.
pub(crate) fn udp_is_bound(port: u16) -> bool {
    // Use `thread-self`, because `self` would read the tables of the main thread's network.
    ["udp", "udp6"].iter().any(|table| {
        let text = std::fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        text.is_ok_and(|text| proc_files::has_udp_port(&text, port))
    })
}

/// Returns the cores that the calling thread may use; empty if unknown.
pub(crate) fn allowed_cores() -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

pub(crate) fn online_cores() -> Vec<usize> {
    let list = read_small_file("/sys/devices/system/cpu/online").unwrap_or_default();
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Reads a small file in /proc or /sys, without the final newline.
pub(crate) fn read_small_file(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim_end().to_owned())
}
