//! `prony history`: shows the results of plans over time.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use prony_record::read_stored;
use prony_report::data::history::{bencher, otava};
use prony_report::{Document, html, machine_name, markdown};
use prony_stats::history::{HistoryRun, histories};
use serde_json::Value;

use crate::arguments::HistoryArgs;
use crate::ending::{Ending, Failure};
use crate::output::replaced_file::replace;
use crate::output::{Output, write_output};
use crate::runs_folder::RUNS_DIR;
use crate::runs_folder::catalog::{RunState, StoredRun, is_run_folder, list_runs, read_run};
use crate::terminal;

/// Runs `prony history`.
pub(crate) fn run(arguments: &HistoryArgs) -> Result<Ending, Failure> {
    let html_file = Output::open_file("--html", arguments.html.as_deref())?;
    let markdown_file = Output::open("--markdown", arguments.markdown.as_deref())?;
    let json_file = Output::open("--json", arguments.json.as_deref())?;
    let bencher_file = Output::open("--bencher", arguments.bencher.as_deref())?;
    let runs = runs(&arguments.sources)?;
    let document = histories(&runs, &arguments.metric);
    if document.series.is_empty() {
        let what = "no run has results (prony runs lists the runs in a folder)";
        return Err(Failure::wrong(what));
    }
    let report = Document::of_history(&document);
    let outputs = [&html_file, &markdown_file, &json_file, &bencher_file];
    if outputs.iter().all(|it| it.is_none()) && arguments.otava.is_none() {
        terminal::print_document(&report);
    }
    write_output(html_file, || html::render(&report))?;
    write_output(markdown_file, || markdown::render(&report))?;
    for (output, value) in [
        (
            json_file,
            serde_json::to_value(&document).map_err(Failure::refused)?,
        ),
        (bencher_file, bencher(&document)),
    ] {
        write_output(output, || format!("{value:#}\n"))?;
    }
    if let Some(dir) = &arguments.otava {
        let failed =
            |path: &Path, error| Failure::file(format!("--otava {}", path.display()), &error);
        fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
        for (name, text) in otava(&document) {
            let path = dir.join(name);
            replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
        }
    }
    Ok(Ending::Done)
}

/// Reads the runs of the sources, oldest first.
fn runs(sources: &[PathBuf]) -> Result<Vec<HistoryRun>, Failure> {
    let (mut plans, mut stored) = (BTreeSet::new(), Vec::new());
    let mut has_folder = false;
    for source in sources {
        if source.is_dir() {
            has_folder = true;
            if is_run_folder(source) {
                stored.push(read_run(source.clone()));
            } else {
                stored.extend(list_runs(source)?);
            }
        } else {
            plans.insert(plan_name(source)?);
        }
    }
    if !has_folder {
        stored = list_runs(Path::new(RUNS_DIR))?;
    }
    stored.sort_by(|a, b| (a.started_at, &a.path).cmp(&(b.started_at, &b.path)));
    stored.dedup_by(|a, b| a.path == b.path);
    stored.retain(|run| plans.is_empty() || plans.contains(&run.name));
    Ok(stored.into_iter().filter_map(history_run).collect())
}

/// Returns the name of a plan. A source that is no file is itself a name.
fn plan_name(source: &Path) -> Result<String, Failure> {
    if !source.exists() {
        return Ok(source.display().to_string());
    }
    let wrong = |text: String| Failure::wrong(format!("{}: {text}", source.display()));
    let text = read_stored(source).map_err(|error| wrong(error.to_string()))?;
    let plan: toml::Table = text
        .parse()
        .map_err(|error: toml::de::Error| wrong(error.message().to_owned()))?;
    let name = plan.get("name").and_then(toml::Value::as_str);
    // A plan without a name is called after its file.
    let file = || {
        source
            .file_stem()
            .map(|it| it.to_string_lossy().into_owned())
    };
    name.map(str::to_owned)
        .or_else(file)
        .ok_or_else(|| wrong("the plan has no name".to_owned()))
}

fn history_run(run: StoredRun) -> Option<HistoryRun> {
    let RunState::WithVerdict(verdict) = run.state else {
        return None;
    };
    let text = read_stored(&run.path.join("environment.json")).unwrap_or_default();
    let environment: Value = serde_json::from_str(&text).unwrap_or_default();
    Some(HistoryRun {
        path: run.path.display().to_string(),
        started_at: humantime::format_rfc3339_seconds(run.started_at).to_string(),
        machine: machine_name(&environment),
        commit: commit(&environment),
        verdict: *verdict,
    })
}

/// Returns the commit of the services' working directories, if all have the same.
fn commit(environment: &Value) -> Option<String> {
    let variants = environment["sources"].as_object()?;
    let services = variants.values().filter_map(Value::as_object);
    let states = services
        .flat_map(serde_json::Map::values)
        .map(|it| &it["git"]);
    let commits = states.filter_map(|git| {
        let is_dirty = git["changes"]["changed_files"]
            .as_u64()
            .is_some_and(|it| it > 0);
        let mark = if is_dirty { "-dirty" } else { "" };
        Some(format!("{}{mark}", git["commit"].as_str()?))
    });
    let mut commits: BTreeSet<String> = commits.collect();
    let first = commits.pop_first();
    first.filter(|_| commits.is_empty())
}
