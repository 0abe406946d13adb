//! One agent's machine, as the coordinator sees it: calls that are answered once, however often they
//! have to be sent, and an end to it when the agent is lost.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use prony_experiment::host::HostError;

use super::calls::{Answer, Call, HostOrder};
use crate::link::Link;
use crate::messages::{Order, Reply, VERSION, What};
use crate::names::{AgentName, RunId};

/// How long an answer is waited for before the call is sent again.
const TRY: Duration = Duration::from_secs(3);
/// The pause before that, where nobody is there to hear it.
const PAUSE: Duration = Duration::from_millis(200);
/// How long the agent goes on after the last sign of the coordinator.
pub(super) const LEASE: Duration = Duration::from_secs(10);
/// An agent that has not answered for so long is lost. A server that is started anew is back before.
pub(super) const PATIENCE: Duration = Duration::from_secs(6);

/// An agent that has its machine ready for this run.
#[derive(Debug)]
pub(super) struct Seat {
    link: Arc<Link>,
    pub(super) agent: AgentName,
    run: RunId,
    /// The kernel's name for its machine's boot.
    pub(super) boot: String,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    heard: Instant,
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
    ) -> Result<Seat, HostError> {
        let mut seat = Seat {
            link: link.clone(),
            agent: agent.clone(),
            run: run.clone(),
            boot: String::new(),
            // The agent may still have this run from before it was lost, with its last number.
            next: AtomicU64::new(rand::random::<u64>() >> 1),
            state: Mutex::new(State {
                heard: Instant::now(),
                lost: None,
                told: false,
            }),
        };
        let began = Instant::now();
        let lease_ms = LEASE.as_millis() as u64;
        loop {
            let waited = began.elapsed();
            match seat.send(Call::Open { lease_ms }) {
                Ok(Reply::Host(Answer::Opened { boot })) => {
                    seat.boot = boot;
                    seat.heard();
                    return Ok(seat);
                }
                Ok(Reply::Environment { .. }) if waited < LEASE + PAUSE => {}
                Ok(reply) => return Err(seat.refusal(&reply)),
                Err(_) if waited < PATIENCE => {}
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
            what: What::Host(order),
        };
        serde_json::to_vec(&order).map_err(|error| error.to_string())
    }

    fn send_as(&self, order: &[u8], within: Duration) -> Result<Reply, String> {
        let answer = self.link.ask(&self.agent.orders(), order.to_vec(), within);
        let answer = answer.map_err(|error| error.to_string())?;
        serde_json::from_slice(&answer).map_err(|error| format!("an answer that is none: {error}"))
    }

    /// Has a call done, and waits until it is.
    ///
    /// # Errors
    /// What the agent or its machine has against it; or that the agent is lost.
    pub(super) fn ask(&self, call: Call) -> Result<Answer, HostError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let order = self.order(HostOrder { number, call });
        let order = order.map_err(|text| self.error(text))?;
        loop {
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
            Reply::Refused { rule, text } => format!("its policy's {rule} says no: {text}"),
            Reply::Wrong { text } | Reply::Environment { text } => text.clone(),
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
            Ok(_) | Err(_) => {
                let heard = self.lock().heard;
                if heard.elapsed() >= PATIENCE {
                    let silent = heard.elapsed().as_secs();
                    self.lose(&format!("its agent has not answered for {silent} s"));
                }
            }
        }
    }

    /// Ends the run there; whether that is heard or not, its lease ends.
    pub(super) fn close(&self) {
        if self.lost().is_none() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let call = Call::Close;
            if let Ok(order) = self.order(HostOrder { number, call }) {
                let _ = self.send_as(&order, PATIENCE);
            }
        }
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
        self.lock().heard = Instant::now();
    }

    fn lose(&self, why: &str) {
        self.lock().lost.get_or_insert_with(|| why.to_owned());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
