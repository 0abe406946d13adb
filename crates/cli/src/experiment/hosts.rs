//! Finds and checks the agents of a plan, and connects their machines to this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use prony_fleet::agent::host_name;
use prony_fleet::coordinator::{
    AgentChoice, CLOCK_BOUND_DEFAULT, Fleet, FleetEvent, LoadObserver, StopRequest,
};
use prony_fleet::credentials::FleetCredentials;
use prony_fleet::host::{AgentLoads, FeedObserver, FleetHost, Roster};
use prony_fleet::link::{LinkError, NatsLink};
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::wire::Registration;
use prony_machine::host::local::LocalHost;
use prony_plan::{HostRequirement, Plan};
use prony_report::number;

use crate::arguments::HostsArgs;
use crate::ending::Failure;
use crate::experiment::plan_file::wrong_plan;
use crate::progress::Progress;
use crate::{coordinator, terminal};

/// Maximum number of a load's agents that are listed by name.
const LISTED_MAX: usize = 12;

/// Interval between reads of the registrations while waiting for agents.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum forecast duration that a reservation, which other users can see, states. Longer
/// forecasts are omitted.
const RESERVATION_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Reads registrations, and waits for missing agents that the plan needs.
fn read_registrations(link: &NatsLink, plan: &Plan, wait: Duration) -> Result<Roster, LinkError> {
    let until = Instant::now() + wait;
    let mut printed = String::new();
    loop {
        let roster = Roster::read(link)?;
        let mut missing = Vec::new();
        // Ignore errors in the plan itself, because a later check reports them.
        let _ = plan.check_hosts(&mut |wanted| {
            missing.extend(roster.missing(wanted));
            Vec::new()
        });
        let left = until.saturating_duration_since(Instant::now());
        let Some(first) = missing.into_iter().next().filter(|_| !left.is_zero()) else {
            return Ok(roster);
        };
        if first != printed {
            let left = left.as_secs();
            terminal::print_message(format_args!("waiting for up to {left} s: {first}"));
            printed = first;
        }
        thread::sleep(WAIT_INTERVAL.min(left));
    }
}

/// The agents of a plan.
pub(crate) struct PlanAgents {
    link: Arc<NatsLink>,
    roster: Roster,
    arguments: HostsArgs,
    creds: PathBuf,
    /// Names of the services on each host. The key is the host's name in the plan.
    services: BTreeMap<String, BTreeSet<String>>,
    /// Selectors of the agents that generate loads, as written in the plan.
    loads: BTreeSet<String>,
}

impl PlanAgents {
    /// Finds and checks the agents that a plan needs. Returns `None`, without connecting to a
    /// server, if the plan needs no agents.
    pub(crate) fn of_plan(
        plan: &Plan,
        arguments: &HostsArgs,
    ) -> Result<Option<PlanAgents>, Failure> {
        if !plan.needs_agents() {
            return Ok(None);
        }
        let Some(creds) = &arguments.creds else {
            return Err(Failure::wrong(format!(
                "{}: this plan has services or a load on agents; name the coordinator's credentials with \
                 --creds FILE or PRONY_CREDS (`prony fleet up` writes them)",
                plan.origin().display()
            )));
        };
        let credentials = FleetCredentials::read(creds).map_err(Failure::wrong)?;
        let refused = |error: LinkError| match error {
            LinkError::Credentials(_) => Failure::wrong(error),
            _ => Failure::refused(error),
        };
        let link = NatsLink::connect(arguments.nats.as_deref(), &credentials, &Role::Coordinator);
        let link = link.map_err(refused)?;
        link.prepare_server().map_err(refused)?;
        let roster =
            read_registrations(&link, plan, arguments.wait.unwrap_or_default()).map_err(refused)?;
        let mut hosts = PlanAgents {
            link: Arc::new(link),
            roster,
            arguments: arguments.clone(),
            creds: creds.clone(),
            services: BTreeMap::new(),
            loads: BTreeSet::new(),
        };
        hosts.check(plan).map_err(|errors| wrong_plan(&errors))?;
        Ok(Some(hosts))
    }

    /// Reserves the plan's agents for the whole experiment, so that the same agents generate the
    /// loads of all trials. Waits up to `--wait` for busy agents.
    pub(crate) fn reserve(
        &self,
        joined: &mut FleetHost,
        loads: Option<&mut AgentLoads<'_>>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let fleet = self.fleet()?.for_experiment(joined.run().clone());
        let on_event = |event: FleetEvent<'_>| coordinator::print_event(progress, event);
        // No signal handler is installed yet, so Ctrl-C ends the process.
        let stop = StopRequest::new();
        let observer = LoadObserver {
            on_event: &on_event,
            stop: &stop,
            feed: None,
        };
        let pick = |choice: &AgentChoice| {
            fleet
                .pick(choice, observer)
                .map_err(coordinator::fleet_failure)
        };
        let hosts: Vec<String> = self.services.keys().cloned().collect();
        let serving = hosts.iter().filter_map(|host| self.roster.find(host).ok());
        let serving: BTreeSet<AgentName> = serving.map(|agent| agent.name.clone()).collect();
        if !serving.is_empty() {
            pick(&AgentChoice::Names(serving.into_iter().collect()))?;
        }
        let mut loading = Vec::new();
        if let Some(loads) = loads {
            for agents in &self.loads {
                let picked = pick(&agents.parse().map_err(Failure::wrong)?)?;
                loads.previous.insert(agents.clone(), picked.clone());
                loading.extend(picked);
            }
        }
        let reserved = joined.reserve(&hosts, &loading);
        reserved.map_err(Failure::refused)
    }

