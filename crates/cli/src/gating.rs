//! Evaluates conditions on results, compares results with a stored run, and writes the files for
//! CI. All input is read and all output files are opened before anything runs.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};

use prony_experiment::runner::{RunSettings, design};
use prony_plan::Plan;
use prony_report::ci::{self, RunVerdicts};
use prony_report::stored::{self, Stored, StoredContent};
use prony_report::{Document, Experiment, regressions, text};
use prony_stats::gate::{Evidence, Gate, GateOutcome, GateResult, GateScope, RunEvidence};
use prony_stats::runs::{self, RunComparison, RunVariant, RunsDocument};

use crate::arguments::GateArgs;
use crate::ending::{Ending, Failure};
use crate::output::{Output, report_lost, write_output};
use crate::runs_folder::catalog::{RunState, is_run_folder, list_runs};
use crate::{runs_folder, terminal};

/// Error probability of an interval when the data is analyzed only once.
const SINGLE_LOOK_ALPHA: f64 = 0.05;

/// Maximum number of runs of a folder that `--against` reads, the newest.
const SERIES_MAX: usize = 50;

/// Labels of the two runs in a comparison: the stored run, which `--against` names, and the new
/// run.
pub(crate) const LABELS: [&str; 2] = ["stored", "new"];

/// The conditions and outputs from the command line, parsed and checked.
#[derive(Default)]
pub(crate) struct GateSettings {
    gates: Vec<Gate>,
    against: Option<Stored>,
    margin: Option<f64>,
    strict: bool,
    annotations: bool,
    junit: Option<Output>,
    badge: Option<Output>,
    summary: Option<PathBuf>,
}

/// Parses the conditions of a flag.
pub(crate) fn parse_all<T, E: fmt::Display>(
    flag: &str,
    input: &[String],
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<Vec<T>, Failure> {
    let parsed = input.iter().map(|text| parse(text));
    let named = parsed.map(|it| it.map_err(|error| Failure::wrong(format!("{flag}: {error}"))));
    named.collect()
}

/// Results of a run, and the stored run that they are compared with, if any.
pub(crate) struct JudgedRuns<'a> {
    /// The results for which the conditions are evaluated.
    pub(crate) new: &'a Stored,
    /// The run to compare with, and its label.
    pub(crate) old: Option<(&'a Stored, &'a str)>,
    /// The comparison of the two runs.
    pub(crate) runs: Option<RunsDocument>,
    /// True if conditions on verdicts apply to the comparison of the two runs.
    pub(crate) is_between: bool,
}

impl GateSettings {
    /// Reads the conditions and the stored run. `known` lists the names that conditions may use.
    pub(crate) fn prepare(
        arguments: &GateArgs,
        mut known: GateScope,
    ) -> Result<GateSettings, Failure> {
        let against = match arguments.against.as_slice() {
            [] => None,
            paths => Some(read_against(paths, &known)?),
        };
        if let Some(stored) = &against {
            known.stored = Some(LABELS[0].to_owned());
            check_common(&known, stored)?;
        }
        if arguments.margin.is_some() && against.is_none() {
            let what = "--margin applies to a comparison with a stored run (add --against)";
            return Err(Failure::wrong(what));
        }
        Self::with_stored(arguments, &known, against)
    }

    /// Reads the conditions. `against` is the run that `--against` names, which has already been read.
    pub(crate) fn with_stored(
        arguments: &GateArgs,
        known: &GateScope,
        against: Option<Stored>,
    ) -> Result<GateSettings, Failure> {
        let mut gates = parse_all("--fail-if", &arguments.fail_if, |text| {
            Gate::parse(text, known)
        })?;
        gates.extend(parse_all("--require", &arguments.require, |text| {
            Gate::require(text, known)
        })?);
        if arguments.strict && gates.is_empty() && arguments.against.is_empty() {
            let what = "--strict needs a condition: add --fail-if, --require or --against";
            return Err(Failure::wrong(what));
        }
        Ok(GateSettings {
            gates,
            against,
            margin: arguments.margin,
            strict: arguments.strict,
            annotations: arguments.annotations,
            junit: Output::open("--junit", arguments.junit.as_deref())?,
            badge: Output::open_file("--badge", arguments.badge.as_deref())?,
            summary: arguments.github.clone(),
        })
    }

