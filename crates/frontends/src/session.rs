//! Runs a load for a front end until it ends or is interrupted.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prony_load::script::Director;
use prony_load::{
    Braces, Control, LoadScope, LoadSettings, LoadSpec, RunResult, SettingsError, SpecError,
    run_with,
};

use crate::output::complain;
use crate::tool::Tool;

/// Outcome of a front end, which has already written all of its output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolEnding {
    /// Status 0: success.
    Done,
    /// Status 1: the load ran, but no request succeeded.
    Failed,
    /// Status 2: the arguments are wrong, and nothing was run.
    Wrong,
    /// Status 3: the machine refused an operation.
    Refused,
    /// Status 130: a signal interrupted the load. The results so far have been printed.
    Interrupted,
    /// A status of the emulated tool, on which scripts may rely.
    Status(u8),
}

/// Request to stop the current load, or the next one as soon as it starts. Ctrl-C triggers it.
#[derive(Debug, Default)]
pub struct StopRequest {
    asked: AtomicBool,
    running: Mutex<Option<Arc<Control>>>,
}

impl StopRequest {
    /// Stops the current load or, if none is running, the next one.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        if let Some(control) = self.running().as_ref() {
            control.stop();
        }
    }

    /// Returns true once [`StopRequest::ask`] has been called.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Arc<Control>>> {
        // Poisoning of the mutex is ignored, because a panic can't leave the `Option` half written.
        self.running
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// State that the main program passes to a front end.
#[derive(Debug, Default)]
pub struct ToolSession {
    /// Stop request, which Ctrl-C triggers.
    pub stop: Arc<StopRequest>,
}

impl ToolSession {
    /// Returns the outcome of a load that has ended.
    pub(crate) fn ending(&self, has_succeeded: bool) -> ToolEnding {
        match (self.stop.is_asked(), has_succeeded) {
            (true, _) => ToolEnding::Interrupted,
            (false, true) => ToolEnding::Done,
            (false, false) => ToolEnding::Failed,
        }
    }
}

/// The setting [`LoadSettings::public`], and the environment variable that sets it in every front end.
pub(crate) const PUBLIC: (&str, &str) = ("public", "PRONY_PUBLIC=1");

/// Prints the reason why a tool can't run a load to standard error.
pub(crate) fn report_error(error: &SpecError, tool: Tool) -> ToolEnding {
    complain(tool.name(), &error.in_notation(tool.notation()));
    match error {
        SpecError::Settings(_) | SpecError::Name { .. } => ToolEnding::Wrong,
        SpecError::Environment(_) => ToolEnding::Refused,
    }
}

/// The error of a file that can't be created or written.
pub(crate) fn file_error(name: &str, error: &io::Error) -> SpecError {
    SpecError::Environment(SettingsError::from(error.to_string()).at(name))
}

/// Returns the scope in which front ends resolve their loads. Braces in URLs, headers and bodies
/// are literal text rather than placeholders.
pub(crate) fn literal_scope() -> LoadScope {
    LoadScope {
        braces: Braces::Literal,
        ..LoadScope::default()
    }
}

/// Resolves the arguments to a load that is ready to run.
pub(crate) fn resolve_literal(url: &str, options: &LoadSettings) -> Result<LoadSpec, SpecError> {
    options.resolve_within(Some(url), &literal_scope())
}

/// Callback that [`run_load`] invokes at intervals during a load, on the thread that called it.
pub(crate) struct PeriodicCallback<'a> {
    /// Interval between the calls.
    pub(crate) every: Duration,
    /// Called with the time since the start of the load.
    pub(crate) call: &'a mut dyn FnMut(Duration, &Control),
}

/// Runs a load until it ends or is interrupted.
pub(crate) fn run_load(
    session: &ToolSession,
    spec: &LoadSpec,
    director: Option<&dyn Director>,
    tick: Option<PeriodicCallback<'_>>,
) -> Result<RunResult, SpecError> {
    let control = Arc::new(Control::new(spec.info().threads));
    *session.stop.running() = Some(control.clone());
    if session.stop.is_asked() {
        control.stop();
    }
    let (done, is_done) = channel::<()>();
    let result = thread::scope(|scope| {
        let (control, began) = (&control, Instant::now());
        let load = scope.spawn(move || {
            let result = run_with(spec, control, director);
            drop(done);
            result
        });
        if let Some(tick) = tick {
            let mut due = began + tick.every;
            while is_done.recv_timeout(due.saturating_duration_since(Instant::now()))
                == Err(RecvTimeoutError::Timeout)
            {
                (tick.call)(began.elapsed(), control);
                due += tick.every;
            }
        }
        load.join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    *session.stop.running() = None;
    result.map_err(|error| SpecError::Environment(error.to_string().into()))
}
