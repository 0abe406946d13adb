//! `[load]` with `model = "capacity"`: goals and limits of the searches.

use std::time::Duration;

use prony_load::{Arrivals, LoadSettings};
use prony_record::quantity;
use prony_stats::capacity::{Goal, Probe, ProbePurpose, Search};

use crate::capacity_goals::CapacityGoals;
use crate::diagnostic::DiagnosticKind;
use crate::probe_load::ProbeLoad;
use crate::syntax::{PlanReader, TomlTable};

/// Keys of `[load]` that are valid only for a capacity search.
const OWN_KEYS: &[&str] = &["goal", "max_rate", "search_time", "probe"];

/// Keys of `[load]` that a capacity search determines, each with a hint.
const CHOSEN_BY_SEARCH: &[(&str, &str)] = &[
    ("rate", "remove the key; `max_rate` limits the rates"),
    ("stages", "remove the key; `max_rate` limits the rates"),
    (
        "duration",
        "remove the key; the key `probe` sets the length of each probe",
    ),
    (
        "requests",
        "remove the key; the key `probe` sets the length of each probe",
    ),
    (
        "warmup",
        "remove the key; each probe has its own settling phase",
    ),
    (
        "abort_if",
        "remove the key; goal decides when a probe ends early",
    ),
    (
        "abort_window",
        "remove the key; goal decides when a probe ends early",
    ),
];

/// Typical duration of a search, including settling parts, divided by the duration of the measured
/// part of a probe.
const PROBES_USUAL: f64 = 30.0;

/// Goals and limits of a variant's capacity searches.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityLoad {
    /// Goals that the server must meet, and limits of the searches.
    pub goals: CapacityGoals,
    /// Arrival process of the probes' requests; Poisson by default.
    pub arrivals: Arrivals,
}

/// Returns true if the load is a capacity search.
pub(super) fn is_capacity(table: &TomlTable) -> bool {
    let model = table.get("model").and_then(|node| node.value.scalar_text());
    model.as_deref() == Some("capacity")
}

/// Reports keys that are valid only for a capacity search.
pub(super) fn refuse_keys(table: &TomlTable, reader: &mut PlanReader<'_>) {
    for key in OWN_KEYS {
        if let Some(node) = table.get(key) {
            let message = format!("{key} of [load] is valid only for a capacity search");
            let hint = "add model = \"capacity\", or remove the key";
            reader.report_with_hint(DiagnosticKind::Structure, node.line, message, hint);
        }
    }
}

/// Reports keys that contradict a capacity search.
pub(super) fn check_keys(
    table: &TomlTable,
    trial_keys: &[String],
    is_by_agents: bool,
    reader: &mut PlanReader<'_>,
) {
    for (key, hint) in CHOSEN_BY_SEARCH {
        if let Some(node) = table.get(key) {
            let message = format!("a capacity search chooses its loads, so it has no {key}");
            reader.report_with_hint(DiagnosticKind::Structure, node.line, message, *hint);
        }
    }
    let line = table.line_of("model");
    for key in ["duration", "warmup"] {
        if trial_keys.iter().any(|given| given == key) {
            let message = format!("a capacity search chooses its loads, so [trials] has no {key}");
            let hint = "remove the key; `probe` in [load] sets the length of each probe";
            reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
        }
    }
    if is_by_agents {
        let message = "a capacity search runs on this machine, so agents can't generate its load";
        let hint = "remove agents";
        let line = table.line_of("agents");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, hint);
    }
}

