//! `[place.NAME]` and `[link.NAME]`: the networks of one variant, and where each party lives.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

use super::error::{Fault, did_you_mean};
use super::factors;
use super::hosts;
use super::machine::Machine;
use super::node::{Node, Table, Value};
use super::reader::Reader;
use super::shape::{Section, Shape};
use super::template::Context;
use crate::place::{
    self,
    topology::{Block, Link, LinkEnd, NamedPlace, Rate, Topology},
};
use crate::service::{Endpoint, PlaceKind};

/// The places that need no naming.
pub(crate) const KINDS: [&str; 3] = ["native", "namespace", "jail"];

/// The keys of a place, and of a link.
pub(crate) const PLACE_KEYS: &[&str] = &["sysctl", "where_possible", "cores"];
pub(crate) const LINK_KEYS: &[&str] = &["between", "rate", "burst", "latency", "addresses"];

/// The most places, and the most links, of one plan.
const MOST: usize = 64;
/// The kernel's limit to an interface's name, which is the link's.
const LONGEST_LINK: usize = 15;
const LONGEST_PLACE: usize = 32;

/// Private networks out of which links get their addresses; of each the third number counts links.
const NETWORKS: [[u8; 2]; 5] = [[10, 213], [10, 87], [172, 29], [10, 141], [192, 168]];

/// What factors alone decide of a variant: its services' shapes, its networks, who lives where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The services in the order in which they start.
    pub(crate) shapes: Vec<Shape>,
    pub(crate) topology: Topology,
    /// Where the load lives: natively or in a named place.
    pub(crate) load: PlaceKind,
    /// The agents that make it, as the plan names them; none where this machine does.
    pub(crate) load_agents: Option<String>,
    /// The lines of the places and, for each, of its settings.
    lines: Vec<(usize, usize)>,
    /// The line of the first link that has a rate.
    rate_line: Option<usize>,
    /// The cores that each place gives to whom it holds, as the plan writes them.
    cores: Vec<Option<Cores>>,
}

/// The cores of a place: written text and line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cores {
    pub(crate) text: String,
    pub(crate) line: usize,
}

impl Cores {
    /// As if they stood where a service or the load names its own.
    pub(crate) fn node(&self) -> Node {
        Node {
            line: self.line,
            value: Value::Text(self.text.clone()),
        }
    }
}

/// Who looks at a service's endpoints: another service, itself, or the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewer<'a> {
    /// The service's name; none for the load.
    pub(crate) service: Option<&'a str>,
    /// Its machine; none for this one.
    pub(crate) host: Option<&'a str>,
    pub(crate) place: PlaceKind,
}

impl Layout {
    /// The endpoint at which the viewer finds a listener of `shape`. In a named place a service
    /// listens on all of the place's addresses, since each link has its own.
    ///
    /// # Errors
    /// Why it can't reach it.
    pub(crate) fn seen(
        &self,
        shape: &Shape,
        endpoint: &Endpoint,
        viewer: Viewer<'_>,
    ) -> Result<Endpoint, String> {
        let who = match viewer.service {
            Some(service) => format!("service \"{service}\""),
            None => "the load".to_owned(),
        };
        let is_unix = matches!(endpoint, Endpoint::Unix(_));
        hosts::reaches(shape, is_unix, (&who, viewer.host))?;
        let Endpoint::Tcp(address) = endpoint else {
            return Ok(endpoint.clone());
        };
        let found = match (shape.place, viewer.place) {
            (PlaceKind::Named(_), _) if viewer.service == Some(&shape.name) => {
                Some(Ipv4Addr::UNSPECIFIED)
            }
            (PlaceKind::Named(own), PlaceKind::Named(from)) => self.topology.address(own, from),
            (PlaceKind::Named(_), _) | (_, PlaceKind::Named(_)) => None,
            _ => return Ok(endpoint.clone()),
        };
        match found {
            Some(ip) => Ok(Endpoint::Tcp((ip, address.port()).into())),
            None => Err(format!(
                "no link leads from {} to {}, where service \"{}\" lives",
                self.called(viewer.place, false),
                self.called(shape.place, shape.remote.is_some()),
                shape.name
            )),
        }
    }

