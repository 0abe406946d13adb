//! A coordinator's session with the machine of one agent. It repeats each call until a reply
//! arrives or the agent is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_machine::host::HostError;
use prony_record::finding::HostLoss;

use super::call_error::SessionCallError;
use crate::link::{LinkError, NatsLink};
use crate::names::{AgentName, RunId};
use crate::wire::{AgentOrder, Command, Reply, SenderVersion};
use crate::wire::{HostCall, HostReply, NumberedCall, OpenRequest};

/// Timeout for a reply. After it, a call is sent again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Timeout for a call to an agent that still responds to renewals of its lease.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// Pause before a call is sent again.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// Default lease in milliseconds: how long an agent waits for contact with the coordinator before
/// it releases its machine.
pub(super) const LEASE_DEFAULT_MS: u64 = 10_000;
/// Tolerated outage of the NATS server. Agents are considered lost after an outage that is longer
/// than this and longer than the lease.
const SERVER_AWAY_MAX: Duration = Duration::from_secs(45);

/// Session with an agent whose machine is reserved for the run.
#[derive(Debug)]
pub(super) struct AgentSession {
    link: Arc<NatsLink>,
    agent: AgentName,
    run: RunId,
    /// Boot identifier of the machine's kernel.
    boot: String,
    /// Time for which the agent waits for a renewal before it releases its machine.
    lease: Duration,
    /// Number of the next call.
    next: AtomicU64,
    state: Mutex<SessionState>,
}

#[derive(Debug)]
struct SessionState {
    /// Time of the last message from the agent.
    last_reply: Instant,
    /// Start of the current outage of the NATS server.
    server_away: Option<Instant>,
    /// Reason why the agent is lost; `None` if it is not.
    loss: Option<HostLoss>,
    is_loss_reported: bool,
}

