//! `prony fleet token`: tokens with which new agents get their own credentials.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::Args;
use prony_fleet::names::TokenId;
use prony_fleet::server::tokens::{Token, USES_MAX, VALID_MAX};
use prony_fleet::server::{Known, Lock, Wanted};
use prony_load::quantity;
use prony_report::table::Table;

use crate::ending::{Ending, Failure};
use crate::fleet_up::{default_folder, failure};
use crate::terminal;

/// `prony fleet token`.
#[derive(Debug, Args)]
#[command(after_help = "\
Standard output is the token: a file for new agents. `prony fleet up` has to run on DIR, as it enrolls
them. Each agent makes a key of its own, keeps it, and doesn't need the token again; the server gets
the public half alone. A token can ask to be enrolled under a name that nobody has, and nothing else.

Examples:
  prony fleet token --uses 50 --valid 1h > fleet.token   then, on each machine:
  prony agent --creds fleet.token
  prony fleet token --list
  prony fleet token --revoke 5f0c9d2e11aa83b4              its agents stay")]
pub(crate) struct TokenArgs {
    /// The folder of `prony fleet up` [default: prony/fleet in $XDG_STATE_HOME, or in ~/.local/state]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Agents that it can enroll, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(USES_MAX)))]
    uses: u32,
    /// Time until it expires, up to 30 days
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = valid)]
    valid: Duration,
    /// List the tokens that can still be used
    #[arg(long, conflicts_with_all = ["uses", "valid", "revoke"])]
    list: bool,
    /// Revoke a token; agents that it has enrolled stay
    #[arg(long, value_name = "ID", conflicts_with_all = ["uses", "valid"])]
    revoke: Option<TokenId>,
}

/// Parses `--valid`.
fn valid(typed: &str) -> Result<Duration, String> {
    let valid = quantity::positive_time(typed)?;
    match valid <= VALID_MAX {
        true => Ok(valid),
        false => Err("a token is valid for 30 days at most".to_owned()),
    }
}

/// Makes, lists or revokes tokens.
pub(crate) fn run(typed: &TokenArgs) -> Result<Ending, Failure> {
    let folder = match &typed.dir {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| Failure::file(dir.display(), &error))?
        }
        None => default_folder()?,
    };
    if typed.list {
        return list(&folder);
    }
    let wanted = running(&folder)?;
    if let Some(id) = &typed.revoke {
        let was_there = Token::remove(&folder, id).map_err(failure)?;
        apply(&wanted)?;
        return match was_there {
            true => {
                terminal::say(&format!("prony: token {id} was revoked; its agents stay"));
                Ok(Ending::Done)
            }
            false => Err(Failure::wrong(format!(
                "there is no token {id} in {}; `prony fleet token --list` shows them",
                folder.display()
            ))),
        };
    }
    let made = Token::make(&wanted, typed.valid, typed.uses, SystemTime::now());
    let (token, text) = made.map_err(failure)?;
    apply(&wanted)?;
    terminal::say(&format!(
        "prony: token {} enrolls up to {} new agents until {}; on each machine: prony agent --creds \
         FILE; to revoke it: prony fleet token --revoke {}",
        token.id, token.uses, token.expires, token.id
    ));
    terminal::print(&text);
    Ok(Ending::Done)
}

/// The server that runs on a folder.
fn running(folder: &Path) -> Result<Wanted, Failure> {
    let none = || {
        Failure::refused(format!(
            "no `prony fleet up` runs on {}; start it first, as it enrolls the agents",
            folder.display()
        ))
    };
    let Some(known) = Known::read(folder).map_err(failure)? else {
        return Err(none());
    };
    match Lock::hold(folder).map_err(failure)? {
        Some(_) => Err(none()),
        None => Ok(Wanted {
            folder: folder.to_owned(),
            listen: known.listen,
            names: known.names,
            agents: Vec::new(),
        }),
    }
}

/// Has the server read its configuration again.
fn apply(wanted: &Wanted) -> Result<(), Failure> {
    let prepared = wanted.prepare().map_err(failure)?;
    prepared.reload().map_err(failure)
}

fn list(folder: &Path) -> Result<Ending, Failure> {
    let now = SystemTime::now();
    let mut tokens = Token::all(folder).map_err(failure)?;
    tokens.retain(|token| token.is_open(now));
    tokens.sort_by(|one, other| one.expires.cmp(&other.expires));
    if tokens.is_empty() {
        terminal::say("prony: no token can be used; make one with `prony fleet token`");
        return Ok(Ending::Done);
    }
    let mut table = Table::new(&["token", "expires", "uses left"]);
    for token in tokens {
        table.push(vec![
            token.id.to_string(),
            token.expires.clone(),
            (token.uses - token.used).to_string(),
        ]);
    }
    terminal::print(&table.to_text(""));
    Ok(Ending::Done)
}
