//! Agents that an experiment has reserved, each with its session.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use prony_machine::host::HostError;
use prony_plan::watch_spec::WatchSpec;

use super::lease::LeaseKeeper;
use super::session::{AgentSession, LEASE_DEFAULT_MS};
use crate::link::NatsLink;
use crate::names::{AgentName, RunId};
use crate::wire::{HostCall, HostReply, OpenRequest};

/// Agents that an experiment has reserved. [`super::FleetHost`] runs services on them, and
/// [`super::AgentLoads`] generates loads with them.
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
    /// Specification of the current trial's telemetry. It also applies to agents that are reserved
    /// during the trial.
    watch: Option<WatchSpec>,
}

impl Reservations {
    /// Creates an empty set of reservations for this run.
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

    /// Returns the run for which agents are reserved.
    pub(super) fn run(&self) -> &RunId {
        &self.run
    }

    /// Changes the request that is sent to agents when they are reserved from now on.
    pub(super) fn change_request(&self, change: impl FnOnce(&mut OpenRequest)) {
        change(&mut self.lock().request);
    }

    /// Returns the session with an agent. Reserves the agent first if it is not reserved or was
    /// lost.
    ///
    /// # Errors
    ///
    /// Returns an error if the agent can't be reached, or is in use by another run.
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
            // The error is ignored here, because it is reported at the end of the trial.
            let _ = session.call(HostCall::Watch { watch });
        }
        let mut state = self.lock();
        state.sessions.insert(agent.clone(), session.clone());
        Ok(session)
    }

    /// Returns all sessions by agent, including those of lost agents.
    pub(super) fn sessions(&self) -> BTreeMap<AgentName, Arc<AgentSession>> {
        self.lock().sessions.clone()
    }

    /// Starts the telemetry of a trial on all agents.
    pub(super) fn watch(&self, watch: WatchSpec) {
        self.lock().watch = Some(watch.clone());
        // Errors are ignored here, because they are reported at the end of the trial.
        drop(self.call_all(&HostCall::Watch { watch }));
    }

    /// Calls all agents that are not lost, at the same time.
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

    /// Drops all reservations without notifying the agents, as if the coordinator had been killed.
    pub(super) fn abandon(&self) {
        self.keeper.end();
        self.lock().sessions.clear();
    }

    fn lock(&self) -> MutexGuard<'_, ReservationState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
