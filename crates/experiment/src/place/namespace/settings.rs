//! The network's settings in a namespace: those of the host, so that what is compared is the place
//! and not a host that somebody has tuned with a namespace that has the kernel's defaults; and those
//! that a plan asks for.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::visit::{visit, visit_new};
use crate::host::HostError;
use crate::place::Sorted;

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

/// Copies the host's settings into the namespace, and opens the ports below 1024.
///
/// # Errors
/// [`HostError::File`] naming the setting. One that this kernel lacks is passed over.
pub(super) fn copy_into(namespace: &File, name: &str) -> Result<(), HostError> {
    let mut values: Vec<(PathBuf, String)> = COPIED
        .iter()
        .map(|name| path_of(name))
        .filter_map(|path| Some((path.clone(), std::fs::read_to_string(path).ok()?)))
        .collect();
    values.push((path_of(LOW_PORTS.0), LOW_PORTS.1.to_owned()));
    // Which settings a path means depends on the thread.
    let written = visit(namespace, || {
        values.iter().try_for_each(|(path, value)| {
            let now = std::fs::read_to_string(path).unwrap_or_default();
            if now == *value {
                return Ok(());
            }
            std::fs::write(path, value).map_err(HostError::file("write", path))
        })
    });
    written.map_err(HostError::file("enter", Path::new(super::NAMES).join(name)))?
}

/// Makes a plan's settings in the namespace. What was sorted as its own is there and can be written.
///
/// # Errors
/// [`HostError::Setting`] where the kernel refuses a value or makes another of it.
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
            // The kernel separates several numbers in its own way.
            if now.split_whitespace().eq(value.split_whitespace()) {
                return Ok(());
            }
            Err(refused(
                setting,
                value,
                format!("the kernel made {} of it", now.trim_end()),
            ))
        })
    };
    visit(namespace, make_all).map_err(HostError::file(
        "enter",
        Path::new(super::NAMES).join(place),
    ))?
}

/// Sorts settings by whether a network can have them for itself: whether a new namespace has such a
/// file that can be written. A setting of the whole machine isn't to be seen there, or only be read.
///
/// # Errors
/// Why no namespace can be made to look into.
pub(crate) fn sort(settings: &BTreeMap<String, String>) -> Result<Sorted, String> {
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
    let own: BTreeMap<String, String> = visit_new(look).map_err(|error| error.to_string())?;
    let reason = |name: &str| match path_of(name).exists() {
        true => "it would change the whole machine",
        false => "this kernel has no such setting",
    };
    let others = settings.keys().filter(|name| !own.contains_key(*name));
    let not_applicable = others
        .map(|name| (name.clone(), reason(name).to_owned()))
        .collect();
    Ok(Sorted {
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
    fn settings_of_the_machine_are_told_from_those_of_a_network() {
        let wanted = [
            "net.core.somaxconn",
            "net.core.netdev_max_backlog",
            "vm.swappiness",
            "net.ipv4.tcp_nonsense",
        ];
        let wanted = wanted.map(|name| (name.to_owned(), "1".to_owned())).into();
        let sorted = sort(&wanted).expect("this test wants root");
        assert_eq!(Vec::from_iter(sorted.own.keys()), ["net.core.somaxconn"]);
        let reason = |name: &str| sorted.not_applicable[name].clone();
        assert!(reason("net.core.netdev_max_backlog").contains("whole machine"));
        assert!(reason("vm.swappiness").contains("whole machine"));
        assert!(reason("net.ipv4.tcp_nonsense").contains("no such setting"));
    }
}
