//! An agent's registration: renewed as long as it is there, removed when it leaves.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::Settings;
use super::facts::Facts;
use super::outbox::Outbox;
use crate::link::Link;
use crate::messages::{Registration, Reservation};
use crate::names::{AGENTS, RunId};

/// How often the registration is renewed: three may be lost before it runs out
/// ([`crate::link::AGENT_LEASE`]).
const EVERY: Duration = Duration::from_secs(4);
/// How soon a change is told.
const LOOK: Duration = Duration::from_millis(100);

/// Keeps an agent registered.
pub(super) struct Registering<'a> {
    link: &'a Link,
    settings: &'a Settings,
    facts: &'a Facts,
    outbox: &'a Outbox,
    subject: String,
    /// What is said to agents of the same name.
    presence: Vec<u8>,
    engagement: Mutex<Engagement>,
}

/// What keeps an agent from other runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Engagement {
    busy_with: Option<RunId>,
    reserved: Option<Reservation>,
}

/// How the last attempt went.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    Registered,
    Cut,
    Refused,
}

impl<'a> Registering<'a> {
    /// Nothing is registered yet.
    pub(super) fn new(
        link: &'a Link,
        settings: &'a Settings,
        facts: &'a Facts,
        outbox: &'a Outbox,
        presence: Vec<u8>,
    ) -> Registering<'a> {
        Registering {
            link,
            settings,
            facts,
            outbox,
            subject: format!("$KV.{AGENTS}.{}", settings.name),
            presence,
            engagement: Mutex::default(),
        }
    }

    /// The run that it is part of now, and the experiment that has reserved it.
    pub(super) fn set_busy(&self, run: Option<&RunId>, reserved: Option<&Reservation>) {
        let mut engagement = self.lock();
        if engagement.busy_with.as_ref() != run || engagement.reserved.as_ref() != reserved {
            *engagement = Engagement {
                busy_with: run.cloned(),
                reserved: reserved.cloned(),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Engagement> {
        let engagement = self.engagement.lock();
        engagement.unwrap_or_else(PoisonError::into_inner)
    }

    /// Renews it until `done`; for a thread of its own.
    pub(super) fn keep(&self, done: &AtomicBool) {
        let mut state = State::New;
        let mut told: Option<(Instant, Engagement)> = None;
        while !done.load(Ordering::Relaxed) {
            let busy = self.lock().clone();
            let is_news = told
                .as_ref()
                .is_none_or(|(at, before)| at.elapsed() >= EVERY || *before != busy);
            let next = match (self.link.is_up(), is_news) {
                (false, _) => {
                    // As soon as it is back.
                    told = None;
                    State::Cut
                }
                (true, false) => state,
                (true, true) => {
                    told = Some((Instant::now(), busy.clone()));
                    self.register(busy, state)
                }
            };
            if next != state && next == State::Cut {
                (self.settings.tell)("the connection to the server is cut; waiting for it");
            }
            state = next;
            thread::sleep(LOOK);
        }
    }

    fn register(&self, engagement: Engagement, before: State) -> State {
        let (first, sending) = (self.link.address(), self.outbox.runs(&self.settings.name));
        let registration = Registration {
            reserved: engagement.reserved,
            ..self
                .facts
                .registration(self.settings, first, engagement.busy_with, sending)
        };
        let tell = &self.settings.tell;
        // Who misses it hears the next.
        let _ = self
            .link
            .say(&self.settings.name.namesakes(), self.presence.clone());
        let Ok(json) = serde_json::to_vec(&registration) else {
            return State::Refused;
        };
        match (self.link.store(&self.subject, None, json), before) {
            (Ok(()), State::Registered) => State::Registered,
            (Ok(()), before) => {
                let name = &self.settings.name;
                match before {
                    State::Cut => tell(&format!("connected again as {name}")),
                    _ => tell(&format!("registered as {name}, waiting for orders")),
                }
                State::Registered
            }
            (Err(_), State::Refused) => State::Refused,
            (Err(error), _) => {
                tell(&format!(
                    "can't register: {error}; trying again (a coordinator makes what is needed on \
                     the server, as `prony fleet list` does)"
                ));
                State::Refused
            }
        }
    }

    /// Removes it, where the server is there.
    pub(super) fn end(&self) {
        if self.link.is_up() {
            // Otherwise it runs out by itself.
            let _ = self.link.remove(&self.subject);
        }
    }
}
