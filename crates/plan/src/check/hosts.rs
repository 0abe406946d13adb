//! Checks that other machines meet the requirements of a plan.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::placeholders::placeholder_endpoints;
use crate::diagnostic::{DiagnosticKind, Diagnostics, PlanError, PlanErrors};
use crate::model::Plan;
use crate::render::{ServiceLayout, checked_layout, layout, render};
use crate::service::{LimitKey, ServiceSpec};
use crate::ssh_host::SshHost;
use crate::syntax::TomlTable;

/// Something that a plan requires of another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostRequirement<'a> {
    /// The machine must run a service.
    Service {
        /// Name or label of an agent.
        host: &'a str,
        /// The service, with placeholders for addresses that are not allocated yet.
        spec: &'a ServiceSpec,
    },
    /// The machines must generate the load.
    Load {
        /// The agents: a number, names or labels.
        agents: &'a str,
        /// Total number of connections for all agents, if known.
        connections: Option<u64>,
    },
}

/// Part of a service or load that a [`HostObjection`] concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceAspect {
    /// The machine itself: `host` of a service, or `agents` of the load.
    Host,
    /// The program that `command` names.
    Command,
    /// The program that `wrapper` names.
    Wrapper,
    /// The variables in `env`.
    Env,
    /// The numbers in `cores`.
    Cores,
    /// The kind of place that `place` names.
    Place,
    /// A limit of the service's control group.
    Limit(LimitKey),
}

/// Reason why a machine doesn't meet a requirement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostObjection {
    /// Part of the service or load that the objection concerns.
    #[serde(rename = "about")]
    pub aspect: ServiceAspect,
    /// Kind of problem.
    #[serde(rename = "fault")]
    pub kind: DiagnosticKind,
    /// The problem, as a clause without a period.
    #[serde(rename = "what")]
    pub message: String,
    /// Hint for fixing the problem, if one is known.
    #[serde(rename = "mend")]
    pub hint: Option<String>,
}

impl Plan {
    /// Returns true if any variant needs an agent on another machine.
    #[must_use]
    pub fn needs_agents(&self) -> bool {
        // Problems of a layout are reported when its variant is rendered.
        let layouts = self.variants.iter().map(|of| checked_layout(self, of));
        layouts.flatten().any(|layout| {
            let by_agent = |service: &ServiceLayout| service.host.is_some() && !service.over_ssh;
            layout.load_agents.is_some() || layout.services.iter().any(by_agent)
        })
    }

    /// Returns the machines on which any variant runs services over ssh.
    #[must_use]
    pub fn ssh_hosts(&self) -> Vec<&SshHost> {
        let layouts = self.variants.iter().map(|of| checked_layout(self, of));
        let services = layouts.flatten().flat_map(|layout| layout.services);
        let used: BTreeSet<String> = services.filter_map(|service| service.host).collect();
        let hosts = self.hosts.iter();
        hosts.filter(|host| used.contains(&host.name)).collect()
    }

    /// Creates the error for a machine of `[host.NAME]` that can't be used.
    #[must_use]
    pub fn host_error(&self, host: &SshHost, message: String) -> PlanError {
        PlanError::new(DiagnosticKind::Machine, &self.origin, host.line, message)
    }

    /// Asks agents on other machines if they meet the plan's requirements.
    ///
    /// # Errors
    /// All objections, each with file and line.
    pub fn check_hosts(
        &self,
        ask: &mut dyn FnMut(&HostRequirement<'_>) -> Vec<HostObjection>,
    ) -> Result<(), PlanErrors> {
        self.check_machines(false, ask)
    }

    /// Asks the machines of `[host.NAME]` if they can run the plan's services.
    ///
    /// # Errors
    /// All objections, each with file and line.
    pub fn check_ssh_hosts(
        &self,
        ask: &mut dyn FnMut(&str, &ServiceSpec) -> Vec<HostObjection>,
    ) -> Result<(), PlanErrors> {
        self.check_machines(true, &mut |requirement| match requirement {
            HostRequirement::Service { host, spec } => ask(host, spec),
            HostRequirement::Load { .. } => Vec::new(),
        })
    }

    fn check_machines(
        &self,
        over_ssh: bool,
        ask: &mut dyn FnMut(&HostRequirement<'_>) -> Vec<HostObjection>,
    ) -> Result<(), PlanErrors> {
        let mut diagnostics = Diagnostics::default();
        for variant in &self.variants {
            let mut found = Diagnostics::default();
            if let Some(layout) = layout(self, variant, &mut found) {
                let endpoints = placeholder_endpoints(&layout.services);
                let rendered = render(self, variant, &layout, &endpoints, &mut found);
                for (service, resolved) in layout.services.iter().zip(&rendered.services) {
                    let Some(host) = service
                        .host
                        .as_ref()
                        .filter(|_| service.over_ssh == over_ssh)
                    else {
                        continue;
                    };
                    let spec = &resolved.spec;
                    let table = &self.services[service.index].table;
                    for objection in ask(&HostRequirement::Service { host, spec }) {
                        found.push(objection.into_error(self, table, "host"));
                    }
                }
                if let Some(agents) = &layout.load_agents {
                    let load = rendered.load.as_ref();
                    let connections = load.map(|load| load.settings.connections());
                    let requirement = HostRequirement::Load {
                        agents,
                        connections,
                    };
                    for objection in ask(&requirement) {
                        found.push(objection.into_error(self, &self.load, "agents"));
                    }
                }
            }
            diagnostics.add_variant(&variant.id, found);
        }
        diagnostics.clear_common_variants(self.variants.len());
        diagnostics.into_result()
    }
}

impl HostObjection {
    /// Converts the objection to an error at the line of the key that it concerns. `host_key` is
    /// the key that names the machine.
    fn into_error(self, plan: &Plan, table: &TomlTable, host_key: &str) -> PlanError {
        let line = table.line_of(match self.aspect {
            ServiceAspect::Host => host_key,
            ServiceAspect::Command => "command",
            ServiceAspect::Wrapper => "wrapper",
            ServiceAspect::Env => "env",
            ServiceAspect::Cores => "cores",
            ServiceAspect::Place => "place",
            ServiceAspect::Limit(key) => key.name(),
        });
        let error = PlanError::new(self.kind, &plan.origin, line, self.message);
        match self.hint {
            Some(hint) => error.with_hint(hint),
            None => error,
        }
    }
}