    /// Whether more than one machine takes part.
    pub(crate) fn is_spread(&self) -> bool {
        self.load_agents.is_some() || self.shapes.iter().any(|shape| shape.host.is_some())
    }

    /// The cores that a place gives to those in it that name none.
    pub(crate) fn cores_of(&self, place: PlaceKind) -> Option<&Cores> {
        match place {
            PlaceKind::Named(place) => self.cores.get(place)?.as_ref(),
            _ => None,
        }
    }

    fn called(&self, place: PlaceKind, is_remote: bool) -> String {
        match place {
            PlaceKind::Named(place) => format!("place \"{}\"", self.topology.name(place)),
            _ if is_remote => "elsewhere".to_owned(),
            kind => format!("place \"{kind}\""),
        }
    }

    /// Looks for what the places need of the machine.
    pub(crate) fn check_machine(&self, machine: &Machine, reader: &mut Reader<'_>) {
        for (place, (line, settings_line)) in self.topology.places.iter().zip(&self.lines) {
            let name = &place.name;
            if machine.os != std::env::consts::OS {
                // A machine that a test makes up has no networks to look into.
                continue;
            }
            if let Err(lacking) = place::check(PlaceKind::Named(0)) {
                let what = format!("place \"{name}\" can't be had here: {lacking}");
                reader.refuse(Fault::Machine, *line, what);
                continue;
            }
            let sorted = match place::sort_settings(&place.settings) {
                Ok(sorted) => sorted,
                Err(lacking) => {
                    let what = format!("place \"{name}\" can't have settings here: {lacking}");
                    reader.refuse(Fault::Machine, *settings_line, what);
                    continue;
                }
            };
            if place.where_possible {
                continue;
            }
            for (setting, reason) in &sorted.not_applicable {
                refuse_setting(name, setting, reason, *settings_line, reader);
            }
        }
        if let Some(line) = self.rate_line
            && machine.os == std::env::consts::OS
            && let Err(lacking) = place::check_rates()
        {
            let what = format!("links can't have rates here: {lacking}");
            reader.refuse(Fault::Machine, line, what);
        }
    }
}

/// Reads the named tables under `key`, `place` or `link`.
pub(crate) fn sections(key: &str, table: &Table, reader: &mut Reader<'_>) -> Vec<Section> {
    let Some(all) = table.get(key).and_then(|node| reader.table(node, key)) else {
        return Vec::new();
    };
    if all.entries.len() > MOST {
        let what = format!("this plan has more than {MOST} of [{key}.…]");
        reader.refuse(Fault::Structure, all.line, what);
        return Vec::new();
    }
    let longest = if key == "link" {
        LONGEST_LINK
    } else {
        LONGEST_PLACE
    };
    let mut sections = Vec::new();
    for entry in &all.entries {
        let name = &entry.key;
        if !factors::usable_name(key, name, entry.line, reader) {
            continue;
        }
        let taken = match key {
            "link" => ["lo", "all", "default"].contains(&name.as_str()),
            _ => KINDS.contains(&name.as_str()),
        };
        if taken || name.len() > longest {
            let what = format!("{key} \"{name}\" can't be called so");
            let mend = match taken {
                true => "that word has a meaning already".to_owned(),
                false => format!("at most {longest} letters"),
            };
            reader.refuse_with(Fault::BadValue, entry.line, what, mend);
        } else if let Some(section) = reader.table(&entry.node, &format!("{key} \"{name}\"")) {
            sections.push(Section {
                name: name.clone(),
                line: entry.line,
                table: section.clone(),
            });
        }
    }
    sections
}

