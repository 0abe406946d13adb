//! One agent's machine, as the coordinator sees it: calls that are answered once, however often they
//! have to be sent, and an end to it when the agent is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::host::HostError;

use super::calls::{Answer, Call, HostOrder, Opening};
use crate::link::Link;
use crate::messages::{Order, Reply, VERSION, What};
use crate::names::{AgentName, RunId};

/// How long an answer is waited for before the call is sent again.
const TRY: Duration = Duration::from_secs(3);
/// How long an agent that renews its lease may take to complete a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(120);
/// The pause before that, where nobody is there to hear it.
const PAUSE: Duration = Duration::from_millis(200);
/// How long an agent keeps its machine for the run after the last sign of the coordinator, unless told
/// otherwise.
pub(super) const LEASE_DEFAULT_MS: u64 = 10_000;
/// How long the NATS server may be away before agents count as lost.
const SERVER_AWAY_MAX: Duration = Duration::from_secs(45);

/// An agent that has its machine ready for this run.
#[derive(Debug)]
pub(super) struct Seat {
    link: Arc<Link>,
    pub(super) agent: AgentName,
    run: RunId,
    /// The kernel's name for its machine's boot.
    pub(super) boot: String,
    /// How long the agent keeps its machine for the run without a renewal.
    lease: Duration,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    heard: Instant,
    /// Since when the NATS server doesn't respond.
    server_away: Option<Instant>,
    lost: Option<String>,
    /// Whether it was told that it is lost.
    told: bool,
}

impl Seat {
    /// Asks an agent for its machine. One that another run still has, whose coordinator may have died,
    /// is waited for as long as a lease.
    pub(super) fn open(
        link: &Arc<Link>,
        run: &RunId,
        agent: &AgentName,
        wanted: &Opening,
    ) -> Result<Seat, HostError> {
        let lease = Duration::from_millis(wanted.lease_ms);
        let mut seat = Seat {
            lease,
            link: link.clone(),
            agent: agent.clone(),
            run: run.clone(),
            boot: String::new(),
            // The agent may still have this run from before it was lost, with its last number.
            next: AtomicU64::new(rand::random::<u64>() >> 1),
            state: Mutex::new(State {
                heard: Instant::now(),
                server_away: None,
                lost: None,
                told: false,
            }),
        };
        let began = Instant::now();
        loop {
            let waited = began.elapsed();
            match seat.send(Call::Open(wanted.clone())) {
                Ok(Reply::Host(Answer::Opened { boot })) => {
                    seat.boot = boot;
                    seat.heard();
                    return Ok(seat);
                }
                Ok(Reply::Busy { .. }) if waited < lease + PAUSE => {}
                Ok(reply) => return Err(seat.refusal(&reply)),
                Err(_) if waited < seat.silence_max() => {}
                Err(why) => return Err(seat.error(format!("its agent does not answer: {why}"))),
            }
            thread::sleep(PAUSE);
        }
    }

    /// What the agent is called in messages.
    pub(super) fn error(&self, text: String) -> HostError {
        HostError::Elsewhere {
            host: self.agent.to_string(),
            text,
        }
    }

