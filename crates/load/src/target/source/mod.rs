//! Source addresses of connections: `--source`, and the addresses in PROXY protocol headers.

mod assign_hint;
mod counts;

use std::io;
use std::net::IpAddr;

pub(crate) use counts::SourceCounts;

use crate::settings::{LoadSettings, SourceOrder, SourceRange};
use crate::socket::Peer;
use crate::socket::local::{self, Binding, LocalPorts, Source};
use crate::target::Target;
use crate::target::address_list::{AddressList, SourceSelector};
use crate::target::proxy_protocol::ProxyProtocol;
use crate::values::error::{SettingsError, SpecError};
use crate::values::shard::ShardRange;

/// Maximum number of addresses of each range that are tried before the load. They are evenly spaced
/// and include both ends.
const TRIED_ADDRESSES_MAX: u64 = 5;

/// All source addresses of a load, by family, and its PROXY protocol settings.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    v4: AddressList,
    v6: AddressList,
    order: SourceOrder,
    /// Local ports to choose from; `None` if the system's own search for a port is fast enough.
    ports: Option<LocalPorts>,
    /// Permission that a bind to the IPv6 addresses requires.
    binding_v6: Binding,
    /// The workers that use these addresses; `None` if all workers run in this process.
    shards: Option<ShardRange>,
    proxy_protocol: Option<ProxyProtocol>,
}

impl Sources {
    /// Sorts the given addresses by family.
    ///
    /// # Errors
    ///
    /// An address was given twice, or an order was given without addresses.
    pub(crate) fn new(settings: &LoadSettings) -> Result<Sources, SpecError> {
        let (v4, v6): (Vec<_>, Vec<_>) = settings
            .source
            .iter()
            .partition(|range| range.first().is_ipv4());
        let announced = addresses("proxy_source", &settings.proxy_source)?;
        if settings.source_order.is_some() && settings.source.is_empty() && announced.count() == 0 {
            let error = SettingsError::of("source_order").text(" needs addresses");
            let error = error.hint("add ").name("source").text(" or ");
            let error = error.name("proxy_source");
            return Err(error.into());
        }
        Ok(Sources {
            v4: addresses("source", &v4)?,
            v6: addresses("source", &v6)?,
            order: settings.source_order.unwrap_or_default(),
            ports: None,
            binding_v6: Binding::default(),
            shards: None,
            proxy_protocol: settings
                .proxy_protocol
                .map(|version| ProxyProtocol::new(version, announced)),
        })
    }

    /// Sets the range of local ports for the connections; `None` leaves the choice to the system.
    pub(crate) fn choose_ports(&mut self, ports: Option<LocalPorts>) {
        self.ports = ports;
    }

    /// Restricts the addresses to the ones that belong to workers in this process. Other processes
    /// use the remaining addresses.
    pub(crate) fn restrict_to(&mut self, shards: ShardRange) {
        self.shards = (shards.workers < shards.of).then_some(shards);
    }

    /// Converts a selector that counts all of the load's connections into one that counts only this
    /// process's connections.
    fn here(&self, selector: SourceSelector) -> SourceSelector {
        match self.shards {
            None => selector,
            Some(shards) => SourceSelector {
                connection: shards.number_here(selector.connection),
                user: shards.number_here(selector.user),
                ..selector
            },
        }
    }

    fn of_family(&self, like: IpAddr) -> &AddressList {
        match like {
            IpAddr::V4(_) => &self.v4,
            IpAddr::V6(_) => &self.v6,
        }
    }

    pub(crate) fn order(&self) -> SourceOrder {
        self.order
    }

    /// PROXY protocol settings of the connections, if headers are sent.
    pub(crate) fn proxy_protocol(&self) -> Option<&ProxyProtocol> {
        self.proxy_protocol.as_ref()
    }

