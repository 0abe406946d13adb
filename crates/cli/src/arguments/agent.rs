//! The arguments of `prony agent`.

use std::path::PathBuf;

use clap::Args;
use prony_fleet::names::AgentName;
use prony_load::CoreList;
use prony_record::quantity::{self, QuantityError};

/// Arguments of `prony agent`.
#[derive(Debug, Args)]
#[command(after_help = "\
The agent connects to a NATS server, registers and waits for orders. It does not listen on a port.
`prony fleet up` writes its credentials and prints this command with them. If the server can't
be reached, the agent retries until it can.

Ctrl-C and SIGTERM stop the agent and its load. The exit status after SIGTERM is 0 if the agent
was idle, and 1 if a load or a service was stopped with it; after Ctrl-C it is 130.

The agent stops a load after 10 s without contact with the coordinator (the coordinator's
--lease). Results are kept in --state until the coordinator has all of them; after a restart
the agent sends them again.

Without a policy, the agent loads only private and loopback addresses (but no cloud metadata
services), and starts no services. A policy is a TOML file; every key is optional:

  [load]
  targets     = ['10.1.0.0/16', '*.example.org', 'unix:/run/app.sock']
  rate        = 5000    # maximum requests per second; forbids closed loops
  connections = 100     # maximum number of connections
  seconds     = 120     # maximum length of a load, including its warm-up
  refuse      = false   # true: no loads at all

  [services]
  commands    = ['nginx', '/opt/app/run']    # programs that may be started; '*' is any
  env         = ['APP_*']                    # environment variables that a plan may set")]
pub(crate) struct AgentArgs {
    /// Credentials of the agent: a file from `prony fleet up` or `prony fleet token`, or a .creds
    /// file of NATS's own tools
    #[arg(long, value_name = "FILE", env = "PRONY_CREDS", hide_env_values = true)]
    pub(crate) creds: PathBuf,
    /// NATS server, such as tls://10.0.0.1:4222 [default: the server in the credentials]
    #[arg(long, value_name = "URL", env = "PRONY_NATS", hide_env_values = true)]
    pub(crate) nats: Option<String>,
    /// Name of the agent: letters, digits, - and _ [default: from the credentials, or the host
    /// name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<AgentName>,
    /// Label by which coordinators choose agents; repeatable
    #[arg(long, value_name = "KEY=VALUE", value_parser = label)]
    pub(crate) label: Vec<(String, String)>,
    /// Policy file [default: private and loopback targets, no services]
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Folder for results [default: ~/.local/state/prony; for root /var/lib/prony]
    #[arg(long, value_name = "DIR")]
    pub(crate) state: Option<PathBuf>,
    /// Serve the agent's metrics as OpenMetrics text; ADDR is ADDRESS:PORT, or a port on 127.0.0.1
    #[arg(long, value_name = "ADDR")]
    pub(crate) metrics: Option<String>,
    /// Cores that loads run on, such as 1 or 0-3 [default: any]
    #[arg(long, value_name = "LIST", value_parser = cores)]
    pub(crate) cores: Option<CoreList>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() && !text.contains(',') => {
            Ok((key.to_owned(), value.to_owned()))
        }
        _ => Err(format!(
            "{text:?} is not a label; write KEY=VALUE without commas, such as site=berlin"
        )),
    }
}

fn cores(text: &str) -> Result<CoreList, QuantityError> {
    quantity::cores(text).map(CoreList)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_keys_with_values() {
        let own = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(label("site=x"), own("site", "x"));
        assert_eq!(label("site="), own("site", ""));
        for bad in ["", "site", "=x", "a=b,c=d"] {
            assert!(label(bad).is_err(), "{bad}");
        }
    }
}
