//! The other machines of a plan: found, asked whether they can do what it wants, and joined to this one.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use prony_experiment::host::local::LocalHost;
use prony_experiment::plan::{Plan, Wanted};
use prony_fleet::coordinator::CLOCK_BOUND;
use prony_fleet::credentials::Credentials;
use prony_fleet::host::{AgentLoads, FleetHost, Roster, Shower};
use prony_fleet::link::{Link, LinkError};
use prony_fleet::names::RunId;
use prony_fleet::permissions::Role;
use prony_load::quantity;

use crate::ending::Failure;
use crate::{experiment, fleet};

/// Where agents are found for plans that name some.
#[derive(Debug, Clone, Args)]
pub(crate) struct HostsArgs {
    /// The NATS server of a plan's agents, such as tls://10.0.0.1:4222 [default: those that the
    /// credentials name]
    #[arg(
        long,
        value_name = "URL",
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    nats: Option<String>,
    /// The coordinator's credentials, which `prony fleet up` wrote
    #[arg(long, value_name = "FILE", help_heading = "Agents of a plan")]
    creds: Option<PathBuf>,
    /// The error of an agent's clock that is borne [default: 5ms]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        requires = "creds",
        help_heading = "Agents of a plan"
    )]
    clock_bound: Option<Duration>,
}

/// The machines of a plan that needs some.
pub(crate) struct Hosts {
    link: Arc<Link>,
    roster: Roster,
    typed: HostsArgs,
    creds: PathBuf,
    /// What each machine of the plan is to do.
    tasks: BTreeMap<String, BTreeSet<String>>,
    makes_load: bool,
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
                 credentials with --creds FILE (`prony fleet up` writes them)",
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
        let roster = Roster::read(&link).map_err(refused)?;
        let mut hosts = Hosts {
            link: Arc::new(link),
            roster,
            typed: typed.clone(),
            creds: creds.clone(),
            tasks: BTreeMap::new(),
            makes_load: false,
        };
        hosts
            .check(plan)
            .map_err(|errors| experiment::wrong_plan(&errors))?;
        Ok(Some(hosts))
    }

    fn check(&mut self, plan: &Plan) -> Result<(), prony_experiment::plan::PlanErrors> {
        plan.check_hosts(&mut |wanted| {
            let (host, task) = match wanted {
                Wanted::Service { host, spec } => (*host, spec.name.clone()),
                Wanted::Load { agents } => {
                    self.makes_load = true;
                    (*agents, "the load".to_owned())
                }
            };
            self.tasks.entry(host.to_owned()).or_default().insert(task);
            self.roster.objections(&self.link, wanted)
        })
    }

    /// Where a service of a host listens that other machines have to reach; none if that is not known.
    pub(crate) fn address_of(&self, host: Option<&str>) -> Option<IpAddr> {
        self.roster.address_of(host)
    }

    /// Who does what, a line each.
    pub(crate) fn summary(&self) -> String {
        let line = |(host, tasks): (&String, &BTreeSet<String>)| {
            let tasks: Vec<&str> = tasks.iter().map(String::as_str).collect();
            let who = match self.roster.find(host) {
                Ok(agent) => {
                    let addresses: Vec<String> =
                        agent.addresses.iter().map(ToString::to_string).collect();
                    let addresses = match addresses.is_empty() {
                        true => String::new(),
                        false => format!(", {}", addresses.join(" ")),
                    };
                    format!(
                        "agent {} ({}, {} cores{addresses})",
                        agent.name, agent.system, agent.cores
                    )
                }
                // A number of agents, of which each trial takes those that are free.
                Err(_) => "whichever agents are free".to_owned(),
            };
            format!("  {host}: {who}: {}\n", tasks.join(", "))
        };
        let lines: String = self.tasks.iter().map(line).collect();
        format!("\nother machines:\n{lines}")
    }

    /// This machine together with the others.
    pub(crate) fn join(&self, here: LocalHost) -> FleetHost {
        FleetHost::new(here, self.link.clone(), self.roster.clone())
    }

    /// The agents that make the plan's load, and show each to whoever looks; none where this machine
    /// does. The services of `run` keep none of them from it.
    pub(crate) fn loads<'a>(
        &self,
        run: &RunId,
        warn: &'a (dyn Fn(&str) + Sync),
        show: Option<Shower<'a>>,
    ) -> Result<Option<AgentLoads<'a>>, Failure> {
        if !self.makes_load {
            return Ok(None);
        }
        let fleet = fleet::connect(self.typed.nats.as_deref(), &self.creds)?;
        Ok(Some(AgentLoads {
            fleet: fleet.beside(run.clone()),
            clock_bound: self.typed.clock_bound.unwrap_or(CLOCK_BOUND),
            warn,
            show,
        }))
    }
}
