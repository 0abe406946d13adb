//! The properties of each service that depend only on factors: place, listeners, dependencies and
//! files.
//!
//! They are read before any endpoint is allocated, so their templates can use factors but not
//! services.

use std::collections::BTreeMap;

use super::build::{BuildOwner, read_build};
use super::host_name::read_host;
use super::start_order::start_order;
use super::template::TemplateContext;
use crate::diagnostic::{DiagnosticKind, did_you_mean_or_list};
use crate::machine::{Build, PlanMachine};
use crate::model::{NamedTable, PLACE_WORDS, PlanFolder};
use crate::service::{Allocation, Jail, ListenKind, PlaceKind};
use crate::ssh_host::SshHost;
use crate::syntax::{PlanReader, TomlNode, TomlTable, TomlValue, host_port, is_name};

/// Attributes that every service has in templates, in addition to its listeners.
pub(crate) const SERVICE_ATTRIBUTES: &[&str] = &["host", "port", "path", "address", "files", "dir"];

/// Address of a server that prony doesn't start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RemoteAddress {
    Tcp { host: String, port: u16 },
    Unix(String),
}

/// Properties of a service that depend only on factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceLayout {
    /// Index of the service in the plan.
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) line: usize,
    /// Host as named in the plan; `None` for this machine.
    pub(crate) host: Option<String>,
    /// True if the host is a `[host.NAME]`, which prony reaches over ssh and not through an agent.
    pub(crate) over_ssh: bool,
    /// True if a service or the load on another machine connects to this service.
    pub(crate) exposed: bool,
    pub(crate) place: PlaceKind,
    pub(crate) jail: Option<Jail>,
    pub(crate) place_line: usize,
    pub(crate) listen: BTreeMap<String, ListenKind>,
    pub(crate) needs: Vec<String>,
    /// Address of a remote service, as written in the plan and as parsed; `None` for other
    /// services.
    pub(crate) remote: Option<(String, RemoteAddress)>,
    pub(crate) file_names: Vec<String>,
    /// The revision that is built for the service.
    pub(crate) build: Option<Build>,
}

impl ServiceLayout {
    /// Returns the names of the listeners that accept connections. UDP listeners don't.
    pub(crate) fn accepting(&self) -> impl Iterator<Item = &String> {
        let listen = self.listen.iter();
        let accepting = listen.filter(|(_, kind)| **kind != ListenKind::Udp);
        accepting.map(|(name, _)| name)
    }

    pub(crate) fn allocation(&self) -> Allocation {
        Allocation {
            service: self.name.clone(),
            host: self.host.clone(),
            exposed: self.exposed,
            place: self.place,
            jail: self.jail.clone(),
            listen: self.listen.clone(),
        }
    }
}

