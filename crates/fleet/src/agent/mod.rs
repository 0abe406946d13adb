//! An agent: it connects outward, waits for orders, and does what its policy allows.
//!
//! [`Agent::connect`] finds the server and sees that nobody else has the name; [`Agent::run`] takes
//! orders until it is told to end. Nothing listens here, nothing is believed but what comes over the
//! server, and an agent by itself does nothing: without a coordinator's sign of life for as long as a
//! run's lease, the run's load ends.

mod answering;
mod desk;
mod disk;
pub mod enrolling;
mod facts;
pub(crate) mod files;
mod host;
mod lookups;
mod outbox;
mod prepare;
mod registering;
mod running;
pub mod spool;
pub mod status;

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub use facts::host_name;

use crate::clock::Clock;
use crate::credentials::{Credentials, KeyFile};
use crate::link::{Link, LinkError, Message, Subscription};
use crate::messages::Reply;
use crate::names::AgentName;
use crate::permissions::Role;
use crate::policy::Policy;
use answering::{Namesakes, OtherInstance};
use desk::Desk;
use facts::Facts;
use host::Answering;
use outbox::Outbox;
use registering::Registering;
use status::Status;

/// How soon an agent notices that it is to end, or that its part of a load has.
const NOTICE: Duration = Duration::from_millis(100);
/// How long to wait for a server that isn't there before asking again, and how often that is said.
const AGAIN: Duration = Duration::from_secs(1);
const SAY: Duration = Duration::from_secs(15);
/// How long what is left may take to be sent when the agent ends.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// How long the server may refuse an agent's credentials before the agent ends: a server that is being
/// configured may do so for a moment.
const REFUSED_TIMEOUT: Duration = Duration::from_secs(20);

/// Takes note of what happens, a line at a time, for whoever reads an agent's log.
pub type Tell = Arc<dyn Fn(&str) + Send + Sync>;

/// What an agent is.
#[derive(Clone)]
pub struct Settings {
    /// Its name, which its credentials are for.
    pub name: AgentName,
    /// The server, where it is not one of those that the credentials name.
    pub server: Option<String>,
    /// Who it is to the server.
    pub credentials: Credentials,
    /// What it is chosen by.
    pub labels: BTreeMap<String, String>,
    /// What it lets itself be used for.
    pub policy: Policy,
    /// Where it keeps what it measured, and files while they are needed.
    pub state: PathBuf,
    /// The cores that its loads run on; all, where there are none.
    pub cores: Vec<usize>,
    /// Its clock.
    pub clock: Clock,
    /// Its log.
    pub tell: Tell,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("name", &self.name)
            .field("server", &self.server)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

impl Settings {
    /// The name that credentials stand for, which must agree with what was `typed`; credentials that
    /// name nobody go with any name, the machine's where none was typed.
    ///
    /// # Errors
    ///
    /// In words, where the credentials are somebody else's.
    pub fn name(credentials: &Credentials, typed: Option<&AgentName>) -> Result<AgentName, String> {
        let role = match credentials {
            Credentials::Key(file) => KeyFile::role(file),
            Credentials::Jwt(_) => {
                let typed = typed.cloned();
                return Ok(typed.unwrap_or_else(|| AgentName::of_host(&host_name())));
            }
        };
        match (role, typed) {
            (Role::Coordinator, _) => Err(
                "these are the coordinator's credentials; an agent needs its own, which `prony fleet \
                 up` writes beside them"
                    .to_owned(),
            ),
            (Role::Agent(name), Some(typed)) if *typed != name => Err(format!(
                "these are the credentials of agent {name}, and --name says {typed}"
            )),
            (Role::Agent(name), _) => Ok(name),
            (role @ (Role::Registrar | Role::Token(_)), _) => Err(format!(
                "these are the credentials of {role}; an agent needs its own"
            )),
        }
    }

    /// How many cores its loads have.
    fn cores_count(&self) -> u32 {
        let cores = match self.cores.len() {
            0 => thread::available_parallelism().map_or(1, |n| n.get()),
            some => some,
        };
        u32::try_from(cores).unwrap_or(u32::MAX)
    }

