//! `prony agent`: makes this machine an agent until a signal ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use clap::Args;
use prony_fleet::agent::status::AgentStatus;
use prony_fleet::agent::{Agent, AgentError, AgentSettings, WorkAtExit, enrollment, host_name};
use prony_fleet::clock::Clock;
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::policy::Policy;
use prony_load::CoreList;

use crate::ending::{Ending, Failure};
use crate::metrics::agent::AgentMetrics;
use crate::{signals, terminal};

/// `prony agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
The agent connects to a NATS server, registers and waits for orders; it listens on no port.
`prony fleet up` writes its credentials and prints this command with them. If the server can't
be reached, the agent retries until it can.

Ctrl-C and SIGTERM stop the agent and its load. The exit status after SIGTERM is 0 if the agent
was idle, and 1 if a load or a service was stopped with it; after Ctrl-C it is 130.

The agent stops a load when it loses contact with the coordinator for 10 s (--lease of the
coordinator). Results are kept in --state until the coordinator has all of them; after a restart
the agent sends them again.

Without a policy, the agent loads only private and loopback addresses, no cloud metadata
services, and starts no services. A policy is a TOML file; every key is optional:

  [load]
  targets     = ['10.1.0.0/16', '*.example.org', 'unix:/run/app.sock']
  rate        = 5000    # maximum requests per second; forbids closed loops
  connections = 100     # maximum number of connections
  seconds     = 120     # maximum length of a load with its warm-up
  refuse      = false   # true: no loads at all

  [services]
  commands    = ['nginx', '/opt/app/run']    # programs that may be started; '*' is any
  env         = ['APP_*']                    # environment variables that a plan may set")]
pub(crate) struct AgentArgs {
    /// The agent's credentials from `prony fleet up`, a token from `prony fleet token`, or a .creds file
    /// of NATS's own tools
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    creds: PathBuf,
    /// NATS server, such as tls://10.0.0.1:4222 [default: named by the credentials]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    nats: Option<String>,
    /// Name of letters, digits, - and _ [default: from the credentials, or the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<AgentName>,
    /// Label by which coordinators choose agents; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// Policy file [default: private and loopback targets, no services]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Folder for results [default: ~/.local/state/prony; for root /var/lib/prony]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Serve the agent's metrics as OpenMetrics text at ADDR, a port or an address with a port
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Cores that loads run on, such as 1 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<CoreList>,
}

fn label(typed: &str) -> Result<(String, String), String> {
    match typed.split_once('=') {
        Some((key, value)) if !key.is_empty() && !typed.contains(',') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "{typed:?} is not a label; write KEY=VALUE without commas, such as site=berlin"
        )),
    }
}

fn cores(typed: &str) -> Result<CoreList, String> {
    prony_record::quantity::cores(typed).map(CoreList)
}

/// Runs the agent until a signal arrives.
pub(crate) fn run(typed: AgentArgs) -> Result<Ending, Failure> {
    let metrics = typed.metrics.clone();
    let settings = settings(typed)?;
    let status = AgentStatus::default();
    let metrics = metrics.map(|at| AgentMetrics::serve(&at, &settings.name, status.clone()));
    let _metrics = metrics.transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    let signal = Arc::new(AtomicI32::new(0));
    let (stop_set, signal_set) = (stop.clone(), signal.clone());
    signals::listen_for(move |number, count| {
        signal_set.store(number, Ordering::Relaxed);
        stop_set.store(true, Ordering::Relaxed);
        if count > 1 {
            // A second signal doesn't wait for results to be sent.
            std::process::exit(130);
        }
    })?;
    let ended =
        Agent::connect(settings, &stop).and_then(|agent| agent.with_status(status).run(&stop));
    let is_interrupt = signals::is_interrupt(signal.load(Ordering::Relaxed));
    match ended {
        Ok(_) | Err(AgentError::Interrupted) if is_interrupt => Ok(Ending::Interrupted),
        // Stopping an idle agent is a success; cutting a run short is not.
        Ok(WorkAtExit::None) | Err(AgentError::Interrupted) => Ok(Ending::Done),
        Ok(WorkAtExit::CutShort) => {
            terminal::print_message(
                "prony: stopped in the middle of a run; the run lacks the rest of this agent's part",
            );
            Ok(Ending::Doubtful)
        }
        Err(error) => Err(failure(error)),
    }
}

fn failure(error: AgentError) -> Failure {
    match error {
        AgentError::Wrong(_) => Failure::wrong(error),
        _ => Failure::refused(error),
    }
}

fn settings(typed: AgentArgs) -> Result<AgentSettings, Failure> {
    let state = state(typed.state)?;
    let mut credentials = FleetCredentials::read(&typed.creds).map_err(Failure::wrong)?;
    if let FleetCredentials::Key(token) = &credentials
        && matches!(token.role(), Role::Token(_))
    {
        let name = typed.name.clone();
        let name = name.unwrap_or_else(|| AgentName::from_hostname(&host_name()));
        let own =
            enrollment::credentials(token, typed.nats.as_deref(), &name, &state.join("creds"));
        credentials = own.map_err(failure)?;
    }
    let policy = match &typed.policy {
        Some(file) => Policy::read(file).map_err(Failure::wrong)?,
        None => Policy::default(),
    };
    let name = AgentSettings::name(&credentials, typed.name.as_ref());
    let name =
        name.map_err(|error| Failure::wrong(format!("{}: {error}", typed.creds.display())))?;
    let mut labels = BTreeMap::new();
    for (key, value) in typed.label {
        if labels.insert(key.clone(), value).is_some() {
            return Err(Failure::wrong(format!("--label {key} is given twice")));
        }
    }
    Ok(AgentSettings {
        name,
        server: typed.nats,
        credentials,
        labels,
        policy,
        state,
        cores: typed.cores.map(|cores| cores.0).unwrap_or_default(),
        clock: Clock::new(),
        log: Arc::new(|text: &str| terminal::print_message(&format!("prony: {text}"))),
    })
}

/// The folder for results: `--state`, or its default.
fn state(typed: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(folder) = typed {
        return Ok(folder);
    }
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let folder = match (variable("XDG_STATE_HOME"), variable("HOME")) {
        (Some(base), _) => Some(PathBuf::from(base).join("prony")),
        (None, _) if rustix::process::geteuid().is_root() => Some("/var/lib/prony".into()),
        (None, Some(home)) => Some(PathBuf::from(home).join(".local/state/prony")),
        (None, None) => None,
    };
    folder.ok_or_else(|| {
        Failure::wrong("there is no home folder (name a folder for results with --state)")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_keys_with_values() {
        let own = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(label("site=x"), own("site", "x"));
        assert_eq!(label("site="), own("site", ""));
        for bad in ["", "site", "=x", "a=b,c=d"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
