//! The other machines of a plan: found, asked whether they can do what it wants, and joined to this one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;
use prony_experiment::host::local::LocalHost;
use prony_experiment::plan::{HostRequirement, Plan};
use prony_fleet::agent::host_name;
use prony_fleet::coordinator::{CLOCK_BOUND, Choice, Fleet, Stop, Told, Watcher};
use prony_fleet::credentials::Credentials;
use prony_fleet::host::{AgentLoads, FleetHost, Roster, Shower};
use prony_fleet::link::{Link, LinkError};
use prony_fleet::messages::Registration;
use prony_fleet::names::{AgentName, RunId};
use prony_fleet::permissions::Role;
use prony_load::quantity;
use prony_report::number;

use crate::ending::Failure;
use crate::progress::Progress;
use crate::{experiment, fleet, terminal};

/// Where agents are found for plans that name some.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostsArgs {
    /// The NATS server of a plan's agents, such as tls://10.0.0.1:4222 [default: those that the
    /// credentials name]
    #[arg(
        long,
        value_name = "URL",
        env = "PRONY_NATS",
        hide_env_values = true,
        help_heading = "Agents of a plan"
    )]
    nats: Option<String>,
    /// The coordinator's credentials, which `prony fleet up` wrote
    #[arg(
        long,
        value_name = "FILE",
        env = "PRONY_CREDS",
        hide_env_values = true,
        help_heading = "Agents of a plan"
    )]
    creds: Option<PathBuf>,
    /// Largest error of an agent's clock to accept [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    clock_bound: Option<Duration>,
    /// Release agents that have heard nothing from this command for TIME, 1s to 2m [default: 10s]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = fleet::lease,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    lease: Option<Duration>,
    /// Wait up to TIME for agents that are missing or busy, such as 10m [default: don't wait]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    wait: Option<Duration>,
}

/// So many agents are told one by one.
const LISTED: usize = 12;

/// How often registrations are read while agents are waited for.
const WAIT_INTERVAL: Duration = Duration::from_millis(500);
/// A forecast that is longer says nothing.
const RESERVATION_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Reads registrations; waits for those that a plan needs and that are not there yet.
fn registered(link: &Link, plan: &Plan, wait: Duration) -> Result<Roster, LinkError> {
    let until = Instant::now() + wait;
    let mut said = String::new();
    loop {
        let roster = Roster::read(link)?;
        let mut missing = Vec::new();
        // The plan's own mistakes are found by the check that follows.
        let _ = plan.check_hosts(&mut |wanted| {
            missing.extend(roster.missing(wanted));
            Vec::new()
        });
        let left = until.saturating_duration_since(Instant::now());
        let Some(first) = missing.into_iter().next().filter(|_| !left.is_zero()) else {
            return Ok(roster);
        };
        if first != said {
            let left = left.as_secs();
            terminal::say(&format!("prony: waiting for up to {left} s: {first}"));
            said = first;
        }
        thread::sleep(WAIT_INTERVAL.min(left));
    }
}

/// The machines of a plan that needs some.
pub(crate) struct Hosts {
    link: Arc<Link>,
    roster: Roster,
    typed: HostsArgs,
    creds: PathBuf,
    /// The services of each host, as the plan names it.
    services: BTreeMap<String, BTreeSet<String>>,
    /// Who makes loads, as the plan names them.
    loads: BTreeSet<String>,
}

impl Hosts {
    /// Finds the machines that a plan needs, and asks them; none where it needs none, and then no server
    /// is talked to.
    pub(crate) fn of_plan(plan: &Plan, typed: &HostsArgs) -> Result<Option<Hosts>, Failure> {
        if !plan.needs_agents() {
            return Ok(None);
        }
        let Some(creds) = &typed.creds else {
            return Err(Failure::wrong(format!(
                "{}: this plan has services or a load on other machines; name the coordinator's \
                 credentials with --creds FILE or PRONY_CREDS (`prony fleet up` writes them)",
                plan.origin().display()
            )));
        };
        let credentials = Credentials::read(creds).map_err(Failure::wrong)?;
        let refused = |error: LinkError| match error {
            LinkError::Credentials(_) => Failure::wrong(error),
            _ => Failure::refused(error),
        };
        let link = Link::connect(typed.nats.as_deref(), &credentials, &Role::Coordinator);
        let link = link.map_err(refused)?;
        link.prepare_server().map_err(refused)?;
        let roster = registered(&link, plan, typed.wait.unwrap_or_default()).map_err(refused)?;
        let mut hosts = Hosts {
            link: Arc::new(link),
            roster,
            typed: typed.clone(),
            creds: creds.clone(),
            services: BTreeMap::new(),
            loads: BTreeSet::new(),
        };
        hosts
            .check(plan)
            .map_err(|errors| experiment::wrong_plan(&errors))?;
        Ok(Some(hosts))
    }

