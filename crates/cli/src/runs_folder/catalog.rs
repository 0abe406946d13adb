//! Lists the stored runs with their states and names. The name of a run is a symbolic link next to
//! the runs' folders.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use prony_record::{parse_stored, read_stored};
use prony_stats::{VERDICT_SCHEMA, Verdict, VerdictDocument};
use serde_json::{Value, json};

use crate::ending::{Ending, Failure};
use crate::runs_folder::RUNS_DIR;
use crate::terminal;

/// Value of the field `schema` in the JSON list.
const LIST_SCHEMA: &str = "prony.stored-runs/1";

/// File that an experiment keeps locked while it writes to its folder.
const LOCK_FILE: &str = ".lock";

/// Maximum depth of folders that count toward the size of a run.
const DEPTH_MAX: usize = 16;

/// A stored run and its folder.
#[derive(Debug)]
pub(crate) struct StoredRun {
    pub(crate) path: PathBuf,
    /// Names given with `prony runs name`.
    pub(crate) labels: Vec<String>,
    pub(crate) name: String,
    pub(crate) question: String,
    pub(crate) started_at: SystemTime,
    pub(crate) state: RunState,
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) enum RunState {
    /// The run has a verdict.
    WithVerdict(Box<VerdictDocument>),
    /// An experiment is writing to the folder.
    Running,
    /// The run ended before its first block was complete.
    WithoutVerdict,
    /// A file of the run can't be read. Contains the reason.
    Damaged(String),
}

/// Verdicts with their names, in the order in which a result lists them.
const VERDICTS: [(Verdict, &str); 5] = [
    (Verdict::Faster, "faster"),
    (Verdict::Slower, "slower"),
    (Verdict::Equivalent, "equivalent"),
    (Verdict::Undecided, "undecided"),
    (Verdict::Withheld, "withheld"),
];

impl StoredRun {
    /// Summarizes the verdicts in a few words, such as `2 faster, 1 undecided`.
    pub(crate) fn result(&self) -> String {
        match &self.state {
            RunState::Damaged(reason) => format!("damaged: {reason}"),
            RunState::Running => "running".to_owned(),
            RunState::WithoutVerdict => "no complete block".to_owned(),
            RunState::WithVerdict(document) => {
                let only = document.comparisons.len() == 1;
                let counts = counts(document).into_iter().filter(|(_, count)| *count > 0);
                let words = counts.map(|(word, count)| {
                    if only {
                        word.to_owned()
                    } else {
                        format!("{count} {word}")
                    }
                });
                let words: Vec<String> = words.collect();
                if words.is_empty() {
                    "no verdict".to_owned()
                } else {
                    words.join(", ")
                }
            }
        }
    }

    /// Formats the start time in UTC, to the minute.
    pub(crate) fn started_text(&self) -> String {
        let text = rfc3339(self.started_at);
        match text.get(..16) {
            Some(minute) => minute.replace('T', " "),
            None => text,
        }
    }

    fn to_json(&self) -> Value {
        let (state, problem) = match &self.state {
            RunState::WithVerdict(_) => ("judged", Value::Null),
            RunState::Running => ("running", Value::Null),
            RunState::WithoutVerdict => ("unjudged", Value::Null),
            RunState::Damaged(reason) => ("damaged", Value::from(reason.clone())),
        };
        let document = match &self.state {
            RunState::WithVerdict(document) => Some(document),
            _ => None,
        };
        let verdicts = document.map(|document| {
            let counts = counts(document).into_iter();
            let counts = counts.map(|(word, count)| (word.to_owned(), count.into()));
            Value::Object(counts.collect())
        });
        json!({
            "path": self.path.display().to_string(),
            "labels": self.labels,
            "name": self.name,
            "question": self.question,
            "started_at": rfc3339(self.started_at),
            "state": state,
            "problem": problem,
            "blocks": document.map(|document| document.blocks),
            "verdicts": verdicts,
            "bytes": self.bytes,
        })
    }
}

fn counts(document: &VerdictDocument) -> [(&'static str, usize); 5] {
    VERDICTS.map(|(verdict, word)| {
        let of_kind = document.comparisons.iter();
        let of_kind = of_kind.filter(|comparison| comparison.verdict == verdict);
        (word, of_kind.count())
    })
}

/// Returns the list as JSON: schema `prony.stored-runs/1`.
pub(crate) fn list_document(dir: &Path, runs: &[StoredRun]) -> Value {
    let runs: Vec<Value> = runs.iter().map(StoredRun::to_json).collect();
    json!({ "schema": LIST_SCHEMA, "folder": dir.display().to_string(), "runs": runs })
}

fn rfc3339(time: SystemTime) -> String {
    // Times before 1970 or after 9999, which file systems allow, can't be formatted.
    let seconds = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let latest = 253_402_300_799;
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.min(latest));
    humantime::format_rfc3339_seconds(time).to_string()
}