impl AgentSession {
    /// Reserves an agent's machine. If another run has reserved it, waits for the length of a
    /// lease, because that run's coordinator may have died.
    pub(super) fn open(
        link: &Arc<NatsLink>,
        run: &RunId,
        agent: &AgentName,
        request: &OpenRequest,
    ) -> Result<AgentSession, HostError> {
        let lease = Duration::from_millis(request.lease_ms);
        let mut session = AgentSession {
            lease,
            link: link.clone(),
            agent: agent.clone(),
            run: run.clone(),
            boot: String::new(),
            // The first number is random, because the agent may remember a call from an earlier
            // session of this run.
            next: AtomicU64::new(rand::random::<u64>() >> 1),
            state: Mutex::new(SessionState {
                last_reply: Instant::now(),
                server_away: None,
                loss: None,
                is_loss_reported: false,
            }),
        };
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            match session.send(HostCall::Open(request.clone())) {
                Ok(Reply::Host(HostReply::Opened { boot })) => {
                    session.boot = boot;
                    session.note_reply();
                    return Ok(session);
                }
                Ok(Reply::Busy { .. }) if waited < lease + RETRY_INTERVAL => {}
                Ok(reply) => return Err(session.refusal(&reply)),
                Err(_) if waited < session.silence_max() => {}
                Err(why) => return Err(session.error(format!("its agent does not respond: {why}"))),
            }
            thread::sleep(RETRY_INTERVAL);
        }
    }

    pub(super) fn agent(&self) -> &AgentName {
        &self.agent
    }

    /// Returns the boot identifier of the machine's kernel.
    pub(super) fn boot(&self) -> &str {
        &self.boot
    }

    pub(super) fn error(&self, text: String) -> HostError {
        HostError::Elsewhere {
            host: self.agent.to_string(),
            text,
        }
    }

    /// Sends a call once.
    fn send(&self, call: HostCall) -> Result<Reply, SessionCallError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = self.order(NumberedCall { number, call })?;
        Ok(self.send_order(&order, RESPONSE_TIMEOUT)?)
    }

    fn order(&self, call: NumberedCall) -> Result<Vec<u8>, serde_json::Error> {
        let order = AgentOrder {
            sender: SenderVersion::own(),
            run: self.run.clone(),
            experiment: None,
            command: Command::Host(call),
        };
        serde_json::to_vec(&order)
    }

    fn send_order(&self, order: &[u8], within: Duration) -> Result<Reply, LinkError> {
        let reply = self
            .link
            .request(&self.agent.orders_subject(), order.to_vec(), within);
        let reply = reply?;
        // An invalid reply is final, because repeating the call would yield the same reply.
        let unreadable = |error| Reply::Wrong {
            text: format!("its response can't be read: {error}"),
        };
        Ok(serde_json::from_slice(&reply).unwrap_or_else(unreadable))
    }

    /// Makes a call and waits for the result.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent rejects the call, fails, or is lost.
    pub(super) fn call(&self, call: HostCall) -> Result<HostReply, HostError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = self.order(NumberedCall { number, call });
        let order = order.map_err(|error| self.error(error.to_string()))?;
        let began = Instant::now();
        loop {
            if began.elapsed() > CALL_TIMEOUT {
                let seconds = CALL_TIMEOUT.as_secs();
                return Err(self.error(format!("its agent did not complete a call in {seconds} s")));
            }
            if let Some(why) = self.loss() {
                return Err(self.error(why.to_string()));
            }
            match self.send_order(&order, RESPONSE_TIMEOUT) {
                Ok(Reply::Host(HostReply::Unknown)) => self.lose(HostLoss::Restarted),
                Ok(Reply::Host(reply)) => {
                    self.note_reply();
                    return Ok(reply);
                }
                Ok(reply) => return Err(self.refusal(&reply)),
                // The call is repeated. If the agent is lost, failing renewals of its lease reveal
                // that.
                Err(_) => thread::sleep(RETRY_INTERVAL),
            }
        }
    }

    fn refusal(&self, reply: &Reply) -> HostError {
        self.error(match reply {
            Reply::Refused { rule, text } => format!("rejected by policy rule {rule}: {text}"),
            Reply::Wrong { text } | Reply::Environment { text } | Reply::Busy { text } => {
                text.clone()
            }
            other => format!("unexpected reply: {other:?}"),
        })
    }

    /// Renews the lease, and checks whether the agent responds.
    pub(super) fn renew(&self) {
        match self.send(HostCall::Renew) {
            Ok(Reply::Host(HostReply::Done)) => self.note_reply(),
            Ok(Reply::Host(HostReply::Unknown)) => {
                self.lose(HostLoss::Forgotten);
            }
            Ok(_) | Err(_) => self.judge_silence(self.link.server_responds(RESPONSE_TIMEOUT)),
        }
    }

    /// Returns how long an agent may be silent before it is lost, provided that the server
    /// responds.
    fn silence_max(&self) -> Duration {
        self.lease * 3 / 5
    }

    /// Determines whether the agent is lost. While the server is unreachable, silence doesn't mean
    /// that the agent is gone.
    fn judge_silence(&self, server_responds: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        let lost = match (server_responds, state.server_away) {
            (false, away) => {
                let away = *state.server_away.insert(away.unwrap_or(now));
                let silent = now.saturating_duration_since(away);
                (silent >= SERVER_AWAY_MAX.max(self.lease)).then(|| HostLoss::ServerAway {
                    server: self.link.server().to_owned(),
                    silent_s: silent.as_secs(),
                })
            }
            (true, Some(_)) => {
                (state.server_away, state.last_reply) = (None, now);
                None
            }
            (true, None) => {
                let silent = now.saturating_duration_since(state.last_reply);
                let is_lost = silent >= self.silence_max();
                is_lost.then_some(HostLoss::Silent(silent.as_secs()))
            }
        };
        if let Some(why) = lost {
            state.loss.get_or_insert(why);
        }
    }

    /// Releases the machine. If this call is lost, the lease expires instead.
    pub(super) fn close(&self) {
        if self.loss().is_none() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let call = HostCall::Close;
            if let Ok(order) = self.order(NumberedCall { number, call }) {
                let _ = self.send_order(&order, self.silence_max());
            }
        }
    }

    /// Returns how long the agent waits for a renewal before it releases its machine.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Returns the reason why the agent is lost, or `None` if it is not.
    pub(super) fn loss(&self) -> Option<HostLoss> {
        self.lock().loss.clone()
    }

    /// Like [`AgentSession::loss`], but returns the reason only once.
    pub(super) fn unreported_loss(&self) -> Option<HostLoss> {
        let mut state = self.lock();
        let unreported = state.loss.clone().filter(|_| !state.is_loss_reported);
        state.is_loss_reported |= unreported.is_some();
        unreported
    }

    fn note_reply(&self) {
        let mut state = self.lock();
        (state.last_reply, state.server_away) = (Instant::now(), None);
    }

    fn lose(&self, loss: HostLoss) {
        self.lock().loss.get_or_insert(loss);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, SessionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error message for a reply that doesn't match the call.
pub(super) fn unexpected(reply: &HostReply) -> String {
    format!("unexpected reply: {reply:?}")
}
