//! Reads the folder of an experiment.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use prony_record::{Record, parse_stored, read_stored, redact};
use prony_stats::{
    Comparison, ServiceCosts, VERDICT_SCHEMA, Values, Verdict, VerdictDocument, WithheldBecause,
};
use serde::Deserialize;

use crate::{Experiment, Trial, TrialProfile, TrialSearch, TrialSlice};

/// Reason why a folder can't be read.
#[derive(Debug)]
pub enum FolderError {
    /// The folder contains no verdict, because it contains no experiment, or an experiment without
    /// a complete block.
    NoVerdict(PathBuf),
    /// A file can't be read.
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error from the operating system.
        error: std::io::Error,
    },
    /// A file has unexpected content.
    Malformed {
        /// Path of the file.
        path: PathBuf,
        /// Description of the error.
        reason: String,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FolderError::NoVerdict(dir) => write!(
                f,
                "{}: no verdict.json in this folder (name a folder that prony compare wrote)",
                dir.display()
            ),
            FolderError::Unreadable { path, error } => write!(f, "{}: {error}", path.display()),
            FolderError::Malformed { path, reason } => write!(f, "{}: {reason}", path.display()),
        }
    }
}

impl std::error::Error for FolderError {}

/// The part of `state.json` that reports use.
#[derive(Deserialize)]
struct StoredState {
    #[serde(default)]
    plan: Option<StoredPlan>,
}

#[derive(Deserialize)]
struct StoredPlan {
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// Reads an experiment's folder: `verdict.json` and, if they exist, `plan.toml`, `environment.json`
/// and `trials/<block>-<variant>/record.json`. Trials without a record were interrupted, and are
/// omitted. A trial is identified by its `trial.json`, or by the folder's name.
///
/// # Errors
/// Returns an error if there is no verdict or a file can't be read.
pub fn read_experiment(dir: &Path) -> Result<Experiment, FolderError> {
    let verdict_path = dir.join("verdict.json");
    let Some(json) = read_text(&verdict_path)? else {
        return Err(FolderError::NoVerdict(dir.to_owned()));
    };
    let mut verdict: VerdictDocument = parse_json(&verdict_path, &json)?;
    if verdict.schema != VERDICT_SCHEMA {
        let reason = format!(
            "schema \"{}\" is not supported (this version reads \"{VERDICT_SCHEMA}\")",
            verdict.schema
        );
        return Err(malformed(&verdict_path, reason));
    }
    for comparison in &mut verdict.comparisons {
        read_reason(comparison);
    }
    let environment_path = dir.join("environment.json");
    let environment = match read_text(&environment_path)? {
        Some(json) => parse_json(&environment_path, &json)?,
        None => serde_json::Value::Null,
    };
    let state_path = dir.join("state.json");
    // A report doesn't depend on this file, so an unreadable one only lacks facts.
    let state = read_text(&state_path).ok().flatten();
    let state = state.and_then(|json| parse_json::<StoredState>(&state_path, &json).ok());
    let mut trials = trials(&dir.join("trials"), &verdict)?;
    trials.sort_by_key(|trial| (trial.block, trial.variant));
    Ok(Experiment {
        verdict,
        plan: redact::hide(&read_text(&dir.join("plan.toml"))?.unwrap_or_default()),
        plan_files: state.and_then(|state| Some(state.plan?.files)),
        environment,
        trials,
    })
}

/// Reads the reason for withholding a verdict from its sentence. Earlier versions stored it only
/// there.
fn read_reason(comparison: &mut Comparison) {
    if comparison.verdict == Verdict::Withheld && comparison.withheld.is_none() {
        let (_, reason) = comparison
            .text
            .split_once("verdict withheld: ")
            .unwrap_or(("", "its verdict was withheld"));
        comparison.withheld = Some(WithheldBecause::Stated(reason.to_owned()));
    }
}

fn malformed(path: &Path, reason: impl fmt::Display) -> FolderError {
    FolderError::Malformed {
        path: path.to_owned(),
        reason: reason.to_string(),
    }
}

/// Reads a file as text; `None` if the file doesn't exist.
fn read_text(path: &Path) -> Result<Option<String>, FolderError> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match read_stored(path) {
        Ok(text) => Ok(Some(text)),
        // A missing file is not an error, so stray files among the folders of trials are skipped.
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(error) => Err(FolderError::Unreadable {
            path: path.to_owned(),
            error,
        }),
    }
}

