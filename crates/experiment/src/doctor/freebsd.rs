//! FreeBSD: what `sysctl` tells of the machine; the rest is named as not known.
//!
//! **Not yet run on FreeBSD.** The readings are pure functions over what `sysctl NAME…` prints,
//! compiled and tested on every system.

use std::collections::BTreeMap;

use super::line::{Level, Seen, Topic, thousands};
use super::{Kind, Subject};

/// What is asked for.
pub const NAMES: [&str; 5] = [
    "kern.ipc.soacceptqueue",
    "kern.maxfilesperproc",
    "kern.timecounter.hardware",
    "net.inet.ip.portrange.first",
    "net.inet.ip.portrange.last",
];

const PORTS: Topic = Topic {
    id: "local-ports",
    expected: "a wide range for loads without keep-alive: 1024 to 65535",
    why: "a connection holds a port for its destination, and for twice the segment's lifetime longer \
        on the side that closes first",
    change: "sysctl net.inet.ip.portrange.first=1024, or several source addresses (--source)",
    source: "ip(4), IP_PORTRANGE",
};

const FILES: Topic = Topic {
    id: "generator-open-files",
    expected: "above the connections of the load",
    why: "each connection is an open file",
    change: "sysctl kern.maxfilesperproc=200000, and kern.maxfiles above it",
    source: "tuning(7)",
};

const QUEUE: Topic = Topic {
    id: "somaxconn",
    expected: "4096 or more",
    why: "it caps the backlog of every server that is started here",
    change: "sysctl kern.ipc.soacceptqueue=4096",
    source: "listen(2)",
};

const CLOCK: Topic = Topic {
    id: "clocksource",
    expected: "TSC or TSC-low, which are read without a system call",
    why: "the generator reads the clock several times a request",
    change: "sysctl kern.timecounter.hardware=TSC-low",
    source: "timecounters(4)",
};

/// What Linux tells and this does not.
const UNKNOWN: [&str; 5] = [
    "connections in TIME_WAIT",
    "CPU frequency governor",
    "steal time and other load",
    "offloads",
    "what a server has loaded, listens on and is configured for",
];

/// A machine by what `sysctl` printed (`name: value` lines).
#[must_use]
pub fn machine(printed: &str) -> Subject {
    let seen = look(printed);
    Subject {
        kind: Kind::Machine,
        name: "this machine as a generator".to_owned(),
        pid: None,
        lines: seen.lines,
        unknown: seen.unknown,
        #[cfg(target_os = "linux")]
        crypto: None,
    }
}

fn look(printed: &str) -> Seen {
    let mut seen = Seen::default();
    let pairs = printed.lines().filter_map(|line| line.split_once(": "));
    let values: BTreeMap<&str, &str> = pairs
        .map(|(name, value)| (name.trim(), value.trim()))
        .collect();
    let number = |name: &str| values.get(name)?.parse::<u64>().ok();
    match (number(NAMES[3]), number(NAMES[4])) {
        (Some(first), Some(last)) => {
            let ports = last.saturating_sub(first) + 1;
            let level = if ports < 28_000 {
                Level::Warning
            } else {
                Level::Ok
            };
            let text = format!("{} ports ({first} to {last})", thousands(ports));
            seen.line(PORTS.line(level, text));
        }
        _ => seen.unknown("range of local ports", "sysctl did not tell"),
    }
    let mut judged = |name: &str, topic: Topic, least: u64| match number(name) {
        Some(value) => {
            let level = if value < least {
                Level::Warning
            } else {
                Level::Ok
            };
            seen.line(topic.line(level, thousands(value)));
        }
        None => seen.unknown(name, "sysctl did not tell"),
    };
    judged(NAMES[1], FILES, 4096);
    judged(NAMES[0], QUEUE, 4096);
    match values.get(NAMES[2]) {
        Some(name) => {
            let level = if name.starts_with("TSC") {
                Level::Ok
            } else {
                Level::Warning
            };
            seen.line(CLOCK.line(level, *name));
        }
        None => seen.unknown("clocksource", "sysctl did not tell"),
    }
    for what in UNKNOWN {
        seen.unknown(what, "not built for FreeBSD");
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sysctl_prints_becomes_lines_and_the_rest_is_named() {
        let printed = "kern.ipc.soacceptqueue: 128\nkern.maxfilesperproc: 117000\n\
            kern.timecounter.hardware: TSC-low\nnet.inet.ip.portrange.first: 10000\n\
            net.inet.ip.portrange.last: 65535\n";
        let seen = look(printed);
        let brief: Vec<_> = seen
            .lines
            .iter()
            .map(|line| (line.id, line.level))
            .collect();
        let expected = [
            ("local-ports", Level::Ok),
            ("generator-open-files", Level::Ok),
            ("somaxconn", Level::Warning),
            ("clocksource", Level::Ok),
        ];
        assert_eq!(brief, expected);
        assert_eq!(seen.unknown.len(), UNKNOWN.len());
        assert_eq!(look("").lines, []);
    }
}
