//! `prony load --agents`: a load that agents generate.

use prony_fleet::coordinator::{AgentChoice, FleetError, LoadRequest};
use prony_record::Record;

use super::{RunView, failure};
use crate::arguments::{LoadArgs, ServerArgs};
use crate::ending::Failure;

/// Generates the load with agents and shows its progress. Returns the record, and whether the load
/// was interrupted; `None` if it was interrupted before its start.
pub(crate) fn run(
    arguments: &LoadArgs,
    choice: &AgentChoice,
    view: &RunView<'_>,
) -> Result<Option<(Record, bool)>, Failure> {
    let Some(creds) = &arguments.agents.creds else {
        return Err(Failure::wrong("--agents needs --creds"));
    };
    let stop = super::stop_by_signals()?;
    let mut fleet = super::connect(arguments.agents.nats.as_deref(), creds)?;
    if let Some(lease) = arguments.agents.lease {
        fleet = fleet.with_lease(lease);
    }
    if let Some(wait) = arguments.agents.wait {
        fleet = fleet.with_wait(wait);
    }
    let request = LoadRequest {
        url: arguments.url.clone(),
        settings: arguments.load.settings.clone(),
        choice: choice.clone(),
        clock_bound: arguments.agents.clock_bound(),
    };
    let made = super::watched(view, &stop, |observer| fleet.load(&request, observer));
    let progress = view.progress;
    match made {
        Ok(finished) => {
            let interrupted = stop.is_wanted() && stop.aborted().is_none();
            if stop.is_wanted_at_once() {
                let server = ServerArgs {
                    nats: arguments.agents.nats.clone(),
                    creds: creds.clone(),
                };
                super::print_collect_hint(&finished, &server, progress);
            }
            Ok(Some((finished.record, interrupted)))
        }
        Err(FleetError::Canceled) => {
            progress.warn(&format!("prony: {}", FleetError::Canceled));
            Ok(None)
        }
        Err(error) => Err(failure(error)),
    }
}
