//! Named places of a trial. Each place is a network namespace, and each link is a veth pair.
//!
//! ```text
//! namespace prony-<run>-clients                    namespace prony-<run>-front
//! lo, route local <sources>                        lo
//! wan  10.213.0.1 peer 10.213.0.2  ─────────────── wan  10.213.0.2 peer 10.213.0.1
//!      tbf 1 Gbit/s                                     tbf 1 Gbit/s, route <sources> via 10.213.0.1
//!      nft: drops 1% of arrivals                        nft: drops 1% of arrivals
//! ```
//!
//! Both ends of a link are in namespaces of the run. The host gets no interface, address or route,
//! and removing the namespaces removes the links too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use prony_plan::topology::{LinkRate, NetworkLink, Topology};

use super::link_loss;
use super::netns_handle::NetnsHandle;
use super::netns_thread::{NETNS_DIR, run_in_netns};
use super::{NamespaceFd, ip, settings};
use crate::environment::PlaceFacts;
use crate::run_state::{CreatedResource, RunState};
use crate::system::HostError;
use crate::system::command;
use crate::telemetry::LinkTraffic;

/// The namespaces and links that were created for a [`Topology`].
#[derive(Debug)]
pub(crate) struct NetworkTopology {
    /// Namespaces, in the order of the topology's places.
    entries: Vec<NamespaceFd>,
    links: Vec<LinkCounter>,
    /// Applied and skipped kernel settings, by place.
    facts: BTreeMap<String, PlaceFacts>,
}

/// A link, and the open file with its traffic counters. The file was opened in the namespace of the
/// link's first place.
#[derive(Debug)]
struct LinkCounter {
    link: String,
    table: File,
}

impl NetworkTopology {
    /// Creates all places and links. The name of each namespace is `prefix` followed by the place's
    /// name. The run state records the name before the namespace is created.
    ///
    /// # Errors
    /// [`HostError::Command`], [`HostError::File`] or [`HostError::Setting`]. The run state then
    /// lists the resources created before the error, so that releasing them is possible.
    pub(crate) fn make(
        prefix: &str,
        topology: &Topology,
        state: &mut RunState,
    ) -> Result<Self, HostError> {
        let mut network = Self {
            entries: Vec::new(),
            links: Vec::new(),
            facts: BTreeMap::new(),
        };
        let names: Vec<String> = topology
            .places
            .iter()
            .map(|place| format!("{prefix}-{}", place.name))
            .collect();
        for (name, place) in names.iter().zip(&topology.places) {
            state.record(&CreatedResource::Namespace { name: name.clone() })?;
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            let path = Path::new(NETNS_DIR).join(name);
            let entry = File::open(&path).map_err(HostError::file("open", path))?;
            settings::copy_into(&entry, name)?;
            network.entries.push(NamespaceFd(entry));
            network.facts.extend(
                network
                    .apply_settings(place, name)?
                    .map(|facts| (place.name.clone(), facts)),
            );
        }
        for link in &topology.links {
            connect(link, &names)?;
            network.add_loss(link)?;
            network.links.push(network.counter(link)?);
        }
        for (number, place) in topology.places.iter().enumerate() {
            for block in &place.sources {
                let block = block.to_string();
                ip(&[
                    "-n",
                    &names[number],
                    "route",
                    "add",
                    "local",
                    &block,
                    "dev",
                    "lo",
                ])?;
                for (neighbor, own) in topology.neighbors(number) {
                    let via = own.to_string();
                    ip(&["-n", &names[neighbor], "route", "add", &block, "via", &via])?;
                }
            }
        }
        Ok(network)
    }

    /// Applies the plan's kernel settings to the most recently created place.
    fn apply_settings(
        &self,
        place: &prony_plan::topology::NamedPlace,
        name: &str,
    ) -> Result<Option<PlaceFacts>, HostError> {
        let Some(entry) = self.entries.last().filter(|_| !place.settings.is_empty()) else {
            return Ok(None);
        };
        let refused = |setting: String, reason: String| HostError::Setting {
            place: place.name.clone(),
            setting,
            reason,
        };
        let sorted = settings::sort(&place.settings)
            .map_err(|reason| refused("its settings".to_owned(), reason.to_string()))?;
        if let Some((setting, reason)) = sorted.not_applicable.first_key_value()
            && !place.where_possible
        {
            return Err(refused(setting.clone(), reason.clone()));
        }
        settings::make(&entry.0, name, &sorted.own)?;
        Ok(Some(PlaceFacts {
            sysctls: sorted.own,
            not_applicable: sorted.not_applicable,
        }))
    }

    /// Makes the namespaces of both places randomly drop packets that arrive over the link.
    fn add_loss(&self, link: &NetworkLink) -> Result<(), HostError> {
        let Some(loss) = link.loss else { return Ok(()) };
        for end in link.ends {
            run_in_netns(&self.entries[end.place].0, || {
                link_loss::drop_arriving(&link.name, loss)
            })
            .map_err(HostError::file("enter", Path::new(NETNS_DIR)))??;
        }
        Ok(())
    }

