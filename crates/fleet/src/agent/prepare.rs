//! From an order's words to a load that may be made here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prony_load::{CoreList, LoadOptions, LoadSpec, Part, Permits, SpecError, probe, reach};
use prony_record::{Finding, FindingId, Nanos, Severity};

use super::Settings;
use crate::messages::{Checked, Load, Reply};
use crate::policy::{Asked, Policy, Refusal};

/// How long a target may take to answer before the load.
const TARGET: Duration = Duration::from_secs(3);
/// Threads that a load may have here, for each core: more is a slip of the pen.
const THREADS_A_CORE: u32 = 16;

/// The files that came whole, by name.
pub(super) type Whole = BTreeMap<String, PathBuf>;

/// Why there is no load.
#[derive(Debug)]
pub(super) enum No {
    /// The policy.
    Refused(Refusal),
    /// What was asked is wrong.
    Wrong(String),
    /// This machine can't.
    Environment(String),
}

impl From<No> for Reply {
    fn from(no: No) -> Reply {
        match no {
            No::Refused(refusal) => Reply::Refused {
                rule: refusal.rule.to_owned(),
                text: refusal.text,
            },
            No::Wrong(text) => Reply::Wrong { text },
            No::Environment(text) => Reply::Environment { text },
        }
    }
}

/// The load that an order means, if the policy lets it be made.
pub(super) fn resolve(load: &Load, files: &Whole, settings: &Settings) -> Result<LoadSpec, No> {
    let stretch = load.stretch;
    let most = settings.cores_count().saturating_mul(THREADS_A_CORE);
    if stretch.workers > most {
        let workers = stretch.workers;
        let text = format!("{workers} threads are more than the {most} that make sense here");
        return Err(No::Wrong(text));
    }
    let part = Part {
        first: stretch.first,
        workers: stretch.workers,
        of: stretch.of,
    };
    let mut options = LoadOptions::parse_words(&load.words).map_err(No::Wrong)?;
    place_files(&mut options, files).map_err(No::Wrong)?;
    options.threads = None;
    if !settings.cores.is_empty() {
        options.cores = Some(CoreList(settings.cores.clone()));
    }
    let refused = Arc::new(Mutex::new(None));
    options.permits = Some(permits(&settings.policy, &refused));
    let rate = options.rate;
    let connections = options.connections;
    let resolved = LoadSpec::resolve_part(load.url.as_deref(), &options, Some(part));
    let mut spec = resolved.map_err(|error| {
        let refusal = refused
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        match (refusal, error) {
            (Some(refusal), _) => No::Refused(refusal),
            (None, SpecError::Environment(text)) => No::Environment(text),
            (None, error) => No::Wrong(error.to_string()),
        }
    })?;
    spec.open_before_start();
    // That there is such a stretch was seen when the load was resolved.
    let asked = Asked {
        rate: rate.map(|rate| rate * f64::from(stretch.workers) / f64::from(stretch.of.max(1))),
        connections: stretch.part(connections),
        seconds: spec.planned().map(Nanos::as_secs_f64),
    };
    settings.policy.allows_load(asked).map_err(No::Refused)?;
    Ok(spec)
}

/// The policy as the judge of targets; it notes what it refused first.
fn permits(policy: &Policy, refused: &Arc<Mutex<Option<Refusal>>>) -> Permits {
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

/// Has the options name files where they lie here. No other file of this machine is read: what is in it
/// would be sent to the target.
fn place_files(options: &mut LoadOptions, files: &Whole) -> Result<(), String> {
    let named = [
        ("--body-file", &mut options.body_file),
        ("--urls", &mut options.urls),
        ("--ca", &mut options.ca),
        ("--cert", &mut options.cert),
        ("--key", &mut options.key),
    ];
    for (flag, file) in named {
        if let Some(path) = file {
            let place = path.to_str().and_then(|name| files.get(name));
            let place = place.ok_or_else(|| missing(flag, path))?;
            *path = place.clone();
        }
    }
    let was_sent = |path: &PathBuf| files.values().any(|sent| sent == path);
    let all = options.files()?;
    match all.iter().find(|path| !was_sent(path)) {
        Some(path) => Err(missing("--urls", path)),
        None => Ok(()),
    }
}

fn missing(flag: &str, path: &Path) -> String {
    format!(
        "{flag} {}: this file was not sent for the run",
        path.display()
    )
}

/// What a look at the load's target gives.
pub(super) fn check(spec: &LoadSpec) -> Checked {
    let began = Instant::now();
    let took = |began: Instant| began.elapsed().as_secs_f64() * 1e3;
    let target = match spec.safe_requests().first() {
        Some(&index) => probe(spec, index, TARGET).map(|answer| {
            let (status, length) = (answer.status, answer.body.length);
            let http = answer.negotiated.http.unwrap_or_default();
            let took = took(began);
            format!("status {status} over HTTP/{http}, {length} bytes in {took:.1} ms")
        }),
        // Whatever it would be asked changes something there.
        None => reach(spec, TARGET).map(|()| format!("connected in {:.1} ms", took(began))),
    };
    Checked {
        target,
        forecast: spec.forecast().to_vec(),
    }
}

/// What may go wrong with the load. Its target is connected to and asked nothing, so that it counts no
/// requests but the load's.
pub(super) fn forecast(spec: &LoadSpec) -> Vec<Finding> {
    let mut forecast = spec.forecast().to_vec();
    if let Err(why) = reach(spec, TARGET) {
        forecast.push(Finding::new(
            FindingId::TargetUnreachable,
            Severity::Warning,
            format!("The target can't be reached before the load: {why}. Check that it runs."),
        ));
    }
    forecast
}
