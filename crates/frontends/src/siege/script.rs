//! Runs siege's users in the load engine: selects each user's next request and handles its
//! response.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::SyncSender;

use prony_load::script::{
    CaptureSpec, Director, FailureCause, RequestEnd, ResponseView, Script, UserStep, Users,
};
use prony_load::{Request, SpecError, Writer};
use prony_record::{Nanos, Outcome};

use super::listed::{ListedRequest, Method};
use super::notation::NOTATION;
use super::page::{PAGE_BYTES_MAX, unpacked};
use super::request::RequestForm;
use super::response::ResponseHead;
use super::tally::{ResponseClass, SiegeTally};
use super::user::{SharedSettings, SiegeUser, UserAction, UserRequest};
use super::verbose::{FinishedTransaction, OutputLine};
use crate::output::system_message;
use crate::tally::LoadTally;

/// Maximum number of body bytes that `-p` prints. With `-p`, there is only one user.
const PRINTED_BYTES_MAX: usize = 256 << 20;

/// Timeout of host name lookups.
const LOOKUP_TIMEOUT: Nanos = Nanos::from_secs(5);
const LOOKUP_POLL_INTERVAL: Nanos = Nanos::from_millis(2);

/// Maximum number of cached requests.
const WRITTEN_REQUESTS_MAX: usize = 4096;

/// State that all users of a run share.
pub(super) struct SiegeDirector<'a> {
    shared: &'a SharedSettings,
    form: &'a RequestForm,
    writer: Writer,
    lines: SyncSender<OutputLine>,
    seed: u64,
    failures: AtomicU64,
    total: LoadTally<SiegeTally>,
}

impl<'a> SiegeDirector<'a> {
    /// Creates the shared state of a run. Lines of output are sent to `lines`.
    pub(super) fn new(
        shared: &'a SharedSettings,
        form: &'a RequestForm,
        writer: Writer,
        lines: SyncSender<OutputLine>,
    ) -> SiegeDirector<'a> {
        SiegeDirector {
            shared,
            form,
            writer,
            lines,
            seed: RandomState::new().build_hasher().finish(),
            failures: AtomicU64::new(0),
            total: LoadTally::default(),
        }
    }

    /// Returns the counts of the load. Must be called after it has ended.
    pub(super) fn into_tally(self) -> SiegeTally {
        self.total.take()
    }

    fn shows_requests(&self) -> bool {
        let settings = &self.shared.settings;
        (settings.get || settings.print) && !settings.quiet
    }

    fn show(&self, line: OutputLine) {
        // The error is ignored, because a printer that has ended has already reported why.
        let _ = self.lines.send(line);
    }
}

impl Director for SiegeDirector<'_> {
    fn script(&self, users: Users) -> Result<Box<dyn Script + '_>, String> {
        let active_user = |number| ActiveUser {
            user: SiegeUser::new(number, self.shared, self.seed),
            current: None,
            looked_up: None,
        };
        Ok(Box::new(WorkerUsers {
            siege: self,
            first: users.first,
            users: (users.first..users.first + users.count)
                .map(active_user)
                .collect(),
            listed: vec![None; self.shared.list.len()],
            others: HashMap::new(),
            tally: SiegeTally::default(),
        }))
    }

    fn capture(&self) -> CaptureSpec {
        let settings = &self.shared.settings;
        CaptureSpec {
            ends: true,
            heads: true,
            body_bytes: match (settings.print, settings.parser) {
                (true, _) => PRINTED_BYTES_MAX,
                (false, true) => PAGE_BYTES_MAX,
                (false, false) => 0,
            },
        }
    }
}

/// A user and its request in progress.
struct ActiveUser {
    user: SiegeUser,
    current: Option<RequestInProgress>,
    /// Request whose host name is being looked up, with the start time of the lookup.
    looked_up: Option<(UserRequest, Nanos)>,
}

struct RequestInProgress {
    ask: UserRequest,
    asked: Nanos,
    /// Protocol and status of the response, once it is complete.
    response: Option<(String, u16)>,
}