/// The layout of one variant, given its services' shapes. `context` knows the levels.
pub(crate) fn layout(
    (places, links): (&[Section], &[Section]),
    load: &Table,
    shapes: Vec<Shape>,
    context: &Context,
    reader: &mut Reader<'_>,
) -> Layout {
    let mut layout = Layout {
        shapes,
        topology: Topology::default(),
        load: PlaceKind::Native,
        load_agents: hosts::read_agents(load, context, reader),
        lines: Vec::new(),
        rate_line: None,
        cores: Vec::new(),
    };
    for section in places {
        let rendered = context.table(&section.table, reader);
        reader.known_keys(
            &section.table,
            &format!("place \"{}\"", section.name),
            PLACE_KEYS,
        );
        layout
            .topology
            .places
            .push(read_place(section, &rendered, reader));
        layout
            .lines
            .push((section.line, section.table.line_of("sysctl")));
        layout.cores.push(read_cores(section, &rendered, reader));
    }
    let names: Vec<&str> = places.iter().map(|section| section.name.as_str()).collect();
    if let Some(node) = load
        .get("place")
        .and_then(|node| context.node(node, reader))
    {
        let place = read_where(&node, "place of [load]", &["native"], &names, reader);
        layout.load = place.unwrap_or(PlaceKind::Native);
    }
    if let PlaceKind::Named(place) = layout.load {
        let source = load
            .get("source")
            .and_then(|node| context.node(node, reader));
        layout.topology.places[place].sources = read_sources(source.as_ref(), reader);
    }
    for section in links {
        let rendered = context.table(&section.table, reader);
        if let Some(link) = read_link(section, &rendered, &names, reader) {
            let line = link.rate.map(|_| section.table.line_of("rate"));
            layout.rate_line = layout.rate_line.or(line);
            add_link(link, section, &mut layout.topology, reader);
        }
    }
    give_addresses(&mut layout.topology, reader);
    let target = load
        .get("target")
        .and_then(|node| context.node(node, reader))
        .and_then(|node| node.value.scalar_text());
    let agents = layout.load_agents.as_deref();
    hosts::expose(&mut layout.shapes, target.as_deref(), agents);
    layout
}

/// The kind of place that a word names.
pub(crate) fn read_where(
    node: &Node,
    what: &str,
    kinds: &[&str],
    names: &[&str],
    reader: &mut Reader<'_>,
) -> Option<PlaceKind> {
    let known: Vec<&str> = kinds.iter().chain(names).copied().collect();
    let word = reader.choice(node, what, &known)?;
    Some(match word {
        "native" => PlaceKind::Native,
        "namespace" => PlaceKind::Namespace,
        "jail" => PlaceKind::Jail,
        name => PlaceKind::Named(names.iter().position(|known| *known == name)?),
    })
}

fn read_place(section: &Section, rendered: &Table, reader: &mut Reader<'_>) -> NamedPlace {
    let name = &section.name;
    let where_possible = rendered.get("where_possible").is_some_and(|node| {
        let what = format!("where_possible of place \"{name}\"");
        reader.choice(node, &what, &["true", "false"]) == Some("true")
    });
    let mut settings = BTreeMap::new();
    if let Some(table) = rendered
        .get("sysctl")
        .and_then(|node| reader.table(node, &format!("sysctl of place \"{name}\"")))
    {
        read_settings(name, "", table, &mut settings, reader);
    }
    if !where_possible {
        for setting in settings
            .keys()
            .filter(|setting| !setting.starts_with("net."))
        {
            let line = section.table.line_of("sysctl");
            refuse_setting(
                name,
                setting,
                "it would change the whole machine",
                line,
                reader,
            );
        }
    }
    NamedPlace {
        name: name.clone(),
        settings,
        where_possible,
        sources: Vec::new(),
    }
}

/// Takes `"net.core.somaxconn" = 1` and `net.core.somaxconn = 1`, which TOML reads as tables.
fn read_settings(
    place: &str,
    above: &str,
    table: &Table,
    settings: &mut BTreeMap<String, String>,
    reader: &mut Reader<'_>,
) {
    for entry in &table.entries {
        let name = format!("{above}{}", entry.key);
        if let Value::Table(inner) = &entry.node.value {
            read_settings(place, &format!("{name}."), inner, settings, reader);
            continue;
        }
        let is_part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        if !name.contains('.') || !name.split('.').all(is_part) {
            let what = format!(
                "\"{}\" of place \"{place}\" names no kernel setting",
                name.escape_debug()
            );
            let mend = "with dots, such as \"net.core.somaxconn\"";
            reader.refuse_with(Fault::BadValue, entry.line, what, mend);
            continue;
        }
        let Some(values) = reader.texts(&entry.node, &format!("{name} of place \"{place}\""))
        else {
            continue;
        };
        let value = values.join(" ");
        if value.trim().is_empty() || value.contains('\n') {
            let what = format!("{name} of place \"{place}\" has no value on one line");
            reader.refuse(Fault::BadValue, entry.line, what);
            continue;
        }
        settings.insert(name, value);
    }
}

