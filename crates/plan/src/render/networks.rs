//! `[place.NAME]` and `[link.NAME]`: the networks of one variant.

use core::net::Ipv4Addr;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;

use super::link_emulation;
use super::template::TemplateContext;
use crate::diagnostic::{DiagnosticKind, did_you_mean};
use crate::model::NamedTable;
use crate::reference::PlanTable;
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue};
use crate::topology::{
    AddressBlock, EmulatorChoice, LinkEmulation, LinkEnd, LinkRate, NamedPlace, NetworkLink,
    Topology,
};

/// Private networks from which links get their addresses. The third octet is the number of the
/// link.
const LINK_NETWORKS: [[u8; 2]; 5] = [[10, 213], [10, 87], [172, 29], [10, 141], [192, 168]];

/// Former name of the key `queue`. Stored plans and old ones still use it.
const FORMER_QUEUE_KEY: &str = "latency";

/// Accepted burst sizes, in bytes, of a link with a rate limit. A burst must hold at least one full
/// packet.
const BURST_BYTES: RangeInclusive<u64> = 1_600..=1 << 30;

/// Accepted values for the maximum queueing delay of a link with a rate limit.
const LINK_QUEUE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(10);

/// Cores of a place, with the line that sets them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlaceCores {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl PlaceCores {
    /// Returns the cores as a value of the plan, in the form in which a service or the load sets
    /// them.
    pub(crate) fn node(&self) -> TomlNode {
        TomlNode::text(self.line, self.text.clone())
    }
}

/// Places that the plan defines. The lists all have the same order.
pub(super) struct Places {
    pub(super) places: Vec<NamedPlace>,
    /// For each place, the line of its table and the line of its kernel settings.
    pub(super) lines: Vec<(usize, usize)>,
    pub(super) cores: Vec<Option<PlaceCores>>,
}

