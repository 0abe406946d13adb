//! The named places of a trial: a network namespace for each, a veth pair for each link.
//!
//! ```text
//! namespace prony-<run>-clients                    namespace prony-<run>-front
//! lo, route local <sources>                        lo
//! wan  10.213.0.1 peer 10.213.0.2  ─────────────── wan  10.213.0.2 peer 10.213.0.1
//!      tbf 1 Gbit/s                                     tbf 1 Gbit/s, route <sources> via 10.213.0.1
//! ```
//!
//! Both ends of a link lie in namespaces of the run's own, so that whatever removes these removes
//! everything: nothing of it is ever to be seen among the host's interfaces, addresses and routes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;

use super::visit::visit;
use super::{Entry, NAMES, ip, settings};
use crate::environment::PlaceFacts;
use crate::host::HostError;
use crate::host::state::{Made, RunState};
use crate::place::topology::{Link, LinkTraffic, Rate, Topology};
use crate::place::{Door, command};

/// What was built of a topology.
#[derive(Debug)]
pub(crate) struct Site {
    /// The namespaces, in the places' order.
    entries: Vec<Entry>,
    links: Vec<Counter>,
    /// What became of the plan's settings, by place.
    facts: BTreeMap<String, PlaceFacts>,
}

/// A link and the file that has its counters, opened within its first place.
#[derive(Debug)]
struct Counter {
    link: String,
    table: File,
}

impl Site {
    /// Builds all places and links, recording the namespaces in the run's state before each is made.
    /// Each is called `prefix` and the place's name.
    ///
    /// # Errors
    /// [`HostError::Command`], [`HostError::File`] or [`HostError::Setting`]. What was made until
    /// then is recorded, so a release removes it.
    pub(crate) fn make(
        prefix: &str,
        topology: &Topology,
        state: &mut RunState,
    ) -> Result<Self, HostError> {
        let mut site = Self {
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
            state.record(&Made::Namespace { name: name.clone() })?;
            ip(&["netns", "add", name])?;
            ip(&["-n", name, "link", "set", "lo", "up"])?;
            let path = Path::new(NAMES).join(name);
            let entry = File::open(&path).map_err(HostError::file("open", path))?;
            settings::copy_into(&entry, name)?;
            site.entries.push(Entry(entry));
            site.facts.extend(
                site.settle(place, name)?
                    .map(|facts| (place.name.clone(), facts)),
            );
        }
        for link in &topology.links {
            connect(link, &names)?;
            site.links.push(site.counter(link)?);
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
                for (neighbour, own) in topology.neighbours(number) {
                    let via = own.to_string();
                    ip(&["-n", &names[neighbour], "route", "add", &block, "via", &via])?;
                }
            }
        }
        Ok(site)
    }

    /// Makes the settings of the place that was made last.
    fn settle(
        &self,
        place: &crate::place::topology::NamedPlace,
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
            .map_err(|reason| refused("its settings".to_owned(), reason))?;
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

    fn counter(&self, link: &Link) -> Result<Counter, HostError> {
        // The file keeps to the network in which it was opened.
        let path = Path::new("/proc/thread-self/net/dev");
        let first = &self.entries[link.ends[0].place];
        let table = visit(&first.0, || File::open(path))
            .and_then(|opened| opened)
            .map_err(HostError::file("open", path))?;
        Ok(Counter {
            link: link.name.clone(),
            table,
        })
    }

    /// The way into a place, by its position.
    pub(crate) fn entry(&self, place: usize) -> Option<&Entry> {
        self.entries.get(place)
    }

    /// The way into a place for threads of this process; `None` where there is no such place.
    ///
    /// # Errors
    /// [`HostError::File`] if no more files can be open.
    pub(crate) fn door(&self, place: usize) -> Result<Option<Door>, HostError> {
        let door = self.entry(place).map(Door::to).transpose();
        door.map_err(HostError::file("open", Path::new(NAMES)))
    }

    /// What went over each link by now. One that can't be read is left out.
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

    /// What became of the plan's settings, by place.
    pub(crate) fn facts(&self) -> &BTreeMap<String, PlaceFacts> {
        &self.facts
    }
}

/// Makes a link with both its ends where they belong.
fn connect(link: &Link, names: &[String]) -> Result<(), HostError> {
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
        if link.rate.is_some() {
            // Each packet as it would go over a wire: what the kernel hands over in one piece of
            // 64 KiB would pass the bucket in a burst and count its headers once.
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

fn limit(namespace: &str, interface: &str, rate: Rate) -> Result<(), HostError> {
    let bits = format!("{}bit", rate.bits_per_s);
    let burst = format!("{}b", rate.burst_bytes);
    let latency = format!("{}us", rate.latency.as_micros());
    let args = [
        "-n", namespace, "qdisc", "add", "dev", interface, "root", "tbf", "rate", &bits, "burst",
        &burst, "latency", &latency,
    ];
    command::run("tc", &args).map(drop)
}

/// One interface's line of /proc/net/dev (proc(5)): bytes and packets are the first two of the eight
/// columns of what was received, and of those of what was sent.
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
        forth_bytes: *columns.get(8)?,
        forth_packets: *columns.get(9)?,
        back_bytes: *columns.first()?,
        back_packets: *columns.get(1)?,
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
    fn counters_are_those_of_the_first_place() {
        let traffic = traffic_of("wan", TABLE).unwrap();
        assert_eq!((traffic.forth_bytes, traffic.forth_packets), (250, 3));
        assert_eq!((traffic.back_bytes, traffic.back_packets), (1000, 7));
        assert_eq!(traffic_of("wa", TABLE), None);
        assert_eq!(traffic_of("x", "x: 1 2 3"), None);
    }
}
