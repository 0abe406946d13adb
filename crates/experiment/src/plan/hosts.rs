//! `host` of a service and `agents` of the load: which machine does what, and what it must have.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Plan;
use super::error::{Fault, Mistakes, PlanError, PlanErrors};
use super::node::{Node, Table};
use super::reader::Reader;
use super::shape::Shape;
use super::survey::made_up;
use super::template::Context;
use super::variant;
use crate::service::{PlaceKind, ServiceSpec};

/// What a plan calls the machine that runs it.
pub(crate) const HERE: &str = "local";

/// The longest name of a machine, or label.
const LONGEST: usize = 200;

/// Something that a plan wants of another machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted<'a> {
    /// To run a service.
    Service {
        /// The machine: an agent's name, or a label of it.
        host: &'a str,
        /// The service, with addresses that stand for those that will be picked.
        spec: &'a ServiceSpec,
    },
    /// To make the load.
    Load {
        /// How many agents, or which: a name, or a label.
        agents: &'a str,
        /// Connections that they divide among them, where that is known.
        connections: Option<u64>,
    },
}

/// The part of a plan that an [`Objection`] is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum About {
    /// Which machine.
    Host,
    /// The program that is to be started.
    Command,
    /// What is put before the program.
    Wrapper,
    /// The environment variables.
    Env,
    /// The cores.
    Cores,
    /// The place.
    Place,
}

/// Why a machine can't do what a plan wants of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objection {
    /// What it is about.
    pub about: About,
    /// What kind of mistake it is.
    pub fault: Fault,
    /// What is wrong, as a clause without a full stop.
    pub what: String,
    /// What would mend it, where that is known.
    pub mend: Option<String>,
}

impl Plan {
    /// Whether any variant needs another machine's agent.
    #[must_use]
    pub fn needs_agents(&self) -> bool {
        self.variants.iter().any(|of| {
            // A layout that fails is told of when the variant runs.
            variant::layout_again(self, of).is_ok_and(|layout| {
                let hosts = layout.shapes.iter().any(|shape| shape.host.is_some());
                hosts || layout.load_agents.is_some()
            })
        })
    }

    /// Asks about everything that the plan wants of other machines.
    ///
    /// # Errors
    /// All objections, each with file and line.
    pub fn check_hosts(
        &self,
        ask: &mut dyn FnMut(&Wanted<'_>) -> Vec<Objection>,
    ) -> Result<(), PlanErrors> {
        let mut mistakes = Mistakes::default();
        for of in &self.variants {
            let mut found = Mistakes::default();
            if let Some(layout) = variant::layout(self, of, &mut found) {
                let endpoints = made_up(&layout.shapes);
                let rendered = variant::render(self, of, &layout, &endpoints, false, &mut found);
                for (shape, service) in layout.shapes.iter().zip(&rendered.services) {
                    let Some(host) = &shape.host else { continue };
                    let spec = &service.spec;
                    let table = &self.services[shape.index].table;
                    for objection in ask(&Wanted::Service { host, spec }) {
                        found.push(objection.placed(self, table, "host"));
                    }
                }
                if let Some(agents) = &layout.load_agents {
                    let load = rendered.load.as_ref();
                    let connections = load.map(|load| load.flags.connections);
                    let wanted = Wanted::Load {
                        agents,
                        connections,
                    };
                    for objection in ask(&wanted) {
                        found.push(objection.placed(self, &self.load, "agents"));
                    }
                }
            }
            mistakes.add_variant(&of.id, found);
        }
        mistakes.forget_common(self.variants.len());
        mistakes.into_result()
    }
}

impl Objection {
    fn placed(self, plan: &Plan, table: &Table, host: &str) -> PlanError {
        let line = table.line_of(match self.about {
            About::Host => host,
            About::Command => "command",
            About::Wrapper => "wrapper",
            About::Env => "env",
            About::Cores => "cores",
            About::Place => "place",
        });
        let error = PlanError::new(self.fault, &plan.origin, line, self.what);
        match self.mend {
            Some(mend) => error.mend(mend),
            None => error,
        }
    }
}

/// A machine: an agent's name, or `label=value`; none for the one that runs the plan.
pub(crate) fn read_host(node: &Node, what: &str, reader: &mut Reader<'_>) -> Option<String> {
    let text = reader.text(node, what)?;
    if text.is_empty() || text == HERE {
        return None;
    }
    if !is_host(&text) {
        let what = format!("{what} is \"{text}\", neither an agent's name nor a label");
        let mend = format!("such as \"web-1\", \"role=server\", or \"{HERE}\" for this machine");
        reader.refuse_with(Fault::BadValue, node.line, what, mend);
        return None;
    }
    Some(text)
}

fn is_host(text: &str) -> bool {
    let is_name = |text: &str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
        !text.is_empty() && text.chars().all(is_good)
    };
    let is_label = |(key, value): (&str, &str)| {
        !key.is_empty() && !value.is_empty() && !text.contains(char::is_whitespace)
    };
    text.len() <= LONGEST && (is_name(text) || text.split_once('=').is_some_and(is_label))
}

