//! Results of services that have ended.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Result of stopping a service. The default value describes a service that was not running.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStop {
    /// Exit status of the main process, such as `exit status: 0`; `None` if unknown.
    pub status: Option<String>,
    /// True if the service did not end within the timeout and was killed.
    pub killed: bool,
    /// Time from the stop signal to the end of the service's last process.
    pub took: Duration,
    /// Number of bytes that were removed from the middle of the service's log.
    #[serde(default)]
    pub log_bytes_cut: u64,
}

/// A service that ended although prony did not stop it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceExit {
    /// The service's name in the plan.
    pub service: String,
    /// Exit status, such as `exit status: 1` or `signal: 11 (SIGSEGV)`.
    pub status: String,
    /// Last lines of the service's log.
    pub log_tail: String,
}

impl fmt::Display for ServiceExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "service {} ended ({})", self.service, self.status)?;
        if self.log_tail.is_empty() {
            write!(f, "; its log is empty")
        } else {
            write!(f, "; the end of its log:\n{}", self.log_tail)
        }
    }
}

impl std::error::Error for ServiceExit {}
