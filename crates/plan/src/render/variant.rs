//! Renders one variant into services and a load that can be started.

use core::net::{IpAddr, SocketAddr};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::context::{MachineNeed, RenderContext};
use super::load::{self, LoadContext, ResolvedLoad};
use super::service_layout::{RemoteAddress, ServiceLayout, read_service_layouts};
use super::services::{ResolvedService, read_service};
use super::telemetry::{TelemetrySettings, read_telemetry};
use super::template::{KnownName, TemplateContext};
use super::template_values::{level_context, remote_allocated, service_context};
use super::variant_layout::{VariantLayout, Viewer, read_layout};
use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError};
use crate::machine::PlanMachine;
use crate::model::{Plan, PlanVariant};
use crate::service::{AllocatedService, Allocation, Endpoint};
use crate::syntax::PlanReader;
use crate::topology::Topology;

/// A variant that was rendered with the endpoints that the host allocated.
#[derive(Debug, Clone)]
pub struct ResolvedVariant {
    /// Places that the plan defines, and the links between them.
    pub topology: Topology,
    /// Services in start order.
    pub services: Vec<ResolvedService>,
    /// Load of the variant.
    pub load: ResolvedLoad,
    /// Telemetry settings.
    pub telemetry: TelemetrySettings,
}

/// A rendered variant. `load` is `None` if the load's settings are invalid.
pub(crate) struct RenderedVariant {
    pub(crate) topology: Topology,
    pub(crate) services: Vec<ResolvedService>,
    pub(crate) load: Option<ResolvedLoad>,
    pub(crate) telemetry: TelemetrySettings,
    /// Files that the variant uses, as written in the plan.
    pub(crate) references: BTreeSet<String>,
    /// Requirements that this machine must meet.
    pub(crate) needs: Vec<MachineNeed>,
}

impl Plan {
    /// Lists the resources that the host must allocate before the services of a variant can be
    /// rendered. Services are in start order; remote services are not included.
    ///
    /// # Errors
    /// A template renders differently from when the plan was read.
    ///
    /// # Panics
    /// `variant` is out of range.
    pub fn allocations(&self, variant: usize) -> Result<Vec<Allocation>, PlanError> {
        let layout = checked_layout(self, &self.variants[variant])?;
        let services = layout.services.iter();
        let own = services.filter(|service| service.remote.is_none());
        Ok(own.map(ServiceLayout::allocation).collect())
    }

    /// Returns the places that the plan defines for a variant, and the links between them. The host
    /// creates them together with the [allocations](Plan::allocations).
    ///
    /// # Errors
    /// The same errors as [`Plan::allocations`].
    ///
    /// # Panics
    /// `variant` is out of range.
    pub fn topology(&self, variant: usize) -> Result<Topology, PlanError> {
        Ok(checked_layout(self, &self.variants[variant])?.topology)
    }

    /// Renders a variant with the endpoints that the host allocated.
    ///
    /// # Errors
    /// The name of a remote server can't be resolved, a file has changed since the plan was read,
    /// or a service has no allocation.
    ///
    /// # Panics
    /// `variant` is out of range.
    pub fn resolve(
        &self,
        variant: usize,
        allocated: &BTreeMap<String, AllocatedService>,
    ) -> Result<ResolvedVariant, PlanError> {
        let variant = &self.variants[variant];
        let layout = checked_layout(self, variant)?;
        let mut all = allocated.clone();
        for service in &layout.services {
            let error = |message: String| {
                PlanError::new(DiagnosticKind::Machine, &self.origin, service.line, message)
            };
            let name = &service.name;
            if let Some((written, remote)) = &service.remote {
                let endpoint = resolve_remote(remote, &*self.machine).ok_or_else(|| {
                    error(format!("service \"{name}\": {written} can't be resolved"))
                })?;
                all.insert(name.clone(), remote_allocated(endpoint));
            } else if !has_all_endpoints(all.get(name), service) {
                return Err(error(format!("service \"{name}\" has no address yet")));
            }
        }
        let mut diagnostics = Diagnostics::default();
        let rendered = render(self, variant, &layout, &all, &mut diagnostics);
        diagnostics
            .into_result()
            .map_err(|errors| errors.first().clone())?;
        let load = rendered
            .load
            .ok_or_else(|| PlanError::unexplained(&self.origin, "the load has no target"))?;
        Ok(ResolvedVariant {
            topology: rendered.topology,
            services: rendered.services,
            load,
            telemetry: rendered.telemetry,
        })
    }
}

