//! The lease of a run. Agents work only while it is renewed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::orders;
use crate::link::{LinkError, NatsLink};
use crate::names::{AgentName, RunId};
use crate::wire::{Command, LEASE_RANGE_MS, Reply, RunManifest};

/// The lease of a run, and the timeouts that are derived from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseTimeouts {
    /// Time for which agents continue without contact with the coordinator.
    pub(super) lease: Duration,
}

impl Default for LeaseTimeouts {
    fn default() -> LeaseTimeouts {
        LeaseTimeouts {
            lease: Duration::from_secs(10),
        }
    }
}

impl LeaseTimeouts {
    /// Returns the timeouts of a stored run.
    pub(super) fn of(manifest: &RunManifest) -> Option<LeaseTimeouts> {
        let lease_ms = manifest.lease_ms.filter(|ms| LEASE_RANGE_MS.contains(ms))?;
        let lease = Duration::from_millis(lease_ms);
        Some(LeaseTimeouts { lease })
    }

    /// Returns the lease in milliseconds.
    pub(super) fn lease_ms(self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the interval between renewals, which is also the timeout for a reply to a renewal.
    fn renew_interval(self) -> Duration {
        self.lease / 5
    }

    /// Returns how long an agent must have been without contact before it has certainly stopped,
    /// because its lease has expired.
    pub(super) fn silence(self) -> Duration {
        self.lease + self.lease * 3 / 10
    }

    /// Returns how long a preparing agent may have no subscription on the server before it is
    /// considered lost.
    pub(super) fn vanishing(self) -> Duration {
        self.lease * 2 / 5
    }

    /// Returns the timeout for a restarted agent to send its stored results.
    pub(super) fn restart(self) -> Duration {
        self.lease * 2 / 5
    }

    /// Returns the timeout for an agent's missing messages, counted from its end message or from an
    /// order to stop.
    pub(super) fn rest(self) -> Duration {
        self.lease * 4 / 5
    }

    /// Returns the maximum time by which a load may exceed its planned end.
    pub(super) fn overtime(self) -> Duration {
        self.lease * 2
    }

    /// Returns how long the server may be silent before it is considered unreachable. A check may
    /// take two steps: if no agent replies to a renewal, a request to the server follows.
    pub(super) fn unresponsive(self) -> Duration {
        self.renew_interval() * 4
    }

    /// Returns the maximum tolerated outage of the server. After a longer outage, parts are
    /// considered lost.
    pub(super) fn away(self) -> Duration {
        SERVER_AWAY_MIN.max(self.lease * 3 / 2)
    }

    /// Returns the interval at which the leader of a run writes its key.
    pub(super) fn leader_interval(self) -> Duration {
        LEADER_INTERVAL_MAX.min(self.lease / 5)
    }

    /// Returns how long the leader of a run may fail to write its key before it is considered lost.
    pub(super) fn leader(self) -> Duration {
        LEADER_TIMEOUT_MAX.min(self.lease * 7 / 10)
    }

    /// Returns how long it takes until agents that lose their coordinator have stopped and sent
    /// their results.
    pub(super) fn winding_down(self) -> Duration {
        self.lease + self.lease * 3 / 5
    }
}

/// Maximum interval at which the leader of a run writes its key.
const LEADER_INTERVAL_MAX: Duration = Duration::from_secs(2);
/// Upper limit of the time for which the leader of a run may fail to write its key.
const LEADER_TIMEOUT_MAX: Duration = Duration::from_secs(7);

/// Minimum tolerated outage of the server, even if the lease is short.
const SERVER_AWAY_MIN: Duration = Duration::from_secs(45);

/// Interval at which the thread checks whether the lease has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Outcome of an agent's last renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RenewalOutcome {
    /// The agent takes part in the run.
    Renewed,
    /// The agent doesn't know the run, because it was restarted or its share of the run has ended.
    Unknown,
    /// No agent with this name is connected.
    NoSubscriber,
    /// The agent did not reply.
    NoReply,
}

/// State of the contact with an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct AgentContact {
    /// Outcome of the last renewal.
    pub(super) outcome: RenewalOutcome,
    /// Time since which all renewals have had this outcome.
    pub(super) since: Instant,
    /// Time of the last successful renewal.
    pub(super) last_renewed: Instant,
}

/// Contact with the NATS server, as observed by renewals.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerObservations {
    /// Time of the last response from the server.
    pub(super) last_contact: Instant,
    /// Start and end of the last outage.
    pub(super) outage: Option<(Instant, Instant)>,
}