fn refuse_setting(place: &str, setting: &str, reason: &str, line: usize, reader: &mut Reader<'_>) {
    let what = format!("place \"{place}\" can't have {setting} for itself: {reason}");
    let mend = "take it out, or set where_possible = true, which leaves such settings out and \
                lists them in environment.json";
    reader.refuse_with(Fault::Structure, line, what, mend);
}

fn read_cores(section: &Section, rendered: &Table, reader: &mut Reader<'_>) -> Option<Cores> {
    let node = rendered.get("cores")?;
    let cores = reader.cores(node, &format!("cores of place \"{}\"", section.name))?;
    let text: Vec<String> = cores.iter().map(usize::to_string).collect();
    (!text.is_empty()).then(|| Cores {
        text: text.join(","),
        line: node.line,
    })
}

/// The blocks of the load's own addresses. Those of the loopback are every network's own already.
fn read_sources(node: Option<&Node>, reader: &mut Reader<'_>) -> Vec<Block> {
    let Some(node) = node else { return Vec::new() };
    let mut blocks = Vec::new();
    for text in reader.texts(node, "source of [load]").unwrap_or_default() {
        match Block::cover(&text) {
            Ok(covered) => blocks.extend(covered),
            Err(trouble) => {
                reader.refuse(
                    Fault::BadValue,
                    node.line,
                    format!("source of [load]: {trouble}"),
                );
            }
        }
    }
    let loopback = Block::cover("127.0.0.0/8").unwrap_or_default();
    blocks.retain(|block| !loopback.iter().any(|other| other.overlaps(block)));
    blocks
}

/// A link without addresses has zeros for them.
fn read_link(
    section: &Section,
    rendered: &Table,
    names: &[&str],
    reader: &mut Reader<'_>,
) -> Option<Link> {
    let owner = format!("link \"{}\"", section.name);
    reader.known_keys(&section.table, &owner, LINK_KEYS);
    let Some(between) = rendered.get("between") else {
        let what = format!("{owner} joins no places");
        let mend = "name two: between = [\"clients\", \"front\"]";
        reader.refuse_with(Fault::MissingKey, section.line, what, mend);
        return None;
    };
    let places = reader.texts(between, &format!("between of {owner}"))?;
    let mut ends = Vec::new();
    for place in &places {
        match names.iter().position(|name| name == place) {
            Some(place) => ends.push(place),
            None => {
                let what = format!("{owner} leads to \"{place}\", which is no place of this plan");
                let mend = did_you_mean(place, names.iter().copied())
                    .unwrap_or_else(|| format!("add [place.{place}]"));
                reader.refuse_with(Fault::Undefined, between.line, what, mend);
                return None;
            }
        }
    }
    let &[first, second] = ends.as_slice() else {
        let what = format!("{owner} joins {} places, not two", ends.len());
        reader.refuse(Fault::BadValue, between.line, what);
        return None;
    };
    if first == second {
        let what = format!("{owner} joins place \"{}\" to itself", names[first]);
        reader.refuse(Fault::Structure, between.line, what);
        return None;
    }
    let rate = read_rate(rendered, &owner, reader);
    let addresses = read_addresses(rendered, &owner, reader).unwrap_or([Ipv4Addr::UNSPECIFIED; 2]);
    let end = |place, address| LinkEnd { place, address };
    Some(Link {
        name: section.name.clone(),
        ends: [end(first, addresses[0]), end(second, addresses[1])],
        rate,
    })
}

