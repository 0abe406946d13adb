//! `prony capacity`: searches for the highest request rate at which a server meets its goals.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use prony_experiment::capacity::{CapacitySearch, ProbeLoads, SearchEvent};
use prony_experiment::runner::Interrupt;
use prony_load::{Arrivals, Control, LoadSettings, LoadSpec, run_scripted};
use prony_machine::neighbors::NeighborWatch;
use prony_machine::system::this_machine;
use prony_plan::capacity_goals::{CapacityGoals, GoalsRefusal};
use prony_plan::probe_load::ProbeLoad;
use prony_record::Record;
use prony_record::number::RateUnit;
use prony_report::{Document, number};
use prony_stats::capacity::{
    CapacityCondition, CapacityDocument, Goal, ProbeReport, RATE_MIN, Search, SearchEnd,
    SearchReport, SearchSettings,
};
use prony_stats::gate::GateOutcome;
use prony_wording::capacity::between;

use crate::arguments::CapacityArgs;
use crate::commands::load::{self, resolve_load};
use crate::ending::{Ending, Failure};
use crate::live::bracket::BracketStep;
use crate::live::capacity::{CapacityNotes, CapacityView};
use crate::output::JsonOutput;
use crate::progress::Progress;
use crate::running_load::RunningLoad;
use crate::schema;
use crate::session::Session;
use crate::signals::SecondSignal;
use crate::{command_line, gating, scripts, terminal};

/// Runs `prony capacity`.
pub(crate) fn run(arguments: &CapacityArgs) -> Result<Ending, Failure> {
    let goals = capacity_goals(arguments)?;
    let conditions = gating::parse_all("--fail-if", &arguments.fail_if, CapacityCondition::parse)?;
    let url = arguments.url.as_deref();
    let described = schema::described(&load_settings(arguments)?, url)?;
    let load = described.settings.clone();
    let spec = resolve_load(arguments.url.as_deref(), &ProbeLoad::Idle.settings(&load))?;
    if arguments.dry_run {
        print_longest(arguments, &goals, spec.info().rate_unit());
        return Ok(Ending::Done);
    }
    let json = JsonOutput::open(arguments.json.as_deref())?;
    let session = Session::monitored(arguments.progress, &arguments.monitoring)?;
    let interrupt = Arc::new(Interrupt::default());
    let stopping = interrupt.clone();
    session.on_stop(SecondSignal::Exits, move || stopping.stop())?;
    let is_stopped = || interrupt.is_stopped();
    if let Err(ending) = session.wait_for_server(&spec, load.wait_for_server, &is_stopped) {
        return Ok(ending);
    }
    let started_at = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let notes = CapacityNotes::new(view_title(&spec.info().url, &goals));
    let mut view = CapacityView {
        notes: &notes,
        interrupt: &interrupt,
    };
    let neighbors = RefCell::new(NeighborWatch::new(spec.server_addresses()));
    let searches = session.observe(&mut view, || {
        let watch = SearchWatcher {
            notes: &notes,
            session: &session,
            searches: arguments.repeats,
            neighbors: &neighbors,
        };
        run_searches(arguments, &goals, &load, &interrupt, &watch)
    })?;
    let mut document = CapacityDocument {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at,
        command: command_line(arguments, &load),
        machine: command_line::machine(&this_machine()),
        url: spec.info().url.clone(),
        arrivals: load.arrivals.unwrap_or(Arrivals::Poisson).name().to_owned(),
        ..CapacityDocument::of(&goals.goals, searches, &conditions)
    };
    document.text = prony_wording::capacity::result(&document);
    let neighbors = neighbors.borrow();
    document
        .findings
        .extend(neighbors.as_ref().and_then(NeighborWatch::finding));
    let ending = print_ending(
        &document,
        &goals,
        session.progress(),
        interrupt.is_stopped(),
    );
    json.show(
        || terminal::print_document(&Document::of_capacity(&document)),
        &document,
    )?;
    if let Some(metrics) = session.metrics() {
        metrics.end(|| Some(Document::of_capacity(&document)));
    }
    Ok(ending)
}