pub(super) fn read_places(
    sections: &[NamedTable],
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> Places {
    let mut read = Places {
        places: Vec::new(),
        lines: Vec::new(),
        cores: Vec::new(),
    };
    for section in sections {
        let owner = format!("place \"{}\"", section.name);
        let rendered = context.table(&section.table, reader);
        reader.report_unknown_keys(&section.table, &owner, &PlanTable::Place.names());
        read.places.push(read_place(section, &rendered, reader));
        read.lines
            .push((section.line, section.table.line_of("sysctl")));
        read.cores.push(read_cores(&owner, &rendered, reader));
    }
    read
}

fn read_place(
    section: &NamedTable,
    rendered: &TomlTable,
    reader: &mut PlanReader<'_>,
) -> NamedPlace {
    let name = &section.name;
    let where_possible = rendered.get("where_possible").is_some_and(|node| {
        let subject = format!("where_possible of place \"{name}\"");
        reader.choice(node, &subject, &["true", "false"]) == Some("true")
    });
    let mut settings = BTreeMap::new();
    if let Some(table) = rendered
        .get("sysctl")
        .and_then(|node| reader.table(node, &format!("sysctl of place \"{name}\"")))
    {
        read_settings(name, "", table, &mut settings, reader);
    }
    if !where_possible {
        let line = section.table.line_of("sysctl");
        let global = settings.keys().filter(|name| !name.starts_with("net."));
        for setting in global {
            let reason = "it would change the whole machine";
            report_setting(name, setting, reason, line, reader);
        }
    }
    NamedPlace {
        name: name.clone(),
        settings,
        where_possible,
        sources: Vec::new(),
    }
}

/// Reads kernel settings. Their names are quoted (`"net.core.somaxconn" = 1`) or dotted keys
/// (`net.core.somaxconn = 1`), which TOML parses as nested tables. `prefix` is the path of the
/// table.
fn read_settings(
    place: &str,
    prefix: &str,
    table: &TomlTable,
    settings: &mut BTreeMap<String, String>,
    reader: &mut PlanReader<'_>,
) {
    for entry in &table.entries {
        let name = format!("{prefix}{}", entry.key);
        if let TomlValue::Table(inner) = &entry.node.value {
            read_settings(place, &format!("{name}."), inner, settings, reader);
            continue;
        }
        let is_part = |part: &str| {
            let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
            !part.is_empty() && part.bytes().all(is_allowed)
        };
        if !name.contains('.') || !name.split('.').all(is_part) {
            let message = format!(
                "\"{}\" of place \"{place}\" is not the name of a kernel setting",
                name.escape_debug()
            );
            let hint = "write it with dots, such as \"net.core.somaxconn\"";
            reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
            continue;
        }
        let Some(values) = reader.texts(&entry.node, &format!("{name} of place \"{place}\""))
        else {
            continue;
        };
        let value = values.join(" ");
        if value.trim().is_empty() || value.contains('\n') {
            let message = format!("{name} of place \"{place}\" is empty or not on one line");
            reader.report(DiagnosticKind::BadValue, entry.line, message);
            continue;
        }
        settings.insert(name, value);
    }
}

/// Reports a kernel setting that can't be set per place.
pub(crate) fn report_setting(
    place: &str,
    setting: &str,
    reason: &str,
    line: usize,
    reader: &mut PlanReader<'_>,
) {
    let message = format!("place \"{place}\" can't have its own {setting}: {reason}");
    let hint = "remove it, or set where_possible = true, which skips such settings and lists them \
                in environment.json";
    reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
}

fn read_cores(
    owner: &str,
    rendered: &TomlTable,
    reader: &mut PlanReader<'_>,
) -> Option<PlaceCores> {
    let node = rendered.get("cores")?;
    let cores = reader.cores(node, &format!("cores of {owner}"))?;
    let text: Vec<String> = cores.iter().map(usize::to_string).collect();
    (!text.is_empty()).then(|| PlaceCores {
        text: text.join(","),
        line: node.line,
    })
}

/// Reads the source addresses of the load, except loopback addresses, which every network has.
pub(super) fn read_sources(
    node: Option<&TomlNode>,
    reader: &mut PlanReader<'_>,
) -> Vec<AddressBlock> {
    let Some(node) = node else { return Vec::new() };
    let mut blocks = Vec::new();
    for text in reader.texts(node, "source of [load]").unwrap_or_default() {
        match AddressBlock::cover(&text) {
            Ok(covered) => blocks.extend(covered),
            Err(error) => {
                let message = format!("source of [load]: {error}");
                reader.report(DiagnosticKind::BadValue, node.line, message);
            }
        }
    }
    let loopback = AddressBlock::cover("127.0.0.0/8").unwrap_or_default();
    blocks.retain(|block| !loopback.iter().any(|other| other.overlaps(block)));
    blocks
}

/// Lines of the first link settings that need a program on this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LinkNeeds {
    /// Line of the first rate limit.
    pub(crate) rate_line: Option<usize>,
    /// Line of the first loss above 0% that needs no emulator.
    pub(crate) loss_line: Option<usize>,
    /// Emulators that links use, each with the line of the first such link.
    pub(crate) emulators: Vec<(EmulatorChoice, usize)>,
    /// Cores of relays, each with its link and line.
    pub(crate) relay_cores: Vec<(String, usize, usize)>,
}

impl LinkNeeds {
    fn add_emulation(
        &mut self,
        link: &str,
        emulation: &LinkEmulation,
        line: usize,
        core_line: usize,
    ) {
        let emulator = emulation.emulator;
        if !self.emulators.iter().any(|(known, _)| *known == emulator) {
            self.emulators.push((emulator, line));
        }
        if let Some(core) = emulation.relay_core {
            let owner = format!("the relay of link \"{link}\"");
            self.relay_cores.push((owner, core, core_line));
        }
    }
}

/// Reads the links and assigns their addresses.
pub(super) fn read_links(
    sections: &[NamedTable],
    places: &[&str],
    context: &TemplateContext,
    topology: &mut Topology,
    reader: &mut PlanReader<'_>,
) -> LinkNeeds {
    let mut needs = LinkNeeds::default();
    for section in sections {
        let rendered = context.table(&section.table, reader);
        if let Some(link) = read_link(section, &rendered, places, reader) {
            let line = |key| section.table.line_of(key);
            let lossy = link.independent_loss();
            let lossy = lossy.filter(|loss| loss.per_million() > 0);
            needs.rate_line = needs.rate_line.or(link.rate.map(|_| line("rate")));
            needs.loss_line = needs.loss_line.or(lossy.map(|_| line("loss")));
            if let Some(emulation) = &link.emulation {
                let first = link_emulation::first_line(&section.table);
                needs.add_emulation(&link.name, emulation, first, line("relay_core"));
            }
            add_link(link, section, topology, reader);
        }
    }
    assign_addresses(topology, reader);
    needs
}

