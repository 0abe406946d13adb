//! A script's hooks as the load's workers ask for them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_load::script::{CaptureSpec, Director, ResponseView, Script, UserStep, Users};
use prony_load::{Request, Writer};
use prony_record::Nanos;

use super::lua::{Fault, Scripts, Thread};
use super::request;
use crate::session::told;

/// The hooks of a run's threads, one of them for each worker.
pub(super) struct Hooks<'a> {
    scripts: &'a Scripts,
    writer: Writer,
    /// Where each thread's connections go, as an URL; none for the load's own.
    elsewhere: Vec<Option<String>>,
    has: Has,
    /// Requests in what a script gives at a time.
    batch: u32,
    counted: Counted,
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

/// Answers to batches, which the load takes for one each.
#[derive(Default)]
struct Counted {
    answers: AtomicU64,
    /// Of a status over 399.
    not_fine: AtomicU64,
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
        batch: u32,
    ) -> Hooks<'a> {
        Hooks {
            scripts,
            writer,
            elsewhere,
            has,
            batch,
            counted: Counted::default(),
            failure: Failure::default(),
        }
    }

    /// Requests in what a script gives at a time.
    pub(super) fn batch(&self) -> u32 {
        self.batch
    }

    /// Where there are several: whole answers, and those of a status over 399 among them.
    pub(super) fn counted(&self) -> Option<(u64, u64)> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counted { answers, not_fine } = &self.counted;
        (self.batch > 1).then(|| (of(answers), of(not_fine)))
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
            answers: 0,
            not_fine: 0,
        };
        if !self.has.request {
            let only = hooked.request().map_err(|fault| fault.to_string())?;
            hooked.only = Some(only);
        }
        Ok(Box::new(hooked))
    }

    fn capture(&self) -> CaptureSpec {
        CaptureSpec {
            ends: false,
            // Without one of the two no answer is shown, and those of a batch have to be counted.
            heads: self.has.response || self.batch > 1,
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
    /// See [`Counted`].
    answers: u64,
    not_fine: u64,
}

impl Hooked<'_> {
    fn request(&self) -> Result<Arc<Request>, Fault> {
        let Hooks { writer, batch, .. } = self.hooks;
        let text = self.thread.request()?;
        let bytes = text.as_bytes();
        let wrong = |what: String| self.thread.state.fault(format!("request(): {what}"));
        // One is sent as it is; of several it has to be known how many answers are due.
        if *batch > 1 {
            let count = request::count(&bytes).map_err(wrong)?;
            if count != *batch {
                let what = format!("it gave {count} requests at once, and {batch} before");
                return Err(wrong(what));
            }
        }
        let method = request::method(&bytes).map_err(wrong)?;
        let request = match self.elsewhere {
            None => writer.raw(method, bytes.to_vec()),
            Some(url) => writer
                .raw_to(url, method, bytes.to_vec())
                .map_err(|error| wrong(told(&error)))?,
        };
        Ok(match *batch {
            1 => request,
            several => writer.batch(request, several),
        })
    }

    fn step(&mut self, user: u32) -> Result<UserStep, Fault> {
        let index = (user - self.first_user) as usize;
        if self.hooks.has.delay && !self.has_rested[index] {
            let delay = self.thread.delay_ms()?;
            if delay >= 1.0 {
                self.has_rested[index] = true;
                // wrk's are whole milliseconds, and conversion stops at the largest there is.
                let delay = Duration::from_millis(delay as u64);
                return Ok(UserStep::Rest(Nanos::from(delay)));
            }
        }
        self.has_rested[index] = false;
        let only = self.only.clone();
        only.map_or_else(|| self.request(), Ok)
            .map(UserStep::Request)
    }

    fn is_over(&self) -> bool {
        self.thread.handle.is_stopped() || self.hooks.has_failed()
    }
}

impl Script for Hooked<'_> {
    fn next(&mut self, user: u32, _now: Nanos) -> UserStep {
        if self.is_over() {
            return UserStep::Leave;
        }
        self.step(user).unwrap_or_else(|fault| {
            self.hooks.fail(fault);
            UserStep::Leave
        })
    }

    fn answered(&mut self, _user: u32, answer: &ResponseView<'_>) {
        self.answers += 1;
        self.not_fine += u64::from(answer.status > 399);
        if self.is_over() || !self.hooks.has.response {
            return;
        }
        let called = self
            .thread
            .response(answer.status, answer.head, answer.body);
        if let Err(fault) = called {
            self.hooks.fail(fault);
        }
    }

    fn finish(self: Box<Self>) {
        let Counted { answers, not_fine } = &self.hooks.counted;
        answers.fetch_add(self.answers, Ordering::Relaxed);
        not_fine.fetch_add(self.not_fine, Ordering::Relaxed);
    }
}
