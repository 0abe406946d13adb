//! /proc/net/{snmp,netstat,sockstat} as numbers. Pure functions over the files' text.

use std::path::Path;

use crate::telemetry::TcpCounters;

/// The TCP counters of the network namespace in which a process lives.
pub(super) fn tcp_counters(process: &Path) -> TcpCounters {
    let text =
        |name: &str| std::fs::read_to_string(process.join("net").join(name)).unwrap_or_default();
    parse(&text("snmp"), &text("netstat"), &text("sockstat"))
}

/// The counters by the text of the three files; what a kernel lacks is 0.
fn parse(snmp: &str, netstat: &str, sockstat: &str) -> TcpCounters {
    TcpCounters {
        listen_overflows: paired(netstat, "TcpExt:", "ListenOverflows"),
        listen_drops: paired(netstat, "TcpExt:", "ListenDrops"),
        retransmitted_segments: paired(snmp, "Tcp:", "RetransSegs"),
        resets_sent: paired(snmp, "Tcp:", "OutRsts"),
        established: paired(snmp, "Tcp:", "CurrEstab"),
        time_wait: listed(sockstat, "TCP:", "tw"),
    }
}

/// A value from a file whose lines come in pairs: names, then values, both after the same prefix.
fn paired(text: &str, prefix: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(prefix));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return 0;
    };
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .find(|(candidate, _)| *candidate == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or(0)
}

/// A value from a line `prefix name value name value …`.
fn listed(text: &str, prefix: &str, name: &str) -> u64 {
    let Some(line) = text.lines().find_map(|line| line.strip_prefix(prefix)) else {
        return 0;
    };
    let mut words = line.split_whitespace().skip_while(|word| *word != name);
    words
        .nth(1)
        .and_then(|value| value.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 2 64\n\
        Tcp: RtoAlgorithm MaxConn ActiveOpens CurrEstab RetransSegs InErrs OutRsts\nTcp: 1 -1 9 11 12 0 13\n";
    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops\nTcpExt: 0 21 22\n\
        IpExt: InOctets ListenDrops\nIpExt: 5 99\n";
    const SOCKSTAT: &str =
        "sockets: used 3\nTCP: inuse 5 orphan 0 tw 31 alloc 6 mem 2\nUDP: inuse 1 mem 0\n";

    #[test]
    fn every_counter_comes_from_its_own_column() {
        let expected = TcpCounters {
            listen_overflows: 21,
            listen_drops: 22,
            retransmitted_segments: 12,
            resets_sent: 13,
            established: 11,
            time_wait: 31,
        };
        assert_eq!(parse(SNMP, NETSTAT, SOCKSTAT), expected);
    }

    #[test]
    fn what_is_missing_is_zero() {
        assert_eq!(
            parse("", "TcpExt: ListenDrops\n", "TCP: inuse 5 tw"),
            TcpCounters::default()
        );
    }

    #[test]
    fn the_running_kernel_has_the_files() {
        let snmp = std::fs::read_to_string("/proc/self/net/snmp").unwrap();
        assert!(
            snmp.lines()
                .any(|line| line.starts_with("Tcp:") && line.contains("RetransSegs"))
        );
    }
}
