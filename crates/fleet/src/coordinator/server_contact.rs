//! The coordinator's view of the NATS server during a run: reachable, or away.
//!
//! While the server is away no agent can be heard, so silence says nothing about agents. It counts again
//! from the moment at which the server is back.

use std::time::{Duration, Instant};

use super::Told;
use super::gathering::Following;
use super::lease::Patience;
use crate::link::Link;

/// Silence after the server's return after which stored messages are replayed.
const REPLAY_AFTER: Duration = Duration::from_secs(3);
/// Time for agents to reconnect after an outage, and to send what they kept.
const RECOVERY_TIME: Duration = Duration::from_secs(15);
/// Outages shorter than this are not announced.
const ANNOUNCED_MIN: Duration = Duration::from_secs(2);

/// A time for which the server was away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outage {
    /// The server's URL.
    pub(super) server: String,
    /// Its length.
    pub(super) lasted: Duration,
    /// The run's lease.
    pub(super) lease: Duration,
}

/// Whether the server responds, and since when.
#[derive(Debug)]
pub(super) struct ServerContact {
    server: String,
    patience: Patience,
    /// Silence counts from here: the end of the last outage, and the time to recover from it.
    back: Instant,
    /// Start of the run, as it is seen from here.
    started: Instant,
    /// End of the last outage that is accounted for.
    seen_until: Instant,
    /// Start of the present outage.
    away: Option<Instant>,
    announced: bool,
    longest: Duration,
    /// Return of the server, until something is heard.
    unheard: Option<Instant>,
    /// Whether stored messages have to be replayed, as the server's restart ended the subscription.
    replay_due: bool,
}

impl ServerContact {
    /// A server that responds.
    pub(super) fn new(link: &Link, patience: Patience) -> ServerContact {
        let now = Instant::now();
        ServerContact {
            server: link.server().to_owned(),
            patience,
            back: now,
            started: now,
            seen_until: now,
            away: None,
            announced: false,
            longest: Duration::ZERO,
            unheard: None,
            replay_due: false,
        }
    }

    /// Checks the connection and what the run's lease has seen of the server, and announces changes.
    pub(super) fn look(&mut self, going: &Following<'_>, has_come: bool) {
        let now = Instant::now();
        let signs = going.lease.server_signs();
        // One may have begun and ended while this thread waited for something else.
        if let Some((began, ended)) = signs.outage.filter(|(_, ended)| *ended > self.seen_until) {
            self.lose(began.max(self.started));
            self.regain(going, ended);
        }
        let silence = now.saturating_duration_since(signs.heard);
        let is_unresponsive = silence > self.patience.unresponsive() && !has_come;
        match (going.link.is_up(), is_unresponsive) {
            (false, _) => self.lose(now),
            (true, true) => self.lose(signs.heard.max(self.started)),
            (true, false) => self.regain(going, now),
        }
        if has_come {
            self.unheard = None;
        }
        let Some(lasted) = self.away_for() else {
            return;
        };
        self.longest = self.longest.max(lasted);
        if !self.announced && lasted > ANNOUNCED_MIN {
            self.announced = true;
            (going.told)(Told::Warning(&format!(
                "the NATS server {} does not respond; waiting for it for up to {} s (agents stop when \
                 their lease of {} s is over: --lease)",
                self.server,
                self.patience.away().as_secs(),
                self.patience.lease.as_secs_f64()
            )));
        }
    }

    fn lose(&mut self, since: Instant) {
        self.away.get_or_insert(since);
    }

    fn regain(&mut self, going: &Following<'_>, now: Instant) {
        let Some(since) = self.away.take() else {
            return;
        };
        let lasted = now.saturating_duration_since(since);
        self.longest = self.longest.max(lasted);
        self.seen_until = now;
        (self.back, self.unheard) = (now + RECOVERY_TIME, Some(now));
        self.replay_due = true;
        if std::mem::take(&mut self.announced) || lasted > ANNOUNCED_MIN {
            let (server, lasted) = (&self.server, lasted.as_secs_f64());
            let text = format!("the NATS server {server} is back after {lasted:.1} s");
            (going.told)(Told::Step(&text));
        }
    }

    /// Silence counts from here.
    pub(super) fn back(&self) -> Instant {
        self.back
    }

    /// Length of the present outage.
    pub(super) fn away_for(&self) -> Option<Duration> {
        self.away.map(|since| since.elapsed())
    }

    /// The longest outage, if it was long enough to be announced.
    pub(super) fn longest_outage(&self) -> Option<Outage> {
        (self.longest > ANNOUNCED_MIN).then(|| Outage {
            server: self.server.clone(),
            lasted: self.longest,
            lease: self.patience.lease,
        })
    }

    /// Says that the server is no longer waited for.
    pub(super) fn given_up(&self) -> String {
        format!(
            "the NATS server {} has not responded for {} s; ending without it",
            self.server,
            self.away_for().unwrap_or_default().as_secs()
        )
    }

    /// Whether stored messages have to be replayed: the server is back, or nothing has come since.
    pub(super) fn is_deaf(&self) -> bool {
        let is_deaf = self
            .unheard
            .is_some_and(|since| since.elapsed() > REPLAY_AFTER);
        self.away.is_none() && (is_deaf || self.replay_due)
    }

    /// This process was stopped for a while: messages of that time are yet to be heard, and silence
    /// counts from now.
    pub(super) fn was_unheard(&mut self) {
        let now = Instant::now();
        (self.back, self.unheard) = (self.back.max(now), Some(now));
    }

    /// Stored messages were replayed.
    pub(super) fn hears_again(&mut self) {
        // Once more, if nothing comes: the server may have been restarting.
        self.unheard = self.replay_due.then(Instant::now);
        self.replay_due = false;
    }
}
