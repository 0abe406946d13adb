//! What must be known of a variant's services before any can be rendered: where they live, what
//! they listen on and which comes first.

use std::collections::BTreeMap;

use super::error::{Fault, did_you_mean};
use super::hosts;
use super::node::{Node, Table, Value};
use super::reader::Reader;
use super::template::Context;
use super::topology::{KINDS, read_where};
use super::units;
use crate::service::{Allocation, ListenKind, PlaceKind};

/// What a service offers to templates beside its listeners.
pub(crate) const OFFERS: &[&str] = &["host", "port", "path", "address", "files", "dir"];

/// A table of the plan with a name, such as `[service.web]`, nothing rendered.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) line: usize,
    pub(crate) table: Table,
}

/// A server that runs without prony's doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Remote {
    Tcp { host: String, port: u16 },
    Unix(String),
}

/// The part of a service that factors alone decide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// The service's position in the plan.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) line: usize,
    /// The machine, as the plan names it; none is this one.
    pub(crate) host: Option<String>,
    /// Whether somebody on another machine has to reach it.
    pub(crate) exposed: bool,
    pub(crate) place: PlaceKind,
    pub(crate) place_line: usize,
    pub(crate) listen: BTreeMap<String, ListenKind>,
    pub(crate) needs: Vec<String>,
    /// The address as written, and taken apart.
    pub(crate) remote: Option<(String, Remote)>,
    pub(crate) file_names: Vec<String>,
}

impl Shape {
    pub(crate) fn allocation(&self) -> Allocation {
        Allocation {
            service: self.name.clone(),
            host: self.host.clone(),
            exposed: self.exposed,
            place: self.place,
            listen: self.listen.clone(),
        }
    }
}

/// The services of one variant in the order in which they start; `None` after a refusal.
///
/// `context` knows the levels, and the services by name only; `places` are the named ones.
pub(crate) fn shapes(
    services: &[Section],
    places: &[&str],
    context: &Context,
    reader: &mut Reader<'_>,
) -> Option<Vec<Shape>> {
    let before = reader.mistakes.made();
    let shapes: Vec<_> = services
        .iter()
        .enumerate()
        .map(|(index, service)| shape((index, service), places, context, reader))
        .collect();
    let names: Vec<&str> = services
        .iter()
        .map(|service| service.name.as_str())
        .collect();
    for shape in &shapes {
        for need in shape
            .needs
            .iter()
            .filter(|need| !names.contains(&need.as_str()))
        {
            let what = format!(
                "service \"{}\" needs \"{need}\", which is no service",
                shape.name
            );
            let mend = did_you_mean(need, names.iter().copied())
                .unwrap_or_else(|| format!("known are: {}", names.join(", ")));
            let line = services[shape.index].table.line_of("needs");
            reader.refuse_with(Fault::Undefined, line, what, mend);
        }
    }
    (reader.mistakes.made() == before)
        .then(|| start_order(shapes, services, reader))
        .flatten()
}

fn shape(
    (index, service): (usize, &Section),
    places: &[&str],
    context: &Context,
    reader: &mut Reader<'_>,
) -> Shape {
    let name = &service.name;
    let get = |key: &str, reader: &mut Reader<'_>| {
        service
            .table
            .get(key)
            .and_then(|node| context.node(node, reader))
    };
    let place = get("place", reader);
    let listen = get("listen", reader);
    let remote = get("remote", reader);
    let host = get("host", reader);
    let host = host
        .and_then(|node| hosts::read_host(&node, &format!("host of service \"{name}\""), reader));
    let needs = get("needs", reader)
        .and_then(|node| reader.texts(&node, &format!("needs of service \"{name}\"")));
    let file_names = service.table.get("files").map(|node| context.keys_of(node));
    let shape = Shape {
        index,
        name: name.clone(),
        line: service.line,
        host,
        // Only the whole layout tells.
        exposed: false,
        place: place
            .and_then(|node| {
                let what = format!("place of service \"{name}\"");
                read_where(&node, &what, &KINDS, places, reader)
            })
            .unwrap_or(PlaceKind::Native),
        place_line: service.table.line_of("place"),
        listen: match &remote {
            // The one listener of a remote server is where it listens.
            Some(_) => BTreeMap::new(),
            None => read_listen(listen.as_ref(), name, reader),
        },
        needs: needs.unwrap_or_default(),
        remote: remote.and_then(|node| read_remote(&node, name, reader)),
        file_names: file_names.unwrap_or_default(),
    };
    if let (Some(host), PlaceKind::Named(_)) = (&shape.host, shape.place) {
        let what = format!("service \"{name}\" is on host \"{host}\", in a place of this machine");
        let mend =
            "named places are networks of the machine that runs prony; take host or place out";
        reader.refuse_with(Fault::Structure, shape.place_line, what, mend);
    }
    shape
}

