//! Converts an order to a load, and checks it against the policy.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{
    CoreList, LoadScope, LoadSettings, LoadSpec, Permits, SettingsError, ShardRange, SpecError,
    check_request, reach,
};
use prony_record::finding::TargetUnreachable;
use prony_record::{Finding, Nanos, Severity};

use super::AgentSettings;
use crate::policy::{LoadDemand, Policy, PolicyViolation};
use crate::wire::{CheckReport, LoadOrder, Reply};

/// Timeout for a target to respond before the load.
const TARGET_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum number of threads per core that a load may use. A larger number is probably a mistake.
const THREADS_PER_CORE_MAX: u32 = 16;

/// Paths of the received files, by name.
pub(super) type FilePaths = BTreeMap<String, PathBuf>;

/// Reason why an order is rejected.
#[derive(Debug)]
pub(super) enum Rejection {
    /// The policy forbids the load.
    Refused(PolicyViolation),
    /// The order is invalid.
    Wrong(String),
    /// This machine can't generate the load.
    Environment(String),
}

impl From<Rejection> for Reply {
    fn from(rejection: Rejection) -> Reply {
        match rejection {
            Rejection::Refused(refusal) => Reply::Refused {
                rule: refusal.rule.to_owned(),
                text: refusal.text,
            },
            Rejection::Wrong(text) => Reply::Wrong { text },
            Rejection::Environment(text) => Reply::Environment { text },
        }
    }
}

/// Resolves the load of an order, and checks it against the policy.
pub(super) fn resolve(
    load: &LoadOrder,
    files: &FilePaths,
    settings: &AgentSettings,
) -> Result<LoadSpec, Rejection> {
    let shard = load.shard;
    let most = settings.core_count().saturating_mul(THREADS_PER_CORE_MAX);
    if shard.workers > most {
        let workers = shard.workers;
        let text =
            format!("{workers} threads are too many for this machine; at most {most} are accepted");
        return Err(Rejection::Wrong(text));
    }
    let mut options = load.settings.clone();
    set_file_paths(&mut options, files).map_err(|error| Rejection::Wrong(error.to_string()))?;
    options.threads = None;
    if !settings.cores.is_empty() {
        options.cores = Some(CoreList(settings.cores.clone()));
    }
    let refused = Arc::new(Mutex::new(None));
    let scope = LoadScope {
        shards: Some(ShardRange {
            first: shard.first,
            workers: shard.workers,
            of: shard.of,
        }),
        permits: Some(permits(&settings.policy, &refused)),
        ..LoadScope::default()
    };
    let rate = options.rate_profile();
    let connections = options
        .connections()
        .saturating_add(options.idle.unwrap_or(0));
    let resolved = options.resolve_within(load.url.as_deref(), &scope);
    let mut spec = resolved.map_err(|error| {
        let refusal = refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match (refusal, error) {
            (Some(refusal), _) => Rejection::Refused(refusal),
            (None, SpecError::Environment(error)) => Rejection::Environment(error.to_string()),
            (None, error) => Rejection::Wrong(error.to_string()),
        }
    })?;
    spec.open_before_start();
    // Resolving the load has already validated the shard.
    let asked = LoadDemand {
        rate: rate
            .map(|rate| rate.highest() * f64::from(shard.workers) / f64::from(shard.of.max(1))),
        connections: shard.part(connections),
        seconds: spec.planned().map(Nanos::as_secs_f64),
    };
    settings
        .policy
        .allows_load(asked)
        .map_err(Rejection::Refused)?;
    Ok(spec)
}

/// Returns a filter that accepts the targets that the policy allows. The first violation is stored
/// in `refused`.
fn permits(policy: &Policy, refused: &Arc<Mutex<Option<PolicyViolation>>>) -> Permits {
    let (policy, refused) = (policy.clone(), refused.clone());
    Permits::new(move |name, address| {
        policy.allows_target(name, address).map_err(|refusal| {
            let text = refusal.to_string();
            let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
            refused.get_or_insert(refusal);
            text
        })
    })
}

/// Replaces the file names in the options with the paths of received files. An order can't name
/// other files on this machine, because their contents would be sent to the target.
fn set_file_paths(options: &mut LoadSettings, files: &FilePaths) -> Result<(), FilePathError> {
    let named = [
        ("--body-file", &mut options.body_file),
        ("--urls", &mut options.urls),
        // The coordinator sends the steps, not their file.
        ("--steps", &mut options.steps),
        ("--data", &mut options.data),
        ("--protoset", &mut options.protoset),
        ("--ca", &mut options.ca),
        ("--cert", &mut options.cert),
        ("--key", &mut options.key),
    ];
    for (flag, file) in named {
        if let Some(path) = file {
            let sent = path.to_str().and_then(|name| files.get(name));
            let sent = sent.ok_or_else(|| missing(flag, path))?;
            *path = sent.clone();
        }
    }
    for field in &mut options.form {
        if let Some(path) = field.file() {
            let sent = path.to_str().and_then(|name| files.get(name));
            let sent = sent.ok_or_else(|| missing("--form", path))?;
            field.set_file(sent.clone());
        }
    }
    for step in &mut options.step {
        step.replace_files(|path| {
            let sent = path.to_str().and_then(|name| files.get(name));
            sent.cloned().ok_or_else(|| missing("--steps", path))
        })?;
    }
    let was_sent = |path: &PathBuf| files.values().any(|sent| sent == path);
    let all = options.files().map_err(FilePathError::Settings)?;
    match all.iter().find(|path| !was_sent(path)) {
        Some(path) => Err(missing("--urls", path)),
        None => Ok(()),
    }
}

/// Reason why an order's file names are rejected.
#[derive(Debug)]
enum FilePathError {
    /// The file that this flag names was not sent.
    Unsent { flag: &'static str, path: PathBuf },
    /// The names of the files can't be read.
    Settings(SettingsError),
}

impl fmt::Display for FilePathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FilePathError::Unsent { flag, path } => write!(
                f,
                "{flag} {}: this file was not sent for the run",
                path.display()
            ),
            FilePathError::Settings(error) => error.fmt(f),
        }
    }
}

fn missing(flag: &'static str, path: &Path) -> FilePathError {
    FilePathError::Unsent {
        flag,
        path: path.to_owned(),
    }
}

/// Checks the target of a load with one request, and returns the report.
pub(super) fn check_target(spec: &LoadSpec) -> CheckReport {
    let began = Instant::now();
    let took = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
    let target = match spec.safe_requests().first() {
        Some(&index) => check_request(spec, index, TARGET_TIMEOUT).map(|response| {
            let (status, length) = (response.status, response.body.length);
            let http = response.negotiated.http.unwrap_or_default();
            let took = took(began);
            format!("status {status} over HTTP/{http}, {length} bytes in {took:.1} ms")
        }),
        // Every request of this load may modify data, so the check only connects.
        None => reach(spec, TARGET_TIMEOUT).map(|()| format!("connected in {:.1} ms", took(began))),
    };
    CheckReport {
        target: target.map_err(|error| error.to_string()),
        forecast: spec.forecast().to_vec(),
    }
}

/// Predicts problems of the load. Connects to the target but sends no request, because uncounted
/// requests would distort the target's own counts.
pub(super) fn forecast(spec: &LoadSpec) -> Vec<Finding> {
    let mut forecast = spec.forecast().to_vec();
    if let Err(why) = reach(spec, TARGET_TIMEOUT) {
        let error = why.to_string();
        let unreachable = TargetUnreachable { error };
        forecast.push(Finding::of(Severity::Warning, &unreachable));
    }
    forecast
}
