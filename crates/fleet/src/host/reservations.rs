//! The agents that an experiment has reserved, each with its session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prony_experiment::host::HostError;
use prony_experiment::telemetry::WatchSpec;

use super::lease::LeaseKeeper;
use super::session::{AgentSession, LEASE_DEFAULT_MS};
use crate::link::NatsLink;
use crate::names::{AgentName, RunId};
use crate::wire::{HostCall, HostReply, OpenRequest};

/// The agents that an experiment has reserved. [`super::FleetHost`] runs services on them, and
/// [`super::AgentLoads`] makes loads with them.
#[derive(Debug)]
pub struct Reservations {
    link: Arc<NatsLink>,
    run: RunId,
    /// Renews the leases of all sessions.
    keeper: LeaseKeeper,
    state: Mutex<ReservationState>,
}

#[derive(Debug)]
struct ReservationState {
    request: OpenRequest,
    sessions: BTreeMap<AgentName, Arc<AgentSession>>,
    /// The current trial's watch, for agents that are reserved in the middle of the trial.
    watch: Option<WatchSpec>,
}

impl Reservations {
    /// No reservations yet, for this run.
    pub(super) fn new(link: Arc<NatsLink>, run: RunId) -> Reservations {
        Reservations {
            link,
            run,
            keeper: LeaseKeeper::new(),
            state: Mutex::new(ReservationState {
                request: OpenRequest {
                    lease_ms: LEASE_DEFAULT_MS,
                    holder: String::new(),
                    until: None,
                },
                sessions: BTreeMap::new(),
                watch: None,
            }),
        }
    }

    /// The run for which agents are reserved.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// Changes the request with which further agents are reserved.
    pub(super) fn change_request(&self, change: impl FnOnce(&mut OpenRequest)) {
        change(&mut self.lock().request);
    }

    /// The session of an agent, which is reserved if it isn't yet, or if it was lost.
    ///
    /// # Errors
    ///
    /// If the agent can't be reached, or another run has it.
    pub(super) fn reserve(&self, agent: &AgentName) -> Result<Arc<AgentSession>, HostError> {
        let (request, watch) = {
            let state = self.lock();
            let session = state.sessions.get(agent);
            if let Some(session) = session.filter(|it| it.loss().is_none()) {
                return Ok(session.clone());
            }
            (state.request.clone(), state.watch.clone())
        };
        let session = Arc::new(AgentSession::open(&self.link, &self.run, agent, &request)?);
        self.keeper.keep(&session);
        if let Some(watch) = watch {
            // A machine that can't be watched is reported at the end of the trial.
            let _ = session.call(HostCall::Watch { watch });
        }
        let mut state = self.lock();
        state.sessions.insert(agent.clone(), session.clone());
        Ok(session)
    }

    /// All sessions by agent, those of lost agents included.
    pub(super) fn sessions(&self) -> BTreeMap<AgentName, Arc<AgentSession>> {
        self.lock().sessions.clone()
    }

    /// Starts a trial's watch on all agents.
    pub(super) fn watch(&self, watch: WatchSpec) {
        self.lock().watch = Some(watch.clone());
        // A machine that can't be watched is reported at the end of the trial.
        drop(self.call_all(&HostCall::Watch { watch }));
    }

    /// Makes the same call to all agents that are not lost, at the same time.
    pub(super) fn call_all(
        &self,
        call: &HostCall,
    ) -> Vec<(Arc<AgentSession>, Result<HostReply, HostError>)> {
        let sessions = self.sessions().into_values();
        let sessions: Vec<_> = sessions.filter(|it| it.loss().is_none()).collect();
        std::thread::scope(|scope| {
            let calls = sessions.into_iter().map(|session| {
                let of_thread = session.clone();
                let call = scope.spawn(move || of_thread.call(call.clone()));
                (session, call)
            });
            let calls: Vec<_> = calls.collect();
            let joined = calls.into_iter().map(|(session, call)| {
                let reply = call.join();
                let reply = reply.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                (session, reply)
            });
            joined.collect()
        })
    }

    /// Releases all agents.
    pub(super) fn release_all(&self) {
        self.keeper.end();
        let sessions = self.sessions();
        std::thread::scope(|scope| {
            for session in sessions.values() {
                scope.spawn(|| session.close());
            }
        });
        self.lock().sessions.clear();
    }

    /// Forgets all agents without releasing them, as a killed coordinator does.
    pub(super) fn abandon(&self) {
        self.keeper.end();
        self.lock().sessions.clear();
    }

    fn lock(&self) -> MutexGuard<'_, ReservationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
