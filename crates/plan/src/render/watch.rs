//! Processes and counters that the telemetry of a variant measures.

use std::collections::BTreeMap;

use super::services::ResolvedService;
use super::telemetry::TelemetrySettings;
use super::variant::ResolvedVariant;
use crate::service::FollowSpec;
use crate::watch_spec::{RemoteMachine, RemoteService, WatchSpec};

impl TelemetrySettings {
    /// Returns the processes and counters that the host measures during a trial of the variant.
    ///
    /// If the plan names the machine of remote services, the host measures these services over ssh.
    /// Otherwise, it measures the remote services with a control group or pid file, on this
    /// machine.
    #[must_use]
    pub fn watch(&self, resolved: &ResolvedVariant) -> WatchSpec {
        let others = resolved
            .services
            .iter()
            .filter_map(|service| Some((service, service.remote.as_deref()?)));
        let mut watch = WatchSpec {
            counters: self.counters,
            profile_rate_hz: self.profile_rate_hz,
            load_cores: load_cores(resolved),
            load_is_elsewhere: resolved.load.agents.is_some(),
            ..WatchSpec::default()
        };
        match &self.remote {
            None => {
                let listener = |(service, address): (&ResolvedService, &str)| {
                    let address = address.replace("localhost:", "127.0.0.1:");
                    let is_local = address.starts_with("127.") || address.starts_with("[::1]:");
                    is_local.then(|| (service.spec.name.clone(), address))
                };
                watch.listeners = others.clone().filter_map(listener).collect();
                let follow = |(service, _): (&ResolvedService, &str)| {
                    (service.spec.name.clone(), service.spec.follow.clone())
                };
                let mut others: BTreeMap<String, FollowSpec> = others.map(follow).collect();
                others.retain(|_, follow| !follow.is_empty());
                watch.others = others;
            }
            Some(destination) => {
                let elsewhere = |(service, address): (&ResolvedService, &str)| {
                    let port = address
                        .rsplit_once(':')
                        .and_then(|(_, port)| port.parse().ok());
                    let follow = service.spec.follow.clone();
                    (service.spec.name.clone(), RemoteService { port, follow })
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

fn load_cores(resolved: &ResolvedVariant) -> Vec<usize> {
    let cores = resolved.load.settings.cores.as_ref();
    cores.map(|cores| cores.0.clone()).unwrap_or_default()
}
