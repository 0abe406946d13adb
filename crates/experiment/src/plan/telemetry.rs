//! `[telemetry]`: how the machines are watched. Its texts may be templates, so that each variant's
//! server can be read on a machine of its own.

use std::collections::BTreeMap;

use super::error::Fault;
use super::node::Table;
use super::reader::Reader;
use super::template::Context;
use super::{Resolved, ResolvedService};
use crate::service::Follow;
use crate::telemetry::{Counters, Elsewhere, RemoteMachine, Watch};

/// The keys of `[telemetry]`.
pub(crate) const KEYS: &[&str] = &["counters", "remote", "ssh"];

/// How the machines are watched.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Telemetry {
    /// How the processor's counters are read.
    pub counters: Counters,
    /// The machine of the plan's remote services, as ssh calls it.
    pub remote: Option<String>,
    /// Arguments for ssh.
    pub ssh: Vec<String>,
}

/// Reads the table of one variant. An empty `remote` reads no machine.
pub(crate) fn read(table: Option<&Table>, context: &Context, reader: &mut Reader<'_>) -> Telemetry {
    let mut telemetry = Telemetry::default();
    let Some(table) = table else {
        return telemetry;
    };
    reader.known_keys(table, "[telemetry]", KEYS);
    let table = &context.table(table, reader);
    if let Some(node) = table.get("counters") {
        let typed = reader.choice(node, "counters", &["cores", "processes", "off"]);
        telemetry.counters = match typed {
            Some("processes") => Counters::Processes,
            Some("off") => Counters::Off,
            _ => Counters::Cores,
        };
    }
    if let Some(node) = table.get("remote")
        && let Some(text) = reader.text(node, "remote")
    {
        if text.starts_with('-') || text.contains(char::is_whitespace) {
            let what = format!("remote of [telemetry] is \"{text}\", nothing that ssh can reach");
            let mend = "such as \"user@host\", or \"ssh://user@host:2222\"";
            reader.refuse_with(Fault::BadValue, node.line, what, mend);
        } else {
            telemetry.remote = (!text.is_empty()).then_some(text);
        }
    }
    if let Some(node) = table.get("ssh") {
        telemetry.ssh = reader.texts(node, "ssh").unwrap_or_default();
        if table.get("remote").is_none() {
            let what = "[telemetry] has arguments for ssh, but names no remote machine";
            reader.refuse_with(
                Fault::Structure,
                node.line,
                what,
                "add remote = \"user@host\"",
            );
        }
    }
    telemetry
}

impl Telemetry {
    /// What a variant's trial asks its host to watch. Services that run elsewhere are read over ssh
    /// where the plan names their machine; else they count as this machine's, if their cgroup or
    /// pid file is named.
    #[must_use]
    pub fn watch(&self, resolved: &Resolved) -> Watch {
        let others = resolved
            .services
            .iter()
            .filter_map(|service| Some((service, service.remote.as_deref()?)));
        let mut watch = Watch {
            counters: self.counters,
            load_cores: load_cores(resolved),
            load_is_elsewhere: resolved.load.agents.is_some(),
            ..Watch::default()
        };
        match &self.remote {
            None => {
                let follow = |(service, _): (&ResolvedService, &str)| {
                    (service.spec.name.clone(), service.spec.follow.clone())
                };
                let mut others: BTreeMap<String, Follow> = others.map(follow).collect();
                others.retain(|_, follow| !follow.is_empty());
                watch.others = others;
            }
            Some(destination) => {
                let elsewhere = |(service, address): (&ResolvedService, &str)| {
                    let port = address
                        .rsplit_once(':')
                        .and_then(|(_, port)| port.parse().ok());
                    let follow = service.spec.follow.clone();
                    (service.spec.name.clone(), Elsewhere { port, follow })
                };
                watch.remote = Some(RemoteMachine {
                    destination: destination.clone(),
                    ssh: self.ssh.clone(),
                    services: others.map(elsewhere).collect(),
                });
            }
        }
        watch
    }
}

fn load_cores(resolved: &Resolved) -> Vec<usize> {
    let cores = resolved.load.flags.cores.as_ref();
    cores.map(|cores| cores.0.clone()).unwrap_or_default()
}