    /// The ranges of source addresses; empty if the system chooses the addresses.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = SourceRange> {
        [&self.v4, &self.v6]
            .into_iter()
            .flat_map(|list| list.ranges())
            .copied()
    }

    /// Number of source addresses; zero if the system chooses the addresses.
    pub(crate) fn count(&self) -> u64 {
        self.v4.count().saturating_add(self.v6.count())
    }

    /// Number of source addresses that can connect to `peer`. It is at least one, because the
    /// system chooses an address if none is given.
    pub(crate) fn count_for(&self, peer: IpAddr) -> u64 {
        self.of_family(peer).count().max(1)
    }

    /// Returns true if connections may use this source address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.count() == 0 || self.of_family(address).has(address)
    }

    /// Returns true if a source address can connect to `peer`, or if the system chooses the source.
    pub(crate) fn suit(&self, peer: IpAddr) -> bool {
        self.count() == 0 || self.of_family(peer).count() > 0
    }

    /// Returns the source that the load sets for a connection; `None` if it sets none.
    pub(crate) fn source(&self, peer: &Peer, selector: SourceSelector) -> Option<Source> {
        let peer = peer.address()?;
        let pool = self.of_family(peer.ip());
        let index = self.order.index(self.here(selector), pool.count());
        let address = index.and_then(|index| pool.nth(index));
        let source = Source {
            address,
            binding: match peer.ip() {
                IpAddr::V4(_) => Binding::Usual,
                IpAddr::V6(_) => self.binding_v6,
            },
            ports: self.ports,
        };
        (address.is_some() || self.ports.is_some()).then_some(source)
    }

    /// Number of addresses that are counted separately: those in PROXY protocol headers, if there
    /// are any, or the source addresses.
    pub(crate) fn counted(&self) -> u64 {
        match self.announced() {
            Some(announced) => announced.count(),
            None => self.count(),
        }
    }

    fn announced(&self) -> Option<&AddressList> {
        let proxy = self
            .proxy_protocol
            .as_ref()
            .filter(|proxy| proxy.replaces_addresses())?;
        Some(proxy.announced())
    }

    /// Index of a connection's address among the addresses that are counted separately.
    pub(crate) fn source_index(&self, peer: &Peer, selector: SourceSelector) -> Option<u64> {
        if let Some(announced) = self.announced() {
            return self.order.index(selector, announced.count());
        }
        let selector = self.here(selector);
        if peer.address()?.is_ipv4() {
            return self.order.index(selector, self.v4.count());
        }
        let index = self.order.index(selector, self.v6.count())?;
        Some(self.v4.count() + index)
    }

    /// The address with this index among the addresses that are counted separately.
    pub(crate) fn address_at(&self, index: u64) -> Option<IpAddr> {
        if let Some(announced) = self.announced() {
            return announced.nth(index);
        }
        match index.checked_sub(self.v4.count()) {
            None => self.v4.nth(index),
            Some(index) => self.v6.nth(index),
        }
    }

    /// Checks that every address has a target to connect to. Unless the load bypasses the kernel,
    /// also checks that some addresses of each range, including the first and the last, belong to
    /// this machine.
    ///
    /// # Errors
    ///
    /// An error that names the address and gives a hint.
    pub(crate) fn check(
        &mut self,
        targets: &[Target],
        is_bypassing: bool,
    ) -> Result<(), SpecError> {
        for (addresses, family) in [(&self.v4, "an IPv4"), (&self.v6, "an IPv6")] {
            let Some(range) = addresses.ranges().first() else {
                continue;
            };
            let is_used = targets.iter().any(|target| {
                let address = target.peer.address();
                address.is_some_and(|peer| peer.is_ipv4() == range.first().is_ipv4())
            });
            if !is_used {
                let error = SettingsError::value("source", range)
                    .text(format!(
                        ": {family} address can't connect to a target of the other address family"
                    ))
                    .hint("use the same family for sources and target")
                    .hint_in_parentheses("")
                    .name("resolve")
                    .text(" sets a target's address");
                return Err(error.into());
            }
            if is_bypassing {
                continue;
            }
            for &range in addresses.ranges() {
                let binding = bindable(range)?;
                if range.first().is_ipv6() {
                    self.binding_v6 = self.binding_v6.max(binding);
                }
            }
        }
        Ok(())
    }
}

fn addresses(setting: &'static str, given: &[SourceRange]) -> Result<AddressList, SpecError> {
    AddressList::new(given).map_err(|[later, earlier]| {
        let error = SettingsError::value(setting, later);
        let error = error.text(format!(": {} is in ", later.first()));
        error.and_value(setting, earlier).text(" as well").into()
    })
}

/// Tests addresses of a range, and returns the permission that a bind to them requires.
fn bindable(range: SourceRange) -> Result<Binding, SpecError> {
    let mut all = Binding::Usual;
    for address in tried(range) {
        match local::try_source(address) {
            Ok(binding) => all = all.max(binding),
            Err(error) => {
                let text = if error.kind() == io::ErrorKind::AddrNotAvailable {
                    let hint = assign_hint::assign_hint(range, address);
                    format!(
                        ": {address} is not an address of this machine ({error}); {hint}. A target \
                         on another machine needs a route back to it"
                    )
                } else {
                    format!(": {address} can't be used as a source ({error})")
                };
                let error = SettingsError::value("source", range).text(text);
                return Err(SpecError::Environment(error));
            }
        }
    }
    Ok(all)
}

