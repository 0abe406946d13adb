//! Connects a script's hooks to the load's workers.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prony_load::script::{CaptureSpec, Director, ResponseView, Script, UserStep, Users};
use prony_load::{Request, Writer};
use prony_record::Nanos;

use crate::fault::ScriptFault;
use crate::request;
use crate::scripts::{LuaScripts, ScriptThread};

/// The hooks of a run's threads, one per worker.
pub struct LuaHooks<'a> {
    scripts: &'a LuaScripts,
    writer: Writer,
    settings: HookSettings,
    counted: BatchCounts,
    failure: FirstFailure,
}

/// Set of hooks that a script defines, determined once `init` has returned on the first thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DefinedHooks {
    /// True if the script defines `request`, which returns each request.
    pub request: bool,
    /// True if the script defines `response`, which receives each response.
    pub response: bool,
    /// True if the script defines `delay`, which returns the pause before each request.
    pub delay: bool,
}

impl DefinedHooks {
    /// Determines the hooks that a thread's script defines.
    pub fn of(thread: &ScriptThread) -> DefinedHooks {
        let has = |name| thread.state.hook(name).is_some();
        DefinedHooks {
            request: has("request"),
            response: has("response"),
            delay: has("delay"),
        }
    }

    /// Returns true if any hook is called during the load.
    pub fn any(self) -> bool {
        self.request || self.response || self.delay
    }
}

/// Settings with which a load uses a script.
#[derive(Debug, Clone)]
pub struct HookSettings {
    /// For each thread, the URL of the thread's server, with a trailing slash; `None` if it is the
    /// load's server.
    pub elsewhere: Vec<Option<String>>,
    /// Hooks that the script defines.
    pub has: DefinedHooks,
    /// Number of requests that `request` returns at a time.
    pub batch: u32,
    /// The form in which requests are sent.
    pub form: RequestForm,
    /// Maximum number of bytes of each response body that the `response` hook receives.
    pub body_bytes_max: usize,
}

/// The form in which the requests of a script are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestForm {
    /// The bytes that the script returns are sent unchanged, over HTTP/1.1.
    Bytes,
    /// The script's bytes are parsed, and the request is written for the HTTP version of the
    /// connection.
    Written,
}

/// Maximum number of requests of the form [`RequestForm::Written`] that a thread caches. Scripts
/// often repeat a few requests.
const WRITTEN_MAX: usize = 256;

/// Counts of the responses within batches. The load counts each batch as one response.
#[derive(Default)]
struct BatchCounts {
    responses: AtomicU64,
    /// Responses with a status over 399.
    not_fine: AtomicU64,
}

/// The first failure of a script.
#[derive(Default)]
struct FirstFailure {
    is_there: AtomicBool,
    what: Mutex<Option<ScriptFault>>,
}

impl<'a> LuaHooks<'a> {
    /// Creates the hooks of a load. `writer` builds the load's requests.
    pub fn new(scripts: &'a LuaScripts, writer: Writer, settings: HookSettings) -> LuaHooks<'a> {
        LuaHooks {
            scripts,
            writer,
            settings,
            counted: BatchCounts::default(),
            failure: FirstFailure::default(),
        }
    }

    /// Returns the number of requests per batch of a script.
    pub fn batch(&self) -> u32 {
        self.settings.batch
    }

    /// If requests are sent in batches, returns the number of complete responses and the number of
    /// those with a status over 399, otherwise `None`.
    pub fn counted(&self) -> Option<(u64, u64)> {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let BatchCounts {
            responses,
            not_fine,
        } = &self.counted;
        (self.settings.batch > 1).then(|| (of(responses), of(not_fine)))
    }

    /// Returns true after a script has failed. From then on, no more requests are sent.
    pub fn has_failed(&self) -> bool {
        self.failure.is_there.load(Ordering::Relaxed)
    }

    /// Returns the first failure of the script, if any.
    pub fn failure(&self) -> Option<ScriptFault> {
        let what = self.failure.what.lock();
        what.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, fault: ScriptFault) {
        let mut what = self
            .failure
            .what
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        what.get_or_insert(fault);
        self.failure.is_there.store(true, Ordering::Relaxed);
    }
}

impl Director for LuaHooks<'_> {
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String> {
        let worker = users.worker as usize;
        let Some(thread) = self.scripts.threads().get(worker) else {
            return Err(format!("there is no Lua state for thread {worker}"));
        };
        let mut hooked = WorkerHooks {
            hooks: self,
            thread,
            elsewhere: self
                .settings
                .elsewhere
                .get(worker)
                .and_then(Option::as_deref),
            only: None,
            written: HashMap::new(),
            first_user: users.first,
            has_rested: vec![false; users.count as usize],
            responses: 0,
            not_fine: 0,
        };
        if !self.settings.has.request {
            let only = hooked.request().map_err(|fault| fault.to_string())?;
            hooked.only = Some(only);
        }
        Ok(Box::new(hooked))
    }

