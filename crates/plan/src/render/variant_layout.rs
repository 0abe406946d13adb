//! Properties of a variant that depend only on factors: where services and the load run, and which
//! of them can reach each other.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use super::host_name::read_agents;
use super::networks::{LinkNeeds, PlaceCores, read_links, read_places, read_sources};
use super::service_layout::{ServiceLayout, read_place};
use super::template::TemplateContext;
use crate::model::NamedTable;
use crate::service::{Endpoint, PlaceKind};
use crate::syntax::{PlanReader, TomlTable};
use crate::topology::Topology;

/// Properties of a variant that depend only on factors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VariantLayout {
    /// Services in start order.
    pub(crate) services: Vec<ServiceLayout>,
    pub(crate) topology: Topology,
    /// Place of the load: native, or a named place.
    pub(crate) load_place: PlaceKind,
    /// Agents that generate the load, as named in the plan; `None` if this machine does.
    pub(crate) load_agents: Option<String>,
    /// For each place, the line of its table and the line of its kernel settings.
    pub(crate) place_lines: Vec<(usize, usize)>,
    /// Lines of the link settings that need a program on this machine.
    pub(crate) link_needs: LinkNeeds,
    /// For each place, the default cores of its services.
    place_cores: Vec<Option<PlaceCores>>,
}

/// A service or the load, seen as a client of other services.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Viewer<'a> {
    /// Name of the service; `None` for the load.
    pub(crate) service: Option<&'a str>,
    /// Host of the client; `None` for this machine.
    pub(crate) host: Option<&'a str>,
    pub(crate) place: PlaceKind,
}

impl VariantLayout {
    /// Returns the load as a client of the services.
    pub(crate) fn load_viewer(&self) -> Viewer<'_> {
        Viewer {
            service: None,
            host: self.load_agents.as_deref(),
            place: self.load_place,
        }
    }

    /// Returns the endpoint at which the viewer reaches a listener of `service`.
    ///
    /// A service in a named place listens on all addresses, because each link gives the place a
    /// different address.
    ///
    /// # Errors
    /// The reason why the viewer can't reach the service.
    pub(crate) fn reachable_endpoint(
        &self,
        service: &ServiceLayout,
        endpoint: &Endpoint,
        viewer: Viewer<'_>,
    ) -> Result<Endpoint, Unreached> {
        let is_unix = matches!(endpoint, Endpoint::Unix(_));
        check_host_reach(service, is_unix, viewer)?;
        let (address, with_address): (_, fn(SocketAddr) -> Endpoint) = match endpoint {
            Endpoint::Tcp(address) => (address, Endpoint::Tcp),
            Endpoint::Udp(address) => (address, Endpoint::Udp),
            Endpoint::Unix(_) => return Ok(endpoint.clone()),
        };
        let found = match (service.place, viewer.place) {
            (PlaceKind::Named(_), _) if viewer.service == Some(&service.name) => {
                Some(Ipv4Addr::UNSPECIFIED)
            }
            (PlaceKind::Named(own), PlaceKind::Named(from)) => self.topology.address(own, from),
            (PlaceKind::Named(_), _) | (_, PlaceKind::Named(_)) => None,
            _ => return Ok(endpoint.clone()),
        };
        match found {
            Some(ip) => Ok(with_address((ip, address.port()).into())),
            None => Err(Unreached::NoLink {
                from: self.place_words(viewer.place, false),
                to: self.place_words(service.place, service.remote.is_some()),
                service: service.name.clone(),
            }),
        }
    }

    /// Returns true if a path is in the folder of a build, which may not exist yet.
    pub(crate) fn is_built(&self, path: &Path) -> bool {
        let builds = self.services.iter().filter_map(|it| it.build.as_ref());
        builds.into_iter().any(|build| path.starts_with(&build.dir))
    }

    /// Returns true if a service or the load runs on another machine.
    pub(crate) fn uses_other_hosts(&self) -> bool {
        self.load_agents.is_some() || self.services.iter().any(|service| service.host.is_some())
    }

    /// Returns the default cores of services in this place.
    pub(crate) fn cores_of(&self, place: PlaceKind) -> Option<&PlaceCores> {
        match place {
            PlaceKind::Named(place) => self.place_cores.get(place)?.as_ref(),
            _ => None,
        }
    }

    fn place_words(&self, place: PlaceKind, is_remote: bool) -> String {
        match place {
            PlaceKind::Named(place) => format!("place \"{}\"", self.topology.name(place)),
            _ if is_remote => "elsewhere".to_owned(),
            kind => format!("place \"{kind}\""),
        }
    }
}