fn capacity_goals(arguments: &CapacityArgs) -> Result<CapacityGoals, Failure> {
    let goals = arguments
        .goal
        .iter()
        .map(|goal| Goal::parse(goal).map_err(|error| Failure::wrong(format!("--goal: {error}"))));
    let goals = CapacityGoals {
        goals: goals.collect::<Result<Vec<Goal>, Failure>>()?,
        search_time: arguments.search_time,
        probe: arguments.probe,
        rate_max: arguments.max_rate,
    };
    match goals.check() {
        Ok(()) => Ok(goals),
        Err(refusal) => {
            let hint = match &refusal {
                GoalsRefusal::FewRequests {
                    probe_s: Some(probe_s),
                    ..
                } => format!("use --probe {:.0}s, or a higher --max-rate", probe_s.ceil()),
                GoalsRefusal::FewRequests { search_s, .. } => format!(
                    "use --search-time {:.0}s, or a higher --max-rate",
                    search_s.ceil()
                ),
                GoalsRefusal::ShortTime { search_s, .. } => {
                    format!("use --search-time {:.0}s", search_s.ceil())
                }
            };
            Err(Failure::wrong(format!("--goal: {refusal} ({hint})")))
        }
    }
}

/// Builds the load settings that all probes share.
fn load_settings(arguments: &CapacityArgs) -> Result<LoadSettings, Failure> {
    let given = &arguments.load.settings;
    let set_by_search = [
        ("--rate", given.rate.is_some()),
        ("--stages", !given.stages.is_empty()),
        ("--replay", given.replay.is_some()),
        ("--think", given.think.is_some()),
        ("--requests", given.requests.is_some()),
        ("--duration", given.duration.is_some()),
        ("--warmup", given.warmup.is_some()),
    ];
    match set_by_search.iter().find(|(_, is_given)| *is_given) {
        None => Ok(given.clone()),
        Some((flag, _)) => Err(Failure::wrong(format!(
            "{flag}: a search sets this itself (remove it; --max-rate limits the rates, --probe \
             sets the length of a probe)"
        ))),
    }
}

fn print_longest(arguments: &CapacityArgs, goals: &CapacityGoals, unit: RateUnit) {
    let first = goals.search(0, None);
    let later = goals.search(0, Some(1.0));
    let repeats = f64::from(arguments.repeats);
    let usual_s = match first.probe_s {
        Some(_) => None,
        None => Some(first.time_s).filter(|time_s| *time_s < first.time_s_max),
    };
    let (first_s, later_s) = (Search::time_s_max(&first), Search::time_s_max(&later));
    let longest = number::span(first_s + (repeats - 1.0) * later_s);
    let text = match usual_s {
        Some(usual_s) => format!(
            "{} searches, about {} each: {} in total. If the server handles fewer than {}, the searches take longer: up to {longest} for all of them.\n",
            arguments.repeats,
            number::span(usual_s),
            number::span(repeats * usual_s),
            unit.rate(first.rate_of_usual_time())
        ),
        None => format!(
            "{} searches, at most {longest} in total\n",
            arguments.repeats
        ),
    };
    terminal::print(&text);
}

/// Runs the searches one after another. Stops early if one is interrupted or finds only a bound.
fn run_searches(
    arguments: &CapacityArgs,
    goals: &CapacityGoals,
    load: &LoadSettings,
    interrupt: &Interrupt,
    watch: &SearchWatcher<'_>,
) -> Result<Vec<SearchReport>, Failure> {
    let mut searches: Vec<SearchReport> = Vec::new();
    let seed = load.seed.unwrap_or(0);
    for number in 0..u64::from(arguments.repeats) {
        // Each search needs different random arrivals; otherwise the interval would not include
        // their variation.
        let seed = seed.wrapping_add(number.wrapping_mul(1_000));
        let mut loads = LocalLoads {
            url: arguments.url.as_deref(),
            settings: LoadSettings {
                seed: Some(seed),
                ..load.clone()
            },
        };
        let start_at = searches.first().and_then(SearchReport::capacity_per_s);
        let mut search = CapacitySearch {
            goals: &goals.goals,
            settings: goals.search(seed, start_at),
            interrupt,
        };
        watch.notes.search_began((number + 1, arguments.repeats));
        let mut show = |event: SearchEvent<'_>| watch.observe(number + 1, event);
        let mut report = search.run(&mut loads, &mut show)?;
        if start_at.is_some() && report.found_only_a_bound() {
            // The server or the machine was slower than during the earlier searches, so the rates
            // around the earlier result don't suffice.
            search.settings.start_at = None;
            report = search.run(&mut loads, &mut show)?;
        }
        watch.search_ended(number + 1, &report);
        let is_capacity = report.capacity_per_s().is_some();
        searches.push(report);
        // If a search finds no capacity, there is no interval, so more searches would add nothing.
        if !is_capacity {
            break;
        }
    }
    Ok(searches)
}

/// Runs the probes of a search in this process.
struct LocalLoads<'a> {
    url: Option<&'a str>,
    settings: LoadSettings,
}