    /// Reserves the plan's agents for the whole experiment, and keeps those that make its loads the same
    /// in every trial. Agents that others have are waited for as long as `--wait` says.
    pub(crate) fn reserve(
        &self,
        joined: &mut FleetHost,
        loads: Option<&mut AgentLoads<'_>>,
        progress: &Progress,
    ) -> Result<(), Failure> {
        let fleet = self.fleet()?.beside(joined.run().clone());
        let told = |told: Told<'_>| match told {
            Told::Step(text) => progress.line(text),
            Told::Warning(text) => progress.warn(&format!("prony: {text}")),
            Told::Going(_) => {}
        };
        // No signal is listened to yet: Ctrl-C ends the process.
        let stop = Stop::new();
        let watcher = Watcher {
            told: &told,
            stop: &stop,
            feed: None,
        };
        let pick = |choice: &Choice| fleet.pick(choice, watcher).map_err(fleet::failure);
        let hosts: Vec<String> = self.services.keys().cloned().collect();
        let serving = hosts.iter().filter_map(|host| self.roster.find(host).ok());
        let serving: BTreeSet<AgentName> = serving.map(|agent| agent.name.clone()).collect();
        if !serving.is_empty() {
            pick(&Choice::Names(serving.into_iter().collect()))?;
        }
        let mut loading = Vec::new();
        if let Some(loads) = loads {
            for agents in &self.loads {
                let picked = pick(&agents.parse().map_err(Failure::wrong)?)?;
                loads.before.insert(agents.clone(), picked.clone());
                loading.extend(picked);
            }
        }
        let reserved = joined.reserve(&hosts, &loading);
        reserved.map_err(Failure::refused)
    }

    /// A coordinator's connection with the options that were typed.
    fn fleet(&self) -> Result<Fleet, Failure> {
        let mut fleet = fleet::connect(self.typed.nats.as_deref(), &self.creds)?;
        if let Some(lease) = self.typed.lease {
            fleet = fleet.with_lease(lease);
        }
        Ok(fleet.with_wait(self.typed.wait.unwrap_or_default()))
    }

    fn check(&mut self, plan: &Plan) -> Result<(), prony_experiment::plan::PlanErrors> {
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

    /// Where a service of a host listens that other machines have to reach; none if that is not known.
    pub(crate) fn address_of(&self, host: Option<&str>) -> Option<IpAddr> {
        self.roster.address_of(host)
    }

    /// Who does what, a line each.
    pub(crate) fn summary(&self) -> String {
        let serves = |(host, services): (&String, &BTreeSet<String>)| {
            let services: Vec<&str> = services.iter().map(String::as_str).collect();
            // It was there a moment ago, when the plan was checked.
            let agent = self.roster.find(host).map_or_else(|error| error, told);
            format!("  {host}: {agent}: {}\n", services.join(", "))
        };
        let loads = |agents: &String| match self.roster.chosen(agents) {
            None => format!("  load: {agents} agents, the first by name that are free\n"),
            Some(chosen) if chosen.len() > LISTED => {
                format!("  load by {agents}: {} agents\n", chosen.len())
            }
            Some(chosen) => {
                let chosen: Vec<String> = chosen.into_iter().map(told).collect();
                format!("  load by {agents}: {}\n", chosen.join("; "))
            }
        };
        let services: String = self.services.iter().map(serves).collect();
        let loads: String = self.loads.iter().map(loads).collect();
        format!("\nother machines:\n{services}{loads}")
    }

    /// This machine together with the others, for an experiment that will take this long at most.
    pub(crate) fn join(&self, here: LocalHost, plan: &Plan, takes: Duration) -> FleetHost {
        let holder = format!("{} on {}", plan.name, host_name());
        let until = SystemTime::now().checked_add(takes);
        let until = until.filter(|_| takes < RESERVATION_MAX);
        let host =
            FleetHost::new(here, self.link.clone(), self.roster.clone()).with_holder(holder, until);
        match self.typed.lease {
            Some(lease) => host.with_lease(lease),
            None => host,
        }
    }

    /// The agents that make the plan's load, and show each to whoever looks; none where this machine
    /// does. The services of `run` keep none of them from it.
    pub(crate) fn loads<'a>(
        &self,
        run: &RunId,
        warn: &'a (dyn Fn(&str) + Sync),
        show: Option<Shower<'a>>,
    ) -> Result<Option<AgentLoads<'a>>, Failure> {
        if self.loads.is_empty() {
            return Ok(None);
        }
        // What was waited for at the start is not waited for in each trial.
        let fleet = self.fleet()?.with_wait(Duration::ZERO);
        Ok(Some(AgentLoads {
            fleet: fleet.beside(run.clone()),
            clock_bound: self.typed.clock_bound.unwrap_or(CLOCK_BOUND),
            warn,
            show,
            before: BTreeMap::new(),
        }))
    }
}

/// An agent, in a few words.
fn told(agent: &Registration) -> String {
    let addresses = agent.addresses.iter();
    let addresses: String = addresses.map(|address| format!(", {address}")).collect();
    format!(
        "agent {} ({}, {}{addresses})",
        agent.name,
        agent.system,
        number::plural(u64::from(agent.cores), "core", "cores")
    )
}