/// Reads the layout of one variant with the given services. `context` contains the levels.
pub(crate) fn read_layout(
    (places, links): (&[NamedTable], &[NamedTable]),
    load: &TomlTable,
    services: Vec<ServiceLayout>,
    context: &TemplateContext,
    reader: &mut PlanReader<'_>,
) -> VariantLayout {
    let rendered = |key: &str, reader: &mut PlanReader<'_>| context.node(load.get(key)?, reader);
    let load_agents = read_agents(load, context, reader);
    let read_places = read_places(places, context, reader);
    let mut topology = Topology {
        places: read_places.places,
        ..Topology::default()
    };
    let names: Vec<&str> = places.iter().map(|section| section.name.as_str()).collect();
    let load_place = rendered("place", reader)
        .and_then(|node| read_place(&node, "place of [load]", &["native"], &names, reader))
        .unwrap_or(PlaceKind::Native);
    if let PlaceKind::Named(place) = load_place {
        let source = rendered("source", reader);
        topology.places[place].sources = read_sources(source.as_ref(), reader);
    }
    let mut link_needs = read_links(links, &names, context, &mut topology, reader);
    // A variant that runs nothing in the named places doesn't need them, nor the privileges to
    // create them.
    let mut used = services
        .iter()
        .map(|service| service.place)
        .chain([load_place]);
    if !used.any(|place| matches!(place, PlaceKind::Named(_))) {
        topology = Topology::default();
        link_needs = LinkNeeds::default();
    }
    let target = rendered("target", reader).and_then(|node| node.value.scalar_text());
    let mut services = services;
    mark_exposed(&mut services, target.as_deref(), load_agents.is_some());
    VariantLayout {
        services,
        topology,
        load_place,
        load_agents,
        place_lines: read_places.lines,
        link_needs,
        place_cores: read_places.cores,
    }
}

/// Marks the services to which other machines connect. They are the load's target and the services
/// that services on other hosts need.
fn mark_exposed(services: &mut [ServiceLayout], target: Option<&str>, load_has_agents: bool) {
    let target = target.map(|target| target.split_once('.').map_or(target, |(name, _)| name));
    let mut hosts_of_users: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for service in services.iter() {
        for need in &service.needs {
            let hosts = hosts_of_users.entry(need.clone()).or_default();
            hosts.push(service.host.clone());
        }
    }
    for service in services.iter_mut() {
        // The target stays exposed to this machine, which compares response bodies even if another
        // machine generates the load.
        let is_all_local = service.host.is_none() && !load_has_agents;
        let by_load = target == Some(&service.name) && !is_all_local;
        let hosts = hosts_of_users.remove(&service.name).unwrap_or_default();
        service.exposed = by_load || hosts.iter().any(|host| *host != service.host);
    }
}

/// Reason why a viewer can't reach a service.
#[derive(Debug)]
pub(crate) enum Unreached {
    /// No link joins the two places.
    NoLink {
        from: String,
        to: String,
        service: String,
    },
    /// The service runs on another machine than the viewer (`who`).
    OtherHost {
        service: String,
        host: String,
        who: String,
        because: HostBarrier,
    },
}

/// Reason why other machines can't reach a service.
#[derive(Debug)]
pub(crate) enum HostBarrier {
    UnixSocket,
    /// The service runs in a place that only its own machine can reach.
    Place(PlaceKind),
    /// No service there needs it.
    NotNeeded,
}

impl fmt::Display for Unreached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unreached::NoLink { from, to, service } => write!(
                f,
                "no link leads from {from} to {to}, where service \"{service}\" runs"
            ),
            Unreached::OtherHost {
                service,
                host,
                who,
                because,
            } => match because {
                HostBarrier::UnixSocket => write!(
                    f,
                    "service \"{service}\" uses a UNIX socket on {host}, but {who} runs elsewhere"
                ),
                HostBarrier::Place(place) => write!(
                    f,
                    "service \"{service}\" runs in a {place} on {host}, where other machines can't \
                     reach it"
                ),
                HostBarrier::NotNeeded => write!(
                    f,
                    "service \"{service}\" runs on {host}, but {who} runs elsewhere; other machines \
                     can reach the service only if a service there needs it (needs = \
                     [\"{service}\"])"
                ),
            },
        }
    }
}

/// Checks that a viewer (a service or the load) on one machine can reach a service on another.
///
/// # Errors
/// The reason why the viewer can't reach the service.
fn check_host_reach(
    service: &ServiceLayout,
    is_unix: bool,
    viewer: Viewer<'_>,
) -> Result<(), Unreached> {
    if service.remote.is_some() || service.host.as_deref() == viewer.host {
        return Ok(());
    }
    let who = match viewer.service {
        Some(name) => format!("service \"{name}\""),
        None => "the load".to_owned(),
    };
    let name = &service.name;
    let host = match &service.host {
        Some(host) => format!("host \"{host}\""),
        None => "this machine".to_owned(),
    };
    let because = if is_unix {
        HostBarrier::UnixSocket
    } else if service.place == PlaceKind::Namespace {
        HostBarrier::Place(service.place)
    } else if !service.exposed {
        HostBarrier::NotNeeded
    } else {
        return Ok(());
    };
    Err(Unreached::OtherHost {
        service: name.clone(),
        host,
        who,
        because,
    })
}
