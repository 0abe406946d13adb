//! Turns the events of an experiment into progress lines and into the state of the live view.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prony_experiment::runner::{ExperimentEvent, Forecast, LatestSample, TrialResult};
use prony_fleet::coordinator::Feed;
use prony_load::Control;
use prony_plan::{Plan, PlanVariant};
use prony_record::{Finding, LoadInfo};
use prony_report::number;
use prony_stats::capacity::ProbeReport;
use prony_stats::capacity::SearchOutcome;
use prony_stats::{Verdict, VerdictDocument};

use crate::experiment::outlook;
use crate::live::experiment::ExperimentNotes;
use crate::live::experiment_state::{ExperimentState, TrialPhase};
use crate::live::rounds::Rounds;
use crate::progress::Progress;
use crate::running_load::RunningLoad;
use crate::session::Session;

/// Receives the events of an experiment, prints progress lines, and updates the state of the live
/// view.
pub(crate) struct ExperimentWatcher<'a> {
    session: &'a Session,
    /// Names of variants, as shown in results. The key is the variant's ID.
    names: BTreeMap<&'a str, String>,
    notes: ExperimentNotes,
}

impl<'a> ExperimentWatcher<'a> {
    /// Creates a watcher for a run of the plan. `forecast` must be the forecast of the same plan.
    pub(crate) fn new(
        session: &'a Session,
        plan: &'a Plan,
        forecast: Forecast,
    ) -> ExperimentWatcher<'a> {
        let name = |variant: &'a PlanVariant| {
            let levels: Vec<&str> = variant.levels.iter().map(|(_, level)| level).collect();
            (variant.id.as_str(), levels.join(" "))
        };
        let title = if plan.question.is_empty() {
            plan.name.clone()
        } else {
            format!("{}: {}", plan.name, plan.question)
        };
        ExperimentWatcher {
            session,
            names: plan.variants.iter().map(name).collect(),
            notes: ExperimentNotes::new(ExperimentState::new(title, forecast)),
        }
    }

    fn progress(&self) -> &Progress {
        self.session.progress()
    }

    /// Returns the state that the live view draws.
    pub(crate) fn notes(&self) -> &ExperimentNotes {
        &self.notes
    }

    /// Reports an event as progress lines, and updates the live view's state and the metrics.
    pub(crate) fn observe(&self, event: &ExperimentEvent<'_>) {
        if let Some(metrics) = self.session.metrics() {
            metrics.observe(event);
        }
        match event {
            ExperimentEvent::Mode { mode } => self.progress().line(&mode.to_string()),
            ExperimentEvent::Resumed { blocks, block_time } => {
                self.notes.note(|state| state.resume(*blocks, *block_time));
                let blocks = number::plural(u64::from(*blocks), "block", "blocks");
                self.progress().line(&format!("resuming after {blocks}"));
            }
            ExperimentEvent::Checking {
                position,
                variants,
                id,
            } => {
                let name = self.name(id);
                let number = position + 1;
                self.progress()
                    .step(&format!("pre-check {number} of {variants}: {name}"));
                self.notes.note(|state| {
                    let number = u32::try_from(number).unwrap_or(u32::MAX);
                    state.trial = Some((format!("pre-check, {name}"), number));
                    state.phase = TrialPhase::Between;
                });
            }
            ExperimentEvent::RuledOut { findings, .. } => self.warn(findings),
            ExperimentEvent::Checked { forecast, overhead } => self.checked(forecast, *overhead),
            ExperimentEvent::TrialBegan {
                block,
                position,
                id,
                ..
            } => self.notes.note(|state| {
                state.block = *block;
                let position = u32::try_from(*position).unwrap_or(u32::MAX);
                state.trial = Some((self.name(id).to_owned(), position.saturating_add(1)));
                state.phase = TrialPhase::Between;
            }),
            ExperimentEvent::Starting { service } => {
                let service = (*service).to_owned();
                self.notes
                    .note(|state| state.phase = TrialPhase::Starting(service));
            }
            ExperimentEvent::Loading {
                planned,
                info,
                control,
                agents,
                latest,
            } => {
                let load = agents.is_none().then_some((*control, *info));
                self.loading(latest, load, *planned);
            }
            ExperimentEvent::Probed { probe, bracket } => {
                let line = probe_line(probe, *bracket);
                self.progress().step(&line);
                self.notes.note(|state| state.probe_ended(line));
            }
            ExperimentEvent::InterleavedBlockBegan { .. }
            | ExperimentEvent::Interleaving { .. }
            | ExperimentEvent::RoundsBegan { .. }
            | ExperimentEvent::RoundEnded { .. } => self.observe_interleaving(event),
            ExperimentEvent::Loaded => self.notes.loaded(),
            ExperimentEvent::TrialEnded { id, result } => {
                let line = trial_line(self.name(id), result);
                self.progress().step(&line);
                self.notes.note(|state| state.trial_ended(line));
            }
            ExperimentEvent::BlockEnded { block, estimates } => {
                self.notes
                    .note(|state| state.take_estimates(*block, estimates));
            }
            ExperimentEvent::Looked { document, next } => {
                if let Some(text) = look_line(document, *next) {
                    self.progress().step(&text);
                }
                let comparisons = &document.comparisons;
                self.notes
                    .note(|state| state.take_look(document.blocks, comparisons, *next));
            }
        }
    }

    fn checked(&self, forecast: &Forecast, overhead: Duration) {
        if let Some(line) = outlook::forecast_line(forecast, overhead) {
            self.progress().step(&line);
        }
        self.notes.note(|state| state.check_ended(forecast));
    }

    fn warn(&self, findings: &[&Finding]) {
        for finding in findings {
            self.progress().warn(&finding.text);
        }
    }

    fn observe_interleaving(&self, event: &ExperimentEvent<'_>) {
        match event {
            ExperimentEvent::InterleavedBlockBegan { block } => self.notes.note(|state| {
                state.block = *block;
                state.trial = Some(("all variants in turn".to_owned(), 1));
                state.phase = TrialPhase::Between;
            }),
            ExperimentEvent::Interleaving {
                loads,
                latest,
                planned,
            } => {
                self.loading(latest, None, *planned);
                let named = loads
                    .iter()
                    .map(|load| (load.variant, self.name(load.id).to_owned()));
                let rounds = Rounds::begin(named.collect());
                self.notes.note(|state| state.rounds = Some(rounds));
            }
            ExperimentEvent::RoundsBegan { slice, rounds } => self.notes.note(|state| {
                if let Some(of_block) = &mut state.rounds {
                    (of_block.slice, of_block.planned) = (*slice, *rounds);
                }
            }),
            ExperimentEvent::RoundEnded { slices, .. } => self.notes.note(|state| {
                if let Some(of_block) = &mut state.rounds {
                    of_block.round_ended(slices);
                }
            }),
            _ => {}
        }
    }

    /// Shows that a load is running. Follows the progress of the load if it runs in this process.
    fn loading(
        &self,
        latest: &Arc<LatestSample>,
        load: Option<(&Arc<Control>, &LoadInfo)>,
        planned: Duration,
    ) {
        // Workers publish interim results only if the live view shows them.
        if self.session.has_view() {
            self.notes.loading(latest);
            if let Some((control, info)) = load {
                self.notes.follow(RunningLoad::here(control, info), planned);
            }
        }
    }

    /// Follows a load that runs on agents.
    pub(crate) fn by_agents(&self, feed: &Arc<Feed>) {
        let running_load = RunningLoad::ByAgents(feed.clone());
        if self.session.has_view() {
            self.notes.follow(running_load.clone(), Duration::ZERO);
        }
        if let Some(metrics) = self.session.metrics() {
            metrics.running(running_load);
        }
    }

    fn name<'n>(&'n self, id: &'n str) -> &'n str {
        self.names.get(id).map_or(id, String::as_str)
    }
}

