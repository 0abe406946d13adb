//! One variant, from the plan's tables to what can be started.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use super::error::{Fault, Mistakes, PlanError};
use super::factors::Variant;
use super::load::{self, ResolvedLoad, Scheme};
use super::reader::Reader;
use super::services::{self, ResolvedService, Surroundings};
use super::shape::{self, OFFERS, Remote, Shape};
use super::telemetry::{self, Telemetry};
use super::template::{self, Context, Known};
use super::topology::{self, Layout, Viewer};
use super::{Plan, Resolved};
use crate::place::topology::Topology;
use crate::service::{Allocated, Endpoint};

/// What templates call the machine.
const MACHINE: &str = "machine";

/// What factors alone decide of a variant; `None` after a refusal.
pub(crate) fn layout(plan: &Plan, variant: &Variant, mistakes: &mut Mistakes) -> Option<Layout> {
    let mut context = levels(plan, variant);
    for service in &plan.services {
        context.set_service(&service.name, Known::NotYet, minijinja::Value::UNDEFINED);
    }
    let mut reader = Reader {
        file: &plan.origin,
        mistakes,
    };
    let places: Vec<&str> = plan
        .places
        .iter()
        .map(|place| place.name.as_str())
        .collect();
    let before = reader.mistakes.made();
    let shapes = shape::shapes(&plan.services, &places, &context, &mut reader)?;
    let sections = (plan.places.as_slice(), plan.links.as_slice());
    let layout = topology::layout(sections, &plan.load, shapes, &context, &mut reader);
    (reader.mistakes.made() == before).then_some(layout)
}

/// The layout of a variant that was checked before.
///
/// # Errors
/// A template that behaves differently now.
pub(crate) fn layout_again(plan: &Plan, variant: &Variant) -> Result<Layout, PlanError> {
    let mut mistakes = Mistakes::default();
    let layout = layout(plan, variant, &mut mistakes);
    mistakes
        .into_result()
        .map_err(|errors| errors.first().clone())?;
    layout.ok_or_else(|| {
        // Every way to `None` leaves a mistake behind; this one is for a slip in that.
        PlanError::new(
            Fault::Structure,
            &plan.origin,
            0,
            "this variant has no layout",
        )
    })
}

/// What a variant comes to: parts may be there even where others were refused.
pub(crate) struct Rendered {
    pub(crate) topology: Topology,
    pub(crate) services: Vec<ResolvedService>,
    pub(crate) load: Option<ResolvedLoad>,
    pub(crate) telemetry: Telemetry,
    /// The files that were named, as the plan writes them.
    pub(crate) references: BTreeSet<String>,
}

/// Renders a variant with the endpoints in `allocated`, which has those of remote services too.
pub(crate) fn render(
    plan: &Plan,
    variant: &Variant,
    layout: &Layout,
    allocated: &BTreeMap<String, Allocated>,
    on_machine: bool,
    mistakes: &mut Mistakes,
) -> Rendered {
    let mut reader = Reader {
        file: &plan.origin,
        mistakes,
    };
    let context_of = |viewer: Viewer<'_>, reader: &mut Reader<'_>| {
        context(levels(plan, variant), layout, allocated, viewer, reader)
    };
    let of_load = Viewer {
        service: None,
        host: layout.load_agents.as_deref(),
        place: layout.load,
    };
    let context = context_of(of_load, &mut reader);
    let references = RefCell::default();
    let mut around = Surroundings {
        folder: &plan.folder,
        context: &context,
        layout,
        machine: &plan.machine,
        on_machine,
        tls_target: None,
        references: &references,
        certificates: &plan.certificates,
    };
    if on_machine {
        layout.check_machine(&plan.machine, &mut reader);
    }
    let served = load::Served {
        layout,
        allocated,
        trials: &plan.trials,
        trial_keys: &plan.trial_keys,
    };
    // The load first: whether it speaks TLS tells how its target can be asked whether it is ready.
    let load = load::read(&plan.load, &served, &around, &mut reader);
    around.tls_target = load
        .as_ref()
        .filter(|load| load.scheme == Scheme::Https)
        .map(|load| (load.service.clone(), load.listener.clone()));
    // Where there are links, or several machines, each service sees the others at addresses of its own.
    let contexts: Vec<Option<Context>> = layout
        .shapes
        .iter()
        .map(|shape| {
            let viewer = Viewer {
                service: Some(&shape.name),
                host: shape.host.as_deref(),
                place: shape.place,
            };
            let differs = !layout.topology.is_empty() || layout.is_spread();
            differs.then(|| context_of(viewer, &mut reader))
        })
        .collect();
    let services = layout.shapes.iter().zip(&contexts).map(|(shape, own)| {
        let around = Surroundings {
            context: own.as_ref().unwrap_or(&context),
            ..around.clone()
        };
        let table = &plan.services[shape.index].table;
        services::read(table, shape, &around, &mut reader)
    });
    let services = services.collect();
    let telemetry = telemetry::read(plan.telemetry.as_ref(), &context, &mut reader);
    Rendered {
        topology: layout.topology.clone(),
        services,
        load,
        telemetry,
        references: references.into_inner(),
    }
}

