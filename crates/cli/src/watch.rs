//! An experiment's events, told to whoever watches standard error.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use prony_experiment::plan::{Plan, Variant};
use prony_experiment::runner::{Event, Forecast, TrialResult};
use prony_report::number;
use prony_stats::{Verdict, VerdictDocument};

use crate::progress::{Progress, Show, rounded};

/// How often a live line changes.
const EVERY: Duration = Duration::from_millis(250);

/// What is going on.
#[derive(Debug)]
pub(crate) struct Watch<'a> {
    progress: &'a Progress,
    forecast: Forecast,
    /// What results call the variants, by their ids.
    names: BTreeMap<&'a str, String>,
    now: Mutex<Now>,
}

/// The trial under way.
#[derive(Debug, Default)]
struct Now {
    block: u32,
    trial: String,
    phase: Phase,
}

#[derive(Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Starting(String),
    Loading {
        until: Instant,
    },
}

impl<'a> Watch<'a> {
    /// A watch over the run of a plan that will take so much.
    pub(crate) fn new(progress: &'a Progress, plan: &'a Plan, forecast: Forecast) -> Watch<'a> {
        let name = |variant: &'a Variant| {
            let levels: Vec<&str> = variant.levels.iter().map(|(_, level)| level).collect();
            (variant.id.as_str(), levels.join(" "))
        };
        let names = plan.variants.iter().map(name).collect();
        Watch {
            progress,
            forecast,
            names,
            now: Mutex::default(),
        }
    }

    /// Takes note of what happened.
    pub(crate) fn hear(&self, event: &Event<'_>) {
        match event {
            Event::Resumed { blocks } => {
                let blocks = number::plural(u64::from(*blocks), "block", "blocks");
                self.progress.line(&format!("read back: {blocks}"));
            }
            Event::TrialBegan {
                block,
                position,
                variants,
                id,
            } => {
                let mut now = self.lock();
                now.block = *block;
                now.trial = format!("{} ({} of {variants})", self.name(id), position + 1);
                now.phase = Phase::Idle;
            }
            Event::Starting { service } => {
                self.lock().phase = Phase::Starting((*service).to_owned());
            }
            Event::Loading { planned, .. } => {
                self.lock().phase = Phase::Loading {
                    until: Instant::now() + *planned,
                };
            }
            Event::Loaded | Event::BlockEnded { .. } => {}
            Event::TrialEnded { id, result } => {
                self.lock().phase = Phase::Idle;
                self.progress.line(&ended(self.name(id), result));
            }
            Event::Looked { document, next } => {
                if let Some(text) = looked(document, *next) {
                    self.progress.line(&text);
                }
            }
        }
    }

    /// Keeps the live line up to date until the other end of `is_done` is gone.
    pub(crate) fn keep_live(&self, is_done: &Receiver<()>) {
        if self.progress.show() != Show::Live {
            return;
        }
        while is_done.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            let text = self.status();
            self.progress.status(&text);
        }
    }

    fn status(&self) -> String {
        let now = self.lock();
        let (least, most) = self.forecast.blocks;
        let of = match least == most {
            true => most.to_string(),
            false => format!("{least} to {most}"),
        };
        let phase = match &now.phase {
            Phase::Idle => String::new(),
            Phase::Starting(service) => format!(", starting {service}"),
            Phase::Loading { until } => {
                let left = until.saturating_duration_since(Instant::now());
                format!(", loading, {} left", rounded(left))
            }
        };
        format!("block {} of {of}: {}{phase}", now.block, now.trial)
    }

    fn name<'n>(&'n self, id: &'n str) -> &'n str {
        self.names.get(id).map_or(id, String::as_str)
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A trial in a line.
fn ended(name: &str, result: &TrialResult) -> String {
    let block = result.block;
    let Some(record) = &result.record else {
        return format!("block {block}, {name}: no record");
    };
    let failed = match record.totals.failed {
        0 => String::new(),
        n => format!(", {} failed", number::count(n)),
    };
    format!(
        "block {block}, {name}: {}, p99 {}{failed}",
        number::rate(record.rate.ok_per_s),
        number::time(record.response_time_us.p99)
    )
}

/// What a look left open; nothing where it was the last, since the verdict follows at once.
fn looked(document: &VerdictDocument, next: Option<u32>) -> Option<String> {
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
