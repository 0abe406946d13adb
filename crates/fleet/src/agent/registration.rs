//! Keeps an agent registered: renews the registration while the agent runs, and removes it when the
//! agent exits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::machine::MachineFacts;
use super::outbox::Outbox;
use super::settings::AgentSettings;
use crate::link::NatsLink;
use crate::names::{AGENTS_BUCKET, RunId};
use crate::wire::{Registration, Reservation};

/// Interval between renewals. Three consecutive renewals may be lost before the registration
/// expires ([`crate::link::REGISTRATION_TTL`]).
const RENEW_INTERVAL: Duration = Duration::from_secs(4);
/// Interval at which the keeper checks whether the agent's run or reservation has changed.
const CHANGE_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Keeps an agent registered.
pub(super) struct RegistrationKeeper<'a> {
    link: &'a NatsLink,
    settings: &'a AgentSettings,
    facts: &'a MachineFacts,
    outbox: &'a Outbox,
    subject: String,
    /// Message to other agents with the same name.
    presence: Vec<u8>,
    engagement: Mutex<Engagement>,
}

/// Run and reservation that make the agent unavailable to other runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Engagement {
    busy_with: Option<RunId>,
    reserved: Option<Reservation>,
}

/// Result of the last attempt to register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RegistrationState {
    New,
    Registered,
    Disconnected,
    Refused,
}

impl<'a> RegistrationKeeper<'a> {
    /// Creates a keeper that has not registered the agent yet.
    pub(super) fn new(
        link: &'a NatsLink,
        settings: &'a AgentSettings,
        facts: &'a MachineFacts,
        outbox: &'a Outbox,
        presence: Vec<u8>,
    ) -> RegistrationKeeper<'a> {
        RegistrationKeeper {
            link,
            settings,
            facts,
            outbox,
            subject: format!("$KV.{AGENTS_BUCKET}.{}", settings.name),
            presence,
            engagement: Mutex::default(),
        }
    }

    /// Sets the run that the agent takes part in, and the experiment that has reserved the agent.
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

    /// Renews the registration until `done` is set. Runs on its own thread.
    pub(super) fn keep(&self, done: &AtomicBool) {
        let mut state = RegistrationState::New;
        let mut last: Option<(Instant, Engagement)> = None;
        while !done.load(Ordering::Relaxed) {
            let engagement = self.lock().clone();
            let is_due = last
                .as_ref()
                .is_none_or(|(at, before)| at.elapsed() >= RENEW_INTERVAL || *before != engagement);
            let next = if !self.link.is_connected() {
                // Clearing `last` makes the agent register again as soon as the server is back.
                last = None;
                RegistrationState::Disconnected
            } else if is_due {
                last = Some((Instant::now(), engagement.clone()));
                self.register(engagement, state)
            } else {
                state
            };
            if next != state && next == RegistrationState::Disconnected {
                (self.settings.log)("lost the connection to the NATS server; reconnecting");
            }
            state = next;
            thread::sleep(CHANGE_POLL_INTERVAL);
        }
    }

    fn register(&self, engagement: Engagement, before: RegistrationState) -> RegistrationState {
        let (first, sending) = (
            self.link.local_address(),
            self.outbox.runs(&self.settings.name),
        );
        let registration = Registration {
            reserved: engagement.reserved,
            ..self
                .facts
                .registration(self.settings, first, engagement.busy_with, sending)
        };
        let (name, log) = (&self.settings.name, &self.settings.log);
        // The loss of this message does no harm, because the next one follows soon.
        let _ = self
            .link
            .publish(&name.namesakes_subject(), self.presence.clone());
        let Ok(json) = serde_json::to_vec(&registration) else {
            return RegistrationState::Refused;
        };
        match (self.link.store(&self.subject, None, json), before) {
            (Ok(()), RegistrationState::Registered) => RegistrationState::Registered,
            (Ok(()), RegistrationState::Disconnected) => {
                log(&format!("reconnected as {name}"));
                RegistrationState::Registered
            }
            (Ok(()), _) => {
                log(&format!("registered as {name}, waiting for orders"));
                RegistrationState::Registered
            }
            (Err(_), RegistrationState::Refused) => RegistrationState::Refused,
            (Err(error), _) => {
                log(&format!(
                    "can't register: {error}; retrying (if the server is new, connect a coordinator first, for example with `prony fleet list`)"
                ));
                RegistrationState::Refused
            }
        }
    }

    /// Removes the registration if the server is reachable. Otherwise the registration expires.
    pub(super) fn remove(&self) {
        if self.link.is_connected() {
            let _ = self.link.remove(&self.subject);
        }
    }
}