impl ProbeLoads for LocalLoads<'_> {
    type Error = Failure;

    fn spec(&mut self, load: &ProbeLoad) -> Result<LoadSpec, Failure> {
        resolve_load(self.url, &load.settings(&self.settings))
    }

    fn run(&mut self, spec: &LoadSpec, control: &Arc<Control>) -> Result<Record, Failure> {
        run_scripted(spec, control, Some(&scripts::QUIET_LOADER)).map_err(load::failure_of)
    }
}

/// Receives the events of the searches, prints progress lines, and updates the state of the live
/// view.
struct SearchWatcher<'a> {
    notes: &'a CapacityNotes,
    session: &'a Session,
    searches: u32,
    /// `None` if the server isn't seen on this machine.
    neighbors: &'a RefCell<Option<NeighborWatch>>,
}

impl SearchWatcher<'_> {
    /// Reports an event of search number `search`, counted from 1, to the progress output and the
    /// live view.
    fn observe(&self, search: u64, event: SearchEvent<'_>) {
        match event {
            SearchEvent::Begun {
                probe,
                spec,
                control,
            } => {
                if let Some(neighbors) = self.neighbors.borrow_mut().as_mut() {
                    neighbors.probe_began();
                }
                // Merging interim results takes time, so do it only if the live view shows them.
                if self.session.shows_loads() {
                    let load = RunningLoad::here(control, spec.info());
                    let planned = spec.planned().map(Duration::from);
                    if let Some(metrics) = self.session.metrics() {
                        metrics.running(load.clone());
                    }
                    self.notes.probe_began(probe.rate_per_s, load, planned);
                }
            }
            SearchEvent::Ended { probe, bracket } => {
                if let Some(neighbors) = self.neighbors.borrow_mut().as_mut() {
                    neighbors.probe_ended();
                }
                let searches = self.searches;
                let text = probe_text(probe);
                let known = match bracket {
                    (None, None) => String::new(),
                    bracket => format!("; {}", between(bracket, probe.rate_unit)),
                };
                self.session
                    .progress()
                    .step(&format!("search {search} of {searches}: {text}{known}"));
                let step = BracketStep {
                    probe_per_s: probe.rate_per_s.unwrap_or(probe.achieved_per_s),
                    is_met: probe.met,
                    ends: bracket,
                };
                self.notes
                    .probe_ended(step, format!("search {search}: {text}"));
            }
        }
    }

    /// Reports the result of search number `search`, counted from 1, to the live view.
    fn search_ended(&self, search: u64, report: &SearchReport) {
        let unit = report.rate_unit();
        let capacity = match report.capacity_per_s() {
            Some(capacity) => unit.rate(capacity),
            None => between((report.met_per_s, report.unmet_per_s), unit),
        };
        let probes = number::plural(report.probes.len() as u64, "probe", "probes");
        self.notes
            .search_ended(format!("search {search}: {capacity}, {probes}"));
    }
}

/// Formats the result of a probe as one line.
fn probe_text(probe: &ProbeReport) -> String {
    match probe.rate_per_s {
        None => format!(
            "{} in a closed loop",
            probe.rate_unit.rate(probe.achieved_per_s)
        ),
        Some(rate) => {
            let met = if probe.met { "met" } else { "not met" };
            format!(
                "{} {met}: {}",
                probe.rate_unit.rate(rate),
                prony_wording::capacity::readings(probe)
            )
        }
    }
}

/// Returns the title of the live view.
fn view_title(url: &str, goals: &CapacityGoals) -> String {
    let goals: Vec<String> = goals.goals.iter().map(Goal::to_string).collect();
    format!("{url}: {}", goals.join(", "))
}

/// Prints messages about failed conditions and other problems, and returns the exit status.
fn print_ending(
    document: &CapacityDocument,
    goals: &CapacityGoals,
    progress: &Progress,
    is_interrupted: bool,
) -> Ending {
    if is_interrupted {
        progress.warn("interrupted; the result covers only the probes before the interrupt");
        return Ending::Interrupted;
    }
    let last = document.searches.last();
    if let Some(search) = last.filter(|search| search.end == SearchEnd::NoSuccess) {
        progress.warn(if search.probes.is_empty() {
            "no request succeeded"
        } else {
            "the server stopped responding during the search"
        });
        return Ending::Doubtful;
    }
    let mut ending = if document.is_met() {
        Ending::Done
    } else {
        Ending::Doubtful
    };
    if let Some(below_per_s) = document.below_per_s {
        let probes = document.searches.iter().flat_map(|search| &search.probes);
        let closed_loops = probes.filter(|probe| probe.rate_per_s.is_none());
        let reached_per_s = closed_loops
            .map(|probe| probe.achieved_per_s)
            .reduce(f64::min);
        let rates = (below_per_s, reached_per_s, document.rate_unit());
        if let Some(hint) = length_hint(rates, &goals.search(0, None)) {
            progress.warn(hint);
        }
    }
    for result in &document.conditions {
        match result.ruling {
            GateOutcome::Passed => {}
            GateOutcome::Failed => {
                progress.warn(format_args!("--fail-if {}: holds", result.condition));
                ending = Ending::Doubtful;
            }
            GateOutcome::Unclear => progress.warn(format_args!(
                "--fail-if {}: inconclusive, {}",
                result.condition,
                inconclusive_reason(document)
            )),
        }
    }
    ending
}

