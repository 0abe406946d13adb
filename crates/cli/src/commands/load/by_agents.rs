//! `prony load --agents`: a load that agents generate.

use prony_fleet::coordinator::{AgentChoice, FleetError, LoadRequest};
use prony_plan::abort_rules::AbortRules;
use prony_record::Record;
use prony_stats::within_run::Precision;

use crate::arguments::{LoadArgs, ServerArgs};
use crate::coordinator::{
    connect, fleet_failure, observe_agents, print_collect_hint, stop_request,
};
use crate::ending::Failure;
use crate::precision::{self, WantedPrecision};
use crate::schema;
use crate::session::{LoadEnd, Session};

/// Generates the load with agents and shows its progress. Returns the record, and whether the load
/// was interrupted; `None` if it was interrupted before its start. The load ends early if it reaches
/// the precisions.
pub(crate) fn send_by_agents(
    arguments: &LoadArgs,
    choice: &AgentChoice,
    abort_rules: Option<&AbortRules>,
    precisions: &[Precision],
    session: &Session,
) -> Result<Option<(Record, bool)>, Failure> {
    let Some(creds) = &arguments.agents.creds else {
        return Err(Failure::wrong("--agents needs --creds"));
    };
    let stop = stop_request(session)?;
    let mut fleet = connect(arguments.agents.nats.as_deref(), creds)?;
    if let Some(lease) = arguments.agents.lease {
        fleet = fleet.with_lease(lease);
    }
    if let Some(wait) = arguments.agents.wait {
        fleet = fleet.with_wait(wait);
    }
    let given = &precision::limited(arguments);
    let described = schema::described(given, arguments.url.as_deref())?;
    let request = LoadRequest {
        url: arguments.url.clone(),
        settings: described.settings.clone(),
        choice: choice.clone(),
        clock_bound: arguments.agents.clock_bound(),
    };
    let end = || stop.soon();
    let wanted = (!precisions.is_empty()).then_some(WantedPrecision {
        wanted: precisions,
        limit: given.duration,
        stop: &end,
    });
    let LoadEnd {
        result: made,
        precise_after,
        ..
    } = observe_agents(session, &stop, abort_rules, wanted, |observer| {
        fleet.load(&request, observer)
    });
    let progress = session.progress();
    match made {
        Ok(mut finished) => {
            let is_early = stop.aborted().is_some() || precise_after.is_some();
            let interrupted = stop.is_wanted() && !is_early;
            precision::write_intervals(&mut finished.record, precisions, precise_after);
            if stop.is_wanted_at_once() {
                let server = ServerArgs {
                    nats: arguments.agents.nats.clone(),
                    creds: creds.clone(),
                };
                print_collect_hint(&finished, &server, progress);
            }
            Ok(Some((finished.record, interrupted)))
        }
        Err(FleetError::Canceled) => {
            progress.warn(FleetError::Canceled);
            Ok(None)
        }
        Err(error) => Err(fleet_failure(error)),
    }
}
