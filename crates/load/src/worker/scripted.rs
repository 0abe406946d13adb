//! What a script does in the worker: it is asked what free users do, and told what became of that.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use prony_record::{Exchange, Handshake, Nanos, Outcome};

use super::Worker;
use crate::connection::Reason;
use crate::request::Request;
use crate::script::{CaptureSpec, RequestEnd, ResponseView, Script, UserStep};
use crate::socket::Sockets;
use crate::tls;

/// So often a script is asked before sockets have their turn again.
const MOST_QUESTIONS: u32 = 64;

/// One worker's script and what belongs to it.
pub(crate) struct ScriptRunner<'run> {
    script: Box<dyn Script + 'run>,
    sees: CaptureSpec,
    /// The number of this worker's first user; the others follow in the order of the seats.
    first: u32,
    /// Seats that rest, and until when.
    resting: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// How many seats are left by their users for good.
    left: u32,
    /// For each seat: what connecting, and TLS after it, took for its request, if it took any.
    made: Vec<(Option<Nanos>, Option<Nanos>)>,
}

impl<'run> ScriptRunner<'run> {
    /// The script of the users from `first` on.
    pub(crate) fn new(
        script: Box<dyn Script + 'run>,
        sees: CaptureSpec,
        first: u32,
    ) -> ScriptRunner<'run> {
        ScriptRunner {
            script,
            sees,
            first,
            resting: BinaryHeap::new(),
            left: 0,
            made: Vec::new(),
        }
    }

    /// The worker has so many seats.
    pub(super) fn sit(&mut self, seats: usize) {
        self.made = vec![(None, None); seats];
    }

    /// When the next rest is over.
    pub(super) fn wake_at(&self) -> Nanos {
        let first = self.resting.peek();
        first.map_or(Nanos::MAX, |Reverse((at, _))| *at)
    }

    /// A seat's request begins.
    pub(super) fn begins(&mut self, seat: u32) {
        self.made[seat as usize] = (None, None);
    }

    /// The connection that a seat's request waits for was made, or its TLS was agreed on.
    pub(super) fn opened(&mut self, seat: u32, connect: Option<Nanos>, tls: Option<Handshake>) {
        let add = |sum: &mut Option<Nanos>, took: Option<Nanos>| {
            if let Some(took) = took {
                *sum = Some(sum.unwrap_or_default() + took);
            }
        };
        let (connects, handshakes) = &mut self.made[seat as usize];
        add(connects, connect);
        add(handshakes, tls.map(|tls| tls.took));
    }

    /// A seat's request ended.
    pub(super) fn ended(&mut self, seat: u32, ending: &Ended<'_>) {
        if !self.sees.ends {
            return;
        }
        let (connect, tls) = self.made[seat as usize];
        let reason = ending.reason.map(ToString::to_string);
        let end = RequestEnd {
            request: ending.request,
            exchange: ending.exchange,
            outcome: ending.outcome,
            reason: reason.as_deref(),
            connect,
            tls,
            is_measured: ending.is_measured,
        };
        self.script.ended(self.first + seat, &end);
    }

    /// The load is over.
    pub(super) fn finish(self) {
        self.script.finish();
    }
}

/// How a request ended, but for what only the script's side knows.
pub(super) struct Ended<'a> {
    pub(super) request: &'a Request,
    pub(super) exchange: &'a Exchange,
    pub(super) outcome: Outcome,
    pub(super) reason: Option<&'a Reason>,
    pub(super) is_measured: bool,
}

