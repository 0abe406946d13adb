//! The agent: connects to the NATS server, waits for orders, and carries out those that its policy
//! allows.
//!
//! [`Agent::connect`] connects and checks that no other agent has the name; [`Agent::run`] handles
//! orders until it is stopped. An agent listens on no port and accepts orders only through the
//! server. If no coordinator renews the lease of a run, the agent stops the run's load.

mod background;
pub mod enrollment;
mod error;
mod flusher;
mod host_calls;
mod host_name;
mod load_part;
mod machine;
mod name_guard;
mod order_handler;
mod outbox;
mod part_state;
mod prepare;
mod received_files;
mod registration;
mod responder;
mod result_writer;
mod settings;
pub mod spool;
pub mod status;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use error::AgentError;
pub use host_name::host_name;
pub use settings::{AgentSettings, LogSink, OtherCredentials};

use crate::link::{LinkError, NatsLink, Subscription};
use crate::names::AgentName;
use crate::permissions::Role;
use host_calls::HostCallHandler;
use machine::MachineFacts;
use name_guard::{NameGuard, OtherInstance};
use order_handler::OrderHandler;
use outbox::Outbox;
use registration::RegistrationKeeper;
use responder::responder;
use status::AgentStatus;

/// Interval at which the agent checks whether it should stop and whether its load is over.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Pause between attempts to connect.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum interval between log messages about failed attempts to connect.
const LOG_INTERVAL: Duration = Duration::from_secs(15);
/// Timeout for sending the remaining results when the agent exits.
const FINAL_SEND_TIMEOUT: Duration = Duration::from_secs(5);
/// Time after which the agent exits if the server keeps rejecting its credentials. A server that is
/// reloading its configuration may reject valid credentials temporarily.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(20);

/// Work that the agent was doing when it stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkAtExit {
    /// The agent was idle.
    None,
    /// The agent was generating a load or running services, so that work is incomplete.
    CutShort,
}

/// A connected agent.
#[derive(Debug)]
pub struct Agent {
    settings: Arc<AgentSettings>,
    link: NatsLink,
    facts: MachineFacts,
    name_guard: NameGuard,
    orders: Subscription,
    clock_requests: Subscription,
    status: AgentStatus,
}

impl Agent {
    /// Connects to the server. Retries until it succeeds or `stop` is set.
    ///
    /// # Errors
    ///
    /// See [`AgentError`].
    pub fn connect(settings: AgentSettings, stop: &AtomicBool) -> Result<Agent, AgentError> {
        let environment = |error: LinkError| AgentError::Environment(error.to_string());
        let folder = settings.results_folder();
        std::fs::create_dir_all(&folder).map_err(|error| {
            AgentError::Environment(format!("{}: {error} (--state)", folder.display()))
        })?;
        let link = connect(&settings, stop)?;
        let facts = MachineFacts::gather(format!("{:016x}", rand::random::<u64>()));
        let name = &settings.name;
        let name_guard = NameGuard::claim(&link, name, &facts, &settings.log)?;
        let clock_requests = link.subscribe(&name.clock_subject()).map_err(environment)?;
        let orders = link
            .subscribe(&name.orders_subject())
            .map_err(environment)?;
        order_handler::sweep(&settings);
        Ok(Agent {
            link,
            facts,
            name_guard,
            orders,
            clock_requests,
            settings: Arc::new(settings),
            status: AgentStatus::default(),
        })
    }

    /// Returns the agent's name.
    pub fn name(&self) -> &AgentName {
        &self.settings.name
    }

    /// Makes the agent update this status while it runs.
    #[must_use]
    pub fn with_status(mut self, status: AgentStatus) -> Agent {
        self.status = status;
        self
    }

