//! `prony fleet token`: creates, lists and revokes tokens that enroll new agents.

use std::path::Path;
use std::time::SystemTime;

use prony_fleet::server::tokens::EnrollmentToken;
use prony_fleet::server::{FolderLock, KnownServer, ServerSetup};
use prony_report::table::Table;

use super::up::{default_folder, server_failure};
use crate::arguments::TokenArgs;
use crate::ending::{Ending, Failure};
use crate::terminal;

/// Runs `prony fleet token`.
pub(crate) fn run(arguments: &TokenArgs) -> Result<Ending, Failure> {
    let folder = match &arguments.dir {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| Failure::file(dir.display(), &error))?
        }
        None => default_folder()?,
    };
    if arguments.list {
        return list_tokens(&folder);
    }
    let setup = running_server(&folder)?;
    if let Some(id) = &arguments.revoke {
        let was_there = EnrollmentToken::remove(&folder, id).map_err(server_failure)?;
        reload_server(&setup)?;
        return if was_there {
            terminal::print_message(format_args!(
                "revoked token {id}; agents that it has enrolled keep their access"
            ));
            Ok(Ending::Done)
        } else {
            Err(Failure::wrong(format!(
                "there is no token {id} in {}; `prony fleet token --list` lists them",
                folder.display()
            )))
        };
    }
    let made = EnrollmentToken::make(&setup, arguments.valid, arguments.uses, SystemTime::now());
    let (token, text) = made.map_err(server_failure)?;
    reload_server(&setup)?;
    terminal::print_message(format_args!(
        "token {} enrolls up to {} new agents until {}; on each machine: prony agent --creds \
         FILE; to revoke it: prony fleet token --revoke {}",
        token.id, token.uses, token.expires, token.id
    ));
    terminal::print(&text);
    Ok(Ending::Done)
}

/// Returns the setup of the running server that uses `folder`.
fn running_server(folder: &Path) -> Result<ServerSetup, Failure> {
    let none = || {
        Failure::refused(format!(
            "`prony fleet up` is not running on {}; start it first (it enrolls the agents)",
            folder.display()
        ))
    };
    let Some(known) = KnownServer::read(folder).map_err(server_failure)? else {
        return Err(none());
    };
    match FolderLock::hold(folder).map_err(server_failure)? {
        Some(_) => Err(none()),
        None => Ok(ServerSetup {
            folder: folder.to_owned(),
            listen: known.listen,
            names: known.names,
            agents: Vec::new(),
        }),
    }
}

/// Updates the server's configuration and reloads it.
fn reload_server(setup: &ServerSetup) -> Result<(), Failure> {
    let prepared = setup.prepare().map_err(server_failure)?;
    prepared.reload().map_err(server_failure)
}

fn list_tokens(folder: &Path) -> Result<Ending, Failure> {
    let now = SystemTime::now();
    let mut tokens = EnrollmentToken::all(folder).map_err(server_failure)?;
    tokens.retain(|token| token.is_open(now));
    tokens.sort_by(|one, other| one.expires.cmp(&other.expires));
    if tokens.is_empty() {
        terminal::print_message("there is no usable token; create one with `prony fleet token`");
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