/// Reads one link. Addresses that the plan doesn't set are 0.0.0.0 until [`assign_addresses`]
/// chooses them.
fn read_link(
    section: &NamedTable,
    rendered: &TomlTable,
    places: &[&str],
    reader: &mut PlanReader<'_>,
) -> Option<NetworkLink> {
    let owner = format!("link \"{}\"", section.name);
    let mut known = PlanTable::Link.names();
    // A hint doesn't suggest the former name.
    known.extend(
        section
            .table
            .get(FORMER_QUEUE_KEY)
            .map(|_| FORMER_QUEUE_KEY),
    );
    reader.report_unknown_keys(&section.table, &owner, &known);
    let Some(between) = rendered.get("between") else {
        let message = format!("{owner} doesn't name the places to join");
        let hint = "name two: between = [\"clients\", \"front\"]";
        reader.report_with_hint(DiagnosticKind::MissingKey, section.line, message, hint);
        return None;
    };
    let mut ends = Vec::new();
    for place in &reader.texts(between, &format!("between of {owner}"))? {
        let Some(position) = places.iter().position(|name| name == place) else {
            let message = format!("{owner} joins \"{place}\", which is not a place of this plan");
            let hint = did_you_mean(place, places.iter().copied())
                .unwrap_or_else(|| format!("add [place.{place}]"));
            reader.report_with_hint(DiagnosticKind::Undefined, between.line, message, hint);
            return None;
        };
        ends.push(position);
    }
    let &[first, second] = ends.as_slice() else {
        let message = format!("{owner} must join two places, not {}", ends.len());
        reader.report(DiagnosticKind::BadValue, between.line, message);
        return None;
    };
    if first == second {
        let message = format!("{owner} joins place \"{}\" to itself", places[first]);
        reader.report(DiagnosticKind::Structure, between.line, message);
        return None;
    }
    let rate = read_rate(rendered, &owner, reader);
    let loss = link_emulation::read_share(rendered, "loss", &owner, reader);
    let emulation = link_emulation::read(rendered, &owner, reader);
    let addresses = read_addresses(rendered, &owner, reader).unwrap_or([Ipv4Addr::UNSPECIFIED; 2]);
    let end = |place, address| LinkEnd { place, address };
    Some(NetworkLink {
        name: section.name.clone(),
        ends: [end(first, addresses[0]), end(second, addresses[1])],
        rate,
        loss,
        emulation,
    })
}

fn read_rate(table: &TomlTable, owner: &str, reader: &mut PlanReader<'_>) -> Option<LinkRate> {
    let Some(node) = table.get("rate") else {
        for key in ["burst", "queue", FORMER_QUEUE_KEY] {
            if table.get(key).is_some() {
                let message = format!("{key} of {owner} has no effect without a rate");
                let hint = format!("add rate = \"1Gbit\", or remove {key}");
                let line = table.line_of(key);
                reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
            }
        }
        return None;
    };
    let text = reader.scalar(node, &format!("rate of {owner}"))?;
    let bits = match LinkRate::bits(&text) {
        Ok(bits) => bits,
        Err(error) => {
            let message = format!("rate of {owner}: {error}");
            reader.report(DiagnosticKind::BadValue, node.line, message);
            return None;
        }
    };
    let mut rate = LinkRate::new(bits);
    if let Some(node) = table.get("burst")
        && let Some(bytes) = reader.whole(node, &format!("burst of {owner}"), BURST_BYTES)
    {
        rate.burst_bytes = bytes;
    }
    if let Some(node) = queue_node(table, owner, reader)
        && let Some(queue) = reader.duration(node, &format!("queue of {owner}"))
    {
        if LINK_QUEUE.contains(&queue) {
            rate.queue = queue;
        } else {
            let message = format!("queue of {owner} is not between 1ms and 10s");
            let hint = "it is the longest time that a packet waits for the link; the time that \
                        packets travel is round_trip";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        }
    }
    Some(rate)
}