/// [`Plan::resolve`].
pub(crate) fn resolve(
    plan: &Plan,
    variant: &Variant,
    allocated: &BTreeMap<String, Allocated>,
) -> Result<Resolved, PlanError> {
    let layout = layout_again(plan, variant)?;
    let mut mistakes = Mistakes::default();
    let refuse = |shape: &Shape, what: String| {
        Err(PlanError::new(
            Fault::Machine,
            &plan.origin,
            shape.line,
            what,
        ))
    };
    let mut all = allocated.clone();
    for shape in &layout.shapes {
        if let Some((written, remote)) = &shape.remote {
            let Some(endpoint) = look_up(remote) else {
                let what = format!("service \"{}\": {written} can't be resolved", shape.name);
                return refuse(shape, what);
            };
            all.insert(shape.name.clone(), remote_allocated(endpoint));
        } else if !has_all(all.get(&shape.name), shape) {
            return refuse(
                shape,
                format!("service \"{}\" has no address yet", shape.name),
            );
        }
    }
    let rendered = render(plan, variant, &layout, &all, false, &mut mistakes);
    mistakes
        .into_result()
        .map_err(|errors| errors.first().clone())?;
    match rendered.load {
        Some(load) => Ok(Resolved {
            topology: rendered.topology,
            services: rendered.services,
            load,
            telemetry: rendered.telemetry,
        }),
        None => Err(PlanError::new(
            Fault::Structure,
            &plan.origin,
            0,
            "the load has no target",
        )),
    }
}

/// What a remote service is, as if a host had allocated it; it has no files.
pub(crate) fn remote_allocated(endpoint: Endpoint) -> Allocated {
    Allocated {
        endpoints: BTreeMap::from([(String::new(), endpoint)]),
        files_dir: std::path::PathBuf::new(),
    }
}

fn look_up(remote: &Remote) -> Option<Endpoint> {
    match remote {
        Remote::Unix(path) => Some(Endpoint::Unix(path.into())),
        Remote::Tcp { host, port } => match host.parse::<IpAddr>() {
            Ok(ip) => Some(Endpoint::Tcp(SocketAddr::new(ip, *port))),
            Err(_) => (host.as_str(), *port)
                .to_socket_addrs()
                .ok()?
                .next()
                .map(Endpoint::Tcp),
        },
    }
}

fn has_all(given: Option<&Allocated>, shape: &Shape) -> bool {
    given.is_some_and(|given| {
        shape
            .listen
            .keys()
            .all(|name| given.endpoints.contains_key(name))
    })
}

/// A context that knows the machine and nothing else.
pub(crate) fn of_machine(plan: &Plan) -> Context {
    let mut context = Context::new();
    let (keys, offered) = plan.machine.offer();
    context.set_level(MACHINE, Some(keys), offered);
    context
}

