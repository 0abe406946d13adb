//! The arguments of `prony fleet up` and `prony fleet token`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_fleet::names::{AgentName, TokenId};
use prony_fleet::server::tokens::{USES_MAX, VALID_MAX};
use prony_fleet::server::{ServerNameError, check_name};
use prony_record::quantity;

/// Default port of a NATS server.
pub(crate) const DEFAULT_PORT: u16 = 4222;

/// Arguments of `prony fleet up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints one command for each agent and one for the coordinator. DIR holds keys, certificates,
results and the server's log; keep it private. A restart on the same DIR keeps all keys. While
the server runs, another `prony fleet up` on DIR adds agents. To lock an agent out, remove its
file from DIR and run `prony fleet up` again.

Examples:
  prony fleet up                                    agents on this machine only
  prony fleet up --agents 4 --listen 0.0.0.0 --name 10.0.0.1  agents anywhere
  prony fleet up --agent linux-9                    add an agent")]
pub(crate) struct UpArgs {
    /// Folder for keys and data [default: prony/fleet in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Listen on ADDR: an address, a port, or both; 0.0.0.0 means all addresses, port 0 any free
    /// port [default: as at the last start, or 127.0.0.1:4222]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    pub(crate) listen: Option<SocketAddr>,
    /// Name or address at which agents reach this machine; the first one is written into
    /// credentials files; repeatable [default: as at the last start, or the address of --listen]
    #[arg(long, value_name = "HOST", value_parser = parse_name)]
    pub(crate) name: Vec<String>,
    /// Create credentials for N agents, agent-1 to agent-N [default: 1 in a new DIR]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) agents: Option<u16>,
    /// Create credentials for an agent of this name; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "agents")]
    pub(crate) agent: Vec<AgentName>,
    /// Write DIR without starting a server, for a nats-server that you run yourself
    #[arg(long)]
    pub(crate) keys_only: bool,
}

/// Parses `0.0.0.0:4222`, `0.0.0.0`, `[::]:4222`, `:4222` or `4222`.
fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.trim_start_matches(':').parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let address = text.parse().ok();
    let alone = || Some(SocketAddr::new(bare.parse::<IpAddr>().ok()?, DEFAULT_PORT));
    address.or_else(alone).ok_or_else(|| {
        format!("\"{text}\" is not an address; write 0.0.0.0:4222, an address, or a port")
    })
}

fn parse_name(text: &str) -> Result<String, ServerNameError> {
    check_name(text).map(|()| text.to_owned())
}

/// Arguments of `prony fleet token`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a token, which is a credentials file for new agents. `prony fleet up` must be running
with the same DIR, because it enrolls the agents. An agent generates its own key at its first start
and doesn't need the token after that. A token only lets an agent ask to be enrolled under an unused
name.

Examples:
  prony fleet token --uses 50 --valid 1h > fleet.token   then, on each machine:
  prony agent --creds fleet.token
  prony fleet token --list
  prony fleet token --revoke 5f0c9d2e11aa83b4   enrolled agents keep access")]
pub(crate) struct TokenArgs {
    /// Folder of `prony fleet up` [default: prony/fleet in $XDG_STATE_HOME or ~/.local/state]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// Number of agents that the token can enroll, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(USES_MAX)))]
    pub(crate) uses: u32,
    /// Time until the token expires, up to 30 days
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = valid)]
    pub(crate) valid: Duration,
    /// List the usable tokens
    #[arg(long, conflicts_with_all = ["uses", "valid", "revoke"])]
    pub(crate) list: bool,
    /// Revoke a token; agents that it has enrolled keep their access
    #[arg(long, value_name = "ID", conflicts_with_all = ["uses", "valid"])]
    pub(crate) revoke: Option<TokenId>,
}

/// Parses `--valid`.
fn valid(text: &str) -> Result<Duration, String> {
    let valid = quantity::positive_time(text).map_err(|error| error.to_string())?;
    if valid <= VALID_MAX {
        Ok(valid)
    } else {
        Err("a token is valid for 30 days at most".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_have_short_forms() {
        for (text, address) in [
            ("4223", "127.0.0.1:4223"),
            (":4223", "127.0.0.1:4223"),
            ("0.0.0.0", "0.0.0.0:4222"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("::", "[::]:4222"),
            ("[::1]", "[::1]:4222"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(parse_listen(text), Ok(address.parse().unwrap()), "{text}");
        }
        for bad in ["", "x", "70000", "nats.test:4222", "1.2.3.4:x"] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
    }
}
