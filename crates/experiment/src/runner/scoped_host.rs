//! View of a host that is limited to the services of one variant.
//!
//! In an interleaved block, the services of all variants run at the same time, so their names on
//! the host contain the variant: `web@2`. A [`ScopedHost`] translates the names and shows a trial
//! only its own services.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use prony_machine::environment::Environment;
use prony_machine::host::{
    Host, HostError, ProbeFailure, ReadinessProbe, ServiceExit, ServiceStop,
};
use prony_machine::place::NetnsHandle;
use prony_machine::sampling::{SamplingProfile, SamplingRefused};
use prony_machine::telemetry::TelemetrySample;
use prony_plan::service::{AllocatedService, Allocation, PlaceKind, ServiceSpec};
use prony_plan::topology::Topology;
use prony_plan::watch_spec::WatchSpec;
use prony_record::Finding;
use prony_record::finding::Subject;

use super::scoped_name::ScopedName;
use super::sliced_telemetry::sample_of_variant;

/// State shared by the variants of a block, whose services run on the same host.
#[derive(Debug, Default)]
pub(super) struct SharedHost {
    /// Allocations of all variants, by service name on the host.
    allocated: BTreeMap<String, AllocatedService>,
    watch: WatchSpec,
    /// Log folders, by service name on the host.
    logs: BTreeMap<String, PathBuf>,
    /// Findings that haven't been returned to a variant yet.
    findings: Vec<Finding>,
}

impl SharedHost {
    /// Allocates the services of all variants together, because they may have to reach each other.
    ///
    /// # Errors
    /// The same errors as [`Host::allocate`].
    pub(super) fn allocate(
        host: &mut dyn Host,
        wanted: &[(usize, Vec<Allocation>)],
    ) -> Result<SharedHost, HostError> {
        let scoped = wanted.iter().flat_map(|(variant, wanted)| {
            wanted.iter().map(|wanted| Allocation {
                service: ScopedName::new(&wanted.service, *variant).0,
                ..wanted.clone()
            })
        });
        let scoped: Vec<Allocation> = scoped.collect();
        Ok(SharedHost {
            allocated: host.allocate(&scoped, &Topology::default())?,
            ..SharedHost::default()
        })
    }

    /// Adds the telemetry sources of a variant, and returns the sources of all variants so far.
    fn watch(&mut self, variant: usize, watch: WatchSpec) -> WatchSpec {
        let others = watch.others.into_iter();
        let others = others.map(|(name, follow)| (ScopedName::new(&name, variant).0, follow));
        self.watch.others.extend(others);
        self.watch.counters = watch.counters;
        self.watch.profile_rate_hz = watch.profile_rate_hz;
        let listeners = watch.listeners.into_iter();
        let listeners = listeners.map(|(name, it)| (ScopedName::new(&name, variant).0, it));
        self.watch.listeners.extend(listeners);
        self.watch.load_is_elsewhere = watch.load_is_elsewhere;
        for core in watch.load_cores {
            if !self.watch.load_cores.contains(&core) {
                self.watch.load_cores.push(core);
            }
        }
        self.watch.clone()
    }
}

/// View of a host that contains only the services of one variant.
pub(super) struct ScopedHost<'a> {
    host: &'a mut dyn Host,
    shared: &'a mut SharedHost,
    variant: usize,
}

impl<'a> ScopedHost<'a> {
    pub(super) fn new(
        host: &'a mut dyn Host,
        shared: &'a mut SharedHost,
        variant: usize,
    ) -> ScopedHost<'a> {
        ScopedHost {
            host,
            shared,
            variant,
        }
    }

    fn name(&self, service: &str) -> String {
        ScopedName::new(service, self.variant).0
    }

    fn spec(&self, spec: &ServiceSpec) -> ServiceSpec {
        ServiceSpec {
            name: self.name(&spec.name),
            ..spec.clone()
        }
    }
}

/// Returns the finding with its service's name as in the plan; `None` if the finding is about another
/// variant's service.
fn own_finding(finding: &Finding, variant: usize) -> Option<Finding> {
    let name = match &finding.subject {
        Subject::Service(name) => ScopedName::parse(name),
        _ => None,
    };
    let Some((service, of)) = name else {
        return Some(finding.clone());
    };
    (of == variant).then(|| finding.with_subject(Subject::Service(service.to_owned())))
}

