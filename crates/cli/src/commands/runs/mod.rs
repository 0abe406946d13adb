//! `prony runs`: lists, opens, names and removes stored runs.

mod removal;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use prony_record::truncated;
use prony_report::number;
use prony_report::table::{Align, Table, plain};

use crate::arguments::{RunsArgs, RunsCommand};
use crate::ending::{Ending, Failure};
use crate::output::JsonOutput;
use crate::runs_folder::RUNS_DIR;
use crate::terminal;

use crate::runs_folder::catalog::{self, StoredRun, list_runs, newest_run, resolve_run};

/// Maximum length of a question in the table, in characters.
const QUESTION_CHARS_MAX: usize = 40;

/// Runs `prony runs`.
pub(crate) fn run(arguments: &RunsArgs) -> Result<Ending, Failure> {
    match &arguments.command {
        None => show(&arguments.dir, arguments.json.as_deref()),
        Some(RunsCommand::Open { run }) => open(run.as_deref()),
        Some(RunsCommand::Name { run, name, .. }) => match name {
            Some(name) => catalog::name_run(run, name),
            None => catalog::delete_name(run),
        },
        Some(RunsCommand::Rm { runs, yes }) => removal::remove(runs, *yes),
        Some(RunsCommand::Prune {
            dir,
            keep,
            older_than,
            dry_run,
            yes,
        }) => {
            let kept = removal::KeepRule {
                newest: *keep,
                younger_than: *older_than,
            };
            removal::prune(dir, kept, *dry_run, *yes)
        }
    }
}

fn show(dir: &Path, json: Option<&Path>) -> Result<Ending, Failure> {
    let json = JsonOutput::open(json)?;
    let runs = list_runs(dir)?;
    let print = || {
        if runs.is_empty() {
            terminal::print_message(format_args!("no runs in {}", dir.display()))
        } else {
            terminal::print(&table(dir, &runs).to_text(""))
        }
    };
    json.show(print, &catalog::list_document(dir, &runs))?;
    Ok(Ending::Done)
}

/// Returns the table of runs, the newest first. Other commands accept the paths in the table.
fn table(dir: &Path, runs: &[StoredRun]) -> Table {
    let mut table = Table::new(&["run", "name", "started", "result", "size", "question"]);
    for column in [1, 2, 3, 5] {
        table.columns[column].1 = Align::Left;
    }
    let is_default = dir == Path::new(RUNS_DIR);
    for run in runs {
        let name = run.path.file_name().filter(|_| is_default);
        let path = name.map_or(run.path.clone(), PathBuf::from);
        let question = truncated(&run.question, QUESTION_CHARS_MAX).into_owned();
        table.push(vec![
            path.display().to_string(),
            run.labels.join(", "),
            run.started_text(),
            run.result(),
            number::bytes(run.bytes as f64),
            question,
        ]);
    }
    table
}

/// Opens a report in a browser, without waiting for the browser.
fn open(run: Option<&Path>) -> Result<Ending, Failure> {
    let dir = match run {
        Some(run) => resolve_run(run),
        None => newest_run()?,
    };
    let page = dir.join("report.html");
    if !page.is_file() {
        return Err(Failure::wrong(format!(
            "{}: no such file (prony report {} --html FILE writes it)",
            page.display(),
            dir.display()
        )));
    }
    terminal::print(&format!("{}\n", plain(&page.display().to_string())));
    let own = std::env::var("BROWSER").unwrap_or_default();
    let own = own.split(':').find(|command| !command.is_empty());
    let browsers = own.into_iter().chain(["xdg-open"]);
    for browser in browsers {
        let started = Command::new(browser)
            .arg(&page)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        if started.is_ok() {
            return Ok(Ending::Done);
        }
    }
    Err(Failure::refused(
        "no browser was found (set BROWSER, or open the file above)",
    ))
}
