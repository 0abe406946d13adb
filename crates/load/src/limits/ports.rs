//! Predicts, before a load begins, whether its connections will find enough local ports.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use prony_record::finding::{PORT_RANGE_NAME, PortOutlook, PortsScarce};
use prony_record::{Finding, Severity};

use crate::settings::SourceOrder;
use crate::socket::local;
use crate::target::Target;
use crate::target::source::Sources;
use crate::values::error::{SettingsError, SpecError};

/// If a load needs more than this share of the available ports, ports are scarce, because other
/// programs need some as well.
const SCARCE_SHARE: f64 = 0.8;
/// If a load needs more than this share of the available ports, prony chooses the local ports
/// itself. For each connection, Linux searches all ports of one parity before those of the other
/// parity, which takes a long time when most ports are in use.
const LONG_SEARCH_SHARE: f64 = 0.25;

/// Number of local ports that a load needs, and number of available ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PortDemand {
    connections: u64,
    /// Ports that one source has for one destination.
    ports: u64,
    /// Number of pairs of a source and a destination.
    pairs: u64,
    /// Ports for these destinations that other programs currently hold.
    held: local::HeldPorts,
    /// True if sources are drawn at random, so some pairs get more connections than others.
    is_random: bool,
}

/// Number of local ports for connections from one address to another; `None` if unknown.
pub fn local_port_count() -> Option<u64> {
    local::local_ports().map(local::LocalPorts::count)
}

/// Checks that the load's connections will find local ports, and returns a finding if they might
/// not.
///
/// # Errors
///
/// There are definitely too few ports.
pub(crate) fn predict_shortage(
    connections: u32,
    sources: &mut Sources,
    targets: &[Target],
) -> Result<Option<Finding>, SpecError> {
    let destinations: BTreeSet<SocketAddr> = targets
        .iter()
        .filter_map(|target| target.peer.address())
        .map(|address| SocketAddr::new(address.ip().to_canonical(), address.port()))
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
    let mut demand = PortDemand {
        connections: connections.into(),
        ports: ports.count(),
        pairs,
        held: local::HeldPorts::default(),
        is_random: sources.order() == SourceOrder::Random,
    };
    demand.check()?;
    if demand.share() > LONG_SEARCH_SHARE {
        sources.choose_ports(Some(ports));
    }
    // Listing the machine's connections takes time, so it is done only when it can matter.
    let all = local::sockets_in_use();
    if demand.needed() + all > demand.available(SCARCE_SHARE) {
        demand.held = local::held_ports(&destinations, |ip| sources.has(ip));
    }
    Ok(demand.finding())
}

impl PortDemand {
    /// Returns this share of the total number of ports of all pairs.
    fn available(self, share: f64) -> u64 {
        let all = self.ports.saturating_mul(self.pairs);
        if share >= 1.0 {
            return all;
        }
        (all as f64 * share) as u64
    }

    /// Share of the ports that the load needs at the same time.
    fn share(self) -> f64 {
        self.needed() as f64 / self.available(1.0).max(1) as f64
    }

    /// Number of ports needed if every pair had as many connections as the busiest one. In
    /// round-robin order all pairs have the same number of connections. With random sources, a
    /// pair's number of connections varies around its mean, with the square root of the mean as
    /// standard deviation (as a Poisson variable does). Even among thousands of pairs, hardly any
    /// number exceeds the mean by four standard deviations.
    fn needed(self) -> u64 {
        if !self.is_random {
            return self.connections;
        }
        let each = self.connections as f64 / self.pairs as f64;
        let busiest = (each + 4.0 * each.sqrt()).min(self.connections as f64);
        (busiest * self.pairs as f64) as u64
    }

    fn check(self) -> Result<(), SpecError> {
        if self.connections <= self.available(1.0) {
            return Ok(());
        }
        let PortDemand {
            connections,
            ports,
            pairs,
            ..
        } = self;
        let supply = match pairs {
            1 => format!("one source address has {ports} for one destination"),
            pairs => format!("each of {pairs} source-destination pairs has {ports}"),
        };
        let error = SettingsError::value("connections", connections).text(format!(
            " needs that many local ports, but {supply} ({}); use at most {} connections, \
                connect from more addresses (",
            PORT_RANGE_NAME,
            self.available(1.0)
        ));
        Err(SpecError::Environment(error.name("source").text(
            " FIRST-LAST, such as 127.0.0.2-127.0.0.9 on loopback), or widen the range",
        )))
    }