/// Users that one worker runs.
struct WorkerUsers<'a> {
    siege: &'a SiegeDirector<'a>,
    first: u32,
    users: Vec<ActiveUser>,
    /// Cached requests of the list, by index. These requests contain neither cookies nor
    /// credentials.
    listed: Vec<Option<Arc<Request>>>,
    /// Cached requests that don't come from the list.
    others: HashMap<(Method, String), Arc<Request>>,
    tally: SiegeTally,
}

impl WorkerUsers<'_> {
    fn active_user(&mut self, user: u32) -> &mut ActiveUser {
        &mut self.users[(user - self.first) as usize]
    }

    /// Returns a user's request as bytes, or `None` while the host name is being looked up.
    fn written(&mut self, user: u32, ask: &UserRequest) -> Result<Option<Arc<Request>>, SpecError> {
        let siege = self.siege;
        let user = &mut self.active_user(user).user;
        let authorization = user.authorization(&ask.wanted);
        let cookie = user.cookie(&ask.wanted);
        let wanted = &*ask.wanted;
        if authorization.is_some() || cookie.is_some() {
            return siege.write(wanted, authorization.as_deref(), cookie.as_deref());
        }
        if let Some(place) = ask.listed {
            if let Some(request) = &self.listed[place] {
                return Ok(Some(request.clone()));
            }
            let request = siege.write(wanted, None, None)?;
            self.listed[place].clone_from(&request);
            return Ok(request);
        }
        if !wanted.body.is_empty() {
            return siege.write(wanted, None, None);
        }
        let key = (wanted.method, wanted.url.text());
        if let Some(request) = self.others.get(&key) {
            return Ok(Some(request.clone()));
        }
        let request = siege.write(wanted, None, None)?;
        if self.others.len() >= WRITTEN_REQUESTS_MAX {
            self.others.clear();
        }
        self.others
            .extend(request.clone().map(|request| (key, request)));
        Ok(request)
    }

    fn fail(&mut self, text: String) {
        self.tally.failure();
        self.siege.failures.fetch_add(1, Ordering::Relaxed);
        self.siege.show(OutputLine::Failed(text));
    }
}

impl SiegeDirector<'_> {
    fn write(
        &self,
        wanted: &ListedRequest,
        authorization: Option<&str>,
        cookie: Option<&str>,
    ) -> Result<Option<Arc<Request>>, SpecError> {
        let url = wanted.url.text();
        if !self.writer.look_up(&url)? {
            return Ok(None);
        }
        let bytes = self.form.write(wanted, authorization, cookie);
        let written = self.writer.raw_to(&url, wanted.method.name(), bytes);
        written.map(Some)
    }

    /// Returns the name of a request in lines of output: the path for GET, otherwise
    /// the URL.
    fn shown(&self, wanted: &ListedRequest) -> Arc<str> {
        if wanted.method == Method::Get && !self.shared.settings.full_url {
            wanted.url.path().into()
        } else {
            wanted.url.text().into()
        }
    }
}

/// Returns the message about a failed request. It begins like siege's message.
fn failure(end: &RequestEnd<'_>, wanted: &ListedRequest) -> String {
    let what = match end.outcome {
        Outcome::ConnectRefused
        | Outcome::ConnectTimeout
        | Outcome::ConnectUnreachable
        | Outcome::ConnectFailed => "unable to connect",
        Outcome::Timeout => "connection timed out",
        other => other.name(),
    };
    let why = match (end.cause, end.reason) {
        (Some(FailureCause::System(code)), _) => format!(": {}", system_message(code)),
        (_, Some(reason)) => format!(": {reason}"),
        (_, None) => String::new(),
    };
    format!(
        "socket: {what}: {} {}{why}",
        wanted.method.name(),
        wanted.url.text()
    )
}