    /// Handles orders until `stop` is set. Then stops a running load and sends its results, which
    /// may take several seconds. Results that can't be sent now are sent after the next start.
    ///
    /// # Errors
    ///
    /// Returns an error if an older agent has the same name, or if the server rejects the
    /// credentials.
    pub fn run(self, stop: &AtomicBool) -> Result<WorkAtExit, AgentError> {
        let Agent {
            settings,
            link,
            facts,
            mut name_guard,
            mut orders,
            clock_requests,
            status,
        } = self;
        let link = Arc::new(link);
        let outbox = Arc::new(Outbox::new(unsent_files(&settings)));
        let presence = name_guard.presence();
        let registration = RegistrationKeeper::new(&link, &settings, &facts, &outbox, presence);
        let done = AtomicBool::new(false);
        let mut handler = OrderHandler::new(settings.clone(), outbox.clone(), stop);
        let mut machine =
            HostCallHandler::new(&settings.services_folder(), settings.policy.clone());
        thread::scope(|scope| {
            let (link, settings, done) = (&link, &settings, &done);
            scope.spawn(move || {
                name_guard::respond_with_time(link, clock_requests, &settings.clock, done);
            });
            scope.spawn(|| outbox.send_all(link, &settings.name, &settings.log));
            scope.spawn(|| registration.keep(done));
            let ended = loop {
                if stop.load(Ordering::Relaxed) {
                    break Ok(());
                }
                let order = orders.next(handler.poll_interval().unwrap_or(POLL_INTERVAL));
                if let Some(order) =
                    order.filter(|order| !machine.offer(link, order, handler.busy_with()))
                {
                    let responder = responder(link, &order);
                    handler.take(&order.payload, machine.reservation(), responder);
                }
                handler.release_finished();
                let busy_with = handler.busy_with().or(machine.run());
                registration.set_busy(busy_with, machine.reservation());
                status.update(|now| {
                    now.connected = link.is_connected();
                    now.busy_with = busy_with.cloned();
                    now.reserved = machine.reservation().cloned();
                    now.unsent = outbox.waiting();
                    handler.show(now);
                });
                if let Err(error) = may_go_on(link, settings, &mut name_guard) {
                    break Err(error);
                }
            };
            let was_loading = handler.abort_for_exit();
            let is_mid_run = was_loading || machine.run().is_some();
            drop(machine);
            if link.is_connected() && !outbox.wait_until_sent(FINAL_SEND_TIMEOUT) {
                (settings.log)(
                    "some results could not be sent; they will be sent after the next start",
                );
            }
            outbox.close();
            done.store(true, Ordering::Relaxed);
            // After an error, the registration may belong to another agent.
            if ended.is_ok() {
                registration.remove();
            }
            ended.map(|()| {
                if is_mid_run {
                    WorkAtExit::CutShort
                } else {
                    WorkAtExit::None
                }
            })
        })
    }
}

/// Checks that the server accepts the credentials, and that no older agent has the same name.
fn may_go_on(
    link: &NatsLink,
    settings: &AgentSettings,
    name_guard: &mut NameGuard,
) -> Result<(), AgentError> {
    let name = &settings.name;
    if link.refused_for() > REFUSED_TIMEOUT {
        return Err(AgentError::Wrong(format!(
            "the NATS server has rejected the credentials of agent {name} for {} s; get a new file \
             with `prony fleet up --agent {name}`",
            REFUSED_TIMEOUT.as_secs(),
        )));
    }
    match name_guard.check(link) {
        None => Ok(()),
        Some(OtherInstance { host }) => {
            let name = name.clone();
            Err(AgentError::NameTaken { name, host })
        }
    }
}

/// Returns the result files that remain from earlier starts because no coordinator has collected
/// them.
fn unsent_files(settings: &AgentSettings) -> Vec<PathBuf> {
    let (folder, log) = (settings.results_folder(), &settings.log);
    for file in spool::uncollected(&folder, &settings.name) {
        if let Err(error) = spool::close(&file) {
            log(&format!(
                "can't complete the results of an earlier run: {error}"
            ));
        }
    }
    let files = spool::uncollected(&folder, &settings.name);
    if !files.is_empty() {
        log(&format!(
            "sending the uncollected results of {} earlier {}",
            files.len(),
            if files.len() == 1 { "run" } else { "runs" }
        ));
    }
    files
}

fn connect(settings: &AgentSettings, stop: &AtomicBool) -> Result<NatsLink, AgentError> {
    let role = Role::Agent(settings.name.clone());
    let mut logged: Option<Instant> = None;
    loop {
        let server = settings.server.as_deref();
        let error = match NatsLink::connect(server, &settings.credentials, &role) {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        let text = error.to_string();
        match error {
            LinkError::Connect {
                retryable: true, ..
            } => {}
            LinkError::Credentials(_) | LinkError::Connect { .. } => {
                return Err(AgentError::Wrong(text));
            }
            _ => return Err(AgentError::Environment(text)),
        }
        if logged.is_none_or(|at| at.elapsed() > LOG_INTERVAL) {
            (settings.log)(&format!("{text}; retrying until the server can be reached"));
            logged = Some(Instant::now());
        }
        let until = Instant::now() + RECONNECT_INTERVAL;
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(AgentError::Interrupted);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}
