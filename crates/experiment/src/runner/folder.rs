//! The folder of an experiment, which is written while the experiment runs and read to resume it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use prony_machine::environment::{
    ENVIRONMENT_SCHEMA, Environment, LinkFacts, MachineFacts, PlaceFacts, Program, ServiceSources,
};
use prony_plan::Plan;
use prony_record::{Record, parse_stored, read_stored};
use prony_stats::{BuiltRevision, Look, TrialMode, VerdictDocument};
use serde::{Deserialize, Serialize};

use super::experiment_finding::ExperimentFinding;
use super::folder_error::ExperimentFolderError;
use super::lock::{self, FolderLock};
use super::plan_changes::{self, PlanCopy};
use super::revisions;
use super::trial_result::TrialResult;
use prony_record::finding::AcceptedChange;

/// Folder with the files of a built-in study. It may exist before the experiment begins.
const STUDY_DIR: &str = "study";

/// Folder with copies of the files that the plan names.
const INCLUDES_DIR: &str = "includes";

/// Contents of `state.json`: the data needed to resume the experiment, except for the trials.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct StoredState {
    seed: u64,
    variants: Vec<String>,
    /// Mode of the trials; `None` in folders written by versions without interleaving.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    trial_mode: Option<TrialMode>,
    /// Plan of the latest run; `None` in folders written by older versions.
    #[serde(default)]
    plan: Option<PlanCopy>,
    /// Changes of the plan that the user accepted when resuming.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    plan_changes: Vec<AcceptedChange>,
    /// Revisions that were built.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    revisions: Vec<BuiltRevision>,
    /// Variants that the pre-check ruled out, so that no block contains them.
    #[serde(default, skip_serializing_if = "RuledOut::is_empty")]
    ruled_out: RuledOut,
    /// Time that the pre-check took to start, check and stop the services of a block's variants;
    /// `None` if there was no pre-check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    block_overhead_ms: Option<u64>,
}

/// Variants that can't get a verdict, and the findings that withhold their verdicts.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuledOut {
    pub(crate) variants: Vec<usize>,
    pub(crate) findings: Vec<ExperimentFinding>,
}

impl RuledOut {
    fn is_empty(&self) -> bool {
        self.variants.is_empty() && self.findings.is_empty()
    }
}

/// Contents of `environment.json`.
#[derive(Debug, Serialize, Deserialize)]
struct StoredEnvironment {
    #[serde(default = "environment_schema")]
    schema: String,
    machine: MachineFacts,
    /// Programs of the services, by variant and then by service.
    services: BTreeMap<String, BTreeMap<String, Vec<Program>>>,
    /// Files that commands name, and Git states, by variant and then by service.
    #[serde(default)]
    sources: BTreeMap<String, BTreeMap<String, ServiceSources>>,
    /// Kernel settings of named places, by variant and then by place.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    places: BTreeMap<String, BTreeMap<String, PlaceFacts>>,
    /// Emulated links, by variant and then by link.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    links: BTreeMap<String, BTreeMap<String, LinkFacts>>,
    /// Facts about other machines that run services, by the name of their agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    hosts: BTreeMap<String, MachineFacts>,
    /// For each variant, and for each of its services on another machine, the name of the agent
    /// that runs the service.
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
            machine: MachineFacts::default(),
            services: BTreeMap::new(),
            sources: BTreeMap::new(),
            places: BTreeMap::new(),
            links: BTreeMap::new(),
            hosts: BTreeMap::new(),
            hosted: BTreeMap::new(),
        }
    }
}

/// The folder of an experiment, with the results of its trials.
#[derive(Debug)]
pub struct ExperimentFolder {
    dir: PathBuf,
    state: StoredState,
    looks: Vec<Look>,
    results: Vec<TrialResult>,
    environment: StoredEnvironment,
    blocks_run: u32,
    /// Lock that prevents other runs from using the folder.
    _lock: FolderLock,
}