    /// Connects as the coordinator, with the options from the command line.
    fn fleet(&self) -> Result<Fleet, Failure> {
        let mut fleet = coordinator::connect(self.arguments.nats.as_deref(), &self.creds)?;
        if let Some(lease) = self.arguments.lease {
            fleet = fleet.with_lease(lease);
        }
        Ok(fleet.with_wait(self.arguments.wait.unwrap_or_default()))
    }

    fn check(&mut self, plan: &Plan) -> Result<(), prony_plan::PlanErrors> {
        plan.check_hosts(&mut |wanted| {
            match wanted {
                HostRequirement::Service { host, spec } => {
                    let services = self.services.entry((*host).to_owned()).or_default();
                    services.insert(spec.name.clone());
                }
                HostRequirement::Load { agents, .. } => {
                    self.loads.insert((*agents).to_owned());
                }
            }
            self.roster.objections(&self.link, wanted)
        })
    }

    /// Returns the address on which the services of `host` listen for other machines, if known.
    pub(crate) fn address_of(&self, host: Option<&str>) -> Option<IpAddr> {
        self.roster.address_of(host)
    }

    /// Lists services and loads with their agents, one per line.
    pub(crate) fn summary(&self) -> String {
        let serves = |(host, services): (&String, &BTreeSet<String>)| {
            let services: Vec<&str> = services.iter().map(String::as_str).collect();
            // The plan has been checked, so the agent exists.
            let agent = self.roster.find(host);
            let agent = agent.map_or_else(|error| error.to_string(), describe_agent);
            format!("  {host}: {agent}: {}\n", services.join(", "))
        };
        let loads = |agents: &String| match self.roster.chosen(agents) {
            None => format!("  load: {agents} of the available agents, in name order\n"),
            Some(chosen) if chosen.len() > LISTED_MAX => {
                format!("  load by {agents}: {} agents\n", chosen.len())
            }
            Some(chosen) => {
                let chosen: Vec<String> = chosen.into_iter().map(describe_agent).collect();
                format!("  load by {agents}: {}\n", chosen.join("; "))
            }
        };
        let services: String = self.services.iter().map(serves).collect();
        let loads: String = self.loads.iter().map(loads).collect();
        format!("\nother machines:\n{services}{loads}")
    }

    /// Connects this machine to the machines of the agents. `time_max` is the maximum duration of
    /// the experiment, or `None` if unknown.
    pub(crate) fn join(
        &self,
        here: LocalHost,
        plan: &Plan,
        time_max: Option<Duration>,
    ) -> FleetHost {
        let holder = format!("{} on {}", plan.name, host_name());
        let time_max = time_max.filter(|&time| time < RESERVATION_MAX);
        let until = time_max.and_then(|time| SystemTime::now().checked_add(time));
        let host =
            FleetHost::new(here, self.link.clone(), self.roster.clone()).with_holder(holder, until);
        match self.arguments.lease {
            Some(lease) => host.with_lease(lease),
            None => host,
        }
    }

    /// Returns the generator of the plan's loads, or `None` if this machine generates them. Agents
    /// that `joined` has reserved count as free.
    pub(crate) fn loads<'a>(
        &self,
        joined: &FleetHost,
        warn: &'a (dyn Fn(&str) + Sync),
        show: Option<FeedObserver<'a>>,
    ) -> Result<Option<AgentLoads<'a>>, Failure> {
        if self.loads.is_empty() {
            return Ok(None);
        }
        // `--wait` applies only to the start of the experiment, so trials don't wait.
        let fleet = self.fleet()?.with_wait(Duration::ZERO);
        Ok(Some(AgentLoads {
            fleet: fleet.for_experiment(joined.run().clone()),
            reservations: Some(joined.reservations()),
            clock_bound: self.arguments.clock_bound.unwrap_or(CLOCK_BOUND_DEFAULT),
            warn,
            show,
            previous: BTreeMap::new(),
        }))
    }
}

/// Describes an agent in a few words: name, system, cores and addresses.
fn describe_agent(agent: &Registration) -> String {
    let addresses = agent.addresses.iter();
    let addresses: String = addresses.map(|address| format!(", {address}")).collect();
    format!(
        "agent {} ({}, {}{addresses})",
        agent.name,
        agent.system,
        number::plural(u64::from(agent.cores), "core", "cores")
    )
}
