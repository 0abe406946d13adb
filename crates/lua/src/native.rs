//! Runs the scripts that loads name in their setting `script`.

use std::iter;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_load::{
    Control, LoadSpec, LoadedScript, Notation, RunError, RunResult, ScriptLoader, ScriptSetup,
    ScriptedRun, Sha256, run_with,
};
use prony_record::{CallFailure, Outcome, OutcomeCounts};

use crate::address::Address;
use crate::fault::ScriptFault;
use crate::hooks::{DefinedHooks, HookSettings, LuaHooks, RequestForm};
use crate::request;
use crate::results::{RateSampler, SAMPLING_INTERVAL, WrkErrors, WrkFigures};
use crate::scripts::{LuaScripts, ServerAddresses};
use crate::state::{ScriptInterrupt, ScriptLimits, ScriptSeed, ScriptSource, ScriptUrl};
use crate::statistics::Statistics;

/// Time limit for one call of a script.
const CALL_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum memory of all of a script's states together, in bytes.
const MEMORY_BYTES_MAX: usize = 2 << 30;
/// Minimum memory limit of each state, in bytes.
const STATE_BYTES_MIN: usize = 64 << 20;
/// Maximum number of bytes of each response body that the `response` hook receives.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Loads Lua scripts with wrk's hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct LuaLoader {
    /// Makes scripts print to standard error, because standard output carries other data.
    pub prints_to_stderr: bool,
}

impl ScriptLoader for LuaLoader {
    fn load(
        &self,
        spec: &LoadSpec,
        control: &Arc<Control>,
    ) -> Result<Box<dyn LoadedScript>, String> {
        let Some(setup) = spec.script() else {
            return Err("the load has no script".to_owned());
        };
        let script = LuaLoad::new(&setup, control, self.prints_to_stderr);
        match script {
            Ok(script) => Ok(Box::new(script)),
            Err(fault) => Err(fault.to_string()),
        }
    }
}

/// A script that is ready to run with its load.
struct LuaLoad {
    scripts: LuaScripts,
    /// Hash of the script's file.
    sha256: Sha256,
    settings: HookSettings,
    interrupt: Arc<ScriptInterrupt>,
    /// The results of the load; `None` until it has run.
    figures: Mutex<Option<WrkFigures>>,
}

impl LuaLoad {
    fn new(
        setup: &ScriptSetup<'_>,
        control: &Arc<Control>,
        prints_to_stderr: bool,
    ) -> Result<LuaLoad, ScriptFault> {
        let source = ScriptSource::read(setup.file)?;
        if source.is_empty() {
            let text = format!(
                "{}: the script is empty (a pipe can be read only once; use a file)",
                setup.file.display()
            );
            return Err(ScriptFault::new(text));
        }
        let url = ScriptUrl {
            scheme: if setup.tls { "https" } else { "http" }.to_owned(),
            host: setup.host.to_owned(),
            port: setup.port,
            path: setup.path.to_owned(),
        };
        let stop = control.clone();
        let interrupt = ScriptInterrupt::new(move || stop.is_stopped());
        let states = setup.threads as usize + 1;
        let seed = ScriptSeed {
            source: &source,
            url: &url,
            headers: &setup.headers,
            method: setup.method,
            body: setup.body,
            interrupt: &interrupt,
            notation: Notation::Flags,
            limits: ScriptLimits {
                call_time: Some(CALL_TIME_MAX),
                memory_bytes: Some((MEMORY_BYTES_MAX / states).max(STATE_BYTES_MIN)),
            },
            prints_to_stderr,
        };
        let arguments = setup.arguments.iter().map(String::as_str);
        let words: Vec<String> = iter::once(setup.url)
            .chain(arguments)
            .map(str::to_owned)
            .collect();
        let address = ServerAddresses::Known(setup.address.map(Address));
        let loaded = LuaScripts::load(&seed, address, u64::from(setup.threads), &words)?;
        let scripts = loaded.ok_or_else(|| ScriptFault::new("the server has no address".into()))?;
        let elsewhere = elsewhere(&scripts, setup)?;
        check_batch(&scripts)?;
        scripts.flush();
        let first = scripts.threads().first();
        let settings = HookSettings {
            elsewhere,
            has: first.map(DefinedHooks::of).unwrap_or_default(),
            batch: 1,
            form: if setup.sends_bytes {
                RequestForm::Bytes
            } else {
                RequestForm::Written
            },
            body_bytes_max: BODY_BYTES_MAX,
        };
        Ok(LuaLoad {
            scripts,
            sha256: source.sha256(),
            settings,
            interrupt,
            figures: Mutex::new(None),
        })
    }
}

