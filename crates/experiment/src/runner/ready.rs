//! Waiting until a service answers.

use std::time::{Duration, Instant};

use super::Interrupt;
use crate::host::{Host, Knock};
use crate::plan::ReadySettings;
use crate::service::Allocated;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(20);
/// Lines of its log that a service which never got ready is shown with.
const LOG_LINES: usize = 15;

/// Why a service is not ready.
#[derive(Debug)]
pub enum NotReady {
    /// It ended by itself.
    Ended {
        /// How.
        status: String,
        /// The end of its log.
        log: String,
    },
    /// It did not answer in time.
    Silent {
        /// How long it was waited for.
        within: Duration,
        /// What the last try came to.
        last: String,
        /// The end of its log.
        log: String,
    },
    /// Somebody interrupted.
    Interrupted,
}

/// Waits until the service answers as `ready` says. It is asked from where it lives.
pub(crate) fn wait(
    service: &str,
    ready: &ReadySettings,
    allocated: Option<&Allocated>,
    host: &mut dyn Host,
    interrupt: &Interrupt,
) -> Result<(), NotReady> {
    let until = Instant::now() + ready.within;
    let endpoint = ready
        .listener
        .as_ref()
        .and_then(|listener| allocated?.endpoints.get(listener));
    let knock = endpoint.map(|endpoint| Knock {
        endpoint: endpoint.clone(),
        get: ready.get.clone(),
        https: ready.https,
    });
    loop {
        if interrupt.is_stopped() {
            return Err(NotReady::Interrupted);
        }
        if let Err(exited) = host.alive(service) {
            return Err(NotReady::Ended {
                status: exited.status,
                log: exited.log_tail,
            });
        }
        let Some(knock) = &knock else {
            return Ok(());
        };
        let last = match host.knock(service, knock) {
            Ok(status) if status.is_none_or(|status| ready.accepts(status)) => return Ok(()),
            Ok(status) => {
                let path = ready.get.as_deref().unwrap_or_default();
                let status = status.unwrap_or_default();
                format!("GET {path} was answered with status {status}")
            }
            Err(why) => why,
        };
        if Instant::now() >= until {
            let log = host.log_tail(service, LOG_LINES);
            return Err(NotReady::Silent {
                within: ready.within,
                last,
                log,
            });
        }
        std::thread::sleep(PAUSE);
    }
}
