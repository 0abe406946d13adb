//! Runs a script in the worker: calls it for each free virtual user and for each response.

use prony_record::{Exchange, Nanos, Outcome, TlsHandshake};

use crate::carrier::Reason;
use crate::request::Request;
use crate::request::script::{CaptureSpec, FailureCause, RequestEnd, ResponseView, Script};

/// The script of one worker.
pub(crate) struct ScriptRunner<'run> {
    pub(super) script: Box<dyn Script + 'run>,
    pub(super) capture: CaptureSpec,
    /// Index of slot 0's user in the whole load. The other users follow in the order of the slots.
    pub(super) first_user: u32,
    /// Number of users that will send no more requests.
    pub(super) left: u32,
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

    pub(super) fn is_shown_responses(&self) -> bool {
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
    pub(super) fn show(&mut self, slot: u32, view: ResponseView<'_>, head: &[u8]) {
        let head = if self.capture.heads { head } else { &[] };
        let view = ResponseView { head, ..view };
        self.script.responded(self.first_user + slot, &view);
    }

    /// Notifies the script that the load is over.
    pub(super) fn finish(self) {
        self.script.finish();
    }
}
