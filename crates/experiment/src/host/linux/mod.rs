//! Linux: what /proc and /sys tell.

mod facts;
mod figures;
mod follow;
mod foreign;
pub(crate) mod hardware;
pub(crate) mod kernel_log;
mod reader;

use std::collections::HashSet;
use std::fs::File;
use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;

use procfs::FromRead;
use procfs::process::{FDTarget, Stat};

use super::port::Holder;
use super::process::{Process, Table};

pub(crate) use facts::environment;
pub(crate) use reader::{Reader, Watched};

/// The kernel's name for this boot; empty if it has none.
pub(crate) fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

/// When a process started, in clock ticks since the boot; `None` if it is gone.
pub(crate) fn start_of(pid: i32) -> Option<u64> {
    procfs::process::Process::new(pid)
        .and_then(|process| process.stat())
        .ok()
        .map(|stat| stat.starttime)
}

/// All processes, kernel threads left out.
///
/// It reads one file a process and nothing else, since it runs while a load is measured.
pub(crate) fn processes() -> Table {
    const KERNEL_THREADS: i32 = 2;
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Table::default();
    };
    let mut bytes = Vec::with_capacity(1024);
    let mut path = String::with_capacity(32);
    let mut read = |pid: &str| -> Option<Stat> {
        path.clear();
        path.extend(["/proc/", pid, "/stat"]);
        bytes.clear();
        File::open(&path).ok()?.read_to_end(&mut bytes).ok()?;
        Stat::from_read(bytes.as_slice()).ok()
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
        .filter(|stat| stat.ppid != KERNEL_THREADS && stat.pid != KERNEL_THREADS)
        .map(Process::from)
        .collect()
}

impl From<Stat> for Process {
    fn from(stat: Stat) -> Self {
        let seconds = |ticks: u64| ticks as f64 / procfs::ticks_per_second() as f64;
        let signed = |ticks: i64| seconds(ticks.max(0).unsigned_abs());
        Self {
            pid: stat.pid,
            parent: stat.ppid,
            session: stat.session,
            start: stat.starttime,
            zombie: matches!(stat.state, 'Z' | 'X'),
            user_s: seconds(stat.utime),
            system_s: seconds(stat.stime),
            reaped_user_s: signed(stat.cutime),
            reaped_system_s: signed(stat.cstime),
            threads: stat.num_threads.max(0).unsigned_abs(),
            resident_bytes: stat.rss * procfs::page_size(),
            core: stat.processor.and_then(|core| usize::try_from(core).ok()),
            name: stat.comm,
            context_switches: None,
        }
    }
}

/// Who listens on a TCP address: the socket's inode from the table of sockets, then the process
/// that has it open.
pub(crate) fn port_holder(address: SocketAddr) -> Option<Holder> {
    let sockets = procfs::net::tcp()
        .into_iter()
        .chain(procfs::net::tcp6())
        .flatten();
    let inodes: HashSet<u64> = sockets
        .filter(|socket| socket.state == procfs::net::TcpState::Listen)
        .filter(|socket| {
            let local = socket.local_address;
            local.port() == address.port()
                && (local.ip().to_canonical() == address.ip()
                    || local.ip().is_unspecified()
                    || address.ip().is_unspecified())
        })
        .map(|socket| socket.inode)
        .collect();
    if inodes.is_empty() {
        return None;
    }
    for process in procfs::process::all_processes().ok()?.flatten() {
        let Ok(files) = process.fd() else { continue };
        let holds = files
            .flatten()
            .any(|file| matches!(file.target, FDTarget::Socket(inode) if inodes.contains(&inode)));
        if holds {
            let name = process.stat().ok()?.comm;
            return Some(Holder {
                pid: process.pid,
                name,
            });
        }
    }
    None
}

/// The cores that the calling thread may use; empty if the system does not tell.
pub(crate) fn allowed_cores() -> Vec<usize> {
    let Ok(allowed) = rustix::thread::sched_getaffinity(None) else {
        return Vec::new();
    };
    (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| allowed.is_set(*core))
        .collect()
}

/// The cores that are online.
pub(crate) fn online_cores() -> Vec<usize> {
    let list = read("/sys/devices/system/cpu/online").unwrap_or_default();
    let ranges = list.split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.trim().parse::<usize>().ok()?..=last.trim().parse().ok()?)
    });
    ranges.flatten().collect()
}

/// The text of a small file of the kernel's, without the last line's end.
pub(crate) fn read(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path)
        .ok()
        .map(|text| text.trim_end().to_owned())
}