impl<'run, S: Sockets<'run>> Worker<'run, S> {
    /// From now on a script says what the users do.
    pub(crate) fn with_script(mut self, scripted: Option<ScriptRunner<'run>>) -> Worker<'run, S> {
        self.script = scripted.map(Box::new);
        if let Some(scripted) = &mut self.script {
            scripted.sit(self.seats.len());
        }
        self.with_eyes()
    }

    /// From now on so much is kept of answers as the script wants to be shown, and what redirects say
    /// where they are followed.
    pub(super) fn with_eyes(mut self) -> Worker<'run, S> {
        let mut sees = self
            .script
            .as_ref()
            .map_or(CaptureSpec::default(), |it| it.sees);
        sees.heads |= self.following.is_some();
        for slot in &mut self.slots {
            slot.connection.see(sees);
        }
        self
    }

    /// Takes note of a target that came up while the load runs.
    pub(super) fn learn(&mut self, target: u32) {
        if (target as usize) < self.targets.len() {
            return;
        }
        self.spec.writer.tell_targets(&mut self.targets);
        let needs_tls = self.targets.iter().any(|target| target.tls.is_some());
        if needs_tls && self.tls.is_none() {
            tls::seed_random_numbers();
            let settings = self.spec.writer.tls().ok();
            self.tls = settings.map(|settings| settings.client(self.homes as usize));
        }
    }

    /// Whether all users have left for good.
    pub(super) fn is_deserted(&self) -> bool {
        let left = self.script.as_ref().map(|it| it.left);
        left == Some(self.seats.len() as u32)
    }

    /// Those whose rest is over are free again.
    pub(super) fn wake_users(&mut self, now: Nanos) {
        while let Some(scripted) = &mut self.script
            && scripted.wake_at() <= now
            && let Some(Reverse((at, seat))) = scripted.resting.pop()
        {
            self.seats[seat as usize].is_away = false;
            self.set_free(seat, at);
        }
    }

    /// The free user that is asked first and wants to do something, and the number of its request in
    /// the load's list; where it has one of its own, that is in its seat. Whoever can't have a request
    /// at the moment is parked unasked.
    pub(super) fn ask_users(&mut self, now: Nanos) -> Option<(u32, u32)> {
        for _ in 0..MOST_QUESTIONS {
            let seat = self.take_seat_as_it_is()?;
            let Some(scripted) = &mut self.script else {
                return None;
            };
            let place = &mut self.seats[seat as usize];
            match scripted.script.next(scripted.first + seat, now) {
                UserStep::Listed => {
                    let request = self.sequence.peek();
                    self.sequence.advance();
                    return Some((seat, request));
                }
                UserStep::Request(request) => {
                    let target = request.target;
                    place.own = Some(request);
                    self.learn(target);
                    // Unused.
                    return Some((seat, u32::MAX));
                }
                UserStep::Rest(time) => {
                    place.is_away = true;
                    // Without any it would be asked for ever.
                    let until = now + time.max(Nanos(1));
                    scripted.resting.push(Reverse((until, seat)));
                }
                UserStep::Leave => {
                    place.is_away = true;
                    scripted.left += 1;
                }
            }
            // What it leaves unused is for another on the same connection.
            let index = self.seats[seat as usize].slot;
            self.unpark(index, now);
        }
        None
    }

    /// Shows the script the whole answer to a seat's request, if it wants to see any.
    #[inline]
    pub(super) fn show(&mut self, seat: u32) {
        if self.script.is_some() {
            self.show_answer(seat);
        }
    }

    fn show_answer(&mut self, seat: u32) {
        self.show_whole(seat);
        let place = &self.seats[seat as usize];
        let connection = &self.slots[place.slot as usize].connection;
        let sees = self
            .script
            .as_ref()
            .map_or(CaptureSpec::default(), |it| it.sees);
        if !sees.heads && sees.body_bytes == 0 {
            return;
        }
        let (Some(scripted), Some(request), Some(seen)) = (
            &mut self.script,
            place.request(&self.spec.requests),
            connection.seen(place.tag()),
        ) else {
            return;
        };
        let received = connection.received(place.tag());
        let answer = ResponseView {
            request,
            status: received.status.unwrap_or(0),
            head: if sees.heads { seen.head() } else { &[] },
            body: seen.body(),
            length: connection.body_length(place.tag()),
        };
        scripted.script.answered(scripted.first + seat, &answer);
    }

    /// Shows the script the answers of a batch before the one under way, if it hasn't seen them.
    pub(super) fn show_whole(&mut self, seat: u32) {
        let place = &self.seats[seat as usize];
        let connection = &mut self.slots[place.slot as usize].connection;
        let all = connection.take_whole();
        let sees = self
            .script
            .as_ref()
            .map_or(CaptureSpec::default(), |it| it.sees);
        let (Some(scripted), Some(request)) =
            (&mut self.script, place.request(&self.spec.requests))
        else {
            return;
        };
        if !sees.heads && sees.body_bytes == 0 {
            return;
        }
        for whole in &all {
            let answer = ResponseView {
                request,
                status: whole.status,
                head: if sees.heads { &whole.head } else { &[] },
                body: &whole.body,
                length: whole.length,
            };
            scripted.script.answered(scripted.first + seat, &answer);
        }
    }
}
