//! Kernel settings of a network namespace, copied from the host or set by the plan.
//!
//! A new namespace has the kernel's defaults. Without the copy, a comparison of places would also
//! compare the host's tuned settings with the defaults.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use prony_plan::machine::NetworkSettings;

use super::netns_thread::{NETNS_DIR, run_in_netns, run_in_new_netns};
use crate::place::PlaceRefused;
use crate::system::HostError;

/// Per-namespace kernel settings that affect servers and are copied from the host.
const COPIED_SETTINGS: [&str; 20] = [
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

/// Setting that lets all users bind ports below 1024. It is needed because root in a sandbox has no
/// privileges in the sandbox's network.
const LOW_PORTS: (&str, &str) = ("net.ipv4.ip_unprivileged_port_start", "0");

/// Copies the host's kernel settings into the namespace, and lets all users bind ports below 1024.
///
/// # Errors
/// [`HostError::File`] with the path of a setting that can't be written. Settings that this kernel
/// lacks are skipped.
pub(super) fn copy_into(namespace: &File, name: &str) -> Result<(), HostError> {
    let mut values: Vec<(PathBuf, String)> = COPIED_SETTINGS
        .iter()
        .map(|name| path_of(name))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    values.push((path_of(LOW_PORTS.0), LOW_PORTS.1.to_owned()));
    // The same path refers to different settings, depending on the network namespace of the thread.
    let written = run_in_netns(namespace, || {
        values.iter().try_for_each(|(path, value)| {
            let now = std::fs::read_to_string(path).unwrap_or_default();
            if now == *value {
                return Ok(());
            }
            std::fs::write(path, value).map_err(HostError::file("write", path))
        })
    });
    written.map_err(HostError::file("enter", Path::new(NETNS_DIR).join(name)))?
}

/// Applies a plan's kernel settings in the namespace. All settings must exist there and be
/// writable.
///
/// # Errors
/// [`HostError::Setting`] if the kernel rejects or changes a value.
pub(super) fn make(
    namespace: &File,
    place: &str,
    settings: &BTreeMap<String, String>,
) -> Result<(), HostError> {
    let refused = |setting: &str, value: &str, reason: String| HostError::Setting {
        place: place.to_owned(),
        setting: format!("{setting} = {value}"),
        reason,
    };
    let make_all = || {
        settings.iter().try_for_each(|(setting, value)| {
            let path = path_of(setting);
            let now = std::fs::write(&path, value)
                .and_then(|()| std::fs::read_to_string(&path))
                .map_err(|error| refused(setting, value, error.to_string()))?;
            // The kernel separates the numbers of a setting with tabs.
            if now.split_whitespace().eq(value.split_whitespace()) {
                return Ok(());
            }
            Err(refused(
                setting,
                value,
                format!("the kernel changed it to {}", now.trim_end()),
            ))
        })
    };
    run_in_netns(namespace, make_all)
        .map_err(HostError::file("enter", Path::new(NETNS_DIR).join(place)))?
}

/// Divides kernel settings into those that have a writable file in a new network namespace, and all
/// others. Settings of the whole machine are missing or read-only in such a namespace.
///
/// # Errors
/// The reason why a namespace can't be created.
pub(crate) fn sort(settings: &BTreeMap<String, String>) -> Result<NetworkSettings, PlaceRefused> {
    let is_own = |name: &str| {
        name.starts_with("net.")
            && std::fs::metadata(path_of(name))
                .is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o200 != 0)
    };
    let look = || {
        let own = settings.iter().filter(|(name, _)| is_own(name));
        own.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    let own: BTreeMap<String, String> = run_in_new_netns(look).map_err(PlaceRefused::NoThread)?;
    let reason = |name: &str| {
        if path_of(name).exists() {
            "it would change the whole machine"
        } else {
            "this kernel has no such setting"
        }
    };
    let others = settings.keys().filter(|name| !own.contains_key(*name));
    let not_applicable = others
        .map(|name| (name.clone(), reason(name).to_owned()))
        .collect();
    Ok(NetworkSettings {
        own,
        not_applicable,
    })
}

fn path_of(name: &str) -> PathBuf {
    Path::new("/proc/sys").join(name.replace('.', "/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_the_machine_and_of_a_network_are_separated() {
        let wanted = [
            "net.core.somaxconn",
            "net.core.netdev_max_backlog",
            "vm.swappiness",
            "net.ipv4.tcp_nonsense",
        ];
        let wanted = wanted.map(|name| (name.to_owned(), "1".to_owned())).into();
        let sorted = sort(&wanted).expect("this test needs root");
        assert_eq!(Vec::from_iter(sorted.own.keys()), ["net.core.somaxconn"]);
        let reason = |name: &str| sorted.not_applicable[name].clone();
        assert!(reason("net.core.netdev_max_backlog").contains("whole machine"));
        assert!(reason("vm.swappiness").contains("whole machine"));
        assert!(reason("net.ipv4.tcp_nonsense").contains("no such setting"));
    }
}
