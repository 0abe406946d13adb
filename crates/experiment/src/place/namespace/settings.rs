//! The network's settings in a namespace: those of the host, so that what is compared is the place
//! and not a host that somebody has tuned with a namespace that has the kernel's defaults.

use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::host::HostError;

/// The settings that each network namespace has for itself and that matter to servers.
const COPIED: [&str; 20] = [
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_abort_on_overflow",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fastopen",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_no_metrics_save",
    "net.ipv4.tcp_notsent_lowat",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_sack",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_timestamps",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_window_scaling",
    "net.ipv4.tcp_wmem",
];

/// Root inside is nobody to this network, so that all ports must be open to all.
const LOW_PORTS: (&str, &str) = ("net.ipv4.ip_unprivileged_port_start", "0");

/// Copies the host's settings into the namespace of that name, and opens the ports below 1024.
///
/// # Errors
/// [`HostError::File`] naming the setting. One that this kernel lacks is passed over.
pub(super) fn copy_into(namespace: &str) -> Result<(), HostError> {
    let path = Path::new(super::NAMES).join(namespace);
    let entry = File::open(&path).map_err(HostError::file("open", path))?;
    let mut values: Vec<(PathBuf, String)> = COPIED
        .iter()
        .map(|name| path_of(name))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    values.push((path_of(LOW_PORTS.0), LOW_PORTS.1.to_owned()));
    // A thread of its own enters and ends there; which settings a path means depends on the thread.
    let written = std::thread::scope(|scope| {
        let write_all = || {
            move_into_link_name_space(entry.as_fd(), Some(LinkNameSpaceType::Network)).map_err(
                |error| {
                    HostError::file("enter", Path::new(super::NAMES).join(namespace))(error.into())
                },
            )?;
            values.iter().try_for_each(|(path, value)| {
                let now = std::fs::read_to_string(path).unwrap_or_default();
                if now == *value {
                    return Ok(());
                }
                std::fs::write(path, value).map_err(HostError::file("write", path))
            })
        };
        scope.spawn(write_all).join()
    });
    // The closure has no way to panic; if it did, the panic goes on here.
    written.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn path_of(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}
