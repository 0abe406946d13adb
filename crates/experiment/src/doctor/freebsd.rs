//! Checks of a FreeBSD machine, based on the output of `sysctl`. All other properties are reported
//! as undetermined.
//!
//! **Not yet run on FreeBSD.** The checks are pure functions of the output of `sysctl NAME…`, and
//! are compiled and tested on every system.

use std::collections::BTreeMap;

use prony_record::number;

use super::check::{CheckResults, CheckStatus, CheckTopic};
use super::{DoctorSubject, MACHINE_NAME, SubjectKind};

/// Names of the sysctl values to read.
pub const NAMES: [&str; 5] = [
    "kern.ipc.soacceptqueue",
    "kern.maxfilesperproc",
    "kern.timecounter.hardware",
    "net.inet.ip.portrange.first",
    "net.inet.ip.portrange.last",
];

const PORTS: CheckTopic = CheckTopic {
    id: "local-ports",
    expected: "a wide range for loads without keep-alive: 1024 to 65535",
    why: "each connection uses a local port, and the side that closes first keeps the port for \
        twice the maximum segment lifetime",
    change: "sysctl net.inet.ip.portrange.first=1024, or use several source addresses (--source)",
    source: "ip(4), IP_PORTRANGE",
};

const FILES: CheckTopic = CheckTopic {
    id: "generator-open-files",
    expected: "more than the load's number of connections",
    why: "each connection is an open file",
    change: "sysctl kern.maxfilesperproc=200000, and kern.maxfiles above it",
    source: "tuning(7)",
};

const QUEUE: CheckTopic = CheckTopic {
    id: "somaxconn",
    expected: "4096 or more",
    why: "this value limits the backlog of every server on this machine",
    change: "sysctl kern.ipc.soacceptqueue=4096",
    source: "listen(2)",
};

const CLOCK: CheckTopic = CheckTopic {
    id: "clocksource",
    expected: "TSC or TSC-low, which are read without a system call",
    why: "the generator reads the clock several times per request",
    change: "sysctl kern.timecounter.hardware=TSC-low",
    source: "timecounters(4)",
};

/// Properties that are examined on Linux only.
const UNKNOWN: [&str; 5] = [
    "connections in TIME_WAIT",
    "CPU frequency governor",
    "steal time and other load",
    "offloads",
    "the libraries, listeners and configuration of a server",
];

/// Examines a machine. `printed` is the output of `sysctl`, whose lines have the form `name:
/// value`.
#[must_use]
pub fn machine(printed: &str) -> DoctorSubject {
    let results = check(printed);
    DoctorSubject {
        kind: SubjectKind::Machine,
        name: MACHINE_NAME.to_owned(),
        pid: None,
        checks: results.checks,
        undetermined: results.undetermined,
        #[cfg(target_os = "linux")]
        crypto: None,
    }
}

fn check(printed: &str) -> CheckResults {
    let mut results = CheckResults::default();
    let pairs = printed.lines().filter_map(|line| line.split_once(": "));
    let values: BTreeMap<&str, &str> = pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let number = |name: &str| values.get(name)?.parse::<u64>().ok();
    match (number(NAMES[3]), number(NAMES[4])) {
        (Some(first), Some(last)) => {
            let ports = last.saturating_sub(first) + 1;
            let status = CheckStatus::warning_if(ports < 28_000);
            let text = format!("{} ports ({first} to {last})", number::count(ports));
            results.add(PORTS.check(status, text));
        }
        _ => results.add_undetermined("local port range", "sysctl did not print the value"),
    }
    let mut check_minimum = |name: &str, topic: CheckTopic, minimum: u64| match number(name) {
        Some(value) => {
            let status = CheckStatus::warning_if(value < minimum);
            results.add(topic.check(status, number::count(value)));
        }
        None => results.add_undetermined(name, "sysctl did not print the value"),
    };
    check_minimum(NAMES[1], FILES, 4096);
    check_minimum(NAMES[0], QUEUE, 4096);
    match values.get(NAMES[2]) {
        Some(name) => {
            let status = if name.starts_with("TSC") {
                CheckStatus::Ok
            } else {
                CheckStatus::Warning
            };
            results.add(CLOCK.check(status, *name));
        }
        None => results.add_undetermined("clocksource", "sysctl did not print the value"),
    }
    for what in UNKNOWN {
        results.add_undetermined(what, "not implemented for FreeBSD");
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_values_are_checked_and_the_rest_is_undetermined() {
        let printed = "kern.ipc.soacceptqueue: 128\nkern.maxfilesperproc: 117000\n\
            kern.timecounter.hardware: TSC-low\nnet.inet.ip.portrange.first: 10000\n\
            net.inet.ip.portrange.last: 65535\n";
        let results = check(printed);
        let brief: Vec<_> = results
            .checks
            .iter()
            .map(|check| (check.id, check.status))
            .collect();
        let expected = [
            ("local-ports", CheckStatus::Ok),
            ("generator-open-files", CheckStatus::Ok),
            ("somaxconn", CheckStatus::Warning),
            ("clocksource", CheckStatus::Ok),
        ];
        assert_eq!(brief, expected);
        assert_eq!(results.undetermined.len(), UNKNOWN.len());
        assert_eq!(check("").checks, []);
    }
}