    /// Creates settings with conditions only.
    pub(crate) fn of_gates(gates: Vec<Gate>) -> GateSettings {
        GateSettings {
            gates,
            ..GateSettings::default()
        }
    }

    /// Returns true if the command line requests no condition, comparison or output.
    fn is_idle(&self) -> bool {
        self.gates.is_empty()
            && self.against.is_none()
            && self.junit.is_none()
            && self.badge.is_none()
            && self.summary.is_none()
            && !self.annotations
    }

    /// Returns true if the command line has conditions, or a run to compare with.
    pub(crate) fn is_gated(&self) -> bool {
        !self.gates.is_empty() || self.against.is_some()
    }

    /// Returns the stored run that `--against` names.
    pub(crate) fn against(&self) -> Option<&Stored> {
        self.against.as_ref()
    }

    /// Returns true if results are written to standard output as data.
    pub(crate) fn takes_standard_output(&self) -> bool {
        self.junit.as_ref().is_some_and(Output::is_standard)
    }

    /// Compares two runs.
    pub(crate) fn compare(&self, old: (&Stored, &str), new: (&Stored, &str)) -> RunsDocument {
        let about = stored::describe_pair(old, new);
        let mut document = runs::compare(about, &old.0.run(), &new.0.run(), self.margin);
        prony_wording::runs::compose(&mut document);
        document
    }

    /// Evaluates the conditions on an experiment that has just ended, and prints the results.
    /// `ending` is the outcome of the experiment. Returns the outcome with the conditions, and
    /// their results.
    pub(crate) fn conclude(
        self,
        ending: Ending,
        dir: &Path,
    ) -> Result<(Ending, Vec<GateResult>), Failure> {
        if self.is_idle() {
            return Ok((ending, Vec::new()));
        }
        if matches!(
            ending,
            Ending::Interrupted | Ending::CutShort | Ending::Aborted
        ) {
            terminal::print_message("the experiment did not finish; conditions were not evaluated");
            return Ok((ending, Vec::new()));
        }
        let new = stored::read_results(dir).map_err(Failure::refused)?;
        let old = self.against.clone();
        let old = old.as_ref().map(|old| (old, LABELS[0]));
        let mut verdicts = JudgedRuns {
            runs: old.map(|old| self.compare(old, (&new, LABELS[1]))),
            new: &new,
            old,
            is_between: false,
        };
        let gates = self.judge(&mut verdicts);
        let is_text = !self.takes_standard_output();
        if let Some(document) = &verdicts.runs {
            let options = terminal::text_options(is_text);
            let report = text::render(&Document::of_runs(document), options);
            print_text(is_text, &format!("\n{report}"));
        } else {
            print_text(
                is_text,
                &text::gates(&gates, terminal::text_options(is_text)),
            );
        }
        let ending = self.finish(ending, &verdicts, &gates)?;
        let between = verdicts.runs.iter().flat_map(regressions);
        let between = between.map(|(one, ruling)| of_regression(one, ruling));
        Ok((ending, gates.into_iter().chain(between).collect()))
    }

    /// Evaluates the conditions. If two runs are compared, their comparison is among the results.
    pub(crate) fn judge(&self, verdicts: &mut JudgedRuns<'_>) -> Vec<GateResult> {
        let (run, records) = (verdicts.new.run(), verdicts.new.records());
        let other = verdicts
            .old
            .map(|(old, label)| (old.run(), old.records(), label, old));
        let evidence = Evidence {
            new: RunEvidence {
                run: &run,
                records: &records,
                label: LABELS[1],
                is_loads: verdicts.new.is_loads(),
            },
            stored: other
                .as_ref()
                .map(|(run, records, label, old)| RunEvidence {
                    run,
                    records,
                    label,
                    is_loads: old.is_loads(),
                }),
            comparisons: verdicts.new.comparisons(),
            between: verdicts.runs.as_ref().filter(|_| verdicts.is_between),
            miss: last_look_alpha(verdicts.new),
        };
        let results: Vec<GateResult> = self
            .gates
            .iter()
            .flat_map(|gate| prony_wording::gate_results(gate.judge(&evidence)))
            .collect();
        if let Some(document) = &mut verdicts.runs {
            document.gates.clone_from(&results);
        }
        results
    }

