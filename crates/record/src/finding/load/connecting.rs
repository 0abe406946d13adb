//! Findings about reaching the server and opening connections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::finding::Severity::{Error, Note, Warning};
use crate::finding::figures::figures;
use crate::finding::{FindingInfo, TrialFolding, WithheldVerdicts};
use crate::number;

const BASE: FindingInfo = FindingInfo::BASE;

/// Maximum number of entries of `--resolve` that a text names.
const ENTRIES_NAMED_MAX: usize = 5;
/// Maximum number of reasons that a text names, the most frequent first.
const REASONS_NAMED_MAX: usize = 3;
/// Name of the system setting for the range of local ports.
pub const PORT_RANGE_NAME: &str = "net.ipv4.ip_local_port_range";

pub(in crate::finding) const RESOLVE_UNUSED: FindingInfo = FindingInfo {
    seen: "No request uses an entry of `--resolve`. This is reported before the load starts.",
    severities: &[(Note, "")],
    meaning: "No URL of the load has the entry's host and port, or an earlier entry has the same \
        ones. Names without an entry are looked up as usual. Loads with a script or `--follow`, \
        which may request any URL, are not checked.",
    action: "Correct the host or the port, or remove the entry.",
    ..BASE
};

figures! {
    /// Entries of `--resolve` that no request uses.
    ResolveUnused {
        /// The entries.
        entries: Vec<String> = same,
    }
    |it, _subject| {
        let (named, others) = it.entries.split_at(it.entries.len().min(ENTRIES_NAMED_MAX));
        let more = match others.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "No request uses these entries of --resolve: {}{more}. Host and port must be those of \
             a request's URL, and only the first entry for them applies.",
            named.join(" ")
        )
    }
}

pub(in crate::finding) const NOTHING_LISTENS: FindingInfo = FindingInfo {
    seen: "Every connection attempt was refused, or the UNIX socket does not exist.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "No server listens at the address, or a firewall rejects connections to it. The load ends at the first refusal that occurs one second or more after the initial one.",
    action: "Start the server, correct the address, or wait for the server with \
             `--wait-for-server`.",
    ..BASE
};

/// Addresses that a load connects to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetNames {
    /// The first addresses, and paths of UNIX sockets.
    pub named: Vec<String>,
    /// Number of further addresses.
    pub further: u64,
}

impl TargetNames {
    /// Lists the addresses.
    pub fn text(&self) -> String {
        match self.further {
            0 => self.named.join(", "),
            further => format!("{} and {further} more addresses", self.named.join(", ")),
        }
    }
}

/// Describes attempts that all failed: "the only connection attempt was refused", or "all 3
/// connection attempts in 1.20 s were refused".
fn all_failed(count: u64, span_s: f64, noun: &str, (one, many): (&str, &str)) -> String {
    match count {
        1 => format!("the only {noun} {one}"),
        count => format!("all {count} {noun}s in {} {many}", number::span(span_s)),
    }
}

figures! {
    /// Connection attempts that were all refused.
    NothingListens {
        /// Addresses of the load's targets.
        targets: TargetNames = same,
        /// Number of connection attempts.
        attempts: u64 = sum,
        /// Seconds from the first refusal to the last.
        span_s: f64 = most,
        /// Error of the operating system for the last attempt.
        error: String = same,
    }
    |it, _subject| format!(
        "Nothing is listening on {}: {} ({}). Start the server, correct the address, or wait for \
         the server with --wait-for-server.",
        it.targets.text(),
        all_failed(it.attempts, it.span_s, "connection attempt", ("was refused", "were refused")),
        it.error
    )
}

pub(in crate::finding) const TLS_FAILED: FindingInfo = FindingInfo {
    seen: "No TLS connection was established: every handshake failed.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "No request was served, so there is nothing to measure. The load ends at the first \
              failure that occurs one second or more after the initial one.",
    action: "The finding names the reason. Correct the certificate, the name (`--sni`), the \
             versions and ciphers, or the port.",
    ..BASE
};

figures! {
    /// TLS handshakes that all failed.
    TlsFailed {
        /// Addresses of the load's targets.
        targets: TargetNames = same,
        /// Number of handshakes.
        handshakes: u64 = sum,
        /// Seconds from the first failure to the last.
        span_s: f64 = most,
        /// Error of the last attempt.
        error: String = same,
    }
    |it, _subject| format!(
        "No TLS connection to {} was established: {} ({}).",
        it.targets.text(),
        all_failed(it.handshakes, it.span_s, "TLS handshake", ("failed", "failed")),
        it.error
    )
}

pub(in crate::finding) const SYN_RETRANSMITTED: FindingInfo = FindingInfo {
    seen: "TCP connection attempts took as long as if a SYN had been lost and retransmitted.",
    severities: &[
        (
            Note,
            "a connection attempt took 1, 2, 3, 4, 5 or 7 s, or longer than that by up to 100 ms \
             plus 4%",
        ),
        (
            Warning,
            "more than 1% of the connection attempts took that long",
        ),
    ],
    meaning: "That SYNs were lost is a conclusion from these times. Usual causes are a listen queue \
        that overflows and packet loss; prony observes neither.",
    action: "Raise the server's backlog (on Linux with `net.core.somaxconn`), or look for packet \
             loss on the path.",
    ..BASE
};