impl Host for ScopedHost<'_> {
    /// Returns the allocations that [`SharedHost::allocate`] made for this variant.
    fn allocate(
        &mut self,
        wanted: &[Allocation],
        _: &Topology,
    ) -> Result<BTreeMap<String, AllocatedService>, HostError> {
        let of_service = |wanted: &Allocation| {
            let allocated = self.shared.allocated.get(&self.name(&wanted.service));
            let allocated = allocated.cloned();
            let allocated =
                allocated.ok_or_else(|| HostError::NotAllocated(wanted.service.clone()))?;
            Ok((wanted.service.clone(), allocated))
        };
        wanted.iter().map(of_service).collect()
    }

    fn netns_handle(&self, place: PlaceKind) -> Result<Option<NetnsHandle>, HostError> {
        self.host.netns_handle(place)
    }

    fn start(&mut self, spec: &ServiceSpec, log_dir: &Path) -> Result<(), HostError> {
        let spec = self.spec(spec);
        let started = self.host.start(&spec, log_dir);
        self.shared.logs.insert(spec.name, log_dir.to_owned());
        started
    }

    fn alive(&mut self, service: &str) -> Result<(), ServiceExit> {
        let own = |exit: ServiceExit| ServiceExit {
            service: service.to_owned(),
            ..exit
        };
        self.host.alive(&self.name(service)).map_err(own)
    }

    fn probe_readiness(
        &mut self,
        service: &str,
        probe: &ReadinessProbe,
    ) -> Result<Option<u16>, ProbeFailure> {
        self.host.probe_readiness(&self.name(service), probe)
    }

    fn log_tail(&self, service: &str, lines: usize) -> String {
        self.host.log_tail(&self.name(service), lines)
    }

    fn watch(&mut self, watch: WatchSpec) {
        let all = self.shared.watch(self.variant, watch);
        self.host.watch(all);
    }

    fn sample(&mut self) -> TelemetrySample {
        sample_of_variant(self.host.sample(), self.variant)
    }

    fn take_profile(&mut self, service: &str) -> Option<Result<SamplingProfile, SamplingRefused>> {
        self.host.take_profile(&self.name(service))
    }

    fn is_lost(&self) -> bool {
        self.host.is_lost()
    }

    /// Returns the findings about this variant's services, and the findings that aren't about a
    /// specific service.
    fn take_findings(&mut self) -> Vec<Finding> {
        self.shared.findings.extend(self.host.take_findings());
        let findings = self.shared.findings.iter();
        findings
            .filter_map(|finding| own_finding(finding, self.variant))
            .collect()
    }

    fn examine_crypto(&mut self, spec: &ServiceSpec) -> Option<Finding> {
        let finding = self.host.examine_crypto(&self.spec(spec))?;
        own_finding(&finding, self.variant)
    }

    /// Stops the service, and gives its log the name that it would have in a block without
    /// interleaving.
    fn stop(&mut self, service: &str) -> Result<ServiceStop, HostError> {
        let name = self.name(service);
        let stopped = self.host.stop(&name)?;
        if let Some(folder) = self.shared.logs.remove(&name) {
            let log = folder.join(format!("{name}.log"));
            let renamed = fs::rename(&log, folder.join(format!("{service}.log")));
            match renamed {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(HostError::file("rename", &log)(error));
                }
                _ => {}
            }
        }
        Ok(stopped)
    }

    /// Does nothing, because the block releases the services of all variants together.
    fn release(&mut self) -> Result<(), HostError> {
        Ok(())
    }

    fn environment(&mut self) -> Environment {
        let all = self.host.environment();
        Environment {
            services: own_services(all.services, self.variant),
            sources: own_services(all.sources, self.variant),
            ..all
        }
    }
}

/// Selects what belongs to the services of one variant, under their names in the plan.
fn own_services<T>(names: BTreeMap<String, T>, own: usize) -> BTreeMap<String, T> {
    let own = names.into_iter().filter_map(|(name, it)| {
        let (service, variant) = ScopedName::parse(&name)?;
        (variant == own).then(|| (service.to_owned(), it))
    });
    own.collect()
}

#[cfg(test)]
mod tests {
    use prony_record::Severity;
    use prony_record::finding::TelemetryLost;

    use super::*;

    #[test]
    fn findings_belong_to_the_variant_of_their_service() {
        let lost = TelemetryLost {
            reason: None,
            looked_in: vec!["web@1.pid".to_owned()],
        };
        let service = |name: &str| Subject::Service(name.to_owned());
        let scoped = Finding::about(service("web@1"), Severity::Warning, &lost);
        let own = Finding::about(service("web"), Severity::Warning, &lost);
        assert_eq!(own_finding(&scoped, 1), Some(own));
        assert_eq!(own_finding(&scoped, 2), None);
        let of_all = Finding::of(Severity::Warning, &lost);
        assert_eq!(own_finding(&of_all, 0), Some(of_all));
    }
}
