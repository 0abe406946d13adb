//! Whether a load's connections find local ports, told before it begins.
//!
//! A connection needs a local port that no other one from the same address to the same address and
//! port has, so each pair of a source and a destination has all ports of the system's range to
//! itself (Linux: net.ipv4.ip_local_port_range in ip-sysctl.txt; ports are chosen by the connect,
//! see [`local::leave_from`]).
//!
//! How long a port is held depends on who closes first, as that side keeps the pair in TIME_WAIT for
//! a minute (RFC 9293 §3.6.1). That side is never the load: without keep-alive it asks for the close
//! (`Connection: close`) and waits for it, and where it must end a connection itself it aborts it,
//! which leaves nothing behind. A port is therefore free again as soon as its connection is gone,
//! however many of them a second there are, and what counts is how many are open *at the same
//! time*. The server's own TIME_WAIT is no obstacle, on the same machine neither: there it is the
//! pair seen from the other end, and a new SYN on it is taken (RFC 6191, RFC 9293 §3.10.7.4).
//!
//! So there are two ways in which ports run out: more connections than pairs have ports, which is
//! certain and refused; and ports that others hold, such as another program's TIME_WAITs towards the
//! same server, which is foretold. Of the latter those don't count that the system gives again at
//! once (net.ipv4.tcp_tw_reuse: by default between addresses of the loopback).

use std::collections::BTreeSet;
use std::net::SocketAddr;

use prony_record::{Finding, FindingId, Severity};

use crate::request::Target;
use crate::settings::{SettingsError, SourceOrder};
use crate::socket::{Peer, local};
use crate::source::Sources;
use crate::spec::SpecError;

/// From this share of the ports on a load has few to spare: other programs want some, too.
const SCARCE: f64 = 0.8;
/// From this share on the system's own search is not left to itself: Linux looks through all ports
/// of one parity before it takes one of the other, for each connect.
const LONG_SEARCH: f64 = 0.25;

/// What a load wants, and what there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Market {
    connections: u64,
    /// Ports that one source has for one destination.
    ports: u64,
    /// Pairs of a source and a destination.
    pairs: u64,
    /// Ports towards the destinations that others hold at present.
    held: local::Held,
    /// Sources are drawn: some pairs get more connections than others.
    is_random: bool,
}

/// Sees to it that the load's connections find ports, and says where that may fail.
///
/// # Errors
///
/// Where it must fail.
pub(crate) fn foresee(
    connections: u32,
    sources: &mut Sources,
    targets: &[Target],
) -> Result<Option<Finding>, SpecError> {
    let destinations: BTreeSet<SocketAddr> = targets
        .iter()
        .filter_map(|target| match &target.peer {
            Peer::Tcp(address) => Some(*address),
            Peer::Unix(_) => None,
        })
        .collect();
    let Some(ports) = local::local_ports() else {
        return Ok(None);
    };
    let pairs: u64 = destinations
        .iter()
        .map(|peer| sources.count_for(peer.ip()))
        .fold(0, u64::saturating_add);
    if pairs == 0 {
        return Ok(None);
    }
    let mut market = Market {
        connections: connections.into(),
        ports: ports.count(),
        pairs,
        held: local::Held::default(),
        is_random: sources.order() == SourceOrder::Random,
    };
    market.check()?;
    if market.share() > LONG_SEARCH {
        sources.choose_ports(Some(ports));
    }
    // Looking at each of the machine's connections costs time, so it is done where it can matter.
    let all = local::sockets_in_use();
    if market.wanted() + all > market.most(SCARCE) {
        market.held = local::held_ports(&destinations, |ip| sources.has(ip));
    }
    Ok(market.finding())
}

impl Market {
    /// So much of all ports of all pairs.
    fn most(self, share: f64) -> u64 {
        let all = self.ports.saturating_mul(self.pairs);
        if share >= 1.0 {
            return all;
        }
        (all as f64 * share) as u64
    }

    /// The share of the ports that the load wants at the same time.
    fn share(self) -> f64 {
        self.wanted() as f64 / self.most(1.0).max(1) as f64
    }

    /// The connections, as many for each pair as the one with most has. In turn all have the same;
    /// where sources are drawn, a pair has its share give or take its root (the standard deviation of
    /// a Poisson variable), and of thousands of pairs none has four of those more.
    fn wanted(self) -> u64 {
        if !self.is_random {
            return self.connections;
        }
        let each = self.connections as f64 / self.pairs as f64;
        let most = (each + 4.0 * each.sqrt()).min(self.connections as f64);
        (most * self.pairs as f64) as u64
    }