figures! {
    /// Connection attempts that took as long as with a retransmitted SYN.
    SynRetransmitted {
        /// Number of such attempts.
        retransmitted: u64 = sum,
        /// Number of successful connection attempts over TCP.
        connects: u64 = sum,
    }
    |it, _subject| format!(
        "{} of {} connection attempts took about 1 s, 3 s or another SYN retransmission delay. \
         From these times, prony concludes that SYNs were lost; it has not observed where. If the \
         server's listen queue overflows, raise its backlog (on Linux, see net.core.somaxconn); \
         otherwise, look for packet loss on the path.",
        it.retransmitted,
        it.connects
    )
}

pub(in crate::finding) const PORTS_SCARCE: FindingInfo = FindingInfo {
    seen: "Local ports may run out. This is reported before the load starts.",
    severities: &[
        (
            Note,
            "the connections, plus the ports that other programs use to reach the same server, \
            exceed 80% of all local ports",
        ),
        (Warning, "they exceed 100%"),
    ],
    meaning: "Connection attempts fail when no local port is left.",
    action: "Use more source addresses (`--source`) or fewer connections, or widen the port range.",
    ..BASE
};

/// Expectation for the local ports of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortOutlook {
    /// More than 80% of the ports will be in use.
    MayRunOut,
    /// Sources are drawn at random, so one of them may get more connections than it has ports.
    MayRunOutForOne,
    /// The load needs more ports than are free.
    WillRunOut,
}

figures! {
    /// Local ports that may run out.
    PortsScarce {
        /// Expectation for the ports.
        outlook: PortOutlook = most,
        /// Connections of the load.
        connections: u64 = sum,
        /// Local ports of the load's addresses.
        ports: u64 = sum,
        /// Number of them that other programs hold.
        held: u64 = sum,
        /// Number of held ports in TIME_WAIT.
        waiting: u64 = sum,
    }
    |it, _subject| {
        let others = match (it.held, it.waiting) {
            (0, _) => String::new(),
            (held, 0) => format!(", of which other programs hold {held}"),
            (held, waiting) => format!(
                ", of which other programs hold {held}, {waiting} of them in TIME_WAIT for up to a \
                 minute because those programs closed first"
            ),
        };
        let outlook = match it.outlook {
            PortOutlook::MayRunOut => "may exhaust these ports",
            PortOutlook::MayRunOutForOne => {
                "may exhaust the ports of an address that is drawn often"
            }
            PortOutlook::WillRunOut => "will exhaust these ports",
        };
        let wait = match it.waiting {
            0 => "",
            _ => ", or wait a minute",
        };
        format!(
            "The load's addresses have {} local ports for connections to the server{others}, and {} \
             connections {outlook}. Use more source addresses (--source FIRST-LAST) or fewer \
             connections, or widen {PORT_RANGE_NAME}{wait}.",
            it.ports,
            it.connections
        )
    }
}

pub(in crate::finding) const CONNECTIONS_LATE: FindingInfo = FindingInfo {
    seen: "Some connections that should have been open at the start of the load were not.",
    severities: &[(Note, "")],
    meaning: "In a load generated by several machines, connection attempts failed or took longer \
        than 5 s, or open connections were closed before the start. The first requests on these \
        connections had to wait for them to be opened.",
    action: "Read the reasons; raise the server's backlog if connection attempts time out.",
    ..BASE
};

figures! {
    /// Connections that were not open at the start of the load.
    ConnectionsLate {
        /// Number of such connections.
        missing: u64 = sum,
        /// Number of connections that should have been open.
        wanted: u64 = sum,
        /// Number of failures by outcome and reason, such as `reset: Connection reset by peer`.
        reasons: BTreeMap<String, u64> = sums,
    }
    |it, _subject| {
        let mut by_count: Vec<(&String, u64)> =
            it.reasons.iter().map(|(reason, count)| (reason, *count)).collect();
        by_count.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        let (named, others) = by_count.split_at(by_count.len().min(REASONS_NAMED_MAX));
        let count_of = |reasons: &[(&String, u64)]| {
            reasons.iter().fold(0, |sum: u64, (_, count)| sum.saturating_add(*count))
        };
        let mut reasons: Vec<String> = named
            .iter()
            .map(|(reason, count)| format!("{reason} ({count}×)"))
            .collect();
        let late = it.missing.saturating_sub(count_of(&by_count));
        for (reason, count) in [
            ("other reasons", count_of(others)),
            ("not established in time", late),
        ] {
            if count > 0 {
                reasons.push(format!("{reason} ({count}×)"));
            }
        }
        format!(
            "{} of {} connections were not open when the load began. They were opened when \
             requests were due on them. Reasons: {}.",
            it.missing,
            it.wanted,
            reasons.join("; ")
        )
    }
}

pub(in crate::finding) const SOCKETS_FAILED: FindingInfo = FindingInfo {
    seen: "The operating system refused to wait for socket events, or to send over AF_XDP, while \
           the load ran.",
    severities: &[(Error, "")],
    withholds: WithheldVerdicts::All,
    meaning: "The load ended at that time, so it is shorter than configured. The figures include \
              its measurements until then. A load over AF_XDP ends so if its interface goes down \
              or is removed.",
    action: "Correct the cause that the finding names, and repeat the load. `ip link` lists the \
             state of interfaces.",
    folding: TrialFolding::Worst,
    incomplete_load: true,
    ..BASE
};

figures! {
    /// Sockets that failed as a whole.
    SocketsFailed {
        /// Seconds from the start of the load until its sockets failed.
        at_s: f64 = least,
        /// Error of the operating system.
        error: String = same,
    }
    |it, _subject| format!(
        "The load ended after {:.1} s, because its sockets failed: {}. The results cover the time \
         until then.",
        it.at_s,
        it.error
    )
}