    /// Sends a call once.
    fn send(&self, call: Call) -> Result<Reply, String> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.send_as(&self.order(HostOrder { number, call })?, TRY)
    }

    fn order(&self, order: HostOrder) -> Result<Vec<u8>, String> {
        let order = Order {
            version: VERSION.to_owned(),
            run: self.run.clone(),
            experiment: None,
            what: What::Host(order),
        };
        serde_json::to_vec(&order).map_err(|error| error.to_string())
    }

    fn send_as(&self, order: &[u8], within: Duration) -> Result<Reply, String> {
        let answer = self.link.ask(&self.agent.orders(), order.to_vec(), within);
        let answer = answer.map_err(|error| error.to_string())?;
        // Asked again it would say the same.
        let unreadable = |error| Reply::Wrong {
            text: format!("its response can't be read: {error}"),
        };
        Ok(serde_json::from_slice(&answer).unwrap_or_else(unreadable))
    }

    /// Has a call done, and waits until it is.
    ///
    /// # Errors
    /// What the agent or its machine has against it; or that the agent is lost.
    pub(super) fn ask(&self, call: Call) -> Result<Answer, HostError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = self.order(HostOrder { number, call });
        let order = order.map_err(|text| self.error(text))?;
        let began = Instant::now();
        loop {
            if began.elapsed() > CALL_TIMEOUT {
                let seconds = CALL_TIMEOUT.as_secs();
                return Err(self.error(format!("its agent did not complete a call in {seconds} s")));
            }
            if let Some(why) = self.lost() {
                return Err(self.error(why));
            }
            match self.send_as(&order, TRY) {
                Ok(Reply::Host(Answer::Unknown)) => self.lose("its agent was started anew"),
                Ok(Reply::Host(answer)) => {
                    self.heard();
                    return Ok(answer);
                }
                Ok(reply) => return Err(self.refusal(&reply)),
                // Whether it is lost or only slow shows with its lease.
                Err(_) => thread::sleep(PAUSE),
            }
        }
    }

    fn refusal(&self, reply: &Reply) -> HostError {
        self.error(match reply {
            Reply::Refused { rule, text } => format!("rejected by policy rule {rule}: {text}"),
            Reply::Wrong { text } | Reply::Environment { text } | Reply::Busy { text } => {
                text.clone()
            }
            other => format!("an answer to another question: {other:?}"),
        })
    }

    /// Renews the lease, and with it what is known of the agent.
    pub(super) fn renew(&self) {
        match self.send(Call::Renew) {
            Ok(Reply::Host(Answer::Done)) => self.heard(),
            Ok(Reply::Host(Answer::Unknown)) => {
                self.lose("its agent was started anew, or had heard nothing for too long");
            }
            Ok(_) | Err(_) => self.judge_silence(self.link.responds(TRY)),
        }
    }

    /// An agent that has not responded for this long is lost, while the server does.
    fn silence_max(&self) -> Duration {
        self.lease * 3 / 5
    }

    /// Decides whether the agent is lost. While the server is away its silence says nothing.
    fn judge_silence(&self, server_responds: bool) {
        let mut state = self.lock();
        let now = Instant::now();
        let lost = match (server_responds, state.server_away) {
            (false, away) => {
                let away = *state.server_away.insert(away.unwrap_or(now));
                let silent = now.saturating_duration_since(away);
                (silent >= SERVER_AWAY_MAX.max(self.lease)).then(|| {
                    let (server, silent) = (self.link.server(), silent.as_secs());
                    format!("the NATS server {server} has not responded for {silent} s")
                })
            }
            (true, Some(_)) => {
                (state.server_away, state.heard) = (None, now);
                None
            }
            (true, None) => {
                let silent = now.saturating_duration_since(state.heard);
                let is_lost = silent >= self.silence_max();
                is_lost.then(|| format!("its agent has not responded for {} s", silent.as_secs()))
            }
        };
        if let Some(why) = lost {
            state.lost.get_or_insert(why);
        }
    }

    /// Ends the run there; whether that is heard or not, its lease ends.
    pub(super) fn close(&self) {
        if self.lost().is_none() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let call = Call::Close;
            if let Ok(order) = self.order(HostOrder { number, call }) {
                let _ = self.send_as(&order, self.silence_max());
            }
        }
    }

    /// How long the agent keeps its machine for the run without a renewal.
    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Why the agent is lost, if it is.
    pub(super) fn lost(&self) -> Option<String> {
        self.lock().lost.clone()
    }

    /// The same, for who tells it; once.
    pub(super) fn untold_loss(&self) -> Option<String> {
        let mut state = self.lock();
        let untold = state.lost.clone().filter(|_| !state.told);
        state.told |= untold.is_some();
        untold
    }

    fn heard(&self) {
        let mut state = self.lock();
        (state.heard, state.server_away) = (Instant::now(), None);
    }

    fn lose(&self, why: &str) {
        self.lock().lost.get_or_insert_with(|| why.to_owned());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
