//! `prony agent`: runs this machine as an agent until a signal ends it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use prony_fleet::agent::status::AgentStatus;
use prony_fleet::agent::{Agent, AgentError, AgentSettings, WorkAtExit, enrollment, host_name};
use prony_fleet::clock::Clock;
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::policy::Policy;

use crate::arguments::AgentArgs;
use crate::ending::{Ending, Failure};
use crate::metrics::agent::AgentMetrics;
use crate::{signals, terminal};

/// Runs the agent until a signal arrives.
pub(crate) fn run(arguments: AgentArgs) -> Result<Ending, Failure> {
    let metrics = arguments.metrics.clone();
    let settings = agent_settings(arguments)?;
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
            // After a second signal, exit without waiting until the results are sent.
            std::process::exit(130);
        }
    })?;
    let ended =
        Agent::connect(settings, &stop).and_then(|agent| agent.with_status(status).run(&stop));
    let is_interrupt = signals::is_interrupt(signal.load(Ordering::Relaxed));
    match ended {
        Ok(_) | Err(AgentError::Interrupted) if is_interrupt => Ok(Ending::Interrupted),
        // Stopping an idle agent is a success; interrupting a run is not.
        Ok(WorkAtExit::None) | Err(AgentError::Interrupted) => Ok(Ending::Done),
        Ok(WorkAtExit::CutShort) => {
            terminal::print_message(
                "stopped during a run; the rest of this agent's load is missing from the \
                    results",
            );
            Ok(Ending::Doubtful)
        }
        Err(error) => Err(agent_failure(error)),
    }
}

fn agent_failure(error: AgentError) -> Failure {
    match error {
        AgentError::Wrong(_) | AgentError::Credentials(_) | AgentError::Key(_) => {
            Failure::wrong(error)
        }
        _ => Failure::refused(error),
    }
}

fn agent_settings(arguments: AgentArgs) -> Result<AgentSettings, Failure> {
    let state = state_folder(arguments.state)?;
    let mut credentials = FleetCredentials::read(&arguments.creds).map_err(Failure::wrong)?;
    if let FleetCredentials::Key(token) = &credentials
        && matches!(token.role(), Role::Token(_))
    {
        let name = arguments.name.clone();
        let name = name.unwrap_or_else(|| AgentName::from_hostname(&host_name()));
        let own = enrollment::credentials(
            token,
            arguments.nats.as_deref(),
            &name,
            &state.join("creds"),
        );
        credentials = own.map_err(agent_failure)?;
    }
    let policy = match &arguments.policy {
        Some(file) => Policy::read(file).map_err(Failure::wrong)?,
        None => Policy::default(),
    };
    let name = AgentSettings::name(&credentials, arguments.name.as_ref());
    let name =
        name.map_err(|error| Failure::wrong(format!("{}: {error}", arguments.creds.display())))?;
    let mut labels = BTreeMap::new();
    for (key, value) in arguments.label {
        if labels.insert(key.clone(), value).is_some() {
            return Err(Failure::wrong(format!("--label {key} is given twice")));
        }
    }
    Ok(AgentSettings {
        name,
        server: arguments.nats,
        credentials,
        labels,
        policy,
        state,
        cores: arguments.cores.map(|cores| cores.0).unwrap_or_default(),
        clock: Clock::new(),
        log: Arc::new(|text: &str| terminal::print_message(text)),
    })
}

/// Returns the folder for results: `--state`, or its default.
fn state_folder(requested: Option<PathBuf>) -> Result<PathBuf, Failure> {
    if let Some(folder) = requested {
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