    fn counter(&self, link: &NetworkLink) -> Result<LinkCounter, HostError> {
        // The file refers to the namespace in which it was opened, regardless of the reader's
        // namespace.
        let path = Path::new("/proc/thread-self/net/dev");
        let first = &self.entries[link.ends[0].place];
        let table = run_in_netns(&first.0, || File::open(path))
            .and_then(|opened| opened)
            .map_err(HostError::file("open", path))?;
        Ok(LinkCounter {
            link: link.name.clone(),
            table,
        })
    }

    /// Returns the namespace of the place with this index.
    pub(crate) fn entry(&self, place: usize) -> Option<&NamespaceFd> {
        self.entries.get(place)
    }

    /// Returns a handle to the namespace of a place; `None` if the place does not exist.
    ///
    /// # Errors
    /// [`HostError::File`] if the process can't open more files.
    pub(crate) fn netns_handle(&self, place: usize) -> Result<Option<NetnsHandle>, HostError> {
        let netns = self.entry(place).map(NetnsHandle::to).transpose();
        netns.map_err(HostError::file("open", Path::new(NETNS_DIR)))
    }

    /// Reads the traffic of each link since its creation. Links that can't be read are omitted.
    pub(crate) fn traffic(&mut self) -> BTreeMap<String, LinkTraffic> {
        let mut text = String::new();
        let read = self.links.iter_mut().filter_map(|counter| {
            text.clear();
            counter.table.rewind().ok()?;
            counter.table.read_to_string(&mut text).ok()?;
            Some((counter.link.clone(), traffic_of(&counter.link, &text)?))
        });
        read.collect()
    }

    /// Returns the applied and skipped kernel settings, by place.
    pub(crate) fn facts(&self) -> &BTreeMap<String, PlaceFacts> {
        &self.facts
    }
}

/// Creates a link with one end in the namespace of each of its places.
fn connect(link: &NetworkLink, names: &[String]) -> Result<(), HostError> {
    let [first, second] = link.ends;
    let namespaces = [&names[first.place], &names[second.place]];
    let name = link.name.as_str();
    ip(&[
        "link",
        "add",
        name,
        "netns",
        namespaces[0],
        "type",
        "veth",
        "peer",
        "name",
        name,
        "netns",
        namespaces[1],
    ])?;
    for (namespace, own, other) in [
        (namespaces[0], first.address, second.address),
        (namespaces[1], second.address, first.address),
    ] {
        let (own, other) = (own.to_string(), other.to_string());
        ip(&[
            "-n", namespace, "addr", "add", &own, "peer", &other, "dev", name,
        ])?;
        let mut up = vec![
            "-n",
            namespace,
            "link",
            "set",
            "dev",
            name,
            "addrgenmode",
            "none",
        ];
        if link.has_wire_frames() {
            // Limit packets to the size used on a wire. A segment of 64 KiB would pass the token
            // bucket in one burst or be dropped as a whole, and its headers would be counted only
            // once.
            up.extend(["gso_max_size", "1514", "gso_max_segs", "1"]);
        }
        up.push("up");
        ip(&up)?;
        if let Some(rate) = link.rate {
            limit(namespace, name, rate)?;
        }
    }
    Ok(())
}

fn limit(namespace: &str, interface: &str, rate: LinkRate) -> Result<(), HostError> {
    let bits = format!("{}bit", rate.bits_per_s);
    let burst = format!("{}b", rate.burst_bytes);
    let latency = format!("{}us", rate.latency.as_micros());
    let args = [
        "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", "rate", &bits, "burst",
        &burst, "latency", &latency,
    ];
    command::run("tc", &args).map(drop)
}

/// Parses an interface's line in /proc/net/dev (proc(5)). Eight columns of received data are
/// followed by eight columns of sent data. In each group, the first two columns are bytes and
/// packets.
fn traffic_of(interface: &str, table: &str) -> Option<LinkTraffic> {
    let columns = table.lines().find_map(|line| {
        let (name, rest) = line.split_once(':')?;
        (name.trim() == interface).then_some(rest)
    })?;
    let columns: Vec<u64> = columns
        .split_whitespace()
        .map_while(|column| column.parse().ok())
        .collect();
    Some(LinkTraffic {
        forward_bytes: *columns.get(8)?,
        forward_packets: *columns.get(9)?,
        reverse_bytes: *columns.first()?,
        reverse_packets: *columns.get(1)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "Inter-|   Receive                                                |  Transmit\n \
        face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    \
        lo:       0       0    0    0    0     0          0         0        9       9    0    0    0     0       0          0\n   \
        wan: 1000       7    0    0    0     0          0         0     250       3    0    0    0     0       0          0\n";

    #[test]
    fn directions_are_those_of_the_first_place() {
        let traffic = traffic_of("wan", TABLE).unwrap();
        assert_eq!((traffic.forward_bytes, traffic.forward_packets), (250, 3));
        assert_eq!((traffic.reverse_bytes, traffic.reverse_packets), (1000, 7));
        assert_eq!(traffic_of("wa", TABLE), None);
        assert_eq!(traffic_of("x", "x: 1 2 3"), None);
    }
}