fn read_rate(table: &Table, owner: &str, reader: &mut Reader<'_>) -> Option<Rate> {
    let Some(node) = table.get("rate") else {
        for key in ["burst", "latency"] {
            if table.get(key).is_some() {
                let what = format!("{key} of {owner} has no effect without a rate");
                let mend = "add rate = \"1Gbit\", or take it out";
                reader.refuse_with(Fault::Structure, table.line_of(key), what, mend);
            }
        }
        return None;
    };
    let text = reader.scalar(node, &format!("rate of {owner}"))?;
    let bits = match Rate::bits(&text) {
        Ok(bits) => bits,
        Err(trouble) => {
            reader.refuse(
                Fault::BadValue,
                node.line,
                format!("rate of {owner}: {trouble}"),
            );
            return None;
        }
    };
    let mut rate = Rate::new(bits);
    if let Some(node) = table.get("burst")
        && let Some(bytes) = reader.whole(node, &format!("burst of {owner}"), 1_600..=1 << 30)
    {
        rate.burst_bytes = bytes;
    }
    if let Some(node) = table.get("latency")
        && let Some(latency) = reader.duration(node, &format!("latency of {owner}"))
    {
        if (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&latency) {
            rate.latency = latency;
        } else {
            let what = format!("latency of {owner} is not from 1ms to 10s");
            let mend = "it is how long a packet may wait for the link";
            reader.refuse_with(Fault::BadValue, node.line, what, mend);
        }
    }
    Some(rate)
}

fn read_addresses(table: &Table, owner: &str, reader: &mut Reader<'_>) -> Option<[Ipv4Addr; 2]> {
    let node = table.get("addresses")?;
    let texts = reader.texts(node, &format!("addresses of {owner}"))?;
    let parsed: Vec<Ipv4Addr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let fine = parsed.len() == texts.len() && parsed.iter().all(Ipv4Addr::is_private);
    match parsed.as_slice() {
        &[first, second] if fine && first != second => Some([first, second]),
        _ => {
            let what = format!("addresses of {owner} are not two private IPv4 addresses");
            let mend = "one for each place, in the order of between: [\"10.1.0.1\", \"10.1.0.2\"]";
            reader.refuse_with(Fault::BadValue, node.line, what, mend);
            None
        }
    }
}

fn add_link(link: Link, section: &Section, topology: &mut Topology, reader: &mut Reader<'_>) {
    let [first, second] = link.ends;
    let line = section.table.line_of("between");
    let name = &link.name;
    if topology.address(first.place, second.place).is_some() {
        let what = format!(
            "link \"{name}\" is the second one between places \"{}\" and \"{}\"",
            topology.name(first.place),
            topology.name(second.place)
        );
        let mend = "one of them would carry everything; take one out";
        reader.refuse_with(Fault::Structure, line, what, mend);
        return;
    }
    for end in link.ends.iter().filter(|end| !end.address.is_unspecified()) {
        let others = topology.links.iter().flat_map(|link| link.ends);
        let of_sources = topology.places.iter().flat_map(|place| &place.sources);
        let taken = match others
            .map(|end| end.address)
            .any(|address| address == end.address)
        {
            true => Some("another link"),
            false => of_sources
                .into_iter()
                .any(|block| block.has(end.address))
                .then_some("the load"),
        };
        if let Some(holder) = taken {
            let what = format!(
                "link \"{name}\": {} is an address of {holder}'s",
                end.address
            );
            reader.refuse(Fault::Structure, section.table.line_of("addresses"), what);
        }
    }
    topology.links.push(link);
}

/// Gives addresses to the links that have none, out of a network that nobody else in this plan uses.
fn give_addresses(topology: &mut Topology, reader: &mut Reader<'_>) {
    let given = topology.links.iter().flat_map(|link| link.ends);
    let given: Vec<Ipv4Addr> = given.map(|end| end.address).collect();
    let free = NETWORKS.into_iter().find(|[a, b]| {
        let network = Block::cover(&format!("{a}.{b}.0.0/16")).unwrap_or_default();
        let is_taken = |block: &Block| {
            let mut sources = topology.places.iter().flat_map(|place| &place.sources);
            sources.any(|source| source.overlaps(block)) || given.iter().any(|&ip| block.has(ip))
        };
        !network.iter().any(is_taken)
    });
    let Some([a, b]) = free else {
        let what = "the plan's own addresses leave no private network for its links";
        reader.refuse(Fault::Structure, 0, what);
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