/// Reads goals and limits. If they are invalid, reports the error and returns `None`. Moves
/// `arrivals` out of the settings, where it would require a rate.
pub(super) fn read_capacity(
    table: &TomlTable,
    settings: &mut LoadSettings,
    reader: &mut PlanReader<'_>,
) -> Option<CapacityLoad> {
    let arrivals = settings.arrivals.take().unwrap_or(Arrivals::Poisson);
    let rate_max = table.get("max_rate").and_then(|node| {
        let text = reader.scalar(node, "max_rate")?;
        reader.valid(quantity::rate(&text), node, "max_rate")
    });
    let mut time = |key: &str| {
        let node = table.get(key)?;
        let text = reader.scalar(node, key)?;
        reader.valid(quantity::positive_time(&text), node, key)
    };
    let (search_time, probe) = (time("search_time"), time("probe"));
    if search_time.is_some() && probe.is_some() {
        let message = "search_time and probe both set the length of the probes";
        let line = table.line_of("probe");
        reader.report_with_hint(DiagnosticKind::Structure, line, message, "remove one");
    }
    let goals = CapacityGoals {
        goals: read_goals(table, reader)?,
        search_time,
        probe,
        rate_max,
    };
    if let Err(refusal) = goals.check() {
        let line = table.line_of("goal");
        let message = format!("goal of [load]: {refusal}");
        let hint = match (probe, rate_max) {
            (Some(_), _) => "set a longer probe",
            (None, Some(_)) => "raise max_rate, or set a longer search_time",
            (None, None) => "set a longer search_time",
        };
        reader.report_with_hint(DiagnosticKind::BadValue, line, message, hint);
        return None;
    }
    Some(CapacityLoad { goals, arrivals })
}

fn read_goals(table: &TomlTable, reader: &mut PlanReader<'_>) -> Option<Vec<Goal>> {
    const EXAMPLE: &str = "such as goal = \"p99 < 50ms\"";
    let Some(node) = table.get("goal") else {
        let message = "a capacity search needs a goal";
        let line = table.line_of("model");
        reader.report_with_hint(DiagnosticKind::MissingKey, line, message, EXAMPLE);
        return None;
    };
    let texts = reader.texts(node, "goal of [load]")?;
    if texts.is_empty() {
        let message = "goal of [load] is empty; a capacity search needs at least one";
        reader.report_with_hint(DiagnosticKind::BadValue, node.line, message, EXAMPLE);
        return None;
    }
    let mut goals = Vec::new();
    for text in &texts {
        match Goal::parse(text) {
            Ok(goal) => goals.push(goal),
            Err(error) => {
                let message = format!("goal of [load]: {error}");
                reader.report(DiagnosticKind::BadValue, node.line, message);
            }
        }
    }
    (goals.len() == texts.len()).then_some(goals)
}

impl CapacityLoad {
    /// Returns the settings from which the settings of each probe are derived.
    pub fn base(&self, settings: &LoadSettings) -> LoadSettings {
        LoadSettings {
            arrivals: Some(self.arrivals),
            ..settings.clone()
        }
    }

    /// Returns the settings of an example probe, to check them before anything runs.
    pub(super) fn sample(&self, settings: &LoadSettings) -> LoadSettings {
        let probe = Probe {
            rate_per_s: Some(1_000.0),
            settle_s: 1.0,
            measure_s: 1.0,
            purpose: ProbePurpose::Edge,
        };
        let load = ProbeLoad::Probe {
            probe,
            limit_s: Goal::longest_limit_s(&self.goals.goals),
            number: 0,
        };
        load.settings(&self.base(settings))
    }

    /// Returns the goals and limits as flags of `prony capacity`, each with its key in the plan.
    pub fn flags(&self) -> impl Iterator<Item = (&'static str, String)> {
        let CapacityGoals {
            goals,
            search_time,
            probe,
            rate_max,
        } = &self.goals;
        let goals: Vec<String> = goals.iter().map(|it| format!("--goal '{it}'")).collect();
        let time = |flag: &str, time: &Option<Duration>| {
            time.map(|time| format!("{flag} {}", quantity::time_text(time)))
        };
        let arrivals = match self.arrivals {
            Arrivals::Constant => Some("--arrivals constant".to_owned()),
            Arrivals::Poisson => None,
        };
        let flags = [
            ("goal", Some(goals.join(" "))),
            (
                "max_rate",
                rate_max.map(|rate| format!("--max-rate {rate}")),
            ),
            ("search_time", time("--search-time", search_time)),
            ("probe", time("--probe", probe)),
            ("arrivals", arrivals),
        ];
        flags
            .into_iter()
            .filter_map(|(key, flag)| Some((key, flag?)))
    }

    /// Returns the typical and the maximum time of a search.
    pub fn search_time(&self) -> (Duration, Duration) {
        let settings = self.goals.search(0, None);
        let longest_s = Search::time_s_max(&settings);
        let usual_s = match settings.probe_s {
            Some(probe_s) => PROBES_USUAL * probe_s,
            None => settings.time_s,
        };
        let seconds = |s: f64| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX);
        (seconds(usual_s.min(longest_s)), seconds(longest_s))
    }
}