/// Reads the services of one variant in start order. Returns `None` if there is a problem.
///
/// `context` contains the levels, and the names of services but not their endpoints. `places` are
/// the names of the places that the plan defines, and `hosts` its hosts.
pub(crate) fn read_service_layouts(
    services: &[NamedTable],
    (places, hosts): (&[&str], &[SshHost]),
    (machine, folder): (&dyn PlanMachine, &PlanFolder),
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> Option<Vec<ServiceLayout>> {
    let before = reader.diagnostics.count();
    let mut layouts: Vec<_> = services
        .iter()
        .enumerate()
        .map(|(index, service)| read_service((index, service), (places, hosts), context, reader))
        .collect();
    for layout in &mut layouts {
        let table = services[layout.index].table.get("build");
        let table = table.and_then(|node| context.node(node, reader));
        let owner = BuildOwner {
            service: &layout.name,
            has_host: layout.host.is_some(),
            listens_as_build: layout.listen.contains_key("build"),
        };
        layout.build = table.and_then(|node| read_build(&node, &owner, machine, folder, reader));
    }
    let names = services.iter().map(|service| service.name.as_str());
    for layout in &layouts {
        let unknown = layout
            .needs
            .iter()
            .filter(|need| !names.clone().any(|name| name == *need));
        for need in unknown {
            let message = format!(
                "service \"{}\" needs \"{need}\", which is not a service",
                layout.name
            );
            let hint = did_you_mean_or_list(need, names.clone(), "known services");
            let line = services[layout.index].table.line_of("needs");
            reader.report_with_hint(DiagnosticKind::Undefined, line, message, hint);
        }
    }
    if reader.diagnostics.count() > before {
        return None;
    }
    sort_by_start(layouts, services, reader)
}

fn sort_by_start(
    layouts: Vec<ServiceLayout>,
    services: &[NamedTable],
    reader: &mut PlanReader<'_>,
) -> Option<Vec<ServiceLayout>> {
    let needs: Vec<(&str, &[String])> = layouts
        .iter()
        .map(|layout| (layout.name.as_str(), layout.needs.as_slice()))
        .collect();
    match start_order(&needs) {
        Ok(order) => Some(
            order
                .into_iter()
                .map(|index| layouts[index].clone())
                .collect(),
        ),
        Err(cycle) => {
            let first = cycle.first().copied().unwrap_or_default();
            let line = services
                .iter()
                .find(|service| service.name == first)
                .map_or(0, |service| service.table.line_of("needs"));
            let message = match cycle.as_slice() {
                [one] => format!("service \"{one}\" needs itself"),
                _ => format!("services need each other: {} → {first}", cycle.join(" → ")),
            };
            reader.report_with_hint(
                DiagnosticKind::Structure,
                line,
                message,
                "remove one of these needs",
            );
            None
        }
    }
}

fn read_service(
    (index, service): (usize, &NamedTable),
    (places, hosts): (&[&str], &[SshHost]),
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> ServiceLayout {
    let name = &service.name;
    let rendered = |key: &str, reader: &mut PlanReader<'_>| {
        let node = service.table.get(key)?;
        context.node(node, reader)
    };
    let place = rendered("place", reader);
    let listen = rendered("listen", reader);
    let remote = rendered("remote", reader);
    let host = rendered("host", reader);
    let host =
        host.and_then(|node| read_host(&node, &format!("host of service \"{name}\""), reader));
    let needs = rendered("needs", reader)
        .and_then(|node| reader.texts(&node, &format!("needs of service \"{name}\"")));
    let file_names = service.table.get("files").map(|node| context.keys_of(node));
    let over_ssh = host
        .as_ref()
        .is_some_and(|host| hosts.iter().any(|it| it.name == *host));
    let jail_word = place.as_ref().and_then(|node| match &node.value {
        TomlValue::Text(text) => Some((text.strip_prefix("jail:")?.to_owned(), node.line)),
        _ => None,
    });
    let is_jail = jail_word.is_some();
    let jail = jail_word.and_then(|(word, line)| read_jail(&word, line, over_ssh, name, reader));
    let layout = ServiceLayout {
        index,
        name: name.clone(),
        line: service.line,
        over_ssh,
        host,
        // `mark_exposed` sets this when the layout of the whole variant is known.
        exposed: false,
        jail,
        place: place
            .filter(|_| !is_jail)
            .and_then(|node| {
                let subject = format!("place of service \"{name}\"");
                read_place(&node, &subject, &PLACE_WORDS, places, reader)
            })
            .unwrap_or(PlaceKind::Native),
        place_line: service.table.line_of("place"),
        listen: match &remote {
            // A remote server has no named listeners, only its address.
            Some(_) => BTreeMap::new(),
            None => read_listen(listen.as_ref(), name, reader),
        },
        needs: needs.unwrap_or_default(),
        remote: remote.and_then(|node| read_remote(&node, name, reader)),
        file_names: file_names.unwrap_or_default(),
        build: None,
    };
    if let (Some(host), PlaceKind::Named(_)) = (&layout.host, layout.place) {
        let message = format!("service \"{name}\" has both host \"{host}\" and a place");
        let hint = "places exist only on the machine that runs prony; remove host or place";
        reader.report_with_hint(DiagnosticKind::Structure, layout.place_line, message, hint);
    }
    if layout.over_ssh && layout.place == PlaceKind::Namespace {
        let message = format!("service \"{name}\" runs over ssh, but its place is \"namespace\"");
        let hint = "namespaces need prony on their machine; remove place, or run an agent there";
        reader.report_with_hint(DiagnosticKind::Structure, layout.place_line, message, hint);
    }
    layout
}

/// Reads the jail of a service, which is what follows `jail:` in its place.
fn read_jail(
    word: &str,
    line: usize,
    over_ssh: bool,
    service: &str,
    reader: &mut PlanReader<'_>,
) -> Option<Jail> {
    let Some(jail) = Jail::parse(word) else {
        let message = format!("place of service \"{service}\" is \"jail:{word}\", not a jail");
        let hint =
            "write jail:NAME for a jail that runs, or jail:/PATH to create one from a folder";
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
        return None;
    };
    if !over_ssh {
        let message = format!("service \"{service}\" has a jail, but its host is no [host.NAME]");
        let hint = "jails exist only on FreeBSD machines that prony reaches over ssh";
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        return None;
    }
    Some(jail)
}

/// Reads a place: one of `words`, or the name of a place that the plan defines.
pub(crate) fn read_place(
    node: &TomlNode,
    subject: &str,
    words: &[&str],
    places: &[&str],
    reader: &mut PlanReader<'_>,
) -> Option<PlaceKind> {
    let known: Vec<&str> = words.iter().chain(places).copied().collect();
    let is_removed = words.contains(&"namespace") && !places.contains(&"jail");
    if is_removed && matches!(&node.value, TomlValue::Text(word) if word == "jail") {
        let message = format!("{subject} is \"jail\", but prony starts no jails here");
        let hint = "on Linux, use \"namespace\"; on a [host.NAME] that runs FreeBSD, use \
                    \"jail:NAME\"";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
        return None;
    }
    Some(match reader.choice(node, subject, &known)? {
        "native" => PlaceKind::Native,
        "namespace" => PlaceKind::Namespace,
        name => PlaceKind::Named(places.iter().position(|place| *place == name)?),
    })
}

fn read_listen(
    node: Option<&TomlNode>,
    service: &str,
    reader: &mut PlanReader<'_>,
) -> BTreeMap<String, ListenKind> {
    match node {
        None => BTreeMap::from([(String::new(), ListenKind::Tcp)]),
        Some(TomlNode {
            value: TomlValue::Table(table),
            ..
        }) => read_listeners(table, service, reader),
        Some(node) => {
            let subject = format!("listen of service \"{service}\"");
            let kind = read_listen_kind(node, &subject, reader);
            kind.map(|kind| (String::new(), kind)).into_iter().collect()
        }
    }
}

/// Reads a table of named listeners.
fn read_listeners(
    table: &TomlTable,
    service: &str,
    reader: &mut PlanReader<'_>,
) -> BTreeMap<String, ListenKind> {
    let mut listen = BTreeMap::new();
    for entry in &table.entries {
        let name = &entry.key;
        let subject = format!("listener \"{name}\" of service \"{service}\"");
        if SERVICE_ATTRIBUTES.contains(&name.as_str()) || !is_name(name) {
            let message = format!("{subject} has a name that templates can't use");
            let hint = "use letters, digits and _, but not host, port, path, address, files or dir";
            reader.report_with_hint(DiagnosticKind::BadValue, entry.line, message, hint);
        } else if let Some(kind) = read_listen_kind(&entry.node, &subject, reader) {
            listen.insert(name.clone(), kind);
        }
    }
    listen
}

fn read_listen_kind(
    node: &TomlNode,
    subject: &str,
    reader: &mut PlanReader<'_>,
) -> Option<ListenKind> {
    match reader.choice(node, subject, &["tcp", "unix", "udp"])? {
        "unix" => Some(ListenKind::Unix),
        "udp" => Some(ListenKind::Udp),
        _ => Some(ListenKind::Tcp),
    }
}

fn read_remote(
    node: &TomlNode,
    service: &str,
    reader: &mut PlanReader<'_>,
) -> Option<(String, RemoteAddress)> {
    let text = reader.text(node, &format!("remote of service \"{service}\""))?;
    let remote = match text.strip_prefix("unix:") {
        Some(path) if path.starts_with('/') => Some(RemoteAddress::Unix(path.to_owned())),
        Some(_) => None,
        None => host_port(&text).map(|(host, port)| RemoteAddress::Tcp { host, port }),
    };
    if remote.is_none() {
        let message = format!("remote of service \"{service}\" is \"{text}\", not an address");
        let hint = "write \"host:port\" or \"unix:/path\"";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, hint);
    }
    remote.map(|remote| (text, remote))
}