impl Script for WorkerUsers<'_> {
    fn next(&mut self, user: u32, now: Nanos) -> UserStep {
        let siege = self.siege;
        loop {
            let failures = siege.failures.load(Ordering::Relaxed);
            let looked_up = self.active_user(user).looked_up.take();
            let (ask, since) = match looked_up {
                Some(looked_up) => looked_up,
                None => match self.active_user(user).user.turn(siege.shared, failures) {
                    UserAction::Rest(time) => return UserStep::Rest(time),
                    UserAction::Leave => return UserStep::Leave,
                    UserAction::UserRequest(ask) => (ask, now),
                },
            };
            match self.written(user, &ask) {
                Ok(None) if now.since(since) < LOOKUP_TIMEOUT => {
                    self.active_user(user).looked_up = Some((ask, since));
                    return UserStep::Rest(LOOKUP_POLL_INTERVAL);
                }
                Ok(None) => {
                    let url = ask.wanted.url.text();
                    self.fail(format!("{url}: the name server did not respond in time"));
                }
                Ok(Some(request)) => {
                    if siege.shows_requests() {
                        let end: &[u8] = if ask.wanted.method.has_body() {
                            b"\n\n"
                        } else {
                            b"\n"
                        };
                        siege.show(OutputLine::Plain([request.http1(), end].concat()));
                    }
                    self.active_user(user).current = Some(RequestInProgress {
                        ask,
                        asked: now,
                        response: None,
                    });
                    return UserStep::Request(request);
                }
                Err(error) => {
                    let (url, error) = (ask.wanted.url.text(), error.in_notation(NOTATION));
                    let text = format!("{url}: {error}");
                    self.fail(text);
                    // A request of the list may fail again immediately, so the user pauses before
                    // the next one.
                    if ask.listed.is_some() {
                        return UserStep::Rest(Nanos::from_millis(100));
                    }
                }
            }
        }
    }

    fn responded(&mut self, user: u32, response: &ResponseView<'_>) {
        let siege = self.siege;
        let settings = &siege.shared.settings;
        let head = ResponseHead::parse(response.head, response.status);
        let active_user = self.active_user(user);
        let Some(current) = &mut active_user.current else {
            return;
        };
        current.response = Some((head.protocol.to_owned(), response.status));
        if settings.get && siege.shows_requests() {
            let end = if response.head.ends_with(b"\r\n\r\n") {
                ""
            } else {
                "\r\n"
            };
            let text = [response.head, end.as_bytes(), b"\n"].concat();
            siege.show(OutputLine::Plain(text));
        }
        if settings.print && !settings.json {
            let text = [
                &unpacked(response.body, head.coding, PRINTED_BYTES_MAX),
                &b"\n"[..],
            ]
            .concat();
            siege.show(OutputLine::Plain(text));
        }
        let complaint =
            active_user
                .user
                .responded(siege.shared, &current.ask, &head, response.body);
        let seen = response.body.len();
        let is_looked_into = settings.print || settings.parser && head.is_html;
        if is_looked_into && response.length > seen as u64 {
            siege.show(OutputLine::Failed(format!(
                "{}: the page has {} bytes; only the first {seen} were parsed",
                current.ask.wanted.url.text(),
                response.length
            )));
        }
        if let Some(complaint) = complaint {
            self.fail(complaint);
        }
    }

    fn ended(&mut self, user: u32, end: &RequestEnd<'_>) {
        let siege = self.siege;
        let settings = &siege.shared.settings;
        let Some(current) = self.active_user(user).current.take() else {
            return;
        };
        if matches!(end.outcome, Outcome::Unfinished | Outcome::Unstarted) {
            return;
        }
        let wanted = &current.ask.wanted;
        let body_bytes = end.exchange.body_bytes_in;
        let Some((protocol, status)) = current.response else {
            self.fail(failure(end, wanted));
            return;
        };
        if !settings.zero_ok && body_bytes == 0 {
            self.fail(format!(
                "{}: zero bytes back from server",
                wanted.url.text()
            ));
            return;
        }
        let took = end.exchange.ended.since(current.asked);
        let verdict = ResponseClass::of(status);
        self.tally.response(verdict, took, body_bytes);
        if verdict == ResponseClass::Failure {
            siege.failures.fetch_add(1, Ordering::Relaxed);
        }
        if settings.verbose && !settings.get && !settings.print {
            siege.show(OutputLine::Finished(FinishedTransaction {
                user,
                protocol,
                status,
                took_s: took.as_secs_f64(),
                body_bytes,
                method: wanted.method.name(),
                url: siege.shown(wanted),
                place: current.ask.listed.unwrap_or(0),
            }));
        }
    }

    fn finish(self: Box<Self>) {
        self.siege.total.add(self.tally);
    }
}