fn read_listen(
    node: Option<&Node>,
    service: &str,
    reader: &mut Reader<'_>,
) -> BTreeMap<String, ListenKind> {
    let mut listen = BTreeMap::new();
    let kind = |node: &Node, what: &str, reader: &mut Reader<'_>| {
        Some(match reader.choice(node, what, &["tcp", "unix"])? {
            "unix" => ListenKind::Unix,
            _ => ListenKind::Tcp,
        })
    };
    match node {
        None => {
            listen.insert(String::new(), ListenKind::Tcp);
        }
        Some(Node {
            value: Value::Table(table),
            ..
        }) => {
            for entry in &table.entries {
                let name = &entry.key;
                let what = format!("listener \"{name}\" of service \"{service}\"");
                if OFFERS.contains(&name.as_str()) || !super::template::is_name(name) {
                    let mend = "letters, digits and _, and none of host, port, path, address, \
                                files, dir";
                    let what = format!("{what} can't be named in a template");
                    reader.refuse_with(Fault::BadValue, entry.line, what, mend);
                } else if let Some(kind) = kind(&entry.node, &what, reader) {
                    listen.insert(name.clone(), kind);
                }
            }
        }
        Some(node) => {
            let kind = kind(node, &format!("listen of service \"{service}\""), reader);
            listen.extend(kind.map(|kind| (String::new(), kind)));
        }
    }
    listen
}

fn read_remote(node: &Node, service: &str, reader: &mut Reader<'_>) -> Option<(String, Remote)> {
    let text = reader.text(node, &format!("remote of service \"{service}\""))?;
    let remote = match text.strip_prefix("unix:") {
        Some(path) if path.starts_with('/') => Some(Remote::Unix(path.to_owned())),
        Some(_) => None,
        None => units::host_port(&text).map(|(host, port)| Remote::Tcp { host, port }),
    };
    if remote.is_none() {
        let what = format!("remote of service \"{service}\" is \"{text}\", not an address");
        let mend = "write \"host:port\" or \"unix:/path\"";
        reader.refuse_with(Fault::BadValue, node.line, what, mend);
    }
    remote.map(|remote| (text, remote))
}

/// Sorts services behind those that they need, otherwise as written.
fn start_order(
    mut waiting: Vec<Shape>,
    services: &[Section],
    reader: &mut Reader<'_>,
) -> Option<Vec<Shape>> {
    let mut ordered: Vec<Shape> = Vec::with_capacity(waiting.len());
    while !waiting.is_empty() {
        let started = |need: &String| ordered.iter().any(|shape| shape.name == *need);
        let Some(next) = waiting
            .iter()
            .position(|shape| shape.needs.iter().all(started))
        else {
            let circle = circle(&waiting);
            let first = circle.first().copied().unwrap_or_default();
            let line = services
                .iter()
                .find(|service| service.name == first)
                .map_or(0, |service| service.table.line_of("needs"));
            let what = match circle.as_slice() {
                [one] => format!("service \"{one}\" needs itself"),
                _ => format!("services need each other: {} → {first}", circle.join(" → ")),
            };
            reader.refuse_with(Fault::Structure, line, what, "take one need out");
            return None;
        };
        ordered.push(waiting.remove(next));
    }
    Some(ordered)
}

/// Services of which each needs the next and the last the first; every one of `waiting` needs one.
fn circle(waiting: &[Shape]) -> Vec<&str> {
    let mut path: Vec<&str> = Vec::new();
    let mut at = waiting.first();
    while let Some(shape) = at {
        if let Some(start) = path.iter().position(|name| *name == shape.name) {
            return path.split_off(start);
        }
        path.push(&shape.name);
        at = waiting
            .iter()
            .find(|other| shape.needs.contains(&other.name));
    }
    path
}
