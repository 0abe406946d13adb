//! What every front end needs to run a load and to end well.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use prony_load::script::Director;
use prony_load::{Control, LoadOptions, LoadSpec, RunResult, SpecError, run_with};

use crate::output::complain;

/// How a front end ends. What is to be said has been said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Status 0.
    Done,
    /// Status 1: there is a result, and no request succeeded.
    Failed,
    /// Status 2: the arguments are wrong, and nothing was run.
    Wrong,
    /// Status 3: the machine refused.
    Refused,
    /// Status 130: interrupted; what was measured until then is printed.
    Interrupted,
    /// This status, where scripts know the tool by it.
    Status(u8),
}

/// Ends the load that runs, or the one that begins next: what Ctrl-C does.
#[derive(Debug, Default)]
pub struct Stop {
    asked: AtomicBool,
    running: Mutex<Option<Arc<Control>>>,
}

impl Stop {
    /// Ends it.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::SeqCst);
        if let Some(control) = self.running().as_ref() {
            control.stop();
        }
    }

    /// Whether that was asked for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<Arc<Control>>> {
        // A panic elsewhere leaves nothing half done in an Option.
        self.running
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// The program around a front end.
#[derive(Debug, Default)]
pub struct Session {
    /// Ctrl-C.
    pub stop: Arc<Stop>,
}

/// Why a front end could not load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The arguments are wrong.
    Wrong(String),
    /// The machine refused.
    Environment(String),
}

/// The engine's words, and others in their place.
pub(crate) type Words = [(&'static str, &'static str)];

/// What the engine says of flags that no front end has.
const NO_FLAGS: &Words = &[
    ("say so with --public", "set PRONY_PUBLIC=1"),
    (", or give its address with --resolve", ""),
    (", or give one with --resolve", ""),
];

/// A text with some of its words replaced, each pair in its turn.
fn replaced(text: String, words: &Words) -> String {
    let words = words.iter();
    words.fold(text, |text, (engine, own)| text.replace(engine, own))
}

/// What the engine refuses, without the flags that no front end has.
pub(crate) fn told(error: &SpecError) -> String {
    replaced(error.to_string(), NO_FLAGS)
}

impl Refusal {
    /// The same with the engine's words replaced by the tool's.
    pub(crate) fn reworded(self, words: &Words) -> Refusal {
        match self {
            Refusal::Wrong(text) => Refusal::Wrong(replaced(text, words)),
            Refusal::Environment(text) => Refusal::Environment(replaced(text, words)),
        }
    }

    /// Says why, with the tool's name in front, on standard error.
    pub(crate) fn say(&self, tool: &str) -> Ending {
        let (text, ending) = match self {
            Refusal::Wrong(text) => (text, Ending::Wrong),
            Refusal::Environment(text) => (text, Ending::Refused),
        };
        complain(tool, text);
        ending
    }
}

/// What was typed as a load that can be run.
pub(crate) fn resolve(url: Option<&str>, options: &LoadOptions) -> Result<LoadSpec, Refusal> {
    LoadSpec::resolve(url, options).map_err(|error| match error {
        SpecError::Environment(_) => Refusal::Environment(told(&error)),
        SpecError::Arguments(_) | SpecError::Name { .. } => Refusal::Wrong(told(&error)),
    })
}

/// What to do each so often while a load runs, on the calling thread.
pub(crate) struct Tick<'a> {
    /// How often.
    pub(crate) every: Duration,
    /// What: it is given the time since the load began.
    pub(crate) call: &'a mut dyn FnMut(Duration, &Control),
}

/// Runs a load to its end, or until it is interrupted.
pub(crate) fn run(
    session: &Session,
    spec: &LoadSpec,
    director: Option<&dyn Director>,
    tick: Option<Tick<'_>>,
) -> Result<RunResult, Refusal> {
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
    result.map_err(|error| Refusal::Environment(error.to_string()))
}
