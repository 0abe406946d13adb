//! Values available to templates: the machine, the levels of a variant, and its services.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::service_layout::{RemoteAddress, SERVICE_ATTRIBUTES, ServiceLayout};
use super::template::{KnownName, TemplateContext, unreachable_value};
use super::variant_layout::{VariantLayout, Viewer};
use crate::model::{Plan, PlanVariant};
use crate::service::{AllocatedService, Endpoint};
use crate::syntax::{PlanReader, TomlEntry, TomlNode, TomlValue};

const MACHINE: &str = "machine";

/// Creates a context that contains only the machine.
pub(crate) fn machine_context(plan: &Plan) -> TemplateContext {
    let mut context = TemplateContext::new(plan.machine.clone());
    let (keys, value) = machine_value(plan.machine.cores());
    context.set_level(MACHINE, Some(keys), value);
    context
}

/// Returns the value of `machine` in templates, with its keys. `machine.cores` is the list of cores.
fn machine_value(cores: &[usize]) -> (BTreeSet<String>, TomlNode) {
    let cores = cores.iter().filter_map(|&core| {
        let value = TomlValue::Integer(i64::try_from(core).ok()?);
        Some(TomlNode { line: 0, value })
    });
    let entry = TomlEntry {
        key: "cores".to_owned(),
        line: 0,
        node: TomlNode::array(0, cores.collect()),
    };
    let keys = BTreeSet::from(["cores".to_owned()]);
    (keys, TomlNode::table(0, vec![entry]))
}

/// Creates a context with the machine and the variant's levels. A factor or service named `machine`
/// hides the machine.
pub(super) fn level_context(plan: &Plan, variant: &PlanVariant) -> TemplateContext {
    let mut context = machine_context(plan);
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

/// Creates a context with the machine, the levels, and all services. The addresses of the services
/// are those at which the viewer (a service or the load) reaches them.
pub(super) fn service_context(
    plan: &Plan,
    variant: &PlanVariant,
    layout: &VariantLayout,
    allocated: &BTreeMap<String, AllocatedService>,
    viewer: Viewer<'_>,
    reader: &mut PlanReader<'_>,
) -> TemplateContext {
    let mut context = level_context(plan, variant);
    for service in &layout.services {
        if let Some(given) = allocated.get(&service.name) {
            let known = KnownName::Service(attributes(service));
            let value = service_value(layout, service, given, viewer);
            context.set_service(&service.name, known, value);
        }
    }
    context.render_levels(reader);
    context
}

/// Returns the endpoint of a remote service in the same form as allocated endpoints.
pub(crate) fn remote_allocated(endpoint: Endpoint) -> AllocatedService {
    AllocatedService {
        endpoints: BTreeMap::from([(String::new(), endpoint)]),
        files_dir: PathBuf::new(),
    }
}

/// Returns the attributes that every service has, and the names of its listeners.
fn attributes(service: &ServiceLayout) -> BTreeSet<String> {
    let listeners = service.listen.keys().filter(|name| !name.is_empty());
    SERVICE_ATTRIBUTES
        .iter()
        .map(|attribute| (*attribute).to_owned())
        .chain(listeners.cloned())
        .chain(service.build.iter().map(|_| "build".to_owned()))
        .collect()
}

/// Returns the value that represents a service in the templates of the viewer, which is another
/// service or the load.
fn service_value(
    layout: &VariantLayout,
    service: &ServiceLayout,
    given: &AllocatedService,
    viewer: Viewer<'_>,
) -> minijinja::Value {
    let mut value: BTreeMap<String, minijinja::Value> = BTreeMap::new();
    for (name, endpoint) in &given.endpoints {
        let remote = service.remote.as_ref().map(|(_, remote)| remote);
        let endpoint = match layout.reachable_endpoint(service, endpoint, viewer) {
            Ok(endpoint) => endpoint_value(&endpoint, remote),
            Err(reason) => ["host", "port", "path", "address"]
                .map(|attribute| (attribute.to_owned(), unreachable_value(&reason.to_string())))
                .into(),
        };
        if name.is_empty() {
            value.extend(endpoint);
        } else {
            value.insert(name.clone(), endpoint.into_iter().collect());
        }
    }
    let files = service.file_names.iter().map(|name| {
        let path = given.files_dir.join(name);
        (name.clone(), path.to_string_lossy().into_owned())
    });
    value.insert("files".to_owned(), files.collect());
    let dir = given.files_dir.to_string_lossy().into_owned();
    value.insert("dir".to_owned(), dir.into());
    if let Some(build) = &service.build {
        let dir = build.dir.to_string_lossy().into_owned();
        let attributes = [("dir", dir), ("commit", build.commit.clone())];
        value.insert("build".to_owned(), attributes.into_iter().collect());
    }
    value.into_iter().collect()
}

/// Returns `host`, `port` and `address` of a TCP or UDP endpoint, or `path` and `address` of a UNIX
/// socket. For a remote server, `host` is the host name in the plan.
fn endpoint_value(
    endpoint: &Endpoint,
    remote: Option<&RemoteAddress>,
) -> BTreeMap<String, minijinja::Value> {
    let address = match endpoint {
        Endpoint::Unix(path) => {
            let path = path.to_string_lossy().into_owned();
            let address = format!("unix:{path}");
            return BTreeMap::from([
                ("path".to_owned(), path.into()),
                ("address".to_owned(), address.into()),
            ]);
        }
        Endpoint::Tcp(address) | Endpoint::Udp(address) => address,
    };
    let port = address.port();
    let (host, address) = match remote {
        Some(RemoteAddress::Tcp { host, .. }) if host.contains(':') => {
            (host.clone(), format!("[{host}]:{port}"))
        }
        Some(RemoteAddress::Tcp { host, .. }) => (host.clone(), format!("{host}:{port}")),
        _ => (address.ip().to_string(), address.to_string()),
    };
    BTreeMap::from([
        ("host".to_owned(), host.into()),
        ("port".to_owned(), port.into()),
        ("address".to_owned(), address.into()),
    ])
}
