//! A script's hooks as the load's workers ask for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_load::script::{Answer, Director, Script, Sees, Step, Users};
use prony_load::{Request, Writer};
use prony_record::Nanos;

use super::lua::{Fault, Scripts, Thread};
use super::request;

/// The hooks of a run's threads, one of them for each worker.
pub(super) struct Hooks<'a> {
    scripts: &'a Scripts,
    writer: Writer,
    /// Where each thread's connections go, as an URL; none for the load's own.
    elsewhere: Vec<Option<String>>,
    has: Has,
    failure: Failure,
}

/// Which hooks there were when the first thread had begun.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Has {
    pub(super) request: bool,
    pub(super) response: bool,
    pub(super) delay: bool,
}

impl Has {
    /// Those that a thread has.
    pub(super) fn of(thread: &Thread) -> Has {
        let has = |name| thread.state.hook(name).is_some();
        Has {
            request: has("request"),
            response: has("response"),
            delay: has("delay"),
        }
    }

    /// Whether any is called while the load runs.
    pub(super) fn any(self) -> bool {
        self.request || self.response || self.delay
    }
}

/// The first failure of a script.
#[derive(Default)]
struct Failure {
    is_there: AtomicBool,
    what: Mutex<Option<Fault>>,
}

impl<'a> Hooks<'a> {
    pub(super) fn new(
        scripts: &'a Scripts,
        writer: Writer,
        elsewhere: Vec<Option<String>>,
        has: Has,
    ) -> Hooks<'a> {
        Hooks {
            scripts,
            writer,
            elsewhere,
            has,
            failure: Failure::default(),
        }
    }

    /// Whether a script has failed: there will be no more requests.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_there.load(Ordering::Relaxed)
    }

    /// What was wrong.
    pub(super) fn failure(&self) -> Option<Fault> {
        let what = self.failure.what.lock();
        what.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, fault: Fault) {
        let mut what = self
            .failure
            .what
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        what.get_or_insert(fault);
        self.failure.is_there.store(true, Ordering::Relaxed);
    }
}

impl Director for Hooks<'_> {
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String> {
        let worker = users.worker as usize;
        let Some(thread) = self.scripts.threads().get(worker) else {
            return Err(format!("there is no Lua state for thread {worker}"));
        };
        let mut hooked = Hooked {
            hooks: self,
            thread,
            elsewhere: self.elsewhere.get(worker).and_then(Option::as_deref),
            only: None,
            first_user: users.first,
            has_rested: vec![false; users.count as usize],
        };
        if !self.has.request {
            let only = hooked.request().map_err(|fault| fault.to_string())?;
            hooked.only = Some(only);
        }
        Ok(Box::new(hooked))
    }

    fn sees(&self) -> Sees {
        Sees {
            ends: false,
            heads: self.has.response,
            body_bytes: if self.has.response { usize::MAX } else { 0 },
        }
    }
}

/// One worker's hooks.
struct Hooked<'a> {
    hooks: &'a Hooks<'a>,
    thread: &'a Thread,
    elsewhere: Option<&'a str>,
    /// The thread's request, where it is always the same.
    only: Option<Arc<Request>>,
    first_user: u32,
    /// Whose delay is over, by number from the worker's first.
    has_rested: Vec<bool>,
}

impl Hooked<'_> {
    fn request(&self) -> Result<Arc<Request>, Fault> {
        let text = self.thread.request()?;
        let bytes = text.as_bytes();
        let wrong = |what: String| self.thread.state.fault(format!("request(): {what}"));
        let method = request::method(&bytes).map_err(wrong)?;
        match self.elsewhere {
            None => Ok(self.hooks.writer.raw(method, bytes.to_vec())),
            Some(url) => {
                let request = self.hooks.writer.raw_to(url, method, bytes.to_vec());
                request.map_err(|error| wrong(error.to_string()))
            }
        }
    }

    fn step(&mut self, user: u32) -> Result<Step, Fault> {
        let index = (user - self.first_user) as usize;
        if self.hooks.has.delay && !self.has_rested[index] {
            let delay = self.thread.delay_ms()?;
            if delay >= 1.0 {
                self.has_rested[index] = true;
                // wrk's are whole milliseconds, and conversion stops at the largest there is.
                let delay = Duration::from_millis(delay as u64);
                return Ok(Step::Rest(Nanos::from(delay)));
            }
        }
        self.has_rested[index] = false;
        let only = self.only.clone();
        only.map_or_else(|| self.request(), Ok).map(Step::Request)
    }

    fn is_over(&self) -> bool {
        self.thread.handle.is_stopped() || self.hooks.has_failed()
    }
}

impl Script for Hooked<'_> {
    fn next(&mut self, user: u32, _now: Nanos) -> Step {
        if self.is_over() {
            return Step::Leave;
        }
        self.step(user).unwrap_or_else(|fault| {
            self.hooks.fail(fault);
            Step::Leave
        })
    }

    fn answered(&mut self, _user: u32, answer: &Answer<'_>) {
        if self.is_over() {
            return;
        }
        let called = self
            .thread
            .response(answer.status, answer.head, answer.body);
        if let Err(fault) = called {
            self.hooks.fail(fault);
        }
    }
}
