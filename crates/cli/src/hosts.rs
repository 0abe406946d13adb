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
use prony_fleet::messages::Registration;
use prony_fleet::names::RunId;
use prony_fleet::permissions::Role;
use prony_load::quantity;
use prony_report::number;

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

impl HostsArgs {
    /// Whether agents were to be found.
    pub(crate) fn is_typed(&self) -> bool {
        self.creds.is_some()
    }
}

/// So many agents are told one by one.
const LISTED: usize = 12;

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
            services: BTreeMap::new(),
            loads: BTreeSet::new(),
        };
        hosts
            .check(plan)
            .map_err(|errors| experiment::wrong_plan(&errors))?;
        Ok(Some(hosts))
    }

    fn check(&mut self, plan: &Plan) -> Result<(), prony_experiment::plan::PlanErrors> {
        plan.check_hosts(&mut |wanted| {
            match wanted {
                Wanted::Service { host, spec } => {
                    let services = self.services.entry((*host).to_owned()).or_default();
                    services.insert(spec.name.clone());
                }
                Wanted::Load { agents, .. } => {
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
        if self.loads.is_empty() {
            return Ok(None);
        }
        let fleet = fleet::connect(self.typed.nats.as_deref(), &self.creds)?;
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
