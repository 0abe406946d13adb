//! `prony bisect`: searches for the first commit that is slower than an earlier one.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use prony_experiment::runner::{Interrupt, RunSettings};
use prony_machine::build;
use prony_plan::Plan;
use prony_record::{parse_stored, read_stored};
use prony_report::stored;
use prony_report::table::{Align, Table};
use prony_stats::bisection::{
    BISECTION_BLOCKS_MAX, BISECTION_SCHEMA, BisectedCommit, BisectionDocument, BisectionRecord,
    BisectionStep, CommitVerdict, commit_verdict, comparison_alpha, comparison_margin,
    comparisons_max, next_step,
};
use prony_stats::gate::{Gate, GateOutcome};
use prony_stats::{Verdict, VerdictDocument};
use toml::Table as TomlTable;

use crate::arguments::BisectArgs;
use crate::composed_plan::ComparedRevisions;
use crate::ending::{Ending, Failure};
use crate::experiment::{self, leftovers};
use crate::gating::{GateSettings, JudgedRuns, known_of_plan, parse_all};
use crate::output::replaced_file::replace;
use crate::runs_folder::ResultsFolder;
use crate::session::Session;
use crate::terminal;

/// File with the state and the result of a search.
const FILE: &str = "bisection.json";

/// Digits of a commit in names.
const COMMIT_DIGITS: usize = 12;

/// Runs `prony bisect`.
pub(crate) fn run(arguments: &BisectArgs) -> Result<Ending, Failure> {
    let folder = ResultsFolder::open(
        arguments.resume.clone().or_else(|| arguments.out.clone()),
        "bisection",
    )?;
    let document = match &arguments.resume {
        Some(dir) => stored_document(dir, arguments)?,
        None => new_document(arguments, folder.path())?,
    };
    let session = Session::open(arguments.progress)?;
    let interrupt = session.interrupt_experiment()?;
    let mut search = Search {
        arguments,
        dir: folder.path(),
        session: &session,
        interrupt,
        document,
    };
    // Report mistakes in the options before anything is built.
    let gates = search.gates(&search.plan(search.document.commits.len())?)?;
    drop(gates);
    leftovers::remove_leftovers(session.progress());
    build::sweep();
    search.store()?;
    session.progress().line(&format!(
        "{} commits, at most {} comparisons; results: {}",
        search.document.commits.len(),
        comparisons_max(search.document.commits.len()),
        search.dir.display()
    ));
    search.run()
}

/// Resolves the revisions and lists the commits between them.
fn new_document(arguments: &BisectArgs, dir: &Path) -> Result<BisectionDocument, Failure> {
    if dir.join(FILE).exists() {
        return Err(Failure::wrong(format!(
            "{}: the folder has a search already (continue it with --resume)",
            dir.display()
        )));
    }
    let good = arguments.good.as_deref().unwrap_or_default();
    let found = build::commits_between(Path::new("."), good, &arguments.bad)
        .map_err(|error| Failure::wrong(format!("{} ({})", error.message, error.hint)))?;
    let mut commits = found
        .into_iter()
        .map(|(hash, subject)| BisectedCommit { hash, subject });
    let good = commits.next().unwrap_or_default();
    Ok(BisectionDocument {
        schema: BISECTION_SCHEMA.to_owned(),
        good,
        commits: commits.collect(),
        build: arguments.commands.build.clone().unwrap_or_default(),
        start: arguments.commands.start.clone().unwrap_or_default(),
        margin: None,
        steps: Vec::new(),
        text: String::new(),
    })
}

fn stored_document(dir: &Path, arguments: &BisectArgs) -> Result<BisectionDocument, Failure> {
    let path = dir.join(FILE);
    let text = read_stored(&path).map_err(|error| Failure::file(path.display(), &error))?;
    let document: BisectionDocument = parse_stored(&text)
        .map_err(|error| Failure::wrong(format!("{}: {error}", path.display())))?;
    let commands = &arguments.commands;
    for (flag, now, before) in [
        ("--build", &commands.build, &document.build),
        ("--start", &commands.start, &document.start),
    ] {
        if now.as_deref().unwrap_or_default() != before {
            return Err(Failure::wrong(format!(
                "the search in {} has {flag} '{before}' (use the same options)",
                dir.display()
            )));
        }
    }
    let is_valid = |step: &BisectionRecord| (1..=document.commits.len()).contains(&step.commit);
    if document.commits.is_empty() || !document.steps.iter().all(is_valid) {
        let what = format!(
            "{}: a step is not about a commit of the search",
            path.display()
        );
        return Err(Failure::wrong(what));
    }
    Ok(document)
}

