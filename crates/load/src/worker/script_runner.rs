//! Runs a script in the worker: calls it for each free virtual user and for each response.

use prony_record::{Exchange, Nanos, Outcome, TlsHandshake};

use super::{ConnectionView, Worker};
use crate::carrier::{Carrier, Reason, Transport};
use crate::request::Request;
use crate::script::{CaptureSpec, FailureCause, RequestEnd, ResponseView, Script, UserStep};

/// Maximum number of script calls before completions are handled.
const CALLS_MAX: u32 = 64;

/// The script of one worker.
pub(crate) struct ScriptRunner<'run> {
    script: Box<dyn Script + 'run>,
    capture: CaptureSpec,
    /// Index of slot 0's user in the whole load. The other users follow in the order of the slots.
    first_user: u32,
    /// Number of users that will send no more requests.
    left: u32,
    /// For each slot, the durations of the connect and of the TLS handshake, if its request waited
    /// for them.
    waits: Vec<(Option<Nanos>, Option<Nanos>)>,
}

/// Data about the end of a request, without the data that [`ScriptRunner`] adds.
pub(super) struct EndedRequest<'a> {
    pub(super) request: &'a Request,
    pub(super) exchange: &'a Exchange,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<&'a Reason>,
    pub(super) is_measured: bool,
}

impl<'run> ScriptRunner<'run> {
    /// Creates a runner of `script` for users whose indices start at `first_user`.
    pub(crate) fn new(
        script: Box<dyn Script + 'run>,
        capture: CaptureSpec,
        first_user: u32,
    ) -> ScriptRunner<'run> {
        ScriptRunner {
            script,
            capture,
            first_user,
            left: 0,
            waits: Vec::new(),
        }
    }

    /// Sets the number of request slots, which equals the number of users.
    pub(super) fn set_slots(&mut self, slots: usize) {
        self.waits = vec![(None, None); slots];
    }

    /// Returns the parts of responses that the script receives.
    pub(super) fn capture(&self) -> CaptureSpec {
        self.capture
    }

    fn is_shown_responses(&self) -> bool {
        self.capture.heads || self.capture.body_bytes > 0
    }

    /// Records that a slot's request begins.
    pub(super) fn request_begins(&mut self, slot: u32) {
        self.waits[slot as usize] = (None, None);
    }

    /// Records that the connection of a waiting request was established, or its TLS handshake
    /// completed.
    pub(super) fn connection_made(
        &mut self,
        slot: u32,
        connect: Option<Nanos>,
        handshake: Option<TlsHandshake>,
    ) {
        let add = |sum: &mut Option<Nanos>, took: Option<Nanos>| {
            if let Some(took) = took {
                *sum = Some(sum.unwrap_or_default() + took);
            }
        };
        let (connects, handshakes) = &mut self.waits[slot as usize];
        add(connects, connect);
        add(handshakes, handshake.map(|handshake| handshake.took));
    }

    /// Records the end of a slot's request.
    pub(super) fn request_ended(&mut self, slot: u32, ended: &EndedRequest<'_>) {
        if !self.capture.ends {
            return;
        }
        let (connect, tls) = self.waits[slot as usize];
        let reason = ended.reason.map(ToString::to_string);
        let end = RequestEnd {
            request: ended.request,
            exchange: ended.exchange,
            outcome: ended.outcome,
            reason: reason.as_deref(),
            cause: match ended.reason {
                Some(Reason::RedirectLimit(_)) => Some(FailureCause::RedirectLimit),
                Some(Reason::System(code)) => Some(FailureCause::System(*code)),
                _ => None,
            },
            connect,
            tls,
            is_measured: ended.is_measured,
        };
        self.script.ended(self.first_user + slot, &end);
    }

    /// Passes a complete response to the script. `view` contains everything except the head. The
    /// head is omitted if the script does not need heads.
    fn show(&mut self, slot: u32, view: ResponseView<'_>, head: &[u8]) {
        let head = if self.capture.heads { head } else { &[] };
        let view = ResponseView { head, ..view };
        self.script.responded(self.first_user + slot, &view);
    }

    /// Notifies the script that the load is over.
    pub(super) fn finish(self) {
        self.script.finish();
    }
}

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
}
