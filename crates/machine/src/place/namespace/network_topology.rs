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
//! A link with a delay has an emulator (see [`emulation`](super::emulation)), which may replace the
//! veth pair by two TAP devices of the same name.
//!
//! Both ends of a link are in namespaces of the run. The host gets no interface, address or route,
//! and removing the namespaces removes the links too.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::time::Duration;

use prony_plan::topology::{LinkEnd, LinkRate, NetworkLink, Topology};
use prony_record::Finding;

use super::emulation::{self, EmulatedLink, Emulator};
use super::link_loss;
use super::netns_handle::NetnsHandle;
use super::netns_thread::{NETNS_DIR, run_in_netns};
use super::{NamespaceFd, ip, settings};
use crate::environment::{LinkFacts, PlaceFacts};
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
    emulated: Vec<EmulatedLink>,
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
            emulated: Vec::new(),
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
        for (number, link) in topology.links.iter().enumerate() {
            network.connect(link, number, &names)?;
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
        network.measure_round_trips(topology)?;
        Ok(network)
    }

    /// Creates the devices of a link and prepares both of its ends. `number` is the link's position
    /// in the topology.
    fn connect(
        &mut self,
        link: &NetworkLink,
        number: usize,
        names: &[String],
    ) -> Result<(), HostError> {
        let [first, second] = link.ends;
        let emulated = match &link.emulation {
            None => None,
            Some(emulation) => {
                let chosen = Emulator::choose(emulation.emulator);
                let chosen = chosen.map_err(|reason| HostError::Emulator {
                    link: link.name.clone(),
                    reason: reason.to_string(),
                })?;
                Some((emulation, chosen))
            }
        };
        match emulated {
            Some((emulation, Emulator::Relay)) => {
                let namespaces = [first, second].map(|end| &self.entries[end.place]);
                let relayed = EmulatedLink::with_relay(link, emulation, namespaces)?;
                self.emulated.push(relayed);
            }
            Some((emulation, Emulator::Kernel)) => {
                add_veth(link, names)?;
                self.emulated
                    .push(EmulatedLink::with_netem(link, emulation));
            }
            None => add_veth(link, names)?,
        }
        for (end, own, other) in [(0, first, second), (1, second, first)] {
            let namespace = &names[own.place];
            prepare_end(link, number, end, namespace, own, other)?;
            // Packets wait for the rate after the delay, in front of the bottleneck.
            let parent = match emulated {
                Some((emulation, Emulator::Kernel)) => Some(emulation::add_netem(
                    link,
                    emulation,
                    end,
                    &self.entries[own.place],
                )?),
                Some((_, Emulator::Relay)) | None => None,
            };
            if let Some(rate) = link.rate {
                limit(namespace, &link.name, parent, rate)?;
            }
        }
        Ok(())
    }

    /// Measures the round-trip time of each emulated link.
    fn measure_round_trips(&mut self, topology: &Topology) -> Result<(), HostError> {
        for emulated in &mut self.emulated {
            let mut links = topology.links.iter();
            if let Some(link) = links.find(|link| link.name == emulated.name()) {
                let [first, second] = link.ends;
                emulated.measure(&self.entries[first.place], second.address)?;
            }
        }
        Ok(())
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
        let Some(loss) = link.independent_loss() else {
            return Ok(());
        };
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

    /// Returns the round-trip times of the emulated links before the load, in microseconds.
    pub(crate) fn round_trips_us(&self) -> BTreeMap<String, f64> {
        let measured = self.emulated.iter().filter_map(|link| {
            let round_trip = link.round_trip()?;
            Some((link.name().to_owned(), round_trip.as_secs_f64() * 1e6))
        });
        measured.collect()
    }

    /// Returns the CPU time that the relays have used.
    pub(crate) fn relays_cpu_time(&self) -> Duration {
        self.emulated.iter().map(EmulatedLink::cpu_time).sum()
    }

    /// Returns what is to be known about the emulated links after a load.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let links = self.emulated.iter();
        links.flat_map(EmulatedLink::findings).collect()
    }

    /// Returns facts about the emulated links.
    pub(crate) fn link_facts(&self) -> BTreeMap<String, LinkFacts> {
        let links = self.emulated.iter();
        links
            .map(|link| (link.name().to_owned(), link.facts()))
            .collect()
    }

    /// Returns the applied and skipped kernel settings, by place.
    pub(crate) fn facts(&self) -> &BTreeMap<String, PlaceFacts> {
        &self.facts
    }
}

/// Creates a veth pair with one end in the namespace of each of its places.
fn add_veth(link: &NetworkLink, names: &[String]) -> Result<(), HostError> {
    let [first, second] = link.ends.map(|end| names[end.place].as_str());
    let name = link.name.as_str();
    ip(&[
        "link", "add", name, "netns", first, "type", "veth", "peer", "name", name, "netns", second,
    ])
}

/// Gives one end of a link its address and its properties. `end` is 0 or 1.
fn prepare_end(
    link: &NetworkLink,
    number: usize,
    end: usize,
    namespace: &str,
    own: LinkEnd,
    other: LinkEnd,
) -> Result<(), HostError> {
    let name = link.name.as_str();
    let (own, other) = (own.address.to_string(), other.address.to_string());
    ip(&[
        "-n", namespace, "addr", "add", &own, "peer", &other, "dev", name,
    ])?;
    let [hardware_address, other_hardware_address] =
        [end, 1 - end].map(|end| format!("02:00:00:00:{number:02x}:{end:02x}"));
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
    if link.emulation.is_some() {
        up.extend(["address", &hardware_address, "txqueuelen", "5000"]);
    }
    up.push("up");
    ip(&up)?;
    if link.emulation.is_some() {
        // Both ends know each other's hardware address. Otherwise, the first connection of each
        // trial would wait for an additional round trip of ARP.
        ip(&[
            "-n",
            namespace,
            "neigh",
            "replace",
            &other,
            "lladdr",
            &other_hardware_address,
            "dev",
            name,
            "nud",
            "permanent",
        ])?;
    }
    Ok(())
}

/// Limits the rate at which an interface sends. Without a `parent`, the limit is the interface's
/// first queueing discipline.
fn limit(
    namespace: &str,
    interface: &str,
    parent: Option<&str>,
    rate: LinkRate,
) -> Result<(), HostError> {
    let bits = format!("{}bit", rate.bits_per_s);
    let burst = format!("{}b", rate.burst_bytes);
    let queue = format!("{}us", rate.queue.as_micros());
    let mut args = vec!["-n", namespace, "qdisc", "add", "dev", interface];
    match parent {
        Some(parent) => args.extend(["parent", parent]),
        None => args.push("root"),
    }
    args.extend(["tbf", "rate", &bits, "burst", &burst, "latency", &queue]);
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
