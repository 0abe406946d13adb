//! Connects a command as the coordinator of agents, and shows and stops the loads that they
//! generate.

use std::path::Path;
use std::sync::Arc;

use prony_fleet::coordinator::{
    Feed, FinishedRun, Fleet, FleetError, FleetEvent, LoadObserver, ProgressUpdate, StopRequest,
};
use prony_fleet::credentials::FleetCredentials;
use prony_plan::abort_rules::AbortRules;
use prony_record::FindingId;
use prony_report::number;

use crate::arguments::ServerArgs;
use crate::ending::Failure;
use crate::precision::WantedPrecision;
use crate::progress::{Progress, ProgressMode, rounded};
use crate::running_load::RunningLoad;
use crate::session::{LoadEnd, ObservedLoad, Session};
use crate::signals::SecondSignal;

/// Connects to the NATS server as the coordinator.
pub(crate) fn connect(nats: Option<&str>, creds: &Path) -> Result<Fleet, Failure> {
    let credentials = FleetCredentials::read(creds).map_err(Failure::wrong)?;
    Fleet::connect(nats, &credentials).map_err(fleet_failure)
}

/// Converts an error of the fleet into an exit status and a message.
pub(crate) fn fleet_failure(error: FleetError) -> Failure {
    if error.is_wrong() {
        Failure::wrong(error)
    } else {
        Failure::refused(error)
    }
}

/// Creates a stop request that signals and the live view trigger. The first signal requests an
/// orderly stop, and the second an immediate stop.
pub(crate) fn stop_request(session: &Session) -> Result<Arc<StopRequest>, Failure> {
    let stop = Arc::new(StopRequest::new());
    let stopping = stop.clone();
    session.on_stop(SecondSignal::AsksAgain, move || {
        if stopping.is_wanted() {
            stopping.at_once()
        } else {
            stopping.soon()
        }
    })?;
    Ok(stop)
}

/// Prints the command with which the user can fetch missing results later.
pub(crate) fn print_collect_hint(finished: &FinishedRun, server: &ServerArgs, progress: &Progress) {
    let findings = &finished.record.findings;
    if findings
        .iter()
        .any(|finding| finding.id == FindingId::Partial)
    {
        let nats = server.nats.as_ref();
        let nats = nats.map_or(String::new(), |url| format!(" --nats {url}"));
        progress.warn(format_args!(
            "some results are missing; fetch them with: prony fleet collect {} --creds {}{nats}",
            finished.run,
            server.creds.display(),
        ));
    }
}

/// Runs a load on agents by calling `work`, and shows its progress. Stops the load when one of its
/// abort conditions holds.
pub(crate) fn observe_agents<T>(
    session: &Session,
    stop: &StopRequest,
    abort_rules: Option<&AbortRules>,
    precision: Option<WantedPrecision<'_>>,
    work: impl FnOnce(LoadObserver<'_>) -> T,
) -> LoadEnd<T> {
    let feed = Arc::<Feed>::default();
    let is_fed = session.shows_loads() || abort_rules.is_some() || precision.is_some();
    let observer = LoadObserver {
        on_event: &|event| print_event(session.progress(), event),
        stop,
        feed: is_fed.then_some(&feed),
    };
    let load = ObservedLoad {
        running: RunningLoad::ByAgents(feed.clone()),
        planned: None,
        forecast: &[],
        abort_rules,
        precision,
        abort: &|abort| stop.abort(abort.clone()),
    };
    session.observe_load(load, || work(observer))
}

/// Prints an event of the fleet.
pub(crate) fn print_event(progress: &Progress, event: FleetEvent<'_>) {
    match event {
        FleetEvent::Step(text) => progress.line(text),
        FleetEvent::Warning(text) => progress.warn(text),
        // The live view shows the progress itself.
        FleetEvent::Progress(_) if progress.mode() == ProgressMode::View => {}
        FleetEvent::Progress(update) => progress.line(&progress_line(&update)),
    }
}

/// Formats a load's progress: rates, failures, and agents that have been silent for a while.
fn progress_line(update: &ProgressUpdate) -> String {
    let mut line = format!(
        "{}: {} ok in the last {}, {} failed so far, {} loading",
        rounded(update.elapsed),
        number::rate(update.ok_per_s),
        rounded(update.span),
        number::count(update.failed),
        number::plural(update.agents as u64, "agent", "agents"),
    );
    let quiet: Vec<&str> = update.quiet.iter().map(|name| name.as_str()).collect();
    match quiet.len() {
        0 => {}
        all if all == update.agents && all > 1 => line += ", all of them silent",
        1..=4 => line += &format!(", quiet: {}", quiet.join(", ")),
        many => line += &format!(", {many} of them silent"),
    }
    line
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_progress_line_names_quiet_agents() {
        let line = |agents, quiet: &[&str]| {
            progress_line(&ProgressUpdate {
                elapsed: Duration::from_secs(5),
                span: Duration::from_secs(5),
                ok_per_s: 100.0,
                failed: 0,
                agents,
                quiet: quiet.iter().map(|name| name.parse().unwrap()).collect(),
            })
        };
        assert!(line(4, &[]).ends_with(", 4 agents loading"));
        assert!(line(4, &["a", "b"]).ends_with(", 4 agents loading, quiet: a, b"));
        assert!(line(1, &["a"]).ends_with(", 1 agent loading, quiet: a"));
        assert!(line(2, &["a", "b"]).ends_with(", all of them silent"));
        let many = ["a", "b", "c", "d", "e"];
        assert!(line(9, &many).ends_with(", 5 of them silent"));
    }
}