    fn finding(self) -> Option<Finding> {
        let PortDemand {
            connections, held, ..
        } = self;
        let (all, needed) = (self.available(1.0), self.needed());
        let taken = held.count.min(all);
        if needed + taken <= self.available(SCARCE_SHARE) {
            return None;
        }
        let (severity, outlook) = match needed + taken > all {
            true if connections + taken <= all => (Severity::Note, PortOutlook::MayRunOutForOne),
            true => (Severity::Warning, PortOutlook::WillRunOut),
            false => (Severity::Note, PortOutlook::MayRunOut),
        };
        let scarce = PortsScarce {
            outlook,
            connections,
            ports: all,
            held: taken,
            waiting: held.waiting.min(taken),
        };
        Some(Finding::of(severity, &scarce))
    }
}

/// Description of the port range, for error messages.
pub(crate) fn described() -> String {
    let count = local::local_ports().map(local::LocalPorts::count);
    count.map_or_else(
        || "each source has a limited number of ports for each destination".to_owned(),
        |count| {
            format!(
                "one source address has {count} local ports for one destination ({})",
                PORT_RANGE_NAME
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demand(connections: u64, pairs: u64, held: u64, waiting: u64) -> PortDemand {
        PortDemand {
            connections,
            ports: 100,
            pairs,
            held: local::HeldPorts {
                count: held,
                waiting,
            },
            is_random: false,
        }
    }

    #[test]
    fn more_connections_than_ports_are_refused_with_a_hint() {
        assert!(demand(100, 1, 0, 0).check().is_ok());
        assert!(demand(300, 3, 0, 0).check().is_ok());
        let error = demand(101, 1, 0, 0).check().unwrap_err().to_string();
        for part in [
            "--connections 101",
            "has 100 for",
            "at most 100",
            "--source",
        ] {
            assert!(error.contains(part), "{part}: {error}");
        }
        let error = demand(301, 3, 0, 0).check().unwrap_err().to_string();
        assert!(
            error.contains("each of 3 source-destination pairs"),
            "{error}"
        );
        assert!(error.contains("at most 300"), "{error}");
    }

    #[test]
    fn scarce_ports_are_predicted_from_open_connections() {
        let found = |connections, pairs, held, waiting| {
            let finding = demand(connections, pairs, held, waiting).finding()?;
            Some((finding.severity, finding.figures::<PortsScarce>().unwrap()))
        };
        assert_eq!(found(80, 1, 0, 0), None);
        assert_eq!(found(20, 1, 60, 60), None);
        let expected = PortsScarce {
            outlook: PortOutlook::MayRunOut,
            connections: 81,
            ports: 100,
            held: 0,
            waiting: 0,
        };
        assert_eq!(found(81, 1, 0, 0), Some((Severity::Note, expected)));
        let expected = PortsScarce {
            outlook: PortOutlook::WillRunOut,
            connections: 20,
            ports: 100,
            held: 90,
            waiting: 85,
        };
        assert_eq!(found(20, 1, 90, 85), Some((Severity::Warning, expected)));
        assert_eq!(found(20, 2, 90, 85), None, "another source has its own");
    }

    #[test]
    fn random_sources_use_ports_unevenly() {
        // In round-robin order, each of 20 pairs needs 70 of its 100 ports. With random sources,
        // one pair may need 100.
        let even = demand(1400, 20, 0, 0);
        assert_eq!((even.needed(), even.finding()), (1400, None));
        let drawn = PortDemand {
            is_random: true,
            ..even
        };
        assert!((2000..2100).contains(&drawn.needed()), "{drawn:?}");
        let finding = drawn.finding().unwrap();
        assert_eq!(finding.severity, Severity::Note);
        let figures: PortsScarce = finding.figures().unwrap();
        assert_eq!(figures.outlook, PortOutlook::MayRunOutForOne);
        // With a single source there is nothing to choose.
        let one = PortDemand {
            is_random: true,
            ..demand(70, 1, 0, 0)
        };
        assert!(one.needed() <= 100 && one.check().is_ok());
        let few = PortDemand {
            is_random: true,
            ..demand(2, 1000, 0, 0)
        };
        assert_eq!(few.finding(), None);
    }
}