    /// Where the runs' files are.
    fn runs(&self) -> PathBuf {
        self.state.join("runs")
    }

    /// Where files lie that were sent to this agent.
    fn files(&self) -> PathBuf {
        self.state.join("files").join(self.name.as_str())
    }

    /// Where files and logs of services lie.
    fn hosts(&self) -> PathBuf {
        self.state.join("hosts").join(self.name.as_str())
    }
}

/// Why there is no agent, or no more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentError {
    /// What it was given is wrong: its credentials, or the server's address.
    Wrong(String),
    /// The machine or the server refuses.
    Environment(String),
    /// An agent of this name is connected already.
    NameTaken {
        /// The name.
        name: AgentName,
        /// The machine that it is on.
        host: String,
    },
    /// It was told to end before it was there.
    Interrupted,
}

impl fmt::Display for AgentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AgentError::Wrong(text) | AgentError::Environment(text) => f.write_str(text),
            AgentError::NameTaken { name, host } => write!(
                f,
                "another agent is connected as {name}, on {host}; end that one, or give this one \
                 credentials of its own"
            ),
            AgentError::Interrupted => f.write_str("ended before it was connected"),
        }
    }
}

impl std::error::Error for AgentError {}

/// What an agent was doing when it was told to exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkAtExit {
    /// Nothing: no run lacks anything.
    None,
    /// It made a part of a load or ran services, which ended with it.
    CutShort,
}

/// An agent that is connected.
#[derive(Debug)]
pub struct Agent {
    settings: Arc<Settings>,
    link: Link,
    facts: Facts,
    namesakes: Namesakes,
    orders: Subscription,
    clock: Subscription,
    status: Status,
}