/// A search and its state.
struct Search<'a> {
    arguments: &'a BisectArgs,
    dir: &'a Path,
    session: &'a Session,
    interrupt: Arc<Interrupt>,
    document: BisectionDocument,
}

/// Result of the comparison of one commit.
enum Judged {
    Step(BisectionRecord, Option<f64>),
    Interrupted,
}

impl Search<'_> {
    fn run(&mut self) -> Result<Ending, Failure> {
        loop {
            let steps = self.document.steps.iter();
            let judged: Vec<_> = steps.map(|it| (it.commit, it.verdict)).collect();
            let commit = match next_step(self.document.commits.len(), &judged) {
                BisectionStep::Compare(commit) => commit,
                end => return self.conclude(end),
            };
            match self.judge(commit)? {
                Judged::Interrupted => {
                    terminal::print_message(format_args!(
                        "continue with: prony bisect --resume {} and the same options",
                        self.dir.display()
                    ));
                    return Ok(Ending::Interrupted);
                }
                Judged::Step(step, margin) => {
                    self.document.margin = self.document.margin.or(margin);
                    self.session.progress().line(&format!(
                        "{}: {}: {}",
                        self.name(commit),
                        prony_wording::bisection::verdict_word(step.verdict),
                        step.text
                    ));
                    self.document.steps.push(step);
                    self.store()?;
                }
            }
        }
    }

    /// Builds a commit and compares it with the good end.
    fn judge(&self, commit: usize) -> Result<Judged, Failure> {
        let plan = self.plan(commit)?;
        let folder = format!(
            "{}-{}",
            commit,
            short(&self.document.commits[commit - 1].hash)
        );
        let skipped = |text: String| BisectionRecord {
            commit,
            verdict: CommitVerdict::Skipped,
            folder: None,
            blocks: 0,
            text,
        };
        let progress = self.session.progress();
        let mut locks = Vec::new();
        for (index, it) in experiment::revisions::builds_of(&plan)?
            .into_iter()
            .enumerate()
        {
            match experiment::revisions::build_one(&it, &self.interrupt, progress) {
                Ok(Some(built)) => locks.push(built),
                Ok(None) => return Ok(Judged::Interrupted),
                // The good end must build.
                Err(error) if index == 0 => return Err(error),
                Err(error) => {
                    return Ok(Judged::Step(
                        skipped(format!("it doesn't build: {error}")),
                        None,
                    ));
                }
            }
        }
        let out = self.dir.join(&folder);
        let resume = out.join("state.json").is_file();
        if !resume && out.exists() {
            // A killed run may leave a folder without an experiment.
            fs::remove_dir_all(&out).map_err(|error| Failure::file(out.display(), &error))?;
        }
        let settings = RunSettings {
            alpha: comparison_alpha(self.document.commits.len()),
            resume,
            ..RunSettings::new(out.clone())
        };
        let gates = self.gates(&plan)?;
        let finished =
            experiment::run_one_of_several(&plan, &settings, self.session, &self.interrupt)?;
        if finished.interrupted {
            return Ok(Judged::Interrupted);
        }
        if let Some(failed) = &finished.failed {
            let name = short(&self.document.commits[commit - 1].hash);
            if failed.variant.as_ref().is_some_and(|it| it.contains(name)) {
                let text = format!("it doesn't run: {failed}");
                return Ok(Judged::Step(skipped(text), None));
            }
            return Err(Failure::refused(failed));
        }
        let verdict = &finished.document;
        let (outcome, text) = if self.arguments.fail_if.is_empty() {
            (
                commit_verdict(&verdict.comparisons),
                comparisons_text(verdict),
            )
        } else {
            gate_verdict(gates, &out)?
        };
        let record = BisectionRecord {
            commit,
            verdict: outcome,
            folder: Some(folder),
            blocks: verdict.blocks,
            text,
        };
        Ok(Judged::Step(
            record,
            comparison_margin(&verdict.comparisons),
        ))
    }

    /// Composes the plan that compares a commit with the good end.
    fn plan(&self, commit: usize) -> Result<Plan, Failure> {
        let commit = &self.document.commits[commit - 1];
        let compared = ComparedRevisions {
            revisions: &[short(&self.document.good.hash), short(&commit.hash)],
            commands: &self.arguments.commands,
            load: TomlTable::new(),
            judge: &self.arguments.judge,
            bodies: Some(self.arguments.bodies),
            blocks_max: Some(BISECTION_BLOCKS_MAX),
            margin: self.document.margin,
        };
        compared.plan(&self.arguments.load.settings)
    }

    fn gates(&self, plan: &Plan) -> Result<GateSettings, Failure> {
        let known = known_of_plan(plan, &RunSettings::new(self.dir.to_owned()));
        let gates = parse_all("--fail-if", &self.arguments.fail_if, |text| {
            Gate::parse(text, &known)
        });
        Ok(GateSettings::of_gates(gates?))
    }

    /// Returns the name of a commit in messages.
    fn name(&self, commit: usize) -> String {
        let commit = &self.document.commits[commit - 1];
        format!("{} \"{}\"", short(&commit.hash), commit.subject)
    }

    fn store(&self) -> Result<(), Failure> {
        let path = self.dir.join(FILE);
        let json = serde_json::to_string_pretty(&self.document).map_err(io::Error::other);
        fs::create_dir_all(self.dir)
            .and(json)
            .and_then(|json| replace(&path, format!("{json}\n").as_bytes()))
            .map_err(|error| Failure::file(path.display(), &error))
    }

    /// Prints and stores the result.
    fn conclude(&mut self, end: BisectionStep) -> Result<Ending, Failure> {
        self.document.text = prony_wording::bisection::result(&self.document, end);
        self.store()?;
        let text = format!("{}\n\n{}", self.document.text, self.table().to_text(""));
        terminal::print(&text);
        terminal::print_message(format_args!("results: {}", self.dir.display()));
        Ok(match end {
            BisectionStep::Found { .. } => Ending::Done,
            _ => Ending::Doubtful,
        })
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["commit", "subject", "verdict", "blocks", "in words"]);
        for column in [1, 2, 4] {
            table.columns[column].1 = Align::Left;
        }
        for step in &self.document.steps {
            let commit = &self.document.commits[step.commit - 1];
            table.push(vec![
                short(&commit.hash).to_owned(),
                commit.subject.clone(),
                prony_wording::bisection::verdict_word(step.verdict).to_owned(),
                step.blocks.to_string(),
                step.text.lines().next().unwrap_or_default().to_owned(),
            ]);
        }
        table
    }
}

