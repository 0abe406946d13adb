//! Tracks whether the NATS server is reachable during a run.
//!
//! While the server is unreachable, an agent's silence doesn't mean that the agent is gone. Silence
//! counts again when the server is back and agents have had time to reconnect.

use std::time::{Duration, Instant};

use prony_record::finding::ServerOutage;

use super::events::FleetEvent;
use super::followed_run::FollowedRun;
use super::lease::LeaseTimeouts;
use crate::link::NatsLink;

/// If no message arrives for this time after the server is back, stored messages are read again.
const REPLAY_AFTER: Duration = Duration::from_secs(3);
/// Time allowed for agents to reconnect after an outage and to send their results.
const RECOVERY_TIME: Duration = Duration::from_secs(15);
/// Minimum length of an outage that is reported.
const ANNOUNCED_MIN: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outage {
    /// URL of the server.
    pub(super) server: String,
    /// Length of the outage.
    pub(super) lasted: Duration,
    /// Lease of the run.
    pub(super) lease: Duration,
}

impl Outage {
    /// Returns the figures of the outage for a finding.
    pub(super) fn figures(&self) -> ServerOutage {
        ServerOutage {
            server: self.server.clone(),
            lasted_s: self.lasted.as_secs_f64(),
            lease_s: self.lease.as_secs_f64(),
        }
    }
}

/// State of the contact with the server.
#[derive(Debug)]
pub(super) struct ServerContact {
    server: String,
    timeouts: LeaseTimeouts,
    /// Time from which silence counts again: the end of the last outage plus [`RECOVERY_TIME`].
    back: Instant,
    /// Time at which this coordinator began to follow the run.
    started: Instant,
    /// End of the last outage that was handled.
    handled_until: Instant,
    /// Start of the current outage.
    away: Option<Instant>,
    announced: bool,
    longest: Duration,
    /// Time at which the connection was restored, this process was resumed, or stored messages were
    /// last requested again; `None` once a message of the run has arrived since then.
    silent_since: Option<Instant>,
    /// True if stored messages must be read again, because a restart of the server ended the
    /// subscription.
    replay_due: bool,
}

impl ServerContact {
    /// Creates the state for a server that responds.
    pub(super) fn new(link: &NatsLink, timeouts: LeaseTimeouts) -> ServerContact {
        let now = Instant::now();
        ServerContact {
            server: link.server().to_owned(),
            timeouts,
            back: now,
            started: now,
            handled_until: now,
            away: None,
            announced: false,
            longest: Duration::ZERO,
            silent_since: None,
            replay_due: false,
        }
    }

    /// Updates the state from the connection and the lease's observations, and reports changes.
    pub(super) fn update(&mut self, run: &FollowedRun<'_>, has_message: bool) {
        let now = Instant::now();
        let signs = run.lease.server_signs();
        // An outage may have begun and ended since the last check.
        if let Some((began, ended)) = signs
            .outage
            .filter(|(_, ended)| *ended > self.handled_until)
        {
            self.begin_outage(began.max(self.started));
            self.end_outage(run, ended);
        }
        let silence = now.saturating_duration_since(signs.last_contact);
        let is_unresponsive = silence > self.timeouts.unresponsive() && !has_message;
        match (run.link.is_connected(), is_unresponsive) {
            (false, _) => self.begin_outage(now),
            (true, true) => self.begin_outage(signs.last_contact.max(self.started)),
            (true, false) => self.end_outage(run, now),
        }
        if has_message {
            self.silent_since = None;
        }
        let Some(lasted) = self.outage_length() else {
            return;
        };
        self.longest = self.longest.max(lasted);
        if !self.announced && lasted > ANNOUNCED_MIN {
            self.announced = true;
            (run.observer.on_event)(FleetEvent::Warning(&format!(
                "the NATS server {} does not respond; waiting up to {} s (agents stop when their lease of {} s ends; see --lease)",
                self.server,
                self.timeouts.away().as_secs(),
                self.timeouts.lease.as_secs_f64()
            )));
        }
    }

    fn begin_outage(&mut self, since: Instant) {
        self.away.get_or_insert(since);
    }

    fn end_outage(&mut self, run: &FollowedRun<'_>, now: Instant) {
        let Some(since) = self.away.take() else {
            return;
        };
        let lasted = now.saturating_duration_since(since);
        self.longest = self.longest.max(lasted);
        self.handled_until = now;
        (self.back, self.silent_since) = (now + RECOVERY_TIME, Some(now));
        self.replay_due = true;
        if std::mem::take(&mut self.announced) || lasted > ANNOUNCED_MIN {
            let (server, lasted) = (&self.server, lasted.as_secs_f64());
            let text = format!("the NATS server {server} is back after {lasted:.1} s");
            (run.observer.on_event)(FleetEvent::Step(&text));
        }
    }

    /// Returns the time since which an agent's silence counts.
    pub(super) fn silence_counts_from(&self) -> Instant {
        self.back
    }

    /// Returns the length of the current outage.
    pub(super) fn outage_length(&self) -> Option<Duration> {
        self.away.map(|since| since.elapsed())
    }

    /// Returns the longest outage, if it was long enough to be reported.
    pub(super) fn longest_outage(&self) -> Option<Outage> {
        (self.longest > ANNOUNCED_MIN).then(|| Outage {
            server: self.server.clone(),
            lasted: self.longest,
            lease: self.timeouts.lease,
        })
    }

    /// Formats the warning that the coordinator no longer waits for the server.
    pub(super) fn give_up_message(&self) -> String {
        format!(
            "the NATS server {} has not responded for {} s; giving up",
            self.server,
            self.outage_length().unwrap_or_default().as_secs()
        )
    }

    /// Returns true if stored messages must be read again: the connection to the server has been
    /// restored, or no message has arrived since then.
    pub(super) fn needs_replay(&self) -> bool {
        let needs_replay = self
            .silent_since
            .is_some_and(|since| since.elapsed() > REPLAY_AFTER);
        self.away.is_none() && (needs_replay || self.replay_due)
    }

    /// Records that this process was suspended. Silence counts only from now on, and messages may
    /// have been missed.
    pub(super) fn note_suspension(&mut self) {
        let now = Instant::now();
        (self.back, self.silent_since) = (self.back.max(now), Some(now));
    }

    /// Records that stored messages are being read again.
    pub(super) fn note_replay(&mut self) {
        // If no message arrives, the stored messages are read once more, because the server may
        // have been restarting.
        self.silent_since = self.replay_due.then(Instant::now);
        self.replay_due = false;
    }
}