/// Returns the runs in a folder, the newest first. The list is empty if the default folder doesn't
/// exist.
pub(crate) fn list_runs(dir: &Path) -> Result<Vec<StoredRun>, Failure> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound && dir == Path::new(RUNS_DIR) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(Failure::file(dir.display(), &error)),
    };
    let (mut runs, mut links) = (Vec::new(), Vec::new());
    for entry in entries {
        let path = entry
            .map_err(|error| Failure::file(dir.display(), &error))?
            .path();
        if path.is_symlink() {
            links.push(path);
        } else if is_run_folder(&path) {
            runs.push(read_run(path));
        }
    }
    for link in links {
        let Ok(target) = fs::canonicalize(&link) else {
            continue;
        };
        let named = runs
            .iter_mut()
            .find(|run| fs::canonicalize(&run.path).is_ok_and(|path| path == target));
        if let (Some(run), Some(label)) = (named, link.file_name()) {
            run.labels.push(label.to_string_lossy().into_owned());
        }
    }
    for run in &mut runs {
        run.labels.sort();
    }
    runs.sort_by(|a, b| (b.started_at, &b.path).cmp(&(a.started_at, &a.path)));
    Ok(runs)
}

/// Returns true for a folder that an experiment wrote; false for a symbolic link to one.
pub(crate) fn is_run_folder(path: &Path) -> bool {
    let is_dir = fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir());
    let has = |name: &str| path.join(name).is_file();
    is_dir && has("plan.toml") && (has("state.json") || has("verdict.json"))
}

/// Returns true if an experiment is writing to the folder.
pub(crate) fn is_running(path: &Path) -> bool {
    let path = path.join(LOCK_FILE);
    // Opening a pipe would wait for a writer.
    if !path.is_file() {
        return false;
    }
    let Ok(lock) = fs::File::open(path) else {
        return false;
    };
    let attempt = rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared);
    attempt == Err(rustix::io::Errno::WOULDBLOCK)
}

/// Reads the folder of a run.
pub(crate) fn read_run(path: PathBuf) -> StoredRun {
    let state = if is_running(&path) {
        RunState::Running
    } else {
        state(&path)
    };
    let (mut name, mut question) = (String::new(), String::new());
    match &state {
        RunState::WithVerdict(document) => {
            (name, question) = (document.name.clone(), document.question.clone());
        }
        _ => {
            let plan = read_stored(&path.join("plan.toml")).unwrap_or_default();
            if let Ok(plan) = plan.parse::<toml::Table>() {
                let text = |key: &str| plan.get(key).and_then(toml::Value::as_str);
                name = text("name").unwrap_or_default().to_owned();
                question = text("question").unwrap_or_default().to_owned();
            }
        }
    }
    StoredRun {
        labels: Vec::new(),
        name,
        question,
        started_at: started_at(&path),
        bytes: size(&path, 0),
        state,
        path,
    }
}

fn state(dir: &Path) -> RunState {
    let damaged =
        |name: &str, reason: &dyn std::fmt::Display| RunState::Damaged(format!("{name}: {reason}"));
    if dir.join("state.json").exists() {
        let text = read_stored(&dir.join("state.json"));
        let parsed = text.map(|text| serde_json::from_str::<Value>(&text));
        match parsed {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return damaged("state.json", &error),
            Err(error) => return damaged("state.json", &error),
        }
    }
    match read_stored(&dir.join("verdict.json")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => RunState::WithoutVerdict,
        Err(error) => damaged("verdict.json", &error),
        Ok(text) => match parse_stored::<VerdictDocument>(&text) {
            Err(error) => damaged("verdict.json", &error),
            Ok(document) if document.schema != VERDICT_SCHEMA => {
                let reason = format!("unknown schema \"{}\"", document.schema);
                damaged("verdict.json", &reason)
            }
            Ok(document) if document.blocks == 0 && !document.is_withheld() => {
                RunState::WithoutVerdict
            }
            Ok(document) => RunState::WithVerdict(Box::new(document)),
        },
    }
}

