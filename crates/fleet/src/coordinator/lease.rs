//! The lease of a run: as long as it is renewed, agents go on.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::orders;
use crate::link::{Link, LinkError};
use crate::messages::{LEASE_MS, Manifest, Reply, What};
use crate::names::{AgentName, RunId};

/// How long an agent goes on after the last sign of the coordinator, and what follows from that: after
/// which silence something is taken for gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Patience {
    /// The lease.
    pub(super) lease: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            lease: Duration::from_secs(10),
        }
    }
}

impl Patience {
    /// The timeouts of a run, by the lease that its agents were given.
    pub(super) fn of(manifest: &Manifest) -> Option<Patience> {
        let lease_ms = manifest.lease_ms.filter(|ms| LEASE_MS.contains(ms))?;
        let lease = Duration::from_millis(lease_ms);
        Some(Patience { lease })
    }

    /// The lease in milliseconds.
    pub(super) fn lease_ms(self) -> u64 {
        u64::try_from(self.lease.as_millis()).unwrap_or(u64::MAX)
    }

    /// How often a lease is renewed, and how long an agent may take to answer that.
    fn step(self) -> Duration {
        self.lease / 5
    }

    /// An agent that was not heard of for so long has ended its load by itself.
    pub(super) fn silence(self) -> Duration {
        self.lease + self.lease * 3 / 10
    }

    /// An agent that is not there for so long, while it was to get ready, won't be.
    pub(super) fn vanishing(self) -> Duration {
        self.lease * 2 / 5
    }

    /// How long an agent that was started anew may take to send what it kept.
    pub(super) fn restart(self) -> Duration {
        self.lease * 2 / 5
    }

    /// How long the rest may take after an agent's last message, or after it was told to stop.
    pub(super) fn rest(self) -> Duration {
        self.lease * 4 / 5
    }

    /// How much longer than planned a load may take.
    pub(super) fn overtime(self) -> Duration {
        self.lease * 2
    }

    /// Time without any sign of the server after which it counts as away. A renewal that no agent
    /// answers takes two steps, as the server is then asked as well.
    pub(super) fn unresponsive(self) -> Duration {
        self.step() * 4
    }

    /// How long the server may be away before the parts that it still has to carry count as lost.
    pub(super) fn away(self) -> Duration {
        SERVER_AWAY_MIN.max(self.lease * 3 / 2)
    }

    /// Agents without a coordinator have ended by then, and said so.
    pub(super) fn winding_down(self) -> Duration {
        self.lease + self.lease * 3 / 5
    }
}

/// How long a server may be away at least, however short the lease is.
const SERVER_AWAY_MIN: Duration = Duration::from_secs(45);

/// How soon it is noticed that there is nothing to renew any more.
const LOOK_UP: Duration = Duration::from_millis(50);

/// What an agent's answers say of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sign {
    /// It is there, and the run with it.
    There,
    /// It is there, and knows nothing of the run: it was started anew, or has ended it.
    Stranger,
    /// Nobody listens under its name.
    Gone,
    /// No answer.
    Silent,
}

/// The last sign of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// What it was.
    pub(super) sign: Sign,
    /// Since when there was no better sign.
    pub(super) since: Instant,
    /// When it was last there.
    pub(super) there: Instant,
}

/// What renewals show of the NATS server.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerSigns {
    /// When it was last known to respond.
    pub(super) heard: Instant,
    /// The last time without a response that was long enough to be an outage: its start and its end.
    pub(super) outage: Option<(Instant, Instant)>,
}

impl ServerSigns {
    fn hear(&mut self, now: Instant, unresponsive: Duration) {
        if now.saturating_duration_since(self.heard) > unresponsive {
            self.outage = Some((self.heard, now));
        }
        self.heard = now;
    }
}

/// Renews a run's lease with its agents, and keeps what that shows of them.
#[derive(Debug)]
pub(super) struct Lease {
    run: RunId,
    patience: Patience,
    seen: Mutex<BTreeMap<AgentName, Seen>>,
    server: Mutex<ServerSigns>,
    over: AtomicBool,
}

impl Lease {
    /// A lease with these agents, which are taken to be there now.
    pub(super) fn new<'a>(
        run: &RunId,
        patience: Patience,
        agents: impl IntoIterator<Item = &'a AgentName>,
    ) -> Lease {
        let now = Instant::now();
        let seen = Seen {
            sign: Sign::There,
            since: now,
            there: now,
        };
        let seen = agents.into_iter().map(|agent| (agent.clone(), seen));
        Lease {
            run: run.clone(),
            patience,
            seen: Mutex::new(seen.collect()),
            server: Mutex::new(ServerSigns {
                heard: now,
                outage: None,
            }),
            over: AtomicBool::new(false),
        }
    }

    /// Renews the lease until it is [over](Lease::end); for a thread of its own.
    pub(super) fn keep(&self, link: &Link) {
        while !self.is_over() {
            let began = Instant::now();
            self.renew(link);
            while began.elapsed() < self.patience.step() && !self.is_over() {
                thread::sleep(LOOK_UP);
            }
        }
    }

    fn renew(&self, link: &Link) {
        let agents: Vec<AgentName> = self.lock().keys().cloned().collect();
        let orders = agents.iter().map(|agent| (agent, What::Renew)).collect();
        let replies = orders::give(link, &self.run, orders, self.patience.step(), &|_| {
            self.is_over()
        });
        // A response came through the server, and that nobody listens is its own word.
        let is_heard = |reply: &Result<Reply, LinkError>| {
            matches!(reply, Ok(_) | Err(LinkError::NobodyThere(_)))
        };
        if replies.iter().any(is_heard) || link.responds(self.patience.step()) {
            self.server()
                .hear(Instant::now(), self.patience.unresponsive());
        }
        let now = Instant::now();
        let mut all = self.lock();
        for (agent, reply) in agents.iter().zip(replies) {
            let Some(seen) = all.get_mut(agent) else {
                continue;
            };
            let sign = match reply {
                Ok(Reply::Done) => Sign::There,
                Ok(_) => Sign::Stranger,
                Err(LinkError::NobodyThere(_)) => Sign::Gone,
                Err(_) => Sign::Silent,
            };
            if sign == Sign::There {
                seen.there = now;
            }
            if sign != seen.sign {
                (seen.sign, seen.since) = (sign, now);
            }
        }
    }

    /// What is known of an agent whose lease is renewed.
    pub(super) fn seen(&self, agent: &AgentName) -> Option<Seen> {
        self.lock().get(agent).copied()
    }

    /// All agents have just responded to an order: what renewals showed before, such as of an agent that
    /// had yet to hear of the run, says nothing any more.
    pub(super) fn confirm(&self) {
        let now = Instant::now();
        for seen in self.lock().values_mut() {
            *seen = Seen {
                sign: Sign::There,
                since: now,
                there: now,
            };
        }
    }

    /// The signs of the server so far.
    pub(super) fn server_signs(&self) -> ServerSigns {
        *self.server()
    }

    fn server(&self) -> MutexGuard<'_, ServerSigns> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent's part is over: its lease need not be renewed.
    pub(super) fn release(&self, agent: &AgentName) {
        self.lock().remove(agent);
    }

    /// Nobody's lease is renewed from now on.
    pub(super) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AgentName, Seen>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a lease when it goes out of scope, whatever the reason.
pub(super) struct Keeping<'a>(pub(super) &'a Lease);

impl Drop for Keeping<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