/// A context that knows the machine and the variant's levels and nothing else. A factor or service
/// that a plan calls `machine` takes that one's place.
fn levels(plan: &Plan, variant: &Variant) -> Context {
    let mut context = of_machine(plan);
    let varied = plan.factors.iter().filter_map(|factor| {
        let name = variant.levels.get(&factor.name)?;
        Some((factor, factor.level(name)?))
    });
    let constant = plan.constants.iter();
    let constant = constant.filter_map(|factor| Some((factor, factor.levels.first()?)));
    for (factor, level) in varied.chain(constant) {
        context.set_level(&factor.name, factor.keys.clone(), level.node.clone());
    }
    context
}

/// The names after a service's point: those that every service has, and its listeners.
fn offers(shape: &Shape) -> BTreeSet<String> {
    let listeners = shape.listen.keys().filter(|name| !name.is_empty());
    OFFERS
        .iter()
        .map(|offer| (*offer).to_owned())
        .chain(listeners.cloned())
        .collect()
}

/// A context of levels that knows all services, too, as the viewer sees them.
fn context(
    mut context: Context,
    layout: &Layout,
    allocated: &BTreeMap<String, Allocated>,
    viewer: Viewer<'_>,
    reader: &mut Reader<'_>,
) -> Context {
    for shape in &layout.shapes {
        if let Some(given) = allocated.get(&shape.name) {
            let offers = Known::Service(offers(shape));
            context.set_service(&shape.name, offers, offer(layout, shape, given, viewer));
        }
    }
    context.render_levels(reader);
    context
}

/// What a service gives to the viewer's templates.
fn offer(
    layout: &Layout,
    shape: &Shape,
    given: &Allocated,
    viewer: Viewer<'_>,
) -> minijinja::Value {
    let mut offer: BTreeMap<String, minijinja::Value> = BTreeMap::new();
    for (name, endpoint) in &given.endpoints {
        let remote = shape.remote.as_ref().map(|(_, remote)| remote);
        let parts = match layout.seen(shape, endpoint, viewer) {
            Ok(endpoint) => parts(&endpoint, remote),
            Err(reason) => ["host", "port", "path", "address"]
                .map(|part| (part.to_owned(), template::out_of_reach(&reason)))
                .into(),
        };
        if name.is_empty() {
            offer.extend(parts);
        } else {
            offer.insert(name.clone(), parts.into_iter().collect());
        }
    }
    let files: BTreeMap<String, String> = shape
        .file_names
        .iter()
        .map(|name| {
            (
                name.clone(),
                given.files_dir.join(name).to_string_lossy().into_owned(),
            )
        })
        .collect();
    offer.insert("files".to_owned(), files.into_iter().collect());
    let dir = given.files_dir.to_string_lossy().into_owned();
    offer.insert("dir".to_owned(), dir.into());
    offer.into_iter().collect()
}

/// `host`, `port` and `address`, or `path` and `address`; a remote server keeps its written name.
fn parts(endpoint: &Endpoint, remote: Option<&Remote>) -> BTreeMap<String, minijinja::Value> {
    let (host, address) = match (endpoint, remote) {
        (Endpoint::Unix(path), _) => {
            let path = path.to_string_lossy().into_owned();
            let address = format!("unix:{path}");
            return BTreeMap::from([
                ("path".to_owned(), path.into()),
                ("address".to_owned(), address.into()),
            ]);
        }
        (Endpoint::Tcp(address), Some(Remote::Tcp { host, .. })) => {
            let bracketed = if host.contains(':') {
                format!("[{host}]")
            } else {
                host.clone()
            };
            (host.clone(), format!("{bracketed}:{}", address.port()))
        }
        (Endpoint::Tcp(address), _) => (address.ip().to_string(), address.to_string()),
    };
    let port = match endpoint {
        Endpoint::Tcp(address) => address.port(),
        Endpoint::Unix(_) => 0,
    };
    BTreeMap::from([
        ("host".to_owned(), host.into()),
        ("port".to_owned(), port.into()),
        ("address".to_owned(), address.into()),
    ])
}