impl ExperimentFolder {
    /// Creates a new folder with a copy of the plan.
    pub(crate) fn create(
        plan: &Plan,
        dir: &Path,
        seed: u64,
        trial_mode: Option<TrialMode>,
    ) -> Result<ExperimentFolder, ExperimentFolderError> {
        fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
        let lock = FolderLock::take(dir)?;
        clear_unused(plan, dir).map_err(|error| failed(dir, &error))?;
        // The files of a built-in study are written before the experiment begins.
        let is_others = |entry: &fs::DirEntry| {
            entry.file_name() != STUDY_DIR && entry.file_name() != lock::LOCK_FILE
        };
        let mut entries = fs::read_dir(dir).map_err(|error| failed(dir, &error))?;
        if entries.any(|entry| entry.is_ok_and(|entry| is_others(&entry))) {
            return Err(ExperimentFolderError::not_empty(dir.to_owned()));
        }
        fs::create_dir_all(dir.join("trials")).map_err(|error| failed(dir, &error))?;
        plan.freeze(dir)
            .map_err(|error| failed(&dir.join("plan.toml"), &error))?;
        let state = StoredState {
            seed,
            variants: ids(plan),
            trial_mode,
            plan: Some(PlanCopy::read(plan, dir).map_err(|error| failed(dir, &error))?),
            plan_changes: Vec::new(),
            revisions: revisions::of_plan(plan).map_err(|error| failed(dir, &error))?,
            ruled_out: RuledOut::default(),
            block_overhead_ms: None,
        };
        write_json(&dir.join("state.json"), &state)?;
        Ok(ExperimentFolder {
            dir: dir.to_owned(),
            state,
            looks: Vec::new(),
            results: Vec::new(),
            environment: StoredEnvironment::default(),
            blocks_run: 0,
            _lock: lock,
        })
    }

    /// Opens the folder of an earlier run and loads the trials of its complete blocks.
    ///
    /// # Errors
    /// The folder can't be used, or the plan was edited and `accept_plan_changes` is false.
    pub(crate) fn open(
        plan: &Plan,
        dir: &Path,
        accept_plan_changes: bool,
    ) -> Result<ExperimentFolder, ExperimentFolderError> {
        let state_path = dir.join("state.json");
        if !state_path.is_file() {
            return Err(ExperimentFolderError::nothing_to_resume(dir.to_owned()));
        }
        let lock = FolderLock::take(dir)?;
        let state: StoredState = read_json(&state_path)?;
        let now = PlanCopy::read(plan, dir).map_err(|error| failed(dir, &error))?;
        let changes = state.plan.as_ref().map(|before| before.changes(&now));
        let changes = changes.unwrap_or_default();
        if state.variants != ids(plan) {
            return Err(ExperimentFolderError::OtherPlan(dir.to_owned()));
        }
        if !changes.is_empty() && !accept_plan_changes {
            let dir = dir.to_owned();
            return Err(ExperimentFolderError::PlanChanged { dir, changes });
        }
        let revisions = revisions::of_plan(plan).map_err(|error| failed(dir, &error))?;
        if let Some(change) = revisions::moved(&state.revisions, &revisions) {
            let dir = dir.to_owned();
            return Err(ExperimentFolderError::RevisionMoved { dir, change });
        }
        let verdict = dir.join("verdict.json");
        let looks = if verdict.is_file() {
            read_json::<VerdictDocument>(&verdict)?.looks
        } else {
            Vec::new()
        };
        let environment = dir.join("environment.json");
        let environment = if environment.is_file() {
            read_json(&environment)?
        } else {
            StoredEnvironment::default()
        };
        let dir = dir.to_owned();
        let mut stored = ExperimentFolder {
            dir,
            state,
            looks,
            results: Vec::new(),
            environment,
            blocks_run: 0,
            _lock: lock,
        };
        stored.read_blocks()?;
        stored.drop_lost_block();
        if !changes.is_empty() {
            let blocks = stored.complete_blocks();
            let accepted = AcceptedChange { blocks, changes };
            stored.state.plan_changes.push(accepted);
            stored.state.plan = Some(now);
            write_json(&state_path, &stored.state)?;
        }
        Ok(stored)
    }

    /// Returns the finding about accepted plan changes.
    pub(crate) fn plan_changed(&self) -> Option<ExperimentFinding> {
        let finding = plan_changes::finding(&self.state.plan_changes)?;
        let variants = Vec::new();
        Some(ExperimentFinding { finding, variants })
    }

    /// Drops the last block if a machine was lost in it, so that the block runs again. The look at
    /// that block is dropped too: it gave no verdict, and the loss doesn't depend on the results.
    fn drop_lost_block(&mut self) {
        let last = self.results.last().map_or(0, |result| result.block);
        let mut block = self.results.iter().filter(|result| result.block == last);
        if block.any(TrialResult::lost_a_machine) {
            self.results.retain(|result| result.block < last);
            self.looks.retain(|look| look.blocks < last);
        }
    }