    fn capture(&self) -> CaptureSpec {
        let settings = &self.settings;
        CaptureSpec {
            ends: false,
            // Heads are needed for the `response` hook and for counting the responses of a batch.
            heads: settings.has.response || settings.batch > 1,
            body_bytes: if settings.has.response {
                settings.body_bytes_max
            } else {
                0
            },
        }
    }
}

/// One worker's hooks.
struct WorkerHooks<'a> {
    hooks: &'a LuaHooks<'a>,
    thread: &'a ScriptThread,
    elsewhere: Option<&'a str>,
    /// The thread's request, if it is always the same.
    only: Option<Arc<Request>>,
    /// Cached requests, keyed by the bytes that the script returned.
    written: HashMap<Vec<u8>, Arc<Request>>,
    first_user: u32,
    /// For each connection of the worker, true if the connection's delay is over.
    has_rested: Vec<bool>,
    /// This worker's part of the [`BatchCounts`].
    responses: u64,
    not_fine: u64,
}

impl WorkerHooks<'_> {
    fn request(&mut self) -> Result<Arc<Request>, ScriptFault> {
        let bytes = self.thread.request()?;
        let written = match self.hooks.settings.form {
            RequestForm::Bytes => self.raw(bytes),
            RequestForm::Written => self.written(bytes),
        };
        written.map_err(|what| self.thread.request_fault(&what))
    }

    /// Creates a request that consists of these bytes.
    fn raw(&self, bytes: Vec<u8>) -> Result<Arc<Request>, String> {
        let LuaHooks {
            scripts, writer, ..
        } = self.hooks;
        let batch = self.hooks.batch();
        // A single request is sent unchecked. For a batch, the number of expected responses must be
        // known.
        if batch > 1 {
            let count = request::count(&bytes)?;
            if count != batch {
                return Err(format!(
                    "it returned {count} requests at once, but {batch} in an earlier call"
                ));
            }
        }
        let method = request::method(&bytes)?.to_owned();
        let request = match self.elsewhere {
            None => writer.raw(&method, bytes),
            Some(url) => writer
                .raw_to(url, &method, bytes)
                .map_err(|error| scripts.message_of(&error))?,
        };
        Ok(match batch {
            1 => request,
            several => writer.batch(request, several),
        })
    }

    /// Creates the request that these bytes describe, for any HTTP version.
    fn written(&mut self, bytes: Vec<u8>) -> Result<Arc<Request>, String> {
        if let Some(request) = self.written.get(&bytes) {
            return Ok(request.clone());
        }
        let LuaHooks {
            scripts, writer, ..
        } = self.hooks;
        let parts = request::parse_request(&bytes)?;
        let url = match self.elsewhere {
            None => parts.path.to_owned(),
            Some(url) => format!("{}{}", url.trim_end_matches('/'), parts.path),
        };
        let request = writer
            .request(parts.method, &url, &parts.headers, parts.body)
            .map_err(|error| scripts.message_of(&error))?;
        if self.written.len() >= WRITTEN_MAX {
            self.written.clear();
        }
        self.written.insert(bytes, request.clone());
        Ok(request)
    }

    fn step(&mut self, user: u32) -> Result<UserStep, ScriptFault> {
        let index = (user - self.first_user) as usize;
        if self.hooks.settings.has.delay && !self.has_rested[index] {
            let delay = self.thread.delay_ms()?;
            if delay >= 1.0 {
                self.has_rested[index] = true;
                // wrk's delays are whole milliseconds. The conversion to an integer saturates.
                let delay = Duration::from_millis(delay as u64);
                return Ok(UserStep::Rest(Nanos::from(delay)));
            }
        }
        self.has_rested[index] = false;
        let request = match &self.only {
            Some(only) => only.clone(),
            None => self.request()?,
        };
        Ok(UserStep::Request(request))
    }

    fn is_over(&self) -> bool {
        self.thread.handle.is_stopped() || self.hooks.has_failed()
    }
}

impl Script for WorkerHooks<'_> {
    fn next(&mut self, user: u32, _now: Nanos) -> UserStep {
        if self.is_over() {
            return UserStep::Leave;
        }
        self.step(user).unwrap_or_else(|fault| {
            self.hooks.fail(fault);
            UserStep::Leave
        })
    }

    fn responded(&mut self, _user: u32, response: &ResponseView<'_>) {
        self.responses += 1;
        self.not_fine += u64::from(response.status > 399);
        if self.is_over() || !self.hooks.settings.has.response {
            return;
        }
        let called = self
            .thread
            .response(response.status, response.head, response.body);
        if let Err(fault) = called {
            self.hooks.fail(fault);
        }
    }

    fn finish(self: Box<Self>) {
        let BatchCounts {
            responses,
            not_fine,
        } = &self.hooks.counted;
        responses.fetch_add(self.responses, Ordering::Relaxed);
        not_fine.fetch_add(self.not_fine, Ordering::Relaxed);
    }
}