/// Addresses of a range, evenly spaced, including the first and the last.
fn tried(range: SourceRange) -> impl Iterator<Item = IpAddr> {
    let (count, last) = (range.count().min(TRIED_ADDRESSES_MAX), range.count() - 1);
    (0..count).map(move |n| range.nth(last * n / (count - 1).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(words: &str) -> Sources {
        Sources::new(&LoadSettings::from_flags(words)).unwrap()
    }

    fn selector(connection: u64) -> SourceSelector {
        SourceSelector {
            connection,
            user: connection % 3,
            seed: 7,
        }
    }

    fn from(sources: &Sources, peer: &str, numbers: std::ops::Range<u64>) -> Vec<String> {
        let peer = Peer::Tcp(peer.parse().unwrap());
        numbers
            .filter_map(|number| {
                let address = sources.source(&peer, selector(number))?.address?;
                let index = sources.source_index(&peer, selector(number)).unwrap();
                assert_eq!(sources.address_at(index), Some(address));
                Some(address.to_string())
            })
            .collect()
    }

    #[test]
    fn addresses_take_turns_over_all_ranges_of_the_family() {
        let sources = sources("--source 127.0.0.2-127.0.0.3 --source ::1 --source 127.0.0.9");
        let three = ["127.0.0.2", "127.0.0.3", "127.0.0.9"];
        assert_eq!(from(&sources, "127.0.0.1:80", 0..3), three);
        assert_eq!(from(&sources, "127.0.0.1:80", 3..6), three);
        assert_eq!(from(&sources, "[::1]:80", 0..2), ["::1", "::1"]);
        assert_eq!(sources.count(), 4);
        assert_eq!(sources.count_for("127.0.0.1".parse().unwrap()), 3);
        let unix = Peer::Unix("/s".into());
        assert!(sources.source(&unix, selector(0)).is_none());
        assert!(sources.source_index(&unix, selector(0)).is_none());
        assert_eq!(from(&Sources::default(), "[::1]:80", 0..2).len(), 0);
    }

    #[test]
    fn a_virtual_user_keeps_its_address() {
        let sources = sources("--source 127.0.0.2-127.0.0.9 --source-order per-user");
        let seen = from(&sources, "127.0.0.1:80", 0..6);
        let three = ["127.0.0.2", "127.0.0.3", "127.0.0.4"];
        assert_eq!(seen, [three, three].concat());
    }

    #[test]
    fn random_addresses_are_all_equally_likely_and_repeatable() {
        let sources = sources("--source 127.0.0.0-127.0.0.9 --source-order random");
        let seen = from(&sources, "127.0.0.1:80", 0..10_000);
        assert_eq!(seen, from(&sources, "127.0.0.1:80", 0..10_000));
        let mut counts = std::collections::BTreeMap::new();
        for address in &seen {
            *counts.entry(address).or_insert(0u32) += 1;
        }
        assert_eq!(counts.len(), 10);
        // The bounds are four standard deviations of a binomial variable.
        assert!(
            counts.values().all(|n| n.abs_diff(1000) < 120),
            "{counts:?}"
        );
        // Draws are independent, so the same address is often drawn twice in succession.
        assert!(seen.windows(2).filter(|pair| pair[0] == pair[1]).count() > 800);
    }

    #[test]
    fn given_addresses_match_the_counts() {
        let sources =
            sources("--source 127.0.0.2 --proxy-protocol v2 --proxy-source 10.0.0.0/30,fd00::1");
        assert_eq!((sources.count(), sources.counted()), (1, 3));
        let unix = Peer::Unix("/s".into());
        let indices: Vec<_> = (0..4)
            .map(|n| sources.source_index(&unix, selector(n)))
            .collect();
        assert_eq!(indices, [Some(0), Some(1), Some(2), Some(0)]);
        assert_eq!(sources.address_at(2), Some("fd00::1".parse().unwrap()));
    }

    #[test]
    fn both_ends_of_a_range_and_some_between_are_tried() {
        let all = |text: &str| {
            let range: SourceRange = text.parse().unwrap();
            tried(range).map(|it| it.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(all("10.0.0.5"), ["10.0.0.5"]);
        assert_eq!(all("10.0.0.5-10.0.0.6"), ["10.0.0.5", "10.0.0.6"]);
        let five = [
            "10.0.0.0",
            "10.0.0.25",
            "10.0.0.50",
            "10.0.0.75",
            "10.0.0.100",
        ];
        assert_eq!(all("10.0.0.0-10.0.0.100"), five);
        assert_eq!(all("10.0.0.0/8").last().unwrap(), "10.255.255.254");
    }

    #[test]
    fn contradictory_settings_are_refused() {
        let refused = |words: &str| {
            let error = Sources::new(&LoadSettings::from_flags(words)).unwrap_err();
            error.to_string()
        };
        let error = refused("--source 10.0.0.1-10.0.0.9 --source 10.0.0.9");
        assert!(
            error.contains("--source 10.0.0.9: 10.0.0.9 is in"),
            "{error}"
        );
        let announced = "--proxy-protocol v1 --proxy-source 10.0.0.1 --proxy-source 10.0.0.0/30";
        let error = refused(announced);
        assert!(
            error.contains("10.0.0.1 is in --proxy-source 10.0.0.1 as well"),
            "{error}"
        );
        let error = refused("--source-order random");
        assert!(error.contains("add --source"), "{error}");
        // The same address may be used both in PROXY headers and as a source of connections.
        sources("--source 127.0.0.2 --proxy-protocol v1 --proxy-source 127.0.0.2");
    }
}