    /// Reads the complete blocks, beginning with the first. Trials of an incomplete block run
    /// again.
    fn read_blocks(&mut self) -> Result<(), ExperimentFolderError> {
        for block in 1.. {
            let mut results = Vec::new();
            let ruled_out = &self.state.ruled_out.variants;
            let variants = self.state.variants.iter().enumerate();
            for (variant, id) in variants.filter(|(variant, _)| !ruled_out.contains(variant)) {
                let dir = self.dir.join("trials").join(format!("{block}-{id}"));
                let (trial, record) = (dir.join("trial.json"), dir.join("record.json"));
                if !trial.is_file() || !record.is_file() {
                    continue;
                }
                let record = read_json::<Record>(&record)?;
                if let Some(abort) = record.aborted {
                    let (dir, condition) = (self.dir.clone(), abort.condition);
                    return Err(ExperimentFolderError::Aborted {
                        dir,
                        block,
                        condition,
                    });
                }
                results.push(TrialResult {
                    // The folder name determines the block and the variant.
                    block,
                    variant,
                    record: Some(record),
                    ..read_json(&trial)?
                });
            }
            if results.is_empty() || results.len() < self.variants_run() {
                return Ok(());
            }
            results.sort_by_key(|result| result.position);
            self.results.append(&mut results);
        }
        Ok(())
    }

    /// Reads the mode of the trials in the experiment's folder `dir`. Returns `None` if it isn't
    /// stored or can't be read; [`ExperimentFolder::open`] reports read errors.
    pub(crate) fn stored_mode(dir: &Path) -> Option<TrialMode> {
        let state: StoredState = read_json(&dir.join("state.json")).ok()?;
        state.trial_mode
    }

    /// Returns the mode of the trials; `None` if it isn't stored.
    pub(crate) fn trial_mode(&self) -> Option<&TrialMode> {
        self.state.trial_mode.as_ref()
    }

    /// Changes the mode of the trials. Must be called before the first block.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn set_trial_mode(&mut self, mode: TrialMode) -> Result<(), ExperimentFolderError> {
        self.state.trial_mode = Some(mode);
        write_json(&self.dir.join("state.json"), &self.state)
    }

    /// Returns the revisions that were built, by variant and service.
    pub(crate) fn revisions(&self) -> &[BuiltRevision] {
        &self.state.revisions
    }

    pub(crate) fn seed(&self) -> u64 {
        self.state.seed
    }

    pub(crate) fn looks(&self) -> &[Look] {
        &self.looks
    }

    /// Returns the results of all trials so far, in the order in which they ran.
    pub fn results(&self) -> &[TrialResult] {
        &self.results
    }

    /// Returns the results of all trials, except those of a block in which a condition ended a
    /// load. Such a block is always the last one.
    pub(crate) fn counted_results(&self) -> &[TrialResult] {
        let mut aborted = self.results.iter().filter(|it| it.aborted().is_some());
        match aborted.next().map(|it| it.block) {
            Some(block) => {
                let end = self.results.partition_point(|it| it.block < block);
                &self.results[..end]
            }
            None => &self.results,
        }
    }

    /// Returns the number of variants in a block.
    fn variants_run(&self) -> usize {
        self.state.variants.len() - self.state.ruled_out.variants.len()
    }

    pub(crate) fn complete_blocks(&self) -> u32 {
        (self.results.len() / self.variants_run().max(1)) as u32
    }

    /// Returns the variants that the pre-check ruled out.
    pub(crate) fn ruled_out(&self) -> &RuledOut {
        &self.state.ruled_out
    }

    /// Stores the variants that the pre-check ruled out. Must be called before the first block.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn rule_out(&mut self, ruled_out: RuledOut) -> Result<(), ExperimentFolderError> {
        self.state.ruled_out = ruled_out;
        write_json(&self.dir.join("state.json"), &self.state)
    }

    /// Stores the time that the pre-check took to start, check and stop the services of a block's
    /// variants.
    ///
    /// # Errors
    /// The folder can't be written.
    pub(crate) fn note_overhead(
        &mut self,
        overhead: Duration,
    ) -> Result<(), ExperimentFolderError> {
        self.state.block_overhead_ms = u64::try_from(overhead.as_millis()).ok();
        write_json(&self.dir.join("state.json"), &self.state)
    }

    /// Returns the mean total duration of the loads in a block, including warm-ups, according to
    /// the stored records, plus the overhead of a block if a pre-check measured it. Returns `None`
    /// without records or complete blocks.
    pub(crate) fn mean_time_of_block(&self) -> Option<Duration> {
        let records = self.results.iter().filter_map(|it| it.record.as_ref());
        let loads_s: Vec<f64> = records
            .map(|record| record.load.warmup_s + record.totals.elapsed_s)
            .collect();
        let blocks = self.complete_blocks();
        if loads_s.is_empty() {
            return None;
        }
        let mean_s = loads_s.iter().sum::<f64>() / f64::from(blocks);
        // Without complete blocks, the mean is infinite and the conversion fails.
        let loads = Duration::try_from_secs_f64(mean_s).ok()?;
        let overhead = Duration::from_millis(self.state.block_overhead_ms.unwrap_or_default());
        Some(loads.saturating_add(overhead))
    }

    /// Returns the number of blocks that ended in this run, excluding earlier runs of the
    /// experiment.
    pub(crate) fn blocks_run(&self) -> u32 {
        self.blocks_run
    }

    pub(crate) fn block_ended(&mut self) {
        self.blocks_run += 1;
    }

    /// Returns the number of blocks with at least one trial, given the number of complete blocks.
    pub(crate) fn blocks_begun(&self, complete: u32) -> u32 {
        self.results
            .iter()
            .map(|result| result.block)
            .max()
            .unwrap_or(complete)
    }

    /// Creates an empty folder for a trial.
    pub(crate) fn trial_dir(&self, block: u32, id: &str) -> Result<PathBuf, ExperimentFolderError> {
        let dir = self.dir.join("trials").join(format!("{block}-{id}"));
        if dir.exists() {
            fs::remove_dir_all(&dir).map_err(|error| failed(&dir, &error))?;
        }
        fs::create_dir_all(&dir).map_err(|error| failed(&dir, &error))?;
        fs::canonicalize(&dir).map_err(|error| failed(&dir, &error))
    }

    /// Stores the result of a trial.
    pub(crate) fn keep(&mut self, result: TrialResult) -> Result<(), ExperimentFolderError> {
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

    /// Stores the environment of a variant.
    pub(crate) fn note_environment(
        &mut self,
        id: &str,
        environment: Environment,
    ) -> Result<(), ExperimentFolderError> {
        self.environment.machine = environment.machine;
        self.environment
            .services
            .insert(id.to_owned(), environment.services);
        self.environment
            .sources
            .insert(id.to_owned(), environment.sources);
        if !environment.places.is_empty() {
            let places = environment.places;
            self.environment.places.insert(id.to_owned(), places);
        }
        if !environment.links.is_empty() {
            let links = environment.links;
            self.environment.links.insert(id.to_owned(), links);
        }
        self.environment.hosts.extend(environment.hosts);
        if !environment.hosted.is_empty() {
            let hosted = environment.hosted;
            self.environment.hosted.insert(id.to_owned(), hosted);
        }
        write_json(&self.dir.join("environment.json"), &self.environment)
    }

    pub(crate) fn write_verdict(
        &mut self,
        document: &VerdictDocument,
    ) -> Result<(), ExperimentFolderError> {
        write_json(&self.dir.join("verdict.json"), document)
    }
}