    /// Writes the files for CI, and reports failed and inconclusive conditions.
    pub(crate) fn finish(
        self,
        ending: Ending,
        verdicts: &JudgedRuns<'_>,
        gates: &[GateResult],
    ) -> Result<Ending, Failure> {
        let judged = RunVerdicts {
            new: verdicts.new,
            runs: verdicts.runs.as_ref(),
            gates,
            is_gated: self.against.is_some(),
            strict: self.strict,
        };
        if let Some(junit) = self.junit {
            junit.write(&ci::junit(&judged))?;
        }
        write_output(self.badge, || ci::badge(&judged))?;
        if let Some(path) = &self.summary
            && let Err(failure) = append_summary(path, &ci::summary(&judged))
        {
            report_lost(failure);
        }
        if self.annotations {
            for line in ci::annotations(&judged).lines() {
                terminal::print_workflow_command(line);
            }
        }
        report_rulings(&judged, self.strict);
        Ok(match (ending, judged.has_failed()) {
            (Ending::Done, true) => Ending::Doubtful,
            (ending, _) => ending,
        })
    }
}

/// Reads what `--against` names: a run, several records, or a series of experiments, given by their
/// folders or by a folder that holds them.
fn read_against(paths: &[PathBuf], known: &GateScope) -> Result<Stored, Failure> {
    let mut folders = Vec::new();
    for path in paths {
        let path = runs_folder::catalog::resolve_run(path);
        if !path.is_dir() {
            return read_side(paths);
        }
        if is_run_folder(&path) || path.join("verdict.json").exists() {
            folders.push(path);
            continue;
        }
        let runs = list_runs(&path)?.into_iter().take(SERIES_MAX);
        let judged = runs.filter(|run| matches!(run.state, RunState::WithVerdict(_)));
        folders.extend(judged.map(|run| run.path));
    }
    if folders.len() < 2 {
        return read_side(if folders.is_empty() { paths } else { &folders });
    }
    let source = paths.iter().map(|path| path.display().to_string());
    let source = source.collect::<Vec<_>>().join(", ");
    let mut experiments = Vec::new();
    for folder in folders {
        let experiment = prony_report::folder::read_experiment(&folder).map_err(Failure::wrong)?;
        let started = |it: &Experiment| {
            let first = it.trials.first();
            first.map(|trial| trial.record.started_at.clone())
        };
        let variants = experiment.verdict.variants.iter();
        let has_common = variants.clone().any(|variant| {
            let mut known = known.variants.iter();
            known.any(|it| it.levels == variant.levels || it.name == variant.name)
        });
        if has_common {
            experiments.push(((started(&experiment), folder), experiment));
        }
    }
    experiments.sort_by(|a, b| a.0.cmp(&b.0));
    let experiments = experiments.into_iter().map(|it| it.1).collect();
    Stored::of_series(source.clone(), experiments).ok_or_else(|| {
        Failure::wrong(format!(
            "--against {source}: no stored run has a variant of the new run"
        ))
    })
}

/// Reads one side of a comparison: a single path, or several records.
pub(crate) fn read_side(paths: &[PathBuf]) -> Result<Stored, Failure> {
    let mut all = paths.iter().map(|path| {
        stored::read_results(&runs_folder::catalog::resolve_run(path)).map_err(Failure::wrong)
    });
    let mut first = match all.next() {
        Some(first) => first?,
        None => {
            return Err(Failure::wrong(
                "each side of a comparison needs a folder or a record",
            ));
        }
    };
    for next in all {
        let next = next?;
        match (&mut first.content, next.content) {
            (StoredContent::Loads(records), StoredContent::Loads(more)) => records.extend(more),
            _ => {
                let what = "an experiment can't be combined with other runs; only records can";
                return Err(Failure::wrong(what));
            }
        }
        first.source = format!("{}, {}", first.source, next.source);
    }
    Ok(first)
}

/// Returns the names that conditions on a plan's results may use, before the plan has run.
pub(crate) fn known_of_plan(plan: &Plan, settings: &RunSettings) -> GateScope {
    let design = design(plan, settings);
    let variants = (0..design.variants.len()).map(|place| RunVariant {
        name: design.name_of(place),
        levels: design.variants[place].clone(),
    });
    GateScope {
        variants: variants.collect(),
        baseline: design.baseline.clone(),
        stored: None,
    }
}