impl Agent {
    /// Connects, and goes on trying as long as the server is not there and nobody sets `stop`.
    ///
    /// # Errors
    ///
    /// See [`AgentError`].
    pub fn connect(settings: Settings, stop: &AtomicBool) -> Result<Agent, AgentError> {
        let environment = |error: LinkError| AgentError::Environment(error.to_string());
        std::fs::create_dir_all(settings.runs()).map_err(|error| {
            let folder = settings.runs();
            AgentError::Environment(format!("{}: {error} (--state)", folder.display()))
        })?;
        let link = connect(&settings, stop)?;
        let facts = Facts::gather(format!("{:016x}", rand::random::<u64>()));
        let name = &settings.name;
        let namesakes = Namesakes::find(&link, name, &facts, &settings.tell)?;
        let clock = link.subscribe(&name.clock()).map_err(environment)?;
        let orders = link.subscribe(&name.orders()).map_err(environment)?;
        desk::sweep(&settings);
        Ok(Agent {
            link,
            facts,
            namesakes,
            orders,
            clock,
            settings: Arc::new(settings),
            status: Status::default(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &AgentName {
        &self.settings.name
    }

    /// Keeps this status up to date while it runs.
    #[must_use]
    pub fn with_status(mut self, status: Status) -> Agent {
        self.status = status;
        self
    }

    /// Takes orders until `stop` is set. A load that runs then is ended and what it measured sent, as far
    /// as that can be done in a few seconds; the rest is kept for the next start.
    ///
    /// # Errors
    ///
    /// Where an older agent of the same name turned up.
    pub fn run(self, stop: &AtomicBool) -> Result<WorkAtExit, AgentError> {
        let Agent {
            settings,
            link,
            facts,
            mut namesakes,
            mut orders,
            clock,
            status,
        } = self;
        let link = Arc::new(link);
        let outbox = Arc::new(Outbox::new(left_over(&settings)));
        let presence = namesakes.presence();
        let registering = Registering::new(&link, &settings, &facts, &outbox, presence);
        let done = AtomicBool::new(false);
        let mut desk = Desk::new(settings.clone(), outbox.clone(), stop);
        let mut hosts = host::Desk::new(&settings.hosts(), settings.policy.clone());
        thread::scope(|scope| {
            let (link, settings, done) = (&link, &settings, &done);
            scope.spawn(move || answering::tell_time(link, clock, &settings.clock, done));
            scope.spawn(|| outbox.send_all(link, &settings.name, &settings.tell));
            scope.spawn(|| registering.keep(done));
            let ended = loop {
                if stop.load(Ordering::Relaxed) {
                    break Ok(());
                }
                let order = orders.next(desk.poll_interval().unwrap_or(NOTICE));
                if let Some(order) =
                    order.filter(|order| !hosts.offer(link, order, desk.busy_with()))
                {
                    desk.take(&order.payload, hosts.reservation(), answering(link, &order));
                }
                desk.tidy();
                registering.set_busy(desk.busy_with().or(hosts.run()), hosts.reservation());
                status.update(|now| {
                    now.connected = link.is_up();
                    now.busy_with = desk.busy_with().or(hosts.run()).cloned();
                    now.reserved = hosts.reservation().cloned();
                    now.unsent = outbox.waiting();
                    desk.show(now);
                });
                if link.refused_for() > REFUSED_TIMEOUT {
                    let text = format!(
                        "the NATS server has refused the credentials of agent {} for {} s; get a new \
                         file with `prony fleet up --agent {}`",
                        settings.name,
                        REFUSED_TIMEOUT.as_secs(),
                        settings.name
                    );
                    break Err(AgentError::Wrong(text));
                }
                if let Some(OtherInstance { host }) = namesakes.heed(link) {
                    let name = settings.name.clone();
                    break Err(AgentError::NameTaken { name, host });
                }
            };
            let is_mid_run = desk.leave() || hosts.run().is_some();
            drop(hosts);
            if link.is_up() && !outbox.wait_until_sent(LAST_WORDS) {
                (settings.tell)("not all results could be sent; the next start sends them");
            }
            outbox.close();
            done.store(true, Ordering::Relaxed);
            // Another one's registration is not this one's to remove.
            if ended.is_ok() {
                registering.end();
            }
            ended.map(|()| match is_mid_run {
                true => WorkAtExit::CutShort,
                false => WorkAtExit::None,
            })
        })
    }
}

/// Responds to an order, now or later.
fn answering(link: &Arc<Link>, order: &Message) -> Answering {
    let (link, to) = (link.clone(), order.reply.clone());
    Box::new(move |reply: Reply| {
        if let (Some(to), Ok(json)) = (to, serde_json::to_vec(&reply)) {
            // Where the reply is lost the order comes again, and gets the same.
            let _ = link.say(&to, json);
        }
    })
}

/// What earlier starts measured and nobody has collected yet.
fn left_over(settings: &Settings) -> Vec<PathBuf> {
    let (folder, tell) = (settings.runs(), &settings.tell);
    for file in spool::uncollected(&folder, &settings.name) {
        if let Err(error) = spool::close(&file) {
            tell(&format!("what is left of an earlier run: {error}"));
        }
    }
    let files = spool::uncollected(&folder, &settings.name);
    if !files.is_empty() {
        tell(&format!(
            "results of {} earlier {} that nobody has collected are sent again",
            files.len(),
            if files.len() == 1 { "run" } else { "runs" }
        ));
    }
    files
}

fn connect(settings: &Settings, stop: &AtomicBool) -> Result<Link, AgentError> {
    let role = Role::Agent(settings.name.clone());
    let mut said: Option<Instant> = None;
    loop {
        let server = settings.server.as_deref();
        let error = match Link::connect(server, &settings.credentials, &role) {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        let text = error.to_string();
        match error {
            LinkError::Connect { may_pass: true, .. } => {}
            LinkError::Credentials(_) | LinkError::Connect { .. } => {
                return Err(AgentError::Wrong(text));
            }
            _ => return Err(AgentError::Environment(text)),
        }
        if said.is_none_or(|at| at.elapsed() > SAY) {
            (settings.tell)(&format!("{text}; trying again until it is there"));
            said = Some(Instant::now());
        }
        let until = Instant::now() + AGAIN;
        while Instant::now() < until {
            if stop.load(Ordering::Relaxed) {
                return Err(AgentError::Interrupted);
            }
            thread::sleep(NOTICE);
        }
    }
}