/// Returns, for each thread, the URL of the address that `setup` chose, or `None` if it is the
/// load's address.
fn elsewhere(
    scripts: &LuaScripts,
    setup: &ScriptSetup<'_>,
) -> Result<Vec<Option<String>>, ScriptFault> {
    let own = setup.address.map(Address);
    let scheme = if setup.tls { "https" } else { "http" };
    let threads = scripts.threads().iter();
    let urls = threads.map(|thread| {
        let other = thread.address().filter(|address| Some(*address) != own);
        let Some(other) = other else { return Ok(None) };
        let problem = match (own, setup.checks_name) {
            (None, _) => "it has no effect, because the load connects to a UNIX socket or a proxy",
            (Some(_), true) => {
                "the certificate of another address can't be checked (name its host with --sni)"
            }
            (Some(_), false) => return Ok(Some(format!("{scheme}://{}/", other.0))),
        };
        Err(scripts.fault(format!("setup() sets thread.addr: {problem}")))
    });
    urls.collect()
}

/// Rejects scripts whose `request` returns several requests in one call.
fn check_batch(scripts: &LuaScripts) -> Result<(), ScriptFault> {
    let Some(thread) = scripts.threads().first() else {
        return Ok(());
    };
    match request::count(&thread.request()?) {
        Ok(1) => Ok(()),
        Ok(count) => Err(thread.request_fault(&format!(
            "it returned {count} requests at once, which only `prony wrk` can send (return one)"
        ))),
        Err(problem) => Err(thread.request_fault(&problem)),
    }
}

impl LoadedScript for LuaLoad {
    fn run(&self, spec: &LoadSpec, control: &Control) -> Result<ScriptedRun, RunError> {
        let hooks = LuaHooks::new(&self.scripts, spec.writer(), self.settings.clone());
        let (result, rates) = run_sampled(spec, control, &hooks);
        self.scripts.flush();
        let mut result = result?;
        result.record.load.script_sha256 = Some(self.sha256.to_string());
        let figures = wrk_figures(spec, &result, rates);
        let mut stored = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        *stored = Some(figures);
        let failure = hooks.failure().filter(|fault| !fault.is_interrupt());
        Ok(ScriptedRun {
            record: result.record,
            failure: failure.map(|fault| fault.to_string()),
        })
    }

    fn done(&self) -> Result<(), String> {
        self.interrupt.spare();
        let figures = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        let figures = figures.clone().unwrap_or_default();
        let done = self.scripts.done(&figures);
        done.map_err(|fault| fault.to_string())
    }
}

/// Runs the load and samples its rates. Stops the load after the script has failed.
fn run_sampled(
    spec: &LoadSpec,
    control: &Control,
    hooks: &LuaHooks<'_>,
) -> (Result<RunResult, RunError>, Vec<u64>) {
    let (done, is_done) = channel::<()>();
    std::thread::scope(|scope| {
        let sampler = scope.spawn(move || {
            let mut rates = RateSampler::new(spec.info().threads.into(), 1);
            while is_done.recv_timeout(SAMPLING_INTERVAL) == Err(RecvTimeoutError::Timeout) {
                rates.sample(control);
                if hooks.has_failed() {
                    control.stop();
                }
            }
            rates.into_samples()
        });
        let result = run_with(spec, control, Some(hooks));
        drop(done);
        (result, sampler.join().unwrap_or_default())
    })
}

/// Returns the results of a load, as the script's `done` receives them.
fn wrk_figures(spec: &LoadSpec, result: &RunResult, rates: Vec<u64>) -> WrkFigures {
    let (record, recorder) = (&result.record, &result.recorder);
    let outcomes = recorder.outcomes();
    let not_fine = recorder.statuses().filter(|(status, _)| *status > 399);
    let latency = if spec.info().is_open() {
        recorder.response_time()
    } else {
        recorder.service_time()
    };
    WrkFigures {
        latency: Statistics::of_times(latency),
        rates: Statistics::of_samples(rates),
        duration: Duration::from_secs_f64(record.totals.elapsed_s),
        requests: record.totals.ok + unexpected(outcomes),
        bytes: record.totals.bytes_in,
        errors: WrkErrors {
            status: not_fine.map(|(_, count)| count).sum(),
            ..WrkErrors::of(outcomes)
        },
    }
}

/// Returns the number of complete responses that count as failures.
fn unexpected(outcomes: &OutcomeCounts) -> u64 {
    let unexpected = [
        Outcome::UnexpectedStatus,
        Outcome::UnexpectedSize,
        Outcome::UnexpectedBody,
        Outcome::StoppedEarly,
        Outcome::NoEndMarker,
        Outcome::Redirect,
    ];
    let calls = CallFailure::ALL
        .iter()
        .map(|&failure| Outcome::Call(failure));
    let all = unexpected.into_iter().chain(calls);
    all.map(|outcome| outcomes.get(outcome)).sum()
}
