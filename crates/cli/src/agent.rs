//! `prony agent`: this machine as one of a fleet, until a signal ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use clap::Args;
use prony_fleet::agent::{Agent, AgentError, Settings};
use prony_fleet::clock::Clock;
use prony_fleet::credentials::Credentials;
use prony_fleet::names::AgentName;
use prony_fleet::policy::Policy;
use prony_load::CoreList;

use crate::ending::{Ending, Failure};
use crate::{signals, terminal};

/// `prony agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
It connects to a NATS server, registers there and waits for a coordinator's orders; nothing
listens on this machine. `prony fleet up` writes its credentials and prints this command with
them. As long as the server isn't there it waits for it. Ctrl-C or SIGTERM end it, and any load
that it makes.

A load ends when nothing was heard of the coordinator for 10 s. What was measured is kept in DIR
until the coordinator has it whole, and sent again when the agent starts.

Without a policy it loads private, link-local and loopback addresses only, and starts no
services. A policy is a file like this, of which every line may be left out:

  [load]
  targets     = ['10.1.0.0/16', '*.example.org', 'unix:/run/app.sock']
  rate        = 5000    # requests a second at most; then no closed loops
  connections = 100     # at most
  seconds     = 120     # a load's length at most, warm-up included
  refuse      = false   # true: no load at all

  [services]
  commands    = ['nginx', '/opt/app/run']    # what may be started; '*' is any program")]
pub(crate) struct AgentArgs {
    /// Its credentials, as `prony fleet up` writes them, or a .creds file of NATS's own tools
    #[arg(long, value_name = "FILE")]
    creds: PathBuf,
    /// The NATS server, such as tls://10.0.0.1:4222 [default: the one that the credentials name]
    #[arg(long, value_name = "URL")]
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
    let settings = settings(typed)?;
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
    let ended = Agent::connect(settings, &stop).and_then(|agent| agent.run(&stop));
    match ended {
        // A service manager's request is fulfilled with that; Ctrl-C interrupts.
        Ok(()) | Err(AgentError::Interrupted) => {
            match signals::is_interrupt(signal.load(Ordering::Relaxed)) {
                true => Ok(Ending::Interrupted),
                false => Ok(Ending::Done),
            }
        }
        Err(error @ AgentError::Wrong(_)) => Err(Failure::wrong(error)),
        Err(error) => Err(Failure::refused(error)),
    }
}

fn settings(typed: AgentArgs) -> Result<Settings, Failure> {
    let credentials = Credentials::read(&typed.creds).map_err(Failure::wrong)?;
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
        state: state(typed.state)?,
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