    fn check(self) -> Result<(), SpecError> {
        if self.connections <= self.most(1.0) {
            return Ok(());
        }
        let Market {
            connections,
            ports,
            pairs,
            ..
        } = self;
        let pairs = match pairs {
            1 => "one address to one address has".to_owned(),
            pairs => format!("each of {pairs} pairs of addresses have"),
        };
        let error = SettingsError::value("connections", connections).text(format!(
            " needs as many local ports, and {pairs} {ports} ({}); use at most {} connections, \
             connect from more addresses (",
            local::PORT_RANGE_NAME,
            self.most(1.0)
        ));
        Err(SpecError::Environment(error.name("source").text(
            " FIRST-LAST, such as 127.0.0.2-127.0.0.9 on the loopback), or widen the range",
        )))
    }

    fn finding(self) -> Option<Finding> {
        let Market {
            connections, held, ..
        } = self;
        let (all, wanted) = (self.most(1.0), self.wanted());
        let taken = held.count.min(all);
        if wanted + taken <= self.most(SCARCE) {
            return None;
        }
        let (severity, can) = match wanted + taken > all {
            true if connections + taken <= all => (
                Severity::Note,
                "can run out of them where one is drawn often",
            ),
            true => (Severity::Warning, "will run out of them"),
            false => (Severity::Note, "can run out of them"),
        };
        let others = match (taken, held.waiting) {
            (0, _) => String::new(),
            (taken, 0) => format!(", of which other programs hold {taken}"),
            (taken, waiting) => format!(
                ", of which other programs hold {taken}, {} of them in TIME_WAIT for up to a minute \
                 because they closed first",
                waiting.min(taken)
            ),
        };
        let wait = match held.waiting {
            0 => "",
            _ => ", or wait a minute",
        };
        Some(Finding::new(
            FindingId::PortsScarce,
            severity,
            format!(
                "There are {all} local ports from the load's addresses to the server's{others}, and \
                 {connections} connections {can}. Let them come from more addresses (--source \
                 FIRST-LAST), use fewer, or widen {}{wait}.",
                local::PORT_RANGE_NAME
            ),
        ))
    }
}

/// The ports themselves, for a message about their end.
pub(crate) fn described() -> String {
    let count = local::local_ports().map(local::LocalPorts::count);
    count.map_or_else(
        || "each source has a limited number of ports for each destination".to_owned(),
        |count| {
            format!(
                "one address has {count} of them for one address ({})",
                local::PORT_RANGE_NAME
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn market(connections: u64, pairs: u64, held: u64, waiting: u64) -> Market {
        Market {
            connections,
            ports: 100,
            pairs,
            held: local::Held {
                count: held,
                waiting,
            },
            is_random: false,
        }
    }

    #[test]
    fn more_connections_than_ports_are_refused_with_a_hint() {
        assert!(market(100, 1, 0, 0).check().is_ok());
        assert!(market(300, 3, 0, 0).check().is_ok());
        let error = market(101, 1, 0, 0).check().unwrap_err().to_string();
        for part in ["--connections 101", "100 (", "at most 100", "--source"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = market(301, 3, 0, 0).check().unwrap_err().to_string();
        assert!(error.contains("each of 3 pairs"), "{error}");
        assert!(error.contains("at most 300"), "{error}");
    }

    #[test]
    fn scarce_ports_are_predicted_from_open_connections() {
        let found = |connections, pairs, held, waiting| {
            let finding = market(connections, pairs, held, waiting).finding();
            finding.map(|finding| (finding.severity, finding.text))
        };
        assert_eq!(found(80, 1, 0, 0), None);
        assert_eq!(found(20, 1, 60, 60), None);
        let (severity, text) = found(81, 1, 0, 0).unwrap();
        assert_eq!(severity, Severity::Note);
        assert!(!text.contains("TIME_WAIT") && text.contains("--source"));
        let (severity, text) = found(20, 1, 90, 85).unwrap();
        assert_eq!(severity, Severity::Warning);
        assert!(text.contains("hold 90") && text.contains("85 of them in TIME_WAIT"));
        assert_eq!(found(20, 2, 90, 85), None, "another source has its own");
    }

    #[test]
    fn drawn_sources_are_not_used_evenly() {
        // 70 of 100 ports for each of 20 pairs in turn; drawn, one may need a hundred.
        let even = market(1400, 20, 0, 0);
        assert_eq!((even.wanted(), even.finding()), (1400, None));
        let drawn = Market {
            is_random: true,
            ..even
        };
        assert!((2000..2100).contains(&drawn.wanted()), "{drawn:?}");
        let finding = drawn.finding().unwrap();
        assert_eq!(finding.severity, Severity::Note);
        assert!(finding.text.contains("drawn often"), "{}", finding.text);
        // With one source there is nothing to draw.
        let one = Market {
            is_random: true,
            ..market(70, 1, 0, 0)
        };
        assert!(one.wanted() <= 100 && one.check().is_ok());
        let few = Market {
            is_random: true,
            ..market(2, 1000, 0, 0)
        };
        assert_eq!(few.finding(), None);
    }
}
