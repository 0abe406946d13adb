//! Errors that cause a trial to fail.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_load::{NotReady as WaitError, RunError, SpecError};
use prony_record::{Finding, LoadAbort, number, quantity};

use super::folder_error::ExperimentFolderError;
use super::readiness::ReadinessError;
use super::responses::UnansweredRequest;

use prony_machine::host::HostError;
use prony_plan::PlanError;

use crate::interleaving::COUNTED_REQUESTS_MIN;

/// Reason why a trial failed.
#[derive(Debug)]
pub enum TrialError {
    /// The plan could not be rendered, although it had passed its check.
    Plan(PlanError),
    /// The settings of the load can't be resolved.
    Load(SpecError),
    /// The load generator failed.
    Engine(RunError),
    /// The agents did not complete the load.
    Agents(String),
    /// The host failed, for example when starting a service.
    Host(HostError),
    /// A service did not become ready.
    Service {
        /// Name of the service.
        service: String,
        /// Reason why the service did not become ready.
        why: ReadinessError,
    },
    /// A service ended during the load, or during another variant's load in an interleaved block.
    ServiceEnded {
        /// Name of the service.
        service: String,
        /// Exit status of the service.
        status: String,
        /// Last lines of the service's log.
        log: String,
    },
    /// Slices of the requested length contain too few requests for a percentile that gets a
    /// verdict.
    TooFewRequests {
        /// Expected number of counted requests of the slowest variant in a block.
        expected: u64,
        /// Trial duration needed to get enough requests.
        duration: Duration,
    },
    /// The target does not respond.
    Target {
        /// Name of the target service.
        service: String,
        /// The reason why the load can't start.
        why: TargetFailure,
        /// Last lines of the target's log; `None` if prony did not start the target.
        log: Option<String>,
    },
    /// The network of the load's place can't be entered.
    EnterPlace(io::Error),
    /// A file of the trial can't be written.
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        source: io::Error,
    },
    /// The experiment's folder can't be written.
    Folder(ExperimentFolderError),
    /// A condition ended the load. The results up to that time are stored.
    Aborted {
        /// Block number, from 1.
        block: u32,
        /// The condition that held.
        abort: LoadAbort,
    },
    /// No request of any variant succeeded, neither in the check nor in a whole block.
    NothingSucceeded(Option<CommonFailure>),
}

/// Failure of all requests of all variants.
#[derive(Debug)]
pub enum CommonFailure {
    /// A status that counts as a failure, in the check before the first block.
    Status {
        /// Method and URL of the first request.
        request: String,
        /// Status of its response.
        status: u16,
        /// Statuses that the load expects.
        expected: String,
        /// Cause, if the server expects TLS.
        tls_expected: Option<String>,
    },
    /// The finding `errors` of a trial, with the most frequent failures.
    Requests(Box<Finding>),
}

impl fmt::Display for CommonFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CommonFailure::Status {
                request,
                status,
                expected,
                tls_expected,
            } => match tls_expected {
                Some(cause) => write!(f, "{request} returns status {status}: {cause}"),
                None => write!(
                    f,
                    "{request} returns status {status}; the load expects {expected} \
                     (expect_status)"
                ),
            },
            CommonFailure::Requests(finding) => f.write_str(&finding.text),
        }
    }
}

impl TrialError {
    /// Returns true if the user interrupted the trial.
    pub(crate) fn is_interrupt(&self) -> bool {
        matches!(
            self,
            TrialError::Service {
                why: ReadinessError::Interrupted,
                ..
            }
        )
    }

    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> TrialError {
        let path = path.to_owned();
        |source| TrialError::File { path, source }
    }
}

/// Reason why a load can't use its target.
#[derive(Debug)]
pub enum TargetFailure {
    /// A request has no complete response.
    Request(UnansweredRequest),
    /// The target didn't accept connections in time.
    Wait(WaitError),
}

impl fmt::Display for TargetFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetFailure::Request(request) => request.fmt(f),
            TargetFailure::Wait(error) => error.fmt(f),
        }
    }
}

