//! `prony agent`: this machine as one of a fleet, until a signal ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use clap::Args;
use prony_fleet::agent::status::Status;
use prony_fleet::agent::{Agent, AgentError, Settings, WorkAtExit, enrolling, host_name};
use prony_fleet::clock::Clock;
use prony_fleet::credentials::Credentials;
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
It connects to a NATS server, registers there and waits for a coordinator's orders; nothing
listens on this machine. `prony fleet up` writes its credentials and prints this command with
them. As long as the server isn't there it waits for it. Ctrl-C and SIGTERM end it, and any load
that it makes. The exit status after SIGTERM is 0 if the agent was idle, and 1 if a load or a service
was ended with it; after Ctrl-C it is 130.

A load ends when nothing was heard of the coordinator for 10 s. What was measured is kept in DIR
until the coordinator has it whole, and sent again when the agent starts.

Without a policy it loads private and loopback addresses only, no cloud metadata service, and starts
no services. A policy is a file like this, of which every line may be left out:

  [load]
  targets     = ['10.1.0.0/16', '*.example.org', 'unix:/run/app.sock']
  rate        = 5000    # requests a second at most; then no closed loops
  connections = 100     # at most
  seconds     = 120     # a load's length at most, warm-up included
  refuse      = false   # true: no load at all

  [services]
  commands    = ['nginx', '/opt/app/run']    # what may be started; '*' is any program
  env         = ['APP_*']                    # variables that a plan may set for them")]
pub(crate) struct AgentArgs {
    /// Its credentials, as `prony fleet up` writes them; a token of `prony fleet token`, with which it
    /// gets some at its first start; or a .creds file of NATS's own tools
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    creds: PathBuf,
    /// The NATS server, such as tls://10.0.0.1:4222 [default: the one that the credentials name]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    nats: Option<String>,
    /// Its name, of letters, digits, - and _ [default: the credentials', or else the host's]
    #[arg(long, value_name = "NAME")]
    name: Option<AgentName>,
    /// A label to be chosen by; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    label: Vec<(String, String)>,
    /// What it lets itself be used for [default: near targets, no services]
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// Where it keeps what it measured [default: ~/.local/state/prony; as root /var/lib/prony]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Serve the agent's metrics at ADDR, a port or an address with one, as OpenMetrics text
    #[arg(long, value_name = "ADDR")]
    metrics: Option<String>,
    /// Cores that its loads run on, such as 1 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", value_parser = cores)]
    cores: Option<CoreList>,
}

fn label(typed: &str) -> Result<(String, String), String> {
    match typed.split_once('=') {
        Some((key, value)) if !key.is_empty() && !typed.contains(',') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "{typed:?} is no label; write KEY=VALUE without commas, such as site=berlin"
        )),
    }
}

fn cores(typed: &str) -> Result<CoreList, String> {
    prony_load::quantity::cores(typed).map(CoreList)
}

/// Is an agent until a signal comes.
pub(crate) fn run(typed: AgentArgs) -> Result<Ending, Failure> {
    let metrics = typed.metrics.clone();
    let settings = settings(typed)?;
    let status = Status::default();
    let metrics = metrics.map(|at| AgentMetrics::serve(&at, &settings.name, status.clone()));
    let _metrics = metrics.transpose()?;
    let stop = Arc::new(AtomicBool::new(false));
    let signal = Arc::new(AtomicI32::new(0));
    let (told, came) = (stop.clone(), signal.clone());
    signals::listen_for(move |number, count| {
        came.store(number, Ordering::Relaxed);
        told.store(true, Ordering::Relaxed);
        if count > 1 {
            // Whoever says it twice doesn't want to wait for last words.
            std::process::exit(130);
        }
    })?;
    let ended =
        Agent::connect(settings, &stop).and_then(|agent| agent.with_status(status).run(&stop));
    let is_interrupt = signals::is_interrupt(signal.load(Ordering::Relaxed));
    match ended {
        Ok(_) | Err(AgentError::Interrupted) if is_interrupt => Ok(Ending::Interrupted),
        // Stopping an idle agent is what a service manager asks for; a run that lacks its part is not.
        Ok(WorkAtExit::None) | Err(AgentError::Interrupted) => Ok(Ending::Done),
        Ok(WorkAtExit::CutShort) => {
            terminal::say(
                "prony: told to exit in the middle of a run, whose result lacks this part",
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

fn settings(typed: AgentArgs) -> Result<Settings, Failure> {
    let state = state(typed.state)?;
    let mut credentials = Credentials::read(&typed.creds).map_err(Failure::wrong)?;
    if let Credentials::Key(token) = &credentials
        && matches!(token.role(), Role::Token(_))
    {
        let name = typed.name.clone();
        let name = name.unwrap_or_else(|| AgentName::of_host(&host_name()));
        let own = enrolling::credentials(token, typed.nats.as_deref(), &name, &state.join("creds"));
        credentials = own.map_err(failure)?;
    }
    let policy = match &typed.policy {
        Some(file) => Policy::read(file).map_err(Failure::wrong)?,
        None => Policy::default(),
    };
    let name = Settings::name(&credentials, typed.name.as_ref());
    let name =
        name.map_err(|error| Failure::wrong(format!("{}: {error}", typed.creds.display())))?;
    let mut labels = BTreeMap::new();
    for (key, value) in typed.label {
        if labels.insert(key.clone(), value).is_some() {
            return Err(Failure::wrong(format!("--label {key} is given twice")));
        }
    }
    Ok(Settings {
        name,
        server: typed.nats,
        credentials,
        labels,
        policy,
        state,
        cores: typed.cores.map(|cores| cores.0).unwrap_or_default(),
        clock: Clock::new(),
        tell: Arc::new(|text: &str| terminal::say(&format!("prony: {text}"))),
    })
}

/// Where an agent keeps what it measured, if nothing else was said.
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
        Failure::wrong("there is no home folder; say by --state where to keep results")
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