/// Reads the properties of a variant that depend only on factors. Returns `None` if there is a
/// problem.
pub(crate) fn layout(
    plan: &Plan,
    variant: &PlanVariant,
    diagnostics: &mut Diagnostics,
) -> Option<VariantLayout> {
    let mut context = level_context(plan, variant);
    for service in &plan.services {
        context.set_service(
            &service.name,
            KnownName::NotYet,
            minijinja::Value::UNDEFINED,
        );
    }
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    let places = plan.places.iter().map(|place| place.name.as_str());
    let places: Vec<&str> = places.collect();
    let before = reader.diagnostics.count();
    let services = read_service_layouts(
        &plan.services,
        (&places, &plan.hosts),
        (&*plan.machine, &plan.folder),
        &context,
        &mut reader,
    )?;
    let sections = (plan.places.as_slice(), plan.links.as_slice());
    let layout = read_layout(sections, &plan.load, services, &context, &mut reader);
    (reader.diagnostics.count() == before).then_some(layout)
}

/// Returns the layout of a variant that was checked when the plan was read.
///
/// # Errors
/// A template now renders differently from when the plan was read.
pub(crate) fn checked_layout(
    plan: &Plan,
    variant: &PlanVariant,
) -> Result<VariantLayout, PlanError> {
    let mut diagnostics = Diagnostics::default();
    let layout = layout(plan, variant, &mut diagnostics);
    diagnostics
        .into_result()
        .map_err(|errors| errors.first().clone())?;
    layout.ok_or_else(|| PlanError::unexplained(&plan.origin, "the variant has no layout"))
}

/// Renders a variant. `allocated` contains the endpoints of all services, including remote ones.
pub(crate) fn render(
    plan: &Plan,
    variant: &PlanVariant,
    layout: &VariantLayout,
    allocated: &BTreeMap<String, AllocatedService>,
    diagnostics: &mut Diagnostics,
) -> RenderedVariant {
    let mut reader = PlanReader {
        file: &plan.origin,
        diagnostics,
    };
    let context_for = |viewer: Viewer<'_>, reader: &mut PlanReader<'_>| {
        service_context(plan, variant, layout, allocated, viewer, reader)
    };
    let templates = context_for(layout.load_viewer(), &mut reader);
    let (references, needs) = (RefCell::default(), RefCell::default());
    let mut around = RenderContext {
        folder: &plan.folder,
        templates: &templates,
        layout,
        machine: &*plan.machine,
        certificates: &plan.certificates,
        tls_target: None,
        references: &references,
        needs: &needs,
    };
    let load_context = LoadContext {
        allocated,
        trials: &plan.trials,
        trial_keys: &plan.trial_keys,
    };
    // Read the load first: the readiness probe of the load's target uses TLS if the load does.
    // A missing [load] was reported when the plan was read.
    let has_load = plan.load.line > 0;
    let load = has_load.then(|| load::read_load(&plan.load, &load_context, &around, &mut reader));
    let load = load.flatten();
    around.tls_target = load
        .as_ref()
        .filter(|load| load.scheme.uses_tls())
        .map(|load| (load.service.clone(), load.listener.clone()));
    // With links or several hosts, each service may reach the others at different addresses.
    let views_differ = !layout.topology.is_empty() || layout.uses_other_hosts();
    let mut services = Vec::with_capacity(layout.services.len());
    for service in &layout.services {
        let viewer = Viewer {
            service: Some(&service.name),
            host: service.host.as_deref(),
            place: service.place,
        };
        let own: Option<TemplateContext> = views_differ.then(|| context_for(viewer, &mut reader));
        let around = RenderContext {
            templates: own.as_ref().unwrap_or(&templates),
            ..around.clone()
        };
        let table = &plan.services[service.index].table;
        services.push(read_service(table, service, &around, &mut reader));
    }
    let telemetry = read_telemetry(plan.telemetry.as_ref(), &templates, &mut reader);
    RenderedVariant {
        topology: layout.topology.clone(),
        services,
        load,
        telemetry,
        references: references.into_inner(),
        needs: needs.into_inner(),
    }
}

fn resolve_remote(remote: &RemoteAddress, machine: &dyn PlanMachine) -> Option<Endpoint> {
    match remote {
        RemoteAddress::Unix(path) => Some(Endpoint::Unix(path.into())),
        RemoteAddress::Tcp { host, port } => match host.parse::<IpAddr>() {
            Ok(ip) => Some(Endpoint::Tcp(SocketAddr::new(ip, *port))),
            Err(_) => machine.first_address(host, *port).map(Endpoint::Tcp),
        },
    }
}

fn has_all_endpoints(given: Option<&AllocatedService>, service: &ServiceLayout) -> bool {
    let mut names = service.listen.keys();
    given.is_some_and(|given| names.all(|name| given.endpoints.contains_key(name)))
}