/// Returns the names that conditions on stored results may use.
pub(crate) fn known_of_stored(stored: &Stored) -> GateScope {
    let run = stored.run();
    GateScope {
        variants: run.variants,
        baseline: run.baseline,
        stored: None,
    }
}

/// Rejects a stored run that shares no variant with the new one.
fn check_common(known: &GateScope, stored: &Stored) -> Result<(), Failure> {
    let run = stored.run();
    let is_there = |variant: &RunVariant| {
        let mut others = run.variants.iter();
        others.any(|other| other.levels == variant.levels || other.name == variant.name)
    };
    let single = known.variants.len() == 1 && run.variants.len() == 1;
    if single || known.variants.iter().any(is_there) {
        return Ok(());
    }
    if stored.is_loads() {
        return Err(Failure::wrong(format!(
            "--against {}: an experiment can't be compared with loads (name a stored experiment)",
            stored.source
        )));
    }
    let names: Vec<&str> = run.variants.iter().map(|one| one.name.as_str()).collect();
    Err(Failure::wrong(format!(
        "--against {}: the stored run has none of the new run's variants; it has {}",
        stored.source,
        names.join("; ")
    )))
}

/// Returns the error probability of an interval at the last look.
fn last_look_alpha(stored: &Stored) -> f64 {
    let StoredContent::Experiment(experiment) = &stored.content else {
        return SINGLE_LOOK_ALPHA;
    };
    let levels = prony_stats::nominal_alphas(&experiment.verdict.looks, SINGLE_LOOK_ALPHA);
    levels.last().copied().unwrap_or(SINGLE_LOOK_ALPHA)
}

/// Describes a regression like a condition.
fn of_regression(one: &RunComparison, ruling: GateOutcome) -> GateResult {
    GateResult {
        gate: format!("{} against the stored run", one.metric.noun()),
        name: one.name.clone(),
        measure: one.metric.name().to_owned(),
        ruling,
        text: one.text.clone(),
        scale: None,
        value: None,
        low: None,
        high: None,
        limit: None,
    }
}

/// Prints one line for all failed conditions, and one for all inconclusive ones.
fn report_rulings(judged: &RunVerdicts<'_>, strict: bool) {
    let of = |ruling: GateOutcome| -> Vec<String> {
        let between = judged.runs.filter(|_| judged.is_gated);
        let between = between.into_iter().flat_map(regressions);
        let between = between.filter(|(_, found)| *found == ruling);
        let names = between.map(|(one, _)| match one.name.as_str() {
            "" => format!("{} against the stored run", one.metric),
            name => format!("{} of {name} against the stored run", one.metric),
        });
        let gates = judged.gates.iter().filter(|gate| gate.ruling == ruling);
        let gates = gates.map(|gate| match gate.name.as_str() {
            "" => format!("'{}'", gate.gate),
            name => format!("'{}' ({name})", gate.gate),
        });
        names.chain(gates).collect()
    };
    for (ruling, word) in [
        (GateOutcome::Failed, "failed"),
        (GateOutcome::Unclear, "inconclusive"),
    ] {
        let names = of(ruling);
        if !names.is_empty() {
            let note = match (ruling, strict) {
                (GateOutcome::Unclear, true) => " (counted as failed because of --strict)",
                _ => "",
            };
            terminal::print_message(format_args!("{word}: {}{note}", names.join("; ")));
        }
    }
}

/// Prints text to standard output if standard output carries text, or to standard error if it
/// carries data.
pub(crate) fn print_text(is_text: bool, text: &str) {
    if is_text {
        terminal::print(text)
    } else {
        terminal::print_line(text.trim_end())
    }
}

/// Appends text to a summary file, because several steps of a CI job may write to the same file.
fn append_summary(path: &Path, text: &str) -> Result<(), Failure> {
    let refused = |error| Failure::file(format!("--github {}", path.display()), &error);
    let mut options = OpenOptions::new();
    let mut file = options
        .append(true)
        .create(true)
        .open(path)
        .map_err(refused)?;
    file.write_all(text.as_bytes()).map_err(refused)
}