impl ServerObservations {
    fn note_response(&mut self, now: Instant, unresponsive: Duration) {
        if now.saturating_duration_since(self.last_contact) > unresponsive {
            self.outage = Some((self.last_contact, now));
        }
        self.last_contact = now;
    }
}

/// Renews the lease of a run, and tracks the contact with its agents.
#[derive(Debug)]
pub(super) struct Lease {
    run: RunId,
    timeouts: LeaseTimeouts,
    contacts: Mutex<BTreeMap<AgentName, AgentContact>>,
    server: Mutex<ServerObservations>,
    over: AtomicBool,
}

impl Lease {
    /// Creates a lease for these agents, which are considered connected at first.
    pub(super) fn new<'a>(
        run: &RunId,
        timeouts: LeaseTimeouts,
        agents: impl IntoIterator<Item = &'a AgentName>,
    ) -> Lease {
        let now = Instant::now();
        let contact = AgentContact {
            outcome: RenewalOutcome::Renewed,
            since: now,
            last_renewed: now,
        };
        let contacts = agents.into_iter().map(|agent| (agent.clone(), contact));
        Lease {
            run: run.clone(),
            timeouts,
            contacts: Mutex::new(contacts.collect()),
            server: Mutex::new(ServerObservations {
                last_contact: now,
                outage: None,
            }),
            over: AtomicBool::new(false),
        }
    }

    /// Renews the lease until it is [ended](Lease::end). Runs on its own thread.
    pub(super) fn keep(&self, link: &NatsLink) {
        while !self.is_over() {
            let began = Instant::now();
            self.renew(link);
            while began.elapsed() < self.timeouts.renew_interval() && !self.is_over() {
                thread::sleep(POLL_INTERVAL);
            }
        }
    }

    fn renew(&self, link: &NatsLink) {
        let agents: Vec<AgentName> = self.lock().keys().cloned().collect();
        let orders = agents.iter().map(|agent| (agent, Command::Renew)).collect();
        let replies = orders::send(
            link,
            &self.run,
            orders,
            self.timeouts.renew_interval(),
            &|_| self.is_over(),
        );
        // A reply from an agent proves that the server is reachable. So does a report of a missing
        // subscriber, which comes from the server.
        let is_contact = |reply: &Result<Reply, LinkError>| {
            matches!(reply, Ok(_) | Err(LinkError::NoResponders(_)))
        };
        if replies.iter().any(is_contact) || link.server_responds(self.timeouts.renew_interval()) {
            self.server()
                .note_response(Instant::now(), self.timeouts.unresponsive());
        }
        let now = Instant::now();
        let mut all = self.lock();
        for (agent, reply) in agents.iter().zip(replies) {
            let Some(contact) = all.get_mut(agent) else {
                continue;
            };
            let outcome = match reply {
                Ok(Reply::Done) => RenewalOutcome::Renewed,
                Ok(_) => RenewalOutcome::Unknown,
                Err(LinkError::NoResponders(_)) => RenewalOutcome::NoSubscriber,
                Err(_) => RenewalOutcome::NoReply,
            };
            if outcome == RenewalOutcome::Renewed {
                contact.last_renewed = now;
            }
            if outcome != contact.outcome {
                (contact.outcome, contact.since) = (outcome, now);
            }
        }
    }

    /// Returns the state of the contact with an agent whose lease is being renewed.
    pub(super) fn contact(&self, agent: &AgentName) -> Option<AgentContact> {
        self.lock().get(agent).copied()
    }

    /// Records that all agents have just replied to an order. This overwrites earlier outcomes, for
    /// example those of agents that had not received the run yet.
    pub(super) fn confirm(&self) {
        let now = Instant::now();
        for contact in self.lock().values_mut() {
            *contact = AgentContact {
                outcome: RenewalOutcome::Renewed,
                since: now,
                last_renewed: now,
            };
        }
    }

    /// Returns the latest observations of the contact with the server.
    pub(super) fn server_signs(&self) -> ServerObservations {
        *self.server()
    }

    fn server(&self) -> MutexGuard<'_, ServerObservations> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops renewing the lease of an agent whose part is over.
    pub(super) fn release(&self, agent: &AgentName) {
        self.lock().remove(agent);
    }

    /// Stops all renewals.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentName, AgentContact>> {
        self.contacts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a lease when dropped.
pub(super) struct LeaseGuard<'a>(pub(super) &'a Lease);

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
