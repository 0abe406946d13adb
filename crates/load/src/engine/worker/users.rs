//! The virtual users: who sends the next request, and what users learn from responses.

use std::sync::Arc;

use prony_record::{Exchange, Journey, JourneyEnd, Nanos, Outcome};

use super::Worker;
use super::dispatcher::ConnectionView;
use super::journeys::{Journeys, NextAction, Page};
use super::pace::Pace;
use crate::carrier::{Carrier, Reason, Transport};
use crate::exchange::RequestKind;
use crate::request::journey::{CaptureFailure, StepResponse, page_parts};
use crate::request::script::{ResponseView, UserStep};
use crate::socket::Sockets;

/// Maximum number of script calls before completions are handled.
const CALLS_MAX: u32 = 64;
/// Maximum number of users whose pauses begin before completions are handled again.
const PAUSES_MAX: u32 = 64;

/// Minimum time until the next journey of a user whose journey ended without a request.
const UNSENT_REST: Nanos = Nanos::from_millis(10);

/// Maximum number of users on a journey that are examined before completions are handled.
const JOURNEYS_MAX: u32 = 256;

impl<'run, T: Transport<'run>> Worker<'run, T> {
    /// Returns true if no user will send another request.
    pub(super) fn have_users_left(&self) -> bool {
        let left = self.script.as_ref().map(|script| script.left);
        left == Some(self.dispatcher.slots.len() as u32)
    }

    /// Frees the slots of users whose think time has ended.
    pub(super) fn end_think_times(&mut self, now: Nanos) {
        while let Some((slot, at)) = self.timers.end_think_time(now) {
            self.dispatcher.set_free(slot, at);
        }
    }

    /// Calls the script for free users until one of them sends a request. Returns the user's slot
    /// and the request's index in the load's list. If the slot has its own request, the index is
    /// unused. The script is not called for users whose connection can't take a request; their
    /// slots are parked.
    pub(super) fn ask_users(&mut self, now: Nanos) -> Option<(u32, u32)> {
        for _ in 0..CALLS_MAX {
            let view = ConnectionView {
                connections: &self.connections,
                ramp: self.ramp.as_ref(),
            };
            let limit = &mut self.sink.streams_limit;
            let slot = self.dispatcher.take_first_slot(None, view, limit)?;
            let script = self.script.as_mut()?;
            match script.script.next(script.first_user + slot, now) {
                UserStep::Listed => {
                    let request = self.dispatcher.next_listed(slot);
                    self.dispatcher.advance_list(slot);
                    return Some((slot, request));
                }
                UserStep::Request(request) => {
                    self.learn_target(request.target);
                    self.dispatcher.slot_mut(slot).own = Some(request);
                    return Some((slot, u32::MAX));
                }
                UserStep::Rest(time) => {
                    self.dispatcher.set_away(slot);
                    // Without a minimum pause, the loop would call the script forever.
                    self.timers.think(slot, now + time.max(Nanos(1)));
                }
                UserStep::Leave => {
                    self.dispatcher.set_away(slot);
                    script.left += 1;
                }
            }
            // Another user on the same connection may use the free capacity.
            let index = self.dispatcher.slot(slot).connection;
            self.dispatcher.unpark(index, now);
        }
        None
    }

    /// Loads the data of a target that was added during the load.
    pub(super) fn learn_target(&mut self, target: u32) {
        let connections = self.dispatcher.primary_count;
        self.targets.learn(target, self.spec, connections);
    }

    /// Passes the complete response to a slot's request to the script, if the script needs
    /// responses.
    pub(super) fn show_response(&mut self, slot: u32) {
        self.show_messages(slot);
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session();
        let (Some(script), Some(request), Some(session)) = (
            &mut self.script,
            taken.request(&self.spec.requests),
            session,
        ) else {
            return;
        };
        let captured = session.carrier.captured(taken.stream());
        if let Some(captured) = captured.filter(|_| script.is_shown_responses()) {
            let received = session.carrier.received(taken.stream());
            let view = ResponseView {
                request,
                status: received.status.unwrap_or(0),
                head: &[],
                body: captured.body(),
                length: session.carrier.body_length(taken.stream()),
            };
            script.show(slot, view, captured.head());
        }
    }

    /// Passes the earlier responses of a pipelined batch to the script, unless it has already
    /// received them.
    pub(super) fn show_messages(&mut self, slot: u32) {
        let taken = self.dispatcher.slot(slot);
        let session = self.connections[taken.connection].session_mut();
        let Some(session) = session else {
            return;
        };
        let responses = session.carrier.take_messages(taken.stream());
        let (Some(script), Some(request)) = (&mut self.script, taken.request(&self.spec.requests))
        else {
            return;
        };
        if !script.is_shown_responses() {
            return;
        }
        for response in &responses {
            let view = ResponseView {
                request,
                status: response.status,
                head: &[],
                body: &response.body,
                length: response.length,
            };
            script.show(slot, view, &response.head);
        }
    }

    /// Returns the slot of a user whose pause is over, and the index of the user's request in the
    /// list. Users that precede this user in the list of free slots begin their pauses.
    pub(super) fn take_rested(&mut self, now: Nanos) -> Option<(u32, u32)> {
        for _ in 0..PAUSES_MAX {
            let (slot, request) = self.take_listed()?;
            let pause = self.think_times.as_mut()?.next_pause(slot);
            let Some(until) = pause else {
                self.dispatcher.advance_list(slot);
                let due = self.free_since(slot, now).min(now);
                self.sink.recorder.started_after_pause(due, now);
                return Some((slot, request));
            };
            self.dispatcher.set_away(slot);
            self.timers.think(slot, until);
            // Another user on the same connection may use the free capacity.
            let index = self.dispatcher.slot(slot).connection;
            self.dispatcher.unpark(index, now);
        }
        None
    }

    /// Takes the best slot for the next request of the list, without advancing the list.
    #[inline]
    pub(super) fn take_listed(&mut self) -> Option<(u32, u32)> {
        let has_many_targets = self.targets.count() > 1;
        let view = ConnectionView {
            connections: &self.connections,
            ramp: self.ramp.as_ref(),
        };
        let limit = &mut self.sink.streams_limit;
        let slot = self
            .dispatcher
            .take_slot(self.spec, has_many_targets, view, limit)?;
        Some((slot, self.dispatcher.next_listed(slot)))
    }

    /// Stores the cookies that the complete response to a slot's request sets.
    pub(super) fn store_cookies(&mut self, slot: u32) {
        let now = self.transport.sockets().cached_now();
        let jar = self.jar_of(slot);
        let Some(cookies) = &mut self.cookies else {
            return;
        };
        let taken = self.dispatcher.slot(slot);
        let origin = taken
            .request(&self.spec.requests)
            .and_then(|request| request.origin.as_ref());
        let session = self.connections[taken.connection].session();
        let captured = session.and_then(|session| session.carrier.captured(taken.stream()));
        if let (Some(origin), Some(captured)) = (origin, captured) {
            cookies.store(jar, &origin.url, captured.head(), now);
        }
    }

    /// Starts up to `max` steps of users. Returns the number of requests started.
    pub(super) fn start_steps(&mut self, mut now: Nanos, max: u32) -> u32 {
        let mut started = 0;
        for _ in 0..JOURNEYS_MAX {
            if started == max || self.is_ramp_full(now) {
                return started;
            }
            if started > 0 {
                now = self.transport.sockets().now();
                if now >= self.end {
                    return started;
                }
            }
            if self.dispatcher.due(now).is_some()
                && let Some(slot) = self.journeys.as_mut().and_then(|it| it.take_idle())
            {
                self.dispatcher.set_free_again(slot);
            }
            let view = ConnectionView {
                connections: &self.connections,
                ramp: self.ramp.as_ref(),
            };
            let limit = &mut self.sink.streams_limit;
            let Some(slot) = self.dispatcher.take_first_slot(None, view, limit) else {
                return started;
            };
            let Some(journeys) = &mut self.journeys else {
                return started;
            };
            let (step, intended) = match journeys.next(slot, now) {
                NextAction::Step { step, due } => {
                    // Between two slices, the clock is set back.
                    let due = due.max(self.dispatcher.eligible_since).min(now);
                    self.sink.recorder.started_after_pause(due, now);
                    (step, due)
                }
                NextAction::Part(due) => {
                    let due = due.max(self.dispatcher.eligible_since).min(now);
                    if let Some(index) = self.take_part(slot, now) {
                        self.start(slot, index, due, now);
                        started += 1;
                    } else {
                        self.skip_part(slot, now);
                    }
                    continue;
                }
                NextAction::Pause(until) => {
                    self.dispatcher.set_away(slot);
                    self.timers.think(slot, until);
                    self.unpark_others(slot, now);
                    continue;
                }
                NextAction::Rest => {
                    let Some(due) = self.dispatcher.due(now) else {
                        journeys.set_idle(slot);
                        self.dispatcher.set_away(slot);
                        self.unpark_others(slot, now);
                        continue;
                    };
                    let intended = due.unwrap_or_else(|| self.free_since(slot, now).min(now));
                    self.begin_journey(slot, intended, now)
                }
            };
            let missing = self.journeys.as_ref();
            if let Some(name) = missing.and_then(|it| it.missing_variable(slot, step)) {
                self.fail_step(slot, step, name, (intended, now));
            } else {
                self.start(slot, u32::from(step), intended, now);
            }
            started += 1;
        }
        started
    }

    /// Ends the journey of a user whose next step needs a variable without a value. The step's
    /// request fails before anything is sent.
    fn fail_step(&mut self, slot: u32, step: u16, name: &str, (intended, now): (Nanos, Nanos)) {
        let request = u32::from(step);
        self.dispatcher.begin(slot, request, intended, now);
        let entry = self.spec.entries.of_request(request);
        self.sink.request_started(entry, now);
        let Some(journeys) = &self.journeys else {
            return;
        };
        let step = journeys.step(request).map_or("", |step| step.name.as_str());
        let text = format!(
            "step {step:?}: {{{{ {name} }}}} has no value, because the step that captures it was \
             not taken"
        );
        self.record_end(slot, Outcome::Capture, Some(&Reason::Text(text)), now);
        if let Some(journeys) = &mut self.journeys {
            // Otherwise, a user without requests would never stop beginning journeys.
            journeys.rest_until(slot, now + UNSENT_REST);
        }
        self.dispatcher.set_free_again(slot);
    }

    /// Begins a journey. Returns its first step and the time at which the step was due.
    fn begin_journey(&mut self, slot: u32, intended: Nanos, now: Nanos) -> (u16, Nanos) {
        self.dispatcher.advance_pace(intended, self.spec);
        let is_settling = self.dispatcher.is_settling;
        if let Pace::Open(_) = self.dispatcher.pace
            && !is_settling
        {
            let free_since = self.dispatcher.slot(slot).free_since;
            let free_since = free_since.max(self.dispatcher.eligible_since);
            let recorder = &mut self.sink.recorder;
            recorder.started_by_schedule(intended, free_since, now);
        }
        self.sink.recorder.journey_begun();
        let Some(journeys) = &mut self.journeys else {
            return (0, intended);
        };
        if let Some(cookies) = &mut self.cookies
            && !journeys.keeps_cookies()
        {
            cookies.clear(slot);
        }
        (journeys.begin(slot, intended, is_settling), intended)
    }

    /// Frees other users on the connection of a slot that takes no request now.
    fn unpark_others(&mut self, slot: u32, now: Nanos) {
        let index = self.dispatcher.slot(slot).connection;
        self.dispatcher.unpark(index, now);
    }

    /// Returns true if a step could start immediately.
    pub(super) fn can_start_step(&self, journeys: &Journeys<'_>, now: Nanos) -> bool {
        let has_user = self.dispatcher.has_free_slot()
            || journeys.has_idle() && self.dispatcher.due(now).is_some();
        has_user && !self.is_ramp_full(now)
    }

    /// Writes the request for the next part of a user's page into the user's slot. Returns its
    /// index, or `None` if the part can't be requested.
    fn take_part(&mut self, slot: u32, now: Nanos) -> Option<u32> {
        let journeys = self.journeys.as_mut()?;
        let index = journeys.parts_index();
        let (page, target, url) = journeys.take_part(slot)?;
        let is_of_page = |name: &str| {
            let name = name.to_ascii_lowercase();
            name == "cookie" || name.starts_with("content-") || name == "accept"
        };
        let kept = page.headers.iter().filter(|(name, _)| !is_of_page(name));
        let mut headers: Vec<(String, String)> = kept.cloned().collect();
        let jar = self.cookies.as_ref().map(|cookies| cookies.of(slot, now));
        let cookie = jar.and_then(|user| user.jar.header(url.cookie_url(), user.time));
        headers.extend(cookie.map(|value| ("Cookie".to_owned(), value)));
        let written = self.spec.writer.write_to(target, "GET", url, &headers, &[]);
        // The URL of a part may be too long.
        let mut part = written.ok()?;
        if let Some(part) = Arc::get_mut(&mut part) {
            part.kind = RequestKind::Unstreamed;
        }
        self.dispatcher.slot_mut(slot).own = Some(part);
        Some(index)
    }

    /// Lets a user go on without a part of its page.
    fn skip_part(&mut self, slot: u32, now: Nanos) {
        let exchange = Exchange {
            intended: now,
            sent: now,
            first_byte: None,
            ended: now,
            status: None,
            bytes_in: 0,
            body_bytes_in: 0,
            bytes_out: 0,
            is_settling: false,
            entry: 0,
        };
        self.step_ended(slot, &exchange, Outcome::Ok);
        self.dispatcher.set_free_again(slot);
    }

    /// Renders the request of a step for a slot's user.
    pub(super) fn render_step(&mut self, slot: u32, step: u32, now: Nanos) {
        let (Some(journeys), Some(renderer)) = (&self.journeys, &mut self.renderer) else {
            return;
        };
        let jar = self.cookies.as_ref().map(|cookies| cookies.of(slot, now));
        let own = renderer.render_step(step, journeys.values(slot), jar);
        self.dispatcher.slot_mut(slot).own = own;
    }

    /// Limits the capture of a response to what its step reads.
    pub(super) fn limit_capture(&mut self, slot: u32) {
        let taken = self.dispatcher.slot(slot);
        let (Some(journeys), Some(pending)) = (&self.journeys, taken.pending()) else {
            return;
        };
        let bytes = journeys.body_bytes(pending.request);
        let (index, stream) = (taken.connection, taken.stream());
        if let Some(session) = self.connections[index].session_mut()
            && let Some(captured) = session.carrier.captured_mut(stream)
        {
            captured.limit_body(bytes);
        }
    }

    /// Reads a complete response to a step. Returns its outcome, and the reason if it failed.
    pub(super) fn read_step(&mut self, slot: u32) -> (Outcome, Option<Reason>) {
        let now = self.transport.sockets().cached_now();
        let taken = self.dispatcher.slot(slot);
        let (index, stream) = (taken.connection, taken.stream());
        let (Some(journeys), Some(pending)) = (&mut self.journeys, taken.pending()) else {
            return (Outcome::Ok, None);
        };
        let Some(step) = journeys.step(pending.request) else {
            return (Outcome::Ok, None);
        };
        let Some(session) = self.connections[index].session_mut() else {
            return (Outcome::Ok, None);
        };
        let length = session.carrier.body_length(stream);
        let Some(captured) = session.carrier.captured_mut(stream) else {
            return (Outcome::Ok, None);
        };
        let origin = taken
            .request(&self.spec.requests)
            .and_then(|request| request.origin.as_ref());
        let jar = self.cookies.as_ref().map(|cookies| cookies.of(slot, now));
        let cookie = |name: &str| {
            let (origin, user) = (origin?, jar?);
            user.jar.value(name, origin.url.cookie_url(), user.time)
        };
        let response = StepResponse {
            head: captured.head(),
            body: captured.body(),
            length,
            cookie: &cookie,
        };
        let variables = journeys.variables();
        let set = |variable, value: &[u8]| journeys.set_variable(slot, variable, value);
        let read = step.read(variables, &response, set);
        let page = match (step.page && read.is_ok(), origin) {
            (true, Some(origin)) => {
                let mut parts = page_parts(&response.decoded_body(), &origin.url);
                parts.reverse();
                let target = taken.request(&self.spec.requests).map_or(0, |it| it.target);
                let request = origin.clone();
                (!parts.is_empty()).then_some(Page {
                    request,
                    target,
                    parts,
                })
            }
            _ => None,
        };
        captured.release();
        if let Some(page) = page {
            journeys.set_page(slot, page);
        }
        let (outcome, text) = match read {
            Ok(()) => return (Outcome::Ok, None),
            Err(CaptureFailure::Body(text)) => (Outcome::UnexpectedBody, text),
            Err(CaptureFailure::Capture(text)) => (Outcome::Capture, text),
        };
        let reason = format!("step {:?}: {text}", step.name);
        (outcome, Some(Reason::Text(reason)))
    }

    /// Records the end of a step's request.
    pub(super) fn step_ended(&mut self, slot: u32, exchange: &Exchange, outcome: Outcome) {
        let Some(journeys) = &mut self.journeys else {
            return;
        };
        if let Some(ended) = journeys.request_ended(slot, exchange, outcome) {
            self.sink.recorder.journey_ended(&ended);
        }
    }

    /// Records a journey that was due at `due` but never began. Returns its first step; `None` if
    /// the load is not a journey.
    pub(super) fn journey_unstarted(&mut self, due: Nanos, ended: Nanos) -> Option<u32> {
        self.journeys.as_ref()?;
        self.sink.recorder.journey_ended(&Journey {
            intended: due,
            ended,
            time: ended.since(due),
            end: JourneyEnd::Unstarted,
            is_settling: false,
        });
        Some(0)
    }

    /// Records the journeys of users that are between two steps at the end of the load.
    pub(super) fn end_journeys(&mut self, ended: Nanos) {
        if let Some(journeys) = &self.journeys {
            for journey in journeys.unfinished(ended) {
                self.sink.recorder.journey_ended(&journey);
            }
        }
    }
}