/// Returns the start time from the folder's name if prony chose that name, otherwise the
/// modification time of the stored plan.
fn started_at(dir: &Path) -> SystemTime {
    let name = dir.file_name().unwrap_or_default().to_string_lossy();
    let from_name = name.get(..17).and_then(|stamp| {
        let (date, time) = (stamp.get(..10)?, stamp.get(11..)?);
        let (h, m, s) = (time.get(..2)?, time.get(2..4)?, time.get(4..)?);
        humantime::parse_rfc3339(&format!("{date}T{h}:{m}:{s}Z")).ok()
    });
    let modified = || fs::metadata(dir.join("plan.toml")).and_then(|plan| plan.modified());
    from_name
        .or_else(|| modified().ok())
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Returns the total size in bytes of the files below a folder, without following symbolic links.
fn size(dir: &Path, depth: usize) -> u64 {
    let Ok(entries) = fs::read_dir(dir) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() && depth < DEPTH_MAX => size(&entry.path(), depth + 1),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    sizes.sum()
}

/// Returns the newest run in `prony-runs` that has a verdict.
pub(crate) fn newest_run() -> Result<PathBuf, Failure> {
    let runs = list_runs(Path::new(RUNS_DIR))?.into_iter();
    let mut judged = runs.filter(|run| matches!(run.state, RunState::WithVerdict(_)));
    judged.next().map(|run| run.path).ok_or_else(|| {
        Failure::wrong(format!(
            "{RUNS_DIR} has no run with a verdict (run prony compare to store one, or name a \
                folder or a record)"
        ))
    })
}

/// Finds the folder of a run. `path` is an existing path or a name in `prony-runs`.
pub(crate) fn resolve_run(path: &Path) -> PathBuf {
    let mut parts = path.components();
    let is_name = matches!(
        (parts.next(), parts.next()),
        (Some(Component::Normal(_)), None)
    );
    let stored = Path::new(RUNS_DIR).join(path);
    if is_name && !path.exists() && stored.exists() {
        stored
    } else {
        path.to_owned()
    }
}

/// Returns the symbolic links that name a run.
pub(crate) fn links_to(run: &Path) -> Vec<PathBuf> {
    let Ok(target) = fs::canonicalize(run) else {
        return Vec::new();
    };
    let folders = [Path::new(RUNS_DIR), run.parent().unwrap_or(Path::new(""))];
    let mut links: Vec<PathBuf> = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let paths = entries
            .map(|entry| entry.path())
            .filter(|path| path.is_symlink());
        links.extend(paths.filter(|path| fs::canonicalize(path).is_ok_and(|to| to == target)));
    }
    links.sort();
    links.dedup();
    links
}

/// Names a run by creating a symbolic link in `prony-runs`. An existing link of that name is
/// replaced.
pub(crate) fn name_run(run: &Path, name: &str) -> Result<Ending, Failure> {
    let run = resolve_run(run);
    let dir = fs::canonicalize(&run).map_err(|error| Failure::file(run.display(), &error))?;
    if !is_run_folder(&dir) {
        return Err(not_a_run(&run));
    }
    let is_plain = |c: char| c.is_alphanumeric() || "-_.+".contains(c);
    if name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_plain) {
        return Err(Failure::wrong(format!(
            "\"{name}\": not a valid name (letters, digits, -, _, + and . only, starting with a letter \
             or a digit)"
        )));
    }
    fs::create_dir_all(RUNS_DIR).map_err(|error| Failure::file(RUNS_DIR, &error))?;
    let link = Path::new(RUNS_DIR).join(name);
    if link.exists() && !link.is_symlink() {
        return Err(Failure::wrong(format!(
            "{}: this is a run's own folder (choose another name)",
            link.display()
        )));
    }
    let home = fs::canonicalize(RUNS_DIR).map_err(|error| Failure::file(RUNS_DIR, &error))?;
    // A relative link stays valid when the folder of runs is moved.
    let target = match dir.strip_prefix(&home) {
        Ok(inside) => inside.to_owned(),
        Err(_) => dir.clone(),
    };
    let draft = Path::new(RUNS_DIR).join(format!(".{name}.{}.new", std::process::id()));
    std::os::unix::fs::symlink(&target, &draft)
        .and_then(|()| fs::rename(&draft, &link))
        .map_err(|error| Failure::file(link.display(), &error))?;
    terminal::print_message(format_args!("{name} is now {}", run.display()));
    Ok(Ending::Done)
}

/// Deletes a name without deleting the run.
pub(crate) fn delete_name(name: &Path) -> Result<Ending, Failure> {
    let link = Path::new(RUNS_DIR).join(name.file_name().unwrap_or_default());
    if !link.is_symlink() {
        return Err(Failure::wrong(format!(
            "{}: no such name in {RUNS_DIR} (`prony runs` lists them)",
            name.display()
        )));
    }
    fs::remove_file(&link).map_err(|error| Failure::file(link.display(), &error))?;
    Ok(Ending::Done)
}

/// Returns the error for a folder that no experiment wrote.
pub(crate) fn not_a_run(path: &Path) -> Failure {
    Failure::wrong(format!(
        "{}: not a run (a run's folder has plan.toml, and state.json or verdict.json)",
        path.display()
    ))
}
