//! The experiment's folder: written while the experiment runs, read back to resume it.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use prony_record::Record;
use prony_stats::{Look, VerdictDocument};
use serde::{Deserialize, Serialize};

use super::findings::ExperimentFinding;
use super::lock::{self, FolderLock};
use super::plan_changes::{self, AcceptedChange, PlanCopy};
use super::trial::TrialResult;
use crate::environment::{ENVIRONMENT_SCHEMA, Environment, Machine, PlaceFacts, Program};
use crate::plan::Plan;

/// What may lie in an experiment's folder before it begins.
const STUDY: &str = "study";

/// Why an experiment's folder can't be used.
#[derive(Debug)]
pub enum FolderError {
    /// Something is in it already.
    NotEmpty(PathBuf),
    /// It holds no experiment that could be resumed.
    NoExperiment(PathBuf),
    /// It holds an experiment with other variants.
    OtherPlan(PathBuf),
    /// Another run writes to it.
    InUse {
        /// The folder.
        dir: PathBuf,
        /// That run's process id, where it is known.
        pid: Option<u32>,
    },
    /// Its plan was changed after the experiment began.
    PlanChanged {
        /// The folder.
        dir: PathBuf,
        /// The differences, a phrase each.
        changes: Vec<String>,
    },
    /// A file can't be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The system's or the parser's reason.
        error: String,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::NotEmpty(dir) => write!(
                f,
                "{}: there is something in it already (name another folder with --out, or go on \
                 with --resume)",
                dir.display()
            ),
            FolderError::NoExperiment(dir) => {
                write!(f, "{}: no experiment in it to resume", dir.display())
            }
            FolderError::OtherPlan(dir) => {
                write!(
                    f,
                    "{}: its experiment has other variants than this plan",
                    dir.display()
                )
            }
            FolderError::InUse { dir, pid } => {
                let who = match pid {
                    Some(pid) => format!("another prony (process {pid})"),
                    None => "another prony".to_owned(),
                };
                write!(
                    f,
                    "{}: {who} is running an experiment in it (wait until that ends, or name \
                     another folder with --out)",
                    dir.display()
                )
            }
            FolderError::PlanChanged { dir, changes } => write!(
                f,
                "{}: the plan was changed after the experiment began: {} (undo that, run the plan \
                 into a new folder, or mix both in one result with --accept-plan-changes)",
                dir.join("plan.toml").display(),
                changes.join("; ")
            ),
            FolderError::File { path, error } => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for FolderError {}

/// What has to be known again to go on, beside the trials: `state.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct State {
    seed: u64,
    variants: Vec<String>,
    /// The plan as it was run last; none in folders of earlier versions.
    #[serde(default)]
    plan: Option<PlanCopy>,
    /// Changes of the plan that were accepted by a resumption.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plan_changes: Vec<AcceptedChange>,
}

/// `environment.json`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEnvironment {
    #[serde(default = "environment_schema")]
    schema: String,
    machine: Machine,
    /// Programs by variant, then by service.
    services: BTreeMap<String, BTreeMap<String, Vec<Program>>>,
    /// Settings of named places by variant, then by place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, BTreeMap<String, PlaceFacts>>,
    /// The other machines, by their agents' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hosts: BTreeMap<String, Machine>,
    /// The agents of services on other machines, by variant, then by service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hosted: BTreeMap<String, BTreeMap<String, String>>,
}

fn environment_schema() -> String {
    ENVIRONMENT_SCHEMA.to_owned()
}

impl Default for StoredEnvironment {
    fn default() -> Self {
        Self {
            schema: environment_schema(),
            machine: Machine::default(),
            services: BTreeMap::new(),
            places: BTreeMap::new(),
            hosts: BTreeMap::new(),
            hosted: BTreeMap::new(),
        }
    }
}

/// An experiment's folder and what is known of its trials.
#[derive(Debug)]
pub struct Stored {
    dir: PathBuf,
    state: State,
    looks: Vec<Look>,
    results: Vec<TrialResult>,
    environment: StoredEnvironment,
    blocks_run: u32,
    /// Keeps other runs off the folder.
    _lock: FolderLock,
}