fn parse_json<T: serde::de::DeserializeOwned>(path: &Path, json: &str) -> Result<T, FolderError> {
    parse_stored(json).map_err(|error| malformed(path, error))
}

fn trials(dir: &Path, verdict: &VerdictDocument) -> Result<Vec<Trial>, FolderError> {
    let unreadable = |error| FolderError::Unreadable {
        path: dir.to_owned(),
        error,
    };
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(unreadable(error)),
    };
    let mut trials = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let stated = trial_file(&entry.path(), verdict)?;
        let place = stated.as_ref().map(|stated| (stated.block, stated.variant));
        let Some((block, variant)) = place.or_else(|| trial_name(&name, verdict)) else {
            continue;
        };
        let path = entry.path().join("record.json");
        if let Some(json) = read_text(&path)? {
            let record = Record::from_json(&json).map_err(|error| malformed(&path, error))?;
            trials.push(Trial {
                block,
                variant,
                position: stated.as_ref().and_then(|stated| stated.position),
                values: values(&record, stated.as_ref()),
                profiles: profiles(&entry.path(), stated.as_ref()),
                search: stated.as_ref().and_then(|stated| stated.search.clone()),
                slices: stated.map(|stated| stated.slices).unwrap_or_default(),
                telemetry: read_text(&entry.path().join("telemetry.csv"))?.unwrap_or_default(),
                record,
            });
        }
    }
    Ok(trials)
}

/// The fields of `trial.json` that reports need.
#[derive(serde::Deserialize)]
struct TrialFile {
    block: u32,
    variant: usize,
    #[serde(default)]
    position: Option<usize>,
    /// The keys are strings rather than metrics, because later versions may store more metrics.
    #[serde(default)]
    values: BTreeMap<String, f64>,
    #[serde(default)]
    slices: Vec<TrialSlice>,
    #[serde(default)]
    search: Option<TrialSearch>,
    #[serde(default)]
    functions: BTreeMap<String, ServiceCosts>,
}

/// Reads the sampling profiles of a trial. A report doesn't depend on them, so an unreadable one is
/// only missing.
fn profiles(dir: &Path, stated: Option<&TrialFile>) -> BTreeMap<String, TrialProfile> {
    let services = stated.into_iter().flat_map(|stated| &stated.functions);
    let profile = |(service, costs): (&String, &ServiceCosts)| {
        let path = dir.join(format!("{service}.sampling.json"));
        let profile = parse_json(&path, &read_text(&path).ok()??).ok()?;
        let us_per_request = costs.functions.iter().map(|it| it.us_per_request).sum();
        Some((
            service.clone(),
            TrialProfile {
                us_per_request,
                profile,
            },
        ))
    };
    services.filter_map(profile).collect()
}

/// Reads `trial.json`; `None` if it doesn't exist.
fn trial_file(dir: &Path, verdict: &VerdictDocument) -> Result<Option<TrialFile>, FolderError> {
    let path = dir.join("trial.json");
    let Some(json) = read_text(&path)? else {
        return Ok(None);
    };
    let stated: TrialFile = parse_json(&path, &json)?;
    if stated.variant >= verdict.variants.len() {
        return Err(malformed(
            &path,
            "the verdict has no variant with this number",
        ));
    }
    Ok(Some(stated))
}

/// Returns the stored metrics of a trial. If none are stored, computes them from the trial's
/// record.
fn values(record: &Record, stated: Option<&TrialFile>) -> Values {
    let stored = stated.into_iter().flat_map(|stated| &stated.values);
    let known = stored.filter_map(|(name, value)| Some((name.parse().ok()?, *value)));
    let known: Values = known.collect();
    // The record of a search covers only one probe, so it can't replace the stored metrics.
    let is_search = stated.is_some_and(|stated| stated.search.is_some());
    if known.is_empty() && !is_search {
        prony_stats::of_record(record)
    } else {
        known
    }
}

/// Parses block and variant from a folder name `<block>-<variant>`; `None` for other names.
fn trial_name(name: &str, verdict: &VerdictDocument) -> Option<(u32, usize)> {
    let (block, variant) = name.split_once('-')?;
    Some((
        block.parse().ok()?,
        Experiment::variant_named(verdict, variant)?,
    ))
}