fn short(hash: &str) -> &str {
    hash.get(..COMMIT_DIGITS).unwrap_or(hash)
}

fn comparisons_text(verdict: &VerdictDocument) -> String {
    let decisive = |it: &&prony_stats::Comparison| it.verdict == Verdict::Slower;
    let slower: Vec<_> = verdict.comparisons.iter().filter(decisive).collect();
    let shown = if slower.is_empty() {
        verdict.comparisons.iter().collect()
    } else {
        slower
    };
    let texts: Vec<&str> = shown.iter().map(|it| it.text.as_str()).collect();
    texts.join("; ")
}

/// Judges a commit by the conditions.
fn gate_verdict(gates: GateSettings, out: &Path) -> Result<(CommitVerdict, String), Failure> {
    let new = stored::read_results(out).map_err(Failure::refused)?;
    let mut runs = JudgedRuns {
        new: &new,
        old: None,
        runs: None,
        is_between: false,
    };
    let results = gates.judge(&mut runs);
    let has = |outcome| results.iter().any(|it| it.ruling == outcome);
    let verdict = if has(GateOutcome::Failed) {
        CommitVerdict::Slower
    } else if has(GateOutcome::Passed) && !has(GateOutcome::Unclear) {
        CommitVerdict::NotSlower
    } else {
        CommitVerdict::Skipped
    };
    let texts: Vec<&str> = results.iter().map(|it| it.text.as_str()).collect();
    Ok((verdict, texts.join("; ")))
}