/// Suggests a longer search or probe if the current length was too short to judge rates below the
/// one that failed. The suggested length suits a tenth of the failed rate or half of the closed
/// loop's rate, whichever is lower.
fn length_hint(
    (below_per_s, reached_per_s, unit): (f64, Option<f64>, RateUnit),
    settings: &SearchSettings,
) -> Option<String> {
    if below_per_s < settings.rate_min() || settings.rate_min() <= RATE_MIN {
        return None;
    }
    let half = 0.5 * reached_per_s.unwrap_or(f64::INFINITY);
    let rate = half.min(below_per_s / 10.0).max(RATE_MIN);
    let (option, time_s) = match settings.probe_s {
        Some(_) => ("--probe", settings.requests_min / rate),
        None => ("--search-time", settings.time_s_to_judge(rate)),
    };
    let time = Duration::from_secs_f64(time_s.ceil());
    let time = humantime::format_duration(time)
        .to_string()
        .replace(' ', "");
    Some(format!(
        "{option} {time} is long enough for rates of {} and above; a lower percentile needs \
         less time",
        unit.rate(rate)
    ))
}

/// Returns a clause that explains why the result doesn't decide a condition.
fn inconclusive_reason(document: &CapacityDocument) -> String {
    if let Some(per_s) = document.at_least_per_s {
        let bound = document.rate_unit().rate(per_s);
        format!("only a lower bound is known: the capacity is {bound} or higher")
    } else if let Some(per_s) = document.below_per_s {
        let bound = document.rate_unit().rate(per_s);
        format!("only an upper bound is known: the capacity is below {bound}")
    } else {
        "the limit is within the interval".to_owned()
    }
}

/// Returns the command line without secrets.
fn command_line(arguments: &CapacityArgs, load: &LoadSettings) -> String {
    let mut command = command_line::of_load("capacity", arguments.url.as_deref(), load);
    for goal in &arguments.goal {
        command.push_str(&format!(" --goal {}", command_line::quoted(goal)));
    }
    let times = [
        ("--search-time", arguments.search_time),
        ("--probe", arguments.probe),
    ];
    for (flag, time) in times {
        if let Some(time) = time {
            let time = humantime::format_duration(time).to_string();
            command.push_str(&format!(" {flag} {}", time.replace(' ', "")));
        }
    }
    if let Some(rate) = arguments.max_rate {
        command.push_str(&format!(" --max-rate {rate}"));
    }
    format!("{command} --repeats {}", arguments.repeats)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_names_the_length_that_a_server_of_this_speed_needs() {
        let settings = |probe_s| SearchSettings {
            requests_min: 100_000.0,
            limit_s: 0.01,
            time_s: 60.0,
            time_s_max: 300.0,
            probe_s,
            rate_max: None,
            start_at: None,
            seed: 0,
        };
        let one_second = settings(Some(1.0));
        assert_eq!(
            length_hint((100_000.0, Some(1_000.0), RateUnit::Requests), &one_second).as_deref(),
            Some(
                "--probe 3m20s is long enough for rates of 500 req/s and above; a lower percentile needs \
                 less time"
            )
        );
        assert_eq!(
            length_hint((100_000.0, Some(90_000.0), RateUnit::Requests), &one_second).as_deref(),
            Some(
                "--probe 10s is long enough for rates of 10,000 req/s and above; a lower percentile needs \
                 less time"
            )
        );
        let hint = length_hint(
            (7_000.0, Some(1_000.0), RateUnit::Requests),
            &settings(None),
        )
        .unwrap();
        assert!(hint.starts_with("--search-time "), "{hint}");
        // The rate that failed is below the lowest rate that a probe can judge, so a longer probe
        // would not help.
        assert_eq!(
            length_hint((50_000.0, Some(60_000.0), RateUnit::Requests), &one_second),
            None
        );
    }
}