/// Files that prony may write to an experiment's folder, besides those in its folders.
pub const EXPERIMENT_FILES: [&str; 12] = [
    "state.json",
    "state.json.new",
    "environment.json",
    "environment.json.new",
    "plan.toml",
    "verdict.json",
    "verdict.json.new",
    "report.html",
    "report.md",
    "report.pdf",
    "secrets.json",
    lock::LOCK_FILE,
];

/// Removes prony's files from a folder without a complete trial, so that a corrected plan can run
/// there. Keeps all other files.
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
    let files = EXPERIMENT_FILES
        .into_iter()
        .filter(|name| *name != lock::LOCK_FILE);
    for name in files.chain([INCLUDES_DIR]) {
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

fn failed(path: &Path, error: &dyn std::fmt::Display) -> ExperimentFolderError {
    ExperimentFolderError::File {
        path: path.to_owned(),
        error: error.to_string(),
    }
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), ExperimentFolderError> {
    let mut json =
        serde_json::to_string_pretty(value).map_err(|error| ExperimentFolderError::File {
            path: path.to_owned(),
            error: error.to_string(),
        })?;
    json.push('\n');
    write_whole(path, &json)
}

/// Replaces a file atomically, because another process may be reading it or the machine may lose
/// power.
fn write_whole(path: &Path, text: &str) -> Result<(), ExperimentFolderError> {
    let draft = path.with_extension("json.new");
    let write = || {
        let mut file = fs::File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(|error| failed(path, &error))
}

fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, ExperimentFolderError> {
    let text = read_stored(path).map_err(|error| failed(path, &error))?;
    parse_stored(&text).map_err(|error| ExperimentFolderError::File {
        path: path.to_owned(),
        error: error.to_string(),
    })
}