impl Stored {
    /// A new folder with the plan as it is run.
    pub(crate) fn create(plan: &Plan, dir: &Path, seed: u64) -> Result<Stored, FolderError> {
        fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        let lock = FolderLock::take(dir)?;
        clear_unused(plan, dir).map_err(|error| failed(dir, &error))?;
        // The files of a ready-made study are put there before it begins.
        let is_others = |entry: &fs::DirEntry| {
            entry.file_name() != STUDY && entry.file_name() != lock::LOCK_FILE
        };
        let mut entries = fs::read_dir(dir).map_err(|error| failed(dir, &error))?;
        if entries.any(|entry| entry.is_ok_and(|entry| is_others(&entry))) {
            return Err(FolderError::NotEmpty(dir.to_owned()));
        }
        fs::create_dir_all(dir.join("trials")).map_err(|error| failed(dir, &error))?;
        plan.freeze(dir)
            .map_err(|error| failed(&dir.join("plan.toml"), &error))?;
        let state = State {
            seed,
            variants: ids(plan),
            plan: Some(PlanCopy::read(plan, dir).map_err(|error| failed(dir, &error))?),
            plan_changes: Vec::new(),
        };
        write_json(&dir.join("state.json"), &state)?;
        Ok(Stored {
            dir: dir.to_owned(),
            state,
            looks: Vec::new(),
            results: Vec::new(),
            environment: StoredEnvironment::default(),
            blocks_run: 0,
            _lock: lock,
        })
    }

    /// An earlier experiment's folder, with the trials of its whole blocks.
    ///
    /// # Errors
    /// Also if the plan was changed meanwhile, unless `accept_plan_changes` is set.
    pub(crate) fn open(
        plan: &Plan,
        dir: &Path,
        accept_plan_changes: bool,
    ) -> Result<Stored, FolderError> {
        let state_path = dir.join("state.json");
        if !state_path.is_file() {
            return Err(FolderError::NoExperiment(dir.to_owned()));
        }
        let lock = FolderLock::take(dir)?;
        let state: State = read_json(&state_path)?;
        let now = PlanCopy::read(plan, dir).map_err(|error| failed(dir, &error))?;
        let changes = state.plan.as_ref().map(|before| before.changes(&now));
        let changes = changes.unwrap_or_default();
        if !changes.is_empty() && !accept_plan_changes {
            let dir = dir.to_owned();
            return Err(FolderError::PlanChanged { dir, changes });
        }
        if state.variants != ids(plan) {
            return Err(FolderError::OtherPlan(dir.to_owned()));
        }
        let verdict = dir.join("verdict.json");
        let looks = match verdict.is_file() {
            true => read_json::<VerdictDocument>(&verdict)?.looks,
            false => Vec::new(),
        };
        let environment = dir.join("environment.json");
        let environment = match environment.is_file() {
            true => read_json(&environment)?,
            false => StoredEnvironment::default(),
        };
        let dir = dir.to_owned();
        let mut stored = Stored {
            dir,
            state,
            looks,
            results: Vec::new(),
            environment,
            blocks_run: 0,
            _lock: lock,
        };
        stored.read_blocks()?;
        stored.leave_out_lost_trial();
        if !changes.is_empty() {
            let blocks = stored.complete_blocks(stored.state.variants.len());
            let accepted = AcceptedChange { blocks, changes };
            stored.state.plan_changes.push(accepted);
            stored.state.plan = Some(now);
            write_json(&state_path, &stored.state)?;
        }
        Ok(stored)
    }

    /// The finding about changes of the plan that were accepted.
    pub(crate) fn plan_changed(&self) -> Option<ExperimentFinding> {
        let finding = plan_changes::finding(&self.state.plan_changes)?;
        let variants = Vec::new();
        Some(ExperimentFinding { finding, variants })
    }

    /// A last block in which a machine was lost is run again, as if it had never been looked at: what was
    /// lost has nothing to do with what was measured, and no verdict came of it.
    fn leave_out_lost_trial(&mut self) {
        let last = self.results.last().map_or(0, |result| result.block);
        let mut block = self.results.iter().filter(|result| result.block == last);
        if block.any(TrialResult::lost_a_machine) {
            self.results.retain(|result| result.block < last);
            self.looks.retain(|look| look.blocks < last);
        }
    }

    /// Reads whole blocks from the first on; the trials of a later, broken one are run again.
    fn read_blocks(&mut self) -> Result<(), FolderError> {
        for block in 1.. {
            let mut results = Vec::new();
            for (variant, id) in self.state.variants.iter().enumerate() {
                let dir = self.dir.join("trials").join(format!("{block}-{id}"));
                let (trial, record) = (dir.join("trial.json"), dir.join("record.json"));
                if !trial.is_file() || !record.is_file() {
                    return Ok(());
                }
                results.push(TrialResult {
                    // Where it lies says which trial it is.
                    block,
                    variant,
                    record: Some(read_json::<Record>(&record)?),
                    ..read_json(&trial)?
                });
            }
            results.sort_by_key(|result| result.position);
            self.results.append(&mut results);
        }
        Ok(())
    }

    pub(crate) fn seed(&self) -> u64 {
        self.state.seed
    }

    pub(crate) fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// Every trial so far, in the order in which they ran.
    pub fn results(&self) -> &[TrialResult] {
        &self.results
    }

    pub(crate) fn last(&self) -> &TrialResult {
        self.results
            .last()
            .expect("asked for after a trial was kept")
    }