/// Returns the maximum queueing time, which may have its former name.
fn queue_node<'t>(
    table: &'t TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<&'t TomlNode> {
    let former = table.get(FORMER_QUEUE_KEY);
    let node = table.get("queue");
    if let (Some(former), Some(_)) = (former, node) {
        let message = format!("{owner} has both queue and {FORMER_QUEUE_KEY}");
        let hint = format!("remove {FORMER_QUEUE_KEY}, which is the former name of queue");
        reader.report_with_hint(DiagnosticKind::Structure, former.line, message, hint);
    }
    node.or(former)
}

/// Returns a note for each link that uses the former name of `queue`.
pub(crate) fn former_keys(links: &[NamedTable], plan: &Path) -> Vec<String> {
    let former = links
        .iter()
        .filter(|link| link.table.get(FORMER_QUEUE_KEY).is_some());
    let note = |link: &NamedTable| {
        format!(
            "{}:{}: {FORMER_QUEUE_KEY} of link \"{}\" is now called queue (rename the key; it is \
             how long a packet may wait for the rate, and round_trip is how long packets travel)",
            plan.display(),
            link.table.line_of(FORMER_QUEUE_KEY),
            link.name
        )
    };
    former.map(note).collect()
}

fn read_addresses(
    table: &TomlTable,
    owner: &str,
    reader: &mut PlanReader<'_>,
) -> Option<[Ipv4Addr; 2]> {
    let node = table.get("addresses")?;
    let texts = reader.texts(node, &format!("addresses of {owner}"))?;
    let parsed: Vec<Ipv4Addr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let are_private = parsed.len() == texts.len() && parsed.iter().all(Ipv4Addr::is_private);
    match parsed.as_slice() {
        &[first, second] if are_private && first != second => Some([first, second]),
        _ => {
            let message = format!("addresses of {owner} are not two private IPv4 addresses");
            let hint = "give one for each place, in the same order as in `between`, such as [\"10.1.0.1\", \"10.1.0.2\"]";
            reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
            None
        }
    }
}

/// Adds a link. Reports addresses that are already in use. A second link between the same places is
/// reported and not added.
fn add_link(
    link: NetworkLink,
    section: &NamedTable,
    topology: &mut Topology,
    reader: &mut PlanReader<'_>,
) {
    let [first, second] = link.ends;
    let name = &link.name;
    if topology.address(first.place, second.place).is_some() {
        let message = format!(
            "link \"{name}\" is a second link between places \"{}\" and \"{}\"",
            topology.name(first.place),
            topology.name(second.place)
        );
        let hint = "remove one, because only one of them would carry traffic";
        let line = section.table.line_of("between");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        return;
    }
    for end in link.ends.iter().filter(|end| !end.address.is_unspecified()) {
        let mut others = topology.links.iter().flat_map(|link| link.ends);
        let mut sources = topology.places.iter().flat_map(|place| &place.sources);
        let holder = if others.any(|other| other.address == end.address) {
            "another link"
        } else if sources.any(|block| block.has(end.address)) {
            "the load"
        } else {
            continue;
        };
        let message = format!("link \"{name}\": {holder} already uses {}", end.address);
        let line = section.table.line_of("addresses");
        reader.report(DiagnosticKind::Structure, line, message);
    }
    topology.links.push(link);
}

/// Chooses addresses for the links that have none, from a private network that the plan doesn't
/// use.
fn assign_addresses(topology: &mut Topology, reader: &mut PlanReader<'_>) {
    let named = topology.links.iter().flat_map(|link| link.ends);
    let named: Vec<Ipv4Addr> = named.map(|end| end.address).collect();
    let free = LINK_NETWORKS.into_iter().find(|[a, b]| {
        let network = AddressBlock::cover(&format!("{a}.{b}.0.0/16")).unwrap_or_default();
        let is_used = |block: &AddressBlock| {
            let mut sources = topology.places.iter().flat_map(|place| &place.sources);
            sources.any(|source| source.overlaps(block)) || named.iter().any(|&ip| block.has(ip))
        };
        !network.iter().any(is_used)
    });
    let Some([a, b]) = free else {
        let message = "the addresses in the plan leave no private network for its links";
        reader.report(DiagnosticKind::Structure, 0, message);
        return;
    };
    for (number, link) in (0u8..).zip(&mut topology.links) {
        for (host, end) in (1u8..).zip(&mut link.ends) {
            if end.address.is_unspecified() {
                end.address = Ipv4Addr::new(a, b, number, host);
            }
        }
    }
}
