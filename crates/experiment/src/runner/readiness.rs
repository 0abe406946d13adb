//! Waiting for a service to become ready.

use std::time::{Duration, Instant};

use prony_load::LoadSettings;
use prony_machine::host::{Host, ProbeFailure, ReadinessProbe};
use prony_plan::ReadySettings;
use prony_plan::service::AllocatedService;

use super::Interrupt;

/// Pause between two probes.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);
/// Number of log lines that an error message quotes.
const LOG_LINES: usize = 15;

/// Reason why a service did not become ready.
#[derive(Debug)]
pub enum ReadinessError {
    /// The service ended before it was ready.
    Ended {
        /// Exit status of the service.
        status: String,
        /// Last lines of the service's log.
        log: String,
    },
    /// No probe succeeded within the time limit.
    TimedOut {
        /// Time limit for the service to become ready.
        within: Duration,
        /// Result of the last probe.
        last: Box<ProbeFailure>,
        /// Last lines of the service's log.
        log: String,
    },
    /// The user interrupted the experiment.
    Interrupted,
}

/// Returns the value of the Host header in the settings of a load, unless it varies.
fn host_header(load: &LoadSettings) -> Option<String> {
    let mut lines = load.header.iter().filter_map(|line| line.split_once(':'));
    let (_, host) = lines.find(|(name, _)| name.eq_ignore_ascii_case("host"))?;
    let host = host.trim();
    (!host.contains("{{")).then(|| host.to_owned())
}

/// Waits until a probe of the service succeeds, as defined by `ready`. Probes are sent from the
/// service's place. `load` has the settings of the load whose target the service is.
pub(crate) fn wait(
    service: &str,
    ready: &ReadySettings,
    load: Option<&LoadSettings>,
    allocated: Option<&AllocatedService>,
    host: &mut dyn Host,
    interrupt: &Interrupt,
) -> Result<(), ReadinessError> {
    let until = Instant::now() + ready.within;
    let endpoint = ready
        .listener
        .as_ref()
        .and_then(|listener| allocated?.endpoints.get(listener));
    let probe = endpoint.map(|endpoint| ReadinessProbe {
        endpoint: endpoint.clone(),
        get: ready.get.clone(),
        https: ready.https,
        sni: load.and_then(|load| load.sni.clone()),
        host: load.and_then(host_header),
    });
    loop {
        if interrupt.is_stopped() {
            return Err(ReadinessError::Interrupted);
        }
        if let Err(exited) = host.alive(service) {
            return Err(ReadinessError::Ended {
                status: exited.status,
                log: exited.log_tail,
            });
        }
        let Some(probe) = &probe else {
            return Ok(());
        };
        let last = match host.probe_readiness(service, probe) {
            Ok(status) if status.is_none_or(|status| ready.accepts(status)) => return Ok(()),
            Ok(status) => {
                let path = ready.get.clone().unwrap_or_default();
                let status = status.unwrap_or_default();
                ProbeFailure::Status { path, status }
            }
            Err(why) => why,
        };
        if Instant::now() >= until {
            let log = host.log_tail(service, LOG_LINES);
            return Err(ReadinessError::TimedOut {
                within: ready.within,
                last: Box::new(last),
                log,
            });
        }
        std::thread::sleep(PROBE_INTERVAL);
    }
}
