//! Checks of a network interface for loads that bypass the kernel (`--io xdp`).

use prony_record::number;
use prony_xdp::{Interface, XdpError};

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::{DoctorSubject, SubjectKind};

const READY: CheckTopic = CheckTopic {
    id: "xdp-ready",
    expected: "an Ethernet interface that is up, with an MTU of 1280 or more and no XDP program; \
        Linux 5.11 or later; CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF",
    why: "a load over AF_XDP attaches a BPF program to the interface and opens sockets that \
        exchange frames with it",
    change: "nothing",
    source: "ip-link(8); capabilities(7); the kernel's networking/af_xdp",
};

const DRIVER: CheckTopic = CheckTopic {
    id: "xdp-driver",
    expected: "a driver that runs XDP programs and exchanges frames without copies",
    why: "with copies, each packet costs a few hundred nanoseconds more; without driver support, \
        the kernel allocates a buffer for each packet before the program sees it",
    change: "use an adapter whose driver supports zero copy, such as ice, i40e, ixgbe, igc or \
        mlx5_core; --io xdp also works without it",
    source: "the kernel's networking/af_xdp, XDP_COPY and XDP_ZEROCOPY",
};

const QUEUES: CheckTopic = CheckTopic {
    id: "xdp-queues",
    expected: "a receive queue for each worker (--threads)",
    why: "an AF_XDP socket receives from one queue, and each worker needs at least one socket",
    change: "ethtool -L NAME combined N",
    source: "ethtool(8), --set-channels",
};

const OFFLOADS: CheckTopic = CheckTopic {
    id: "xdp-offloads",
    expected: "off",
    why: "LRO merges received segments into frames that don't fit into an AF_XDP buffer and are \
        dropped",
    change: "ethtool -K NAME lro off",
    source: "ethtool(8), --offload; the kernel's networking/af_xdp",
};

const VLAN: CheckTopic = CheckTopic {
    id: "xdp-vlan",
    expected: "off, or no VLANs on this interface",
    why: "the adapter removes VLAN tags before the program sees a packet, so packets of all VLANs \
        look alike",
    change: "ethtool -K NAME rxvlan off",
    source: "ethtool(8), --offload",
};

const RSS: CheckTopic = CheckTopic {
    id: "xdp-rss",
    expected: "a Toeplitz hash whose key can be read",
    why: "with this hash, each of several workers chooses its local ports so that responses arrive \
        at its own queue; otherwise, workers must copy packets to each other",
    change: "nothing; use one worker if copying packets between workers costs too much",
    source: "ethtool(8), --show-rxfh",
};

/// Examines a network interface.
///
/// # Errors
///
/// The interface does not exist, or the kernel can't describe it.
pub fn examine_interface(name: &str) -> Result<DoctorSubject, XdpError> {
    let interface = Interface::find(name)?;
    let mut results = CheckResults::default();
    check_obstacles(&interface, &mut results);
    check_driver(&interface, &mut results);
    check_queues(&interface, &mut results);
    check_offloads(&interface, &mut results);
    Ok(DoctorSubject {
        kind: SubjectKind::Interface,
        name: format!("interface {name} for --io xdp"),
        pid: None,
        checks: results.checks,
        undetermined: results.undetermined,
        crypto: None,
        profile: None,
    })
}

fn check_obstacles(interface: &Interface, results: &mut CheckResults) {
    let obstacles = interface.obstacles();
    if obstacles.is_empty() {
        let seen = format!("ready, with an MTU of {}", interface.mtu());
        results.add(READY.check(CheckStatus::Ok, seen));
    }
    for obstacle in obstacles {
        let remedy = "see the hint in the message";
        let check = READY.check(CheckStatus::Error, obstacle.to_string());
        results.add(check.with_change(remedy));
    }
}

fn check_driver(interface: &Interface, results: &mut CheckResults) {
    let driver = interface.driver().unwrap_or_else(|| "unknown".to_owned());
    let Some(features) = interface.driver_features() else {
        let reason = "only Linux 6.3 and later report driver features";
        return results.add_undetermined(format!("features of the driver {driver}"), reason);
    };
    let (status, ability) = match features {
        _ if !features.native || !features.redirect => (
            CheckStatus::Warning,
            "doesn't run XDP programs, so the kernel runs them (generic mode)",
        ),
        _ if !features.zero_copy => (CheckStatus::Note, "copies each frame"),
        _ => (CheckStatus::Ok, "zero copy"),
    };
    results.add(DRIVER.check(status, format!("{driver}: {ability}")));
}

fn check_queues(interface: &Interface, results: &mut CheckResults) {
    let (queues, workers) = (interface.queues(), interface.workers_max());
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
    let status = if workers < cores {
        CheckStatus::Note
    } else {
        CheckStatus::Ok
    };
    let seen = format!(
        "{}, enough for {}; this machine has {}",
        number::plural(queues.into(), "receive queue", "receive queues"),
        number::plural(workers.into(), "worker", "workers"),
        number::plural(cores.into(), "core", "cores"),
    );
    let change = format!("ethtool -L {} combined {cores}", interface.name());
    results.add(QUEUES.check(status, seen).with_change(change));
    let rss = match (queues, interface.rss()) {
        (1, _) => return,
        (_, None) => RSS.check(CheckStatus::Note, "not reported by the driver"),
        (_, Some(rss)) if !rss.is_toeplitz => RSS.check(CheckStatus::Note, "not Toeplitz"),
        (_, Some(rss)) => {
            let (key, table) = (rss.key.len(), rss.table.len());
            let seen =
                format!("Toeplitz, with a key of {key} bytes and a table of {table} entries");
            RSS.check(CheckStatus::Ok, seen)
        }
    };
    results.add(rss);
}

fn check_offloads(interface: &Interface, results: &mut CheckResults) {
    let offloads = interface.offloads();
    let name = interface.name();
    for (topic, is_on, flag) in [
        (OFFLOADS, offloads.lro, "lro"),
        (VLAN, offloads.vlan, "rxvlan"),
    ] {
        let (status, seen) = match is_on {
            Some(true) if flag == "lro" => (CheckStatus::Warning, "on"),
            Some(true) => (CheckStatus::Note, "on"),
            Some(false) => (CheckStatus::Ok, "off"),
            None => {
                results.add_undetermined(topic.id, "the driver doesn't report this offload");
                continue;
            }
        };
        let change = format!("ethtool -K {name} {flag} off");
        let seen = format!("{flag} is {seen}");
        results.add(topic.check(status, seen).with_change(change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_is_not_suitable() {
        let subject = examine_interface("lo").unwrap();
        assert_eq!(subject.kind, SubjectKind::Interface);
        let errors = subject.checks.iter();
        let errors = errors.filter(|check| check.status == CheckStatus::Error);
        assert!(
            errors
                .clone()
                .any(|check| check.observed.contains("not an Ethernet"))
        );
        assert!(subject.checks.iter().any(|check| check.id == "xdp-queues"));
        assert!(examine_interface("prony-none").is_err());
    }
}