impl fmt::Display for TrialError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TrialError::Plan(error) => error.fmt(f),
            TrialError::Load(error) => write!(f, "[load]: {error}"),
            TrialError::Engine(error) => error.fmt(f),
            TrialError::Agents(why) => write!(f, "the agents could not generate the load: {why}"),
            TrialError::Host(error) => error.fmt(f),
            TrialError::Service { service, why } => match why {
                ReadinessError::Ended { status, log } => {
                    write!(
                        f,
                        "service \"{service}\" ended before it was ready ({status})"
                    )?;
                    write_log(f, service, log)
                }
                ReadinessError::TimedOut { within, last, log } => {
                    write!(
                        f,
                        "service \"{service}\" was not ready within {} ({last})",
                        number::span(within.as_secs_f64())
                    )?;
                    write_log(f, service, log)
                }
                ReadinessError::Interrupted => f.write_str("interrupted"),
            },
            TrialError::ServiceEnded {
                service,
                status,
                log,
            } => {
                write!(f, "service \"{service}\" ended during the load ({status})")?;
                write_log(f, service, log)
            }
            TrialError::TooFewRequests { expected, duration } => write!(
                f,
                "a verdict on p99 needs {} requests to each variant per \
                    block, but the slowest variant would get {expected} (set duration = \"{}\" \
                    or more)",
                number::count(COUNTED_REQUESTS_MIN.into()),
                // A longer duration is enough, too, and a whole number of seconds is easier to read.
                quantity::time_text(Duration::from_secs(duration.as_secs_f64().ceil() as u64))
            ),
            TrialError::Target { service, why, log } => {
                write!(f, "service \"{service}\" does not respond: {why}")?;
                match log {
                    Some(log) => write_log(f, service, log),
                    None => f.write_str(" (prony did not start this server)"),
                }
            }
            TrialError::EnterPlace(error) => write!(f, "can't enter the load's place: {error}"),
            TrialError::File { path, source } => write!(f, "{}: {source}", path.display()),
            TrialError::Folder(error) => error.fmt(f),
            TrialError::Aborted { block, abort } => {
                write!(f, "block {block}: {}", abort.text())
            }
            TrialError::NothingSucceeded(failure) => {
                f.write_str("no request of any variant succeeded, so nothing can be compared")?;
                match failure {
                    Some(failure) => write!(f, ": {failure}"),
                    None => Ok(()),
                }
            }
        }
    }
}

fn write_log(f: &mut fmt::Formatter<'_>, service: &str, log: &str) -> fmt::Result {
    if log.trim().is_empty() {
        return write!(f, "; its log is empty");
    }
    write!(f, "; the end of its log:")?;
    for line in log.lines() {
        write!(f, "\n  {service} | {line}")?;
    }
    Ok(())
}

impl std::error::Error for TrialError {}

impl From<HostError> for TrialError {
    fn from(error: HostError) -> Self {
        TrialError::Host(error)
    }
}

impl From<ExperimentFolderError> for TrialError {
    fn from(error: ExperimentFolderError) -> Self {
        TrialError::Folder(error)
    }
}

/// Failure of a trial, or of the pre-check, that ended an experiment.
#[derive(Debug)]
pub struct FailedTrial {
    /// Variant, described by its levels; `None` if all variants failed.
    pub variant: Option<String>,
    /// Reason why the trial failed.
    pub error: Box<TrialError>,
}

impl fmt::Display for FailedTrial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.variant {
            Some(variant) => write!(f, "variant {variant}: {}", self.error),
            None => self.error.fmt(f),
        }
    }
}

impl std::error::Error for FailedTrial {}

#[cfg(test)]
mod tests {
    use super::*;

    fn target_error(log: Option<&str>) -> String {
        let error = TrialError::Target {
            service: "web".to_owned(),
            why: TargetFailure::Wait(WaitError::Stopped),
            log: log.map(str::to_owned),
        };
        error.to_string()
    }

    #[test]
    fn only_a_server_that_prony_started_has_a_log() {
        let failure = "service \"web\" does not respond: interrupted while waiting for the server";
        let without = target_error(None);
        assert_eq!(
            without,
            format!("{failure} (prony did not start this server)")
        );
        let empty = target_error(Some("\n"));
        assert_eq!(empty, format!("{failure}; its log is empty"));
        let logged = target_error(Some("a\nb"));
        let lines = "\n  web | a\n  web | b";
        assert_eq!(logged, format!("{failure}; the end of its log:{lines}"));
    }
}