    pub(crate) fn complete_blocks(&self, variants: usize) -> u32 {
        (self.results.len() / variants.max(1)) as u32
    }

    /// Blocks that this run, not an earlier part of the experiment, has made.
    pub(crate) fn blocks_run(&self) -> u32 {
        self.blocks_run
    }

    pub(crate) fn block_ended(&mut self) {
        self.blocks_run += 1;
    }

    /// Blocks of which any trial ended, `complete` of them whole.
    pub(crate) fn blocks_begun(&self, complete: u32) -> u32 {
        self.results
            .iter()
            .map(|result| result.block)
            .max()
            .unwrap_or(complete)
    }

    /// An empty folder for a trial.
    pub(crate) fn trial_dir(&self, block: u32, id: &str) -> Result<PathBuf, FolderError> {
        let dir = self.dir.join("trials").join(format!("{block}-{id}"));
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|error| failed(&dir, &error))?;
        }
        fs::create_dir_all(&dir).map_err(|error| failed(&dir, &error))?;
        fs::canonicalize(&dir).map_err(|error| failed(&dir, &error))
    }

    /// Stores a trial that ended.
    pub(crate) fn keep(&mut self, result: TrialResult) -> Result<(), FolderError> {
        let id = &self.state.variants[result.variant];
        let dir = self
            .dir
            .join("trials")
            .join(format!("{}-{id}", result.block));
        if let Some(record) = &result.record {
            let path = dir.join("record.json");
            write_whole(&path, &record.to_json())?;
        }
        write_json(&dir.join("trial.json"), &result)?;
        self.results.push(result);
        Ok(())
    }

    /// Notes what a variant ran on.
    pub(crate) fn note_environment(
        &mut self,
        id: &str,
        environment: Environment,
    ) -> Result<(), FolderError> {
        self.environment.machine = environment.machine;
        self.environment
            .services
            .insert(id.to_owned(), environment.services);
        if !environment.places.is_empty() {
            let places = environment.places;
            self.environment.places.insert(id.to_owned(), places);
        }
        self.environment.hosts.extend(environment.hosts);
        if !environment.hosted.is_empty() {
            let hosted = environment.hosted;
            self.environment.hosted.insert(id.to_owned(), hosted);
        }
        write_json(&self.dir.join("environment.json"), &self.environment)
    }

    pub(crate) fn write_verdict(&mut self, document: &VerdictDocument) -> Result<(), FolderError> {
        write_json(&self.dir.join("verdict.json"), document)
    }
}

/// What an experiment's folder may hold before its first trial has ended.
const UNUSED: [&str; 9] = [
    "state.json",
    "plan.toml",
    "environment.json",
    "verdict.json",
    "report.html",
    "report.md",
    "report.pdf",
    "secrets.json",
    "includes",
];

/// Clears the folder of an experiment of which no trial ever ended, so that a mended plan can be run
/// into it. Whatever is not prony's own stays.
fn clear_unused(plan: &Plan, dir: &Path) -> io::Result<()> {
    let trials = dir.join("trials");
    let within = |path: &Path| fs::canonicalize(path).ok().zip(fs::canonicalize(dir).ok());
    let runs_itself = within(plan.origin()).is_some_and(|(plan, dir)| plan.starts_with(dir));
    if !dir.join("state.json").is_file() || runs_itself {
        return Ok(());
    }
    for trial in fs::read_dir(&trials)? {
        if trial?.path().join("trial.json").exists() {
            return Ok(());
        }
    }
    fs::remove_dir_all(trials)?;
    for name in UNUSED {
        let path = dir.join(name);
        match path.is_dir() {
            true => fs::remove_dir_all(path)?,
            false if path.exists() => fs::remove_file(path)?,
            false => {}
        }
    }
    Ok(())
}

fn ids(plan: &Plan) -> Vec<String> {
    plan.variants
        .iter()
        .map(|variant| variant.id.clone())
        .collect()
}

fn failed(path: &Path, error: &io::Error) -> FolderError {
    FolderError::File {
        path: path.to_owned(),
        error: error.to_string(),
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), FolderError> {
    let mut json = serde_json::to_string_pretty(value).map_err(|error| FolderError::File {
        path: path.to_owned(),
        error: error.to_string(),
    })?;
    json.push('\n');
    write_whole(path, &json)
}

/// Writes the whole file or nothing: it may be read while it is replaced, and the machine may lose
/// its power.
fn write_whole(path: &Path, text: &str) -> Result<(), FolderError> {
    let draft = path.with_extension("json.new");
    let write = || {
        let mut file = fs::File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| failed(path, &error))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, FolderError> {
    let text = fs::read_to_string(path).map_err(|error| failed(path, &error))?;
    serde_json::from_str(&text).map_err(|error| FolderError::File {
        path: path.to_owned(),
        error: error.to_string(),
    })
}
