//! Results for CI: JUnit XML, a badge, a summary and annotations for GitHub.
//!
//! A test case fails if the command would exit with status 1 because of it: for a failed condition,
//! a withheld verdict, or an established regression. A slower variant of an experiment is an ordinary result,
//! unless a condition forbids it.

mod badge;
mod github;
mod junit;

use prony_record::Record;
use prony_stats::gate::{GateOutcome, GateResult};
use prony_stats::runs::RunsDocument;
use prony_stats::{Comparison, Verdict};
use prony_wording::runs::ruling_word;
use prony_wording::verdict::word;

use crate::method as experiment_wording;
use crate::stored::{Stored, StoredContent};
use crate::tables::runs;

pub use badge::badge;
pub use github::{annotations, summary};
pub use junit::junit;

/// The verdicts and conditions of a run.
#[derive(Debug, Clone, Copy)]
pub struct RunVerdicts<'a> {
    /// The run that is judged.
    pub new: &'a Stored,
    /// The comparison with a stored run, if any.
    pub runs: Option<&'a RunsDocument>,
    /// The results of the conditions.
    pub gates: &'a [GateResult],
    /// True if regressions are failures, because a stored run was given with `--against`.
    pub is_gated: bool,
    /// True if inconclusive conditions are failures.
    pub strict: bool,
}

/// The status of a test case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CaseStatus {
    Passed,
    Failed,
    /// The result is undecided or inconclusive, or nothing requires it.
    Skipped,
}

/// A comparison or a condition as a test case.
#[derive(Debug)]
struct Case {
    /// Kind of the case: `comparison`, `against` or `condition`.
    kind: &'static str,
    /// Name of the case: metric and variant, or the condition.
    name: String,
    status: CaseStatus,
    /// The verdict or the condition's result as a word.
    word: &'static str,
    /// The sentence with the measured values.
    text: String,
    /// Total length, in seconds, of the measurements on which the result is based.
    seconds: f64,
}

impl RunVerdicts<'_> {
    /// Returns true if any test case failed. The command then exits with status 1.
    pub fn has_failed(&self) -> bool {
        self.cases()
            .iter()
            .any(|case| case.status == CaseStatus::Failed)
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
            let status = match (one.regression, self.is_gated) {
                (Some(ruling), true) => self.status(ruling),
                (None, true) => self.status(GateOutcome::Unclear),
                (_, false) => of_verdict(verdict),
            };
            let against = self.runs.map_or("", |runs| runs.old.label.as_str());
            cases.push(Case {
                kind: "against",
                name: format!(
                    "{} of {} against {against}",
                    one.metric.noun(),
                    runs::variant_name(one)
                ),
                status,
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
                status: self.status(gate.ruling),
                word: ruling_word(gate.ruling),
                text: gate.text.clone(),
                seconds: self.seconds_of(&gate.name),
            });
        }
        if cases.iter().all(|case| case.status != CaseStatus::Failed) {
            cases.extend(self.stored_status());
        }
        cases
    }

    /// Returns a case for a stored run that failed for a reason that nothing else shows, such as an
    /// interrupt. Other conditions than those of the run have their own result.
    fn stored_status(&self) -> Option<Case> {
        let StoredContent::Experiment(experiment) = &self.new.content else {
            return None;
        };
        let status = experiment
            .verdict
            .exit_status
            .filter(|&status| status != 0)?;
        let verdict = &experiment.verdict;
        let is_own = self.gates == verdict.gates && self.runs.is_none();
        let reason = verdict.ended_early.as_deref();
        let reason = reason.map_or(String::new(), |reason| {
            format!(" {}", experiment_wording::ended_early(reason))
        });
        is_own.then(|| Case {
            kind: "condition",
            name: "exit status of the run".to_owned(),
            status: CaseStatus::Failed,
            word: "failed",
            text: format!(
                "The command that ran the experiment exited with status {status}.{reason}"
            ),
            seconds: self.seconds_of(""),
        })
    }

    fn comparison(&self, comparison: &Comparison) -> Case {
        Case {
            kind: "comparison",
            name: format!(
                "{} of {} against {}",
                comparison.metric.noun(),
                comparison.name,
                comparison.against_name
            ),
            status: match comparison.verdict {
                Verdict::Withheld => CaseStatus::Failed,
                other => of_verdict(other),
            },
            word: word(comparison.verdict),
            text: comparison.text.clone(),
            seconds: self.seconds_of(&comparison.name),
        }
    }

    fn status(&self, ruling: GateOutcome) -> CaseStatus {
        match ruling {
            GateOutcome::Failed => CaseStatus::Failed,
            GateOutcome::Unclear if self.strict => CaseStatus::Failed,
            GateOutcome::Unclear => CaseStatus::Skipped,
            GateOutcome::Passed => CaseStatus::Passed,
        }
    }

    /// The total measured time of a variant in seconds, or of all variants if none has this name.
    fn seconds_of(&self, name: &str) -> f64 {
        let run = self.new.run();
        let place = run.variants.iter().position(|one| one.name == name);
        let records = self.new.records().into_iter();
        let own = records.filter(|(_, variant, _)| place.is_none_or(|place| place == *variant));
        own.map(|(_, _, record)| seconds(record))
            // The sum of no numbers would be −0.
            .fold(0.0, |sum, seconds| sum + seconds)
    }

    fn name(&self) -> String {
        match &self.new.content {
            StoredContent::Experiment(experiment) => experiment.verdict.name.clone(),
            StoredContent::Loads(records) => records
                .first()
                .map_or_else(String::new, |record| record.load.url.clone()),
        }
    }
}

fn of_verdict(verdict: Verdict) -> CaseStatus {
    match verdict {
        Verdict::Faster | Verdict::Slower | Verdict::Equivalent => CaseStatus::Passed,
        Verdict::Undecided | Verdict::Withheld => CaseStatus::Skipped,
    }
}

fn seconds(record: &Record) -> f64 {
    record.totals.elapsed_s
}