/// Formats a probe of a capacity search and the current bracket as one line.
fn probe_line(probe: &ProbeReport, bracket: (Option<f64>, Option<f64>)) -> String {
    let unit = probe.rate_unit;
    let offered = match probe.rate_per_s {
        Some(per_s) => format!("probe at {}", unit.rate(per_s)),
        None => {
            let achieved = unit.rate(probe.achieved_per_s);
            return format!("closed loop: {achieved}");
        }
    };
    let result = if probe.met { "met" } else { "not met" };
    let figure = number::rate_figure;
    let range = match bracket {
        (Some(met), Some(unmet)) if met < unmet => {
            format!("; between {} and {}", figure(met), unit.rate(unmet))
        }
        (Some(met), Some(unmet)) => {
            format!("; around {} to {}", figure(unmet), unit.rate(met))
        }
        (Some(met), None) => format!("; above {}", unit.rate(met)),
        (None, Some(unmet)) => format!("; below {}", unit.rate(unmet)),
        (None, None) => String::new(),
    };
    format!(
        "{offered}: {result} ({}){range}",
        prony_wording::capacity::readings(probe)
    )
}

/// Formats the result of a trial as one line.
fn trial_line(name: &str, result: &TrialResult) -> String {
    let block = result.block;
    if let Some(search) = &result.search {
        let unit = search.rate_unit();
        let capacity = match search.outcome() {
            Some(SearchOutcome::Capacity { per_s }) => {
                format!("capacity {}", unit.rate(per_s))
            }
            Some(SearchOutcome::AtLeast { per_s, .. }) => {
                format!("capacity ≥ {}", unit.rate(per_s))
            }
            Some(SearchOutcome::Below { per_s } | SearchOutcome::Unmet { per_s }) => {
                format!("capacity < {}", unit.rate(per_s))
            }
            None => "no request succeeded".to_owned(),
        };
        let probes = number::plural(search.probes.len() as u64, "probe", "probes");
        return format!("block {block}, {name}: {capacity}, {probes}");
    }
    let Some(record) = &result.record else {
        return format!("block {block}, {name}: no record");
    };
    let (ok, failed) = match record.totals.failed {
        0 => ("", String::new()),
        n => (" ok", format!(", {} failed", number::count(n))),
    };
    format!(
        "block {block}, {name}: {}{ok}, p99 {}{failed}",
        number::rate(record.rate.ok_per_s),
        number::time(record.response_time_us.p99)
    )
}

/// Returns a line with the number of comparisons that are undecided after a look. Returns `None`
/// for the last look, because the final verdict follows immediately.
fn look_line(document: &VerdictDocument, next: Option<u32>) -> Option<String> {
    let next = next?;
    let open = document
        .comparisons
        .iter()
        .filter(|c| c.verdict == Verdict::Undecided)
        .count();
    Some(format!(
        "after {}: {} of {} undecided; the next look comes after block {next}",
        number::plural(u64::from(document.blocks), "block", "blocks"),
        open,
        number::plural(document.comparisons.len() as u64, "verdict", "verdicts"),
    ))
}