/// `agents` of the load: how many, or which.
pub(crate) fn read_agents(
    load: &Table,
    context: &Context,
    reader: &mut Reader<'_>,
) -> Option<String> {
    let node = context.node(load.get("agents")?, reader)?;
    let text = reader.scalar(&node, "agents of [load]")?;
    if text.is_empty() || text == HERE {
        return None;
    }
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_fine = match is_number {
        true => text.parse().is_ok_and(|n: u32| (1..=10_000).contains(&n)),
        false => text.split(',').all(|part| is_host(part.trim())),
    };
    if !is_fine {
        let what = format!("agents of [load] is \"{text}\", neither a number nor agents");
        let mend = "such as 4, \"client-1,client-2\" or \"role=client\"";
        reader.refuse_with(Fault::BadValue, node.line, what, mend);
        return None;
    }
    if load.get("place").is_some() {
        let what = "[load] has agents and a place";
        let mend = "places are of this machine; take one out";
        reader.refuse_with(Fault::Structure, load.line_of("place"), what, mend);
    }
    Some(text)
}

/// Marks the services that somebody on another machine has to reach: the load, if they are its
/// target, and those that need them.
pub(crate) fn expose(shapes: &mut [Shape], target: Option<&str>, load: Option<&str>) {
    let target = target.map(|target| target.split_once('.').map_or(target, |(name, _)| name));
    let mut needed: BTreeMap<String, Vec<Option<String>>> = BTreeMap::new();
    for shape in shapes.iter() {
        for need in &shape.needs {
            let by = needed.entry(need.clone()).or_default();
            by.push(shape.host.clone());
        }
    }
    for shape in shapes.iter_mut() {
        // The bodies are compared from this machine, whoever loads.
        let is_at_hand = shape.host.is_none() && load.is_none();
        let by_load = target == Some(&shape.name) && !is_at_hand;
        let by = needed.remove(&shape.name).unwrap_or_default();
        shape.exposed = by_load || by.iter().any(|host| *host != shape.host);
    }
}

/// Why somebody on one machine can't reach a service on another; `Ok` where it can.
pub(crate) fn reaches(
    shape: &Shape,
    is_unix: bool,
    viewer: (&str, Option<&str>),
) -> Result<(), String> {
    let (who, from) = viewer;
    if shape.remote.is_some() || shape.host.as_deref() == from {
        return Ok(());
    }
    let name = &shape.name;
    let host = match &shape.host {
        Some(host) => format!("host \"{host}\""),
        None => "this machine".to_owned(),
    };
    let apart = matches!(shape.place, PlaceKind::Namespace | PlaceKind::Jail);
    if is_unix {
        return Err(format!(
            "service \"{name}\" listens on a UNIX socket of {host}, where {who} is not"
        ));
    }
    if apart {
        return Err(format!(
            "service \"{name}\" is in a {} of {host}, which only that machine reaches",
            shape.place
        ));
    }
    if !shape.exposed {
        return Err(format!(
            "service \"{name}\" is on {host}, where {who} is not, and listens there for others \
             only if they need it (needs = [\"{name}\"])"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_a_name_or_a_label() {
        for good in ["web-1", "WEB_2", "role=server", "os=free/bsd-14.1"] {
            assert!(is_host(good), "{good}");
        }
        for bad in ["a.b", "=x", "x=", "a b", "a=b c", "*", "ä"] {
            assert!(!is_host(bad), "{bad}");
        }
    }
}
