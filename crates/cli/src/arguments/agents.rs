//! Command-line options for loads and plans that run on agents.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_fleet::coordinator::{AgentChoice, CLOCK_BOUND_DEFAULT};
use prony_record::quantity;

/// Agent options of `prony load`.
#[derive(Debug, Clone, Args)]
pub(crate) struct ByAgentsArgs {
    /// Generate the load with these agents: N, KEY=VALUE (a label), N@KEY=VALUE, or names
    #[arg(
        long,
        value_name = "AGENTS",
        requires = "creds",
        help_heading = "Agents"
    )]
    pub(crate) agents: Option<AgentChoice>,
    /// NATS server, such as tls://10.0.0.1:4222 [default: the server in the credentials]
    #[arg(
        long,
        value_name = "URL",
        env = "PRONY_NATS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, as written by `prony fleet up`
    #[arg(
        long,
        value_name = "FILE",
        env = "PRONY_CREDS",
        hide_env_values = true,
        help_heading = "Agents"
    )]
    pub(crate) creds: Option<PathBuf>,
    /// Maximum accepted error of an agent's clock [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) clock_bound: Option<Duration>,
    /// Stop the agents when they lose contact with this command for TIME, 1s to 2m [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = lease,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) lease: Option<Duration>,
    /// Wait up to TIME for missing or busy agents, such as 2m [default: don't wait]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "agents",
        help_heading = "Agents"
    )]
    pub(crate) wait: Option<Duration>,
}

impl ByAgentsArgs {
    /// Returns the maximum accepted clock error.
    pub(crate) fn clock_bound(&self) -> Duration {
        self.clock_bound.unwrap_or(CLOCK_BOUND_DEFAULT)
    }
}

/// Options of plans that use agents.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostsArgs {
    /// NATS server of a plan's agents, such as tls://10.0.0.1:4222 [default: the server in the
    /// credentials]
    #[arg(
        long,
        value_name = "URL",
        env = "PRONY_NATS",
        hide_env_values = true,
        help_heading = "Agents of a plan"
    )]
    pub(crate) nats: Option<String>,
    /// The coordinator's credentials, as written by `prony fleet up`
    #[arg(
        long,
        value_name = "FILE",
        env = "PRONY_CREDS",
        hide_env_values = true,
        help_heading = "Agents of a plan"
    )]
    pub(crate) creds: Option<PathBuf>,
    /// Maximum accepted error of an agent's clock [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    pub(crate) clock_bound: Option<Duration>,
    /// Release the agents when they lose contact with this command for TIME, 1s to 2m [default:
    /// 10s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = lease,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    pub(crate) lease: Option<Duration>,
    /// Wait up to TIME for missing or busy agents, such as 10m [default: don't wait]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    pub(crate) wait: Option<Duration>,
}

/// Minimum of `--lease`.
pub(crate) const LEASE_MIN: Duration = Duration::from_secs(1);

/// Maximum of `--lease`.
pub(crate) const LEASE_MAX: Duration = Duration::from_secs(120);

/// Parses `--lease`. A shorter lease could expire during a network hiccup, and agents reject a
/// longer one.
pub(crate) fn lease(text: &str) -> Result<Duration, String> {
    let lease = quantity::time(text).map_err(|error| error.to_string())?;
    if (LEASE_MIN..=LEASE_MAX).contains(&lease) {
        Ok(lease)
    } else {
        Err(format!(
            "{text} is out of range; a lease lasts {} s to {} s",
            LEASE_MIN.as_secs(),
            LEASE_MAX.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_has_limits() {
        for (text, parsed) in [("1s", 1), ("90s", 90), ("2m", 120)] {
            assert_eq!(lease(text), Ok(Duration::from_secs(parsed)));
        }
        for wrong in ["0", "999ms", "121s", "1h", "soon", ""] {
            assert!(lease(wrong).is_err(), "{wrong}");
        }
    }
}
