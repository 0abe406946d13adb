//! Results for those who gate by them: JUnit XML, a summary and annotations for GitHub.
//!
//! Enters: what was judged, as [`Judged`]. What is a failure here is what makes the command end with
//! status 1 for its conditions: a gate that failed, a regression that is established. A slower
//! variant of an experiment is a result like any other, unless a gate says that it must not be.

mod github;
mod junit;

use prony_record::Record;
use prony_stats::gate::{GateResult, Ruling};
use prony_stats::runs::RunsDocument;
use prony_stats::{Comparison, Verdict};

use crate::stored::{Content, Stored};
use crate::verdict_view::word;

pub use github::{annotations, summary};
pub use junit::junit;

/// Everything that was judged.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// What it is about.
    pub new: &'a Stored,
    /// Against another run, where there is one.
    pub runs: Option<&'a RunsDocument>,
    /// What became of the conditions.
    pub gates: &'a [GateResult],
    /// Whether a regression is a failure: a stored run was given to hold this one against.
    pub is_gated: bool,
    /// Whether what can't be told is a failure, too.
    pub strict: bool,
}

/// What becomes of one thing that was judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Passed,
    Failed,
    /// Nobody can tell.
    Skipped,
}

/// One thing that was judged.
#[derive(Debug)]
struct Case {
    /// `comparison`, `against` or `condition`.
    kind: &'static str,
    /// What it is called: metric and variant, or the condition.
    name: String,
    fate: Fate,
    /// The verdict's word or the ruling's.
    word: &'static str,
    /// The sentence.
    text: String,
    /// Seconds that were measured for it.
    seconds: f64,
}

impl Judged<'_> {
    /// Whether anything failed: the reason for status 1.
    pub fn has_failed(&self) -> bool {
        self.cases().iter().any(|case| case.fate == Fate::Failed)
    }

    fn cases(&self) -> Vec<Case> {
        let mut cases: Vec<Case> = self
            .new
            .comparisons()
            .iter()
            .map(|comparison| self.comparison(comparison))
            .collect();
        let between = self.runs.into_iter().flat_map(|runs| &runs.comparisons);
        for one in between {
            let verdict = one.verdict.unwrap_or(Verdict::Withheld);
            let fate = match (one.regression, self.is_gated) {
                (Some(ruling), true) => self.fate(ruling),
                (None, true) => self.fate(Ruling::Unclear),
                (_, false) => of_verdict(verdict),
            };
            let against = self.runs.map_or("", |runs| runs.old.label.as_str());
            cases.push(Case {
                kind: "against",
                name: format!("{} of {} against {against}", one.metric, named(&one.name)),
                fate,
                word: word(verdict),
                text: one.text.clone(),
                seconds: self.seconds_of(&one.name),
            });
        }
        for gate in self.gates {
            cases.push(Case {
                kind: "condition",
                name: match gate.name.as_str() {
                    "" => gate.gate.clone(),
                    name => format!("{} ({name})", gate.gate),
                },
                fate: self.fate(gate.ruling),
                word: crate::runs_view::ruling_word(gate.ruling),
                text: gate.text.clone(),
                seconds: self.seconds_of(&gate.name),
            });
        }
        cases
    }

    fn comparison(&self, comparison: &Comparison) -> Case {
        Case {
            kind: "comparison",
            name: format!(
                "{} of {} against {}",
                comparison.metric, comparison.name, comparison.against_name
            ),
            fate: of_verdict(comparison.verdict),
            word: word(comparison.verdict),
            text: comparison.text.clone(),
            seconds: self.seconds_of(&comparison.name),
        }
    }

    fn fate(&self, ruling: Ruling) -> Fate {
        match ruling {
            Ruling::Failed => Fate::Failed,
            Ruling::Unclear if self.strict => Fate::Failed,
            Ruling::Unclear => Fate::Skipped,
            Ruling::Passed => Fate::Passed,
        }
    }

    /// How long a variant was measured in all.
    fn seconds_of(&self, name: &str) -> f64 {
        let run = self.new.run();
        let place = run.variants.iter().position(|one| one.name == name);
        let records = self.new.records().into_iter();
        let own = records.filter(|(_, variant, _)| place.is_none_or(|place| place == *variant));
        own.map(|(_, _, record)| seconds(record)).sum()
    }

    /// What the whole is called.
    fn name(&self) -> String {
        match &self.new.content {
            Content::Experiment(experiment) => experiment.verdict.name.clone(),
            Content::Loads(records) => records
                .first()
                .map_or_else(String::new, |record| record.load.url.clone()),
        }
    }
}

fn named(name: &str) -> &str {
    if name.is_empty() { "the load" } else { name }
}

fn of_verdict(verdict: Verdict) -> Fate {
    match verdict {
        Verdict::Faster | Verdict::Slower | Verdict::Equivalent => Fate::Passed,
        Verdict::Undecided | Verdict::Withheld => Fate::Skipped,
    }
}

fn seconds(record: &Record) -> f64 {
    record.totals.elapsed_s
}
