//! `prony fleet up`: a NATS server for a fleet, until a signal ends it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use clap::Args;
use prony_fleet::credentials::Credentials;
use prony_fleet::link::Link;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::server::{self, Known, Lock, Prepared, Registrar, Server, ServerError, Wanted};

use crate::ending::{Ending, Failure};
use crate::{signals, terminal};

/// NATS's own port.
const PORT: u16 = 4222;

/// `prony fleet up`.
#[derive(Debug, Args)]
#[command(after_help = "\
Standard output has a line for each agent and one for the coordinator. Keys, certificates, results
and the server's log are in DIR, which is to be kept from others. Started again on the same DIR it
is the same server; while it runs, another `prony fleet up` on DIR adds agents to it. An agent whose
file in DIR was removed is refused from the next start or addition on.

Examples:
  prony fleet up                                    agents on this machine only
  prony fleet up --agents 4 --listen 0.0.0.0 --name 10.0.0.1  agents anywhere
  prony fleet up --agent freebsd-1                         one more")]
pub(crate) struct UpArgs {
    /// Where its files are [default: prony/fleet in $XDG_STATE_HOME, or in ~/.local/state]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Listen on ADDR: an address, a port, or both; 0.0.0.0 is every address of this machine, port 0
    /// any [default: as it was, or 127.0.0.1:4222]
    #[arg(long, value_name = "ADDR", value_parser = parse_listen)]
    listen: Option<SocketAddr>,
    /// A name or address by which agents reach this machine; the first goes into their files;
    /// repeatable [default: as it was, or the address of --listen]
    #[arg(long, value_name = "HOST", value_parser = parse_name)]
    name: Vec<String>,
    /// Credentials for so many agents, agent-1 to agent-N [default: 1, where there are none]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    agents: Option<u16>,
    /// Credentials for an agent of this name; repeatable
    #[arg(long, value_name = "NAME", conflicts_with = "agents")]
    agent: Vec<AgentName>,
    /// Write DIR and the lines, and start nothing: for a server that is run by other means
    #[arg(long)]
    keys_only: bool,
}

/// `0.0.0.0:4222`, `0.0.0.0`, `[::]:4222`, `:4222` or `4222`.
fn parse_listen(typed: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = typed.trim_start_matches(':').parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    let bare = typed.trim_start_matches('[').trim_end_matches(']');
    let address = typed.parse().ok();
    let alone = || Some(SocketAddr::new(bare.parse::<IpAddr>().ok()?, PORT));
    address.or_else(alone).ok_or_else(|| {
        format!("\"{typed}\" is no address; write 0.0.0.0:4222, an address alone, or a port alone")
    })
}

fn parse_name(typed: &str) -> Result<String, String> {
    server::check_name(typed).map(|()| typed.to_owned())
}

/// Runs the server until a signal comes, or adds to one that runs.
pub(crate) fn run(typed: &UpArgs) -> Result<Ending, Failure> {
    let folder = match &typed.dir {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| Failure::file(dir.display(), &error))?
        }
        None => default_folder()?,
    };
    let lock = Lock::hold(&folder).map_err(failure)?;
    let known = Known::read(&folder).map_err(failure)?;
    match (lock, known) {
        (Some(_lock), known) if typed.keys_only => {
            let wanted = wanted(typed, &folder, known)?;
            let prepared = wanted.prepare().map_err(failure)?;
            terminal::say(&format!(
                "prony: keys and nats.conf are in {}",
                folder.display()
            ));
            tell(&wanted, &prepared);
            Ok(Ending::Done)
        }
        (Some(lock), known) => stay(typed, &folder, known, &lock),
        (None, Some(known)) => add(typed, &folder, &known),
        (None, None) => Err(Failure::refused(format!(
            "another prony fleet up is just beginning in {}; try again",
            folder.display()
        ))),
    }
}

pub(crate) fn default_folder() -> Result<PathBuf, Failure> {
    let set = |name: &str| std::env::var_os(name).filter(|it| !it.is_empty());
    let state = set("XDG_STATE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")));
    let state =
        state.ok_or_else(|| Failure::wrong("there is no $HOME; give a folder with --dir"))?;
    Ok(state.join("prony/fleet"))
}

/// Starts a server and stays with it.
fn stay(
    typed: &UpArgs,
    folder: &Path,
    known: Option<Known>,
    lock: &Lock,
) -> Result<Ending, Failure> {
    // From here on a signal ends what was begun.
    let (told, signalled) = mpsc::channel();
    signals::listen(move |_| {
        let _ = told.send(());
    })?;
    let mut wanted = wanted(typed, folder, known)?;
    // It would still have the address.
    lock.end_leftover();
    // Before it is remembered as where the server listens.
    wanted.listen = server::free_address(wanted.listen).map_err(failure)?;
    let prepared = wanted.prepare().map_err(failure)?;
    let mut server = prepared.start().map_err(failure)?;
    let link = connect(&prepared, &Role::Coordinator)?;
    link.prepare_server().map_err(Failure::refused)?;
    drop(link);
    terminal::say(&format!(
        "prony: nats-server listens on {} (process {}); its files are in {}; Ctrl-C ends it, and what \
         is stored stays",
        wanted.listen,
        server.pid(),
        folder.display()
    ));
    tell(&wanted, &prepared);
    let registrar = Registrar::new(&wanted, &prepared);
    match wait(&mut server, &signalled, registrar) {
        true => Ok(Ending::Done),
        false => Err(Failure::refused(format!(
            "nats-server ended by itself; its log is {}",
            folder.join("nats.log").display()
        ))),
    }
}

/// Enrolls agents until a signal comes, or the server ends; whether it was a signal.
fn wait(server: &mut Server, signalled: &mpsc::Receiver<()>, mut registrar: Registrar) -> bool {
    loop {
        for line in registrar.serve(Duration::from_millis(300)) {
            terminal::say(&format!("prony: {line}"));
        }
        if signalled.try_recv().is_ok() {
            return true;
        }
        if !server.is_running() {
            // Whoever ends all of a machine's processes tells this one, too.
            return signalled.recv_timeout(Duration::from_millis(300)).is_ok();
        }
    }
}

/// Adds agents to the server that another process runs.
fn add(typed: &UpArgs, folder: &Path, known: &Known) -> Result<Ending, Failure> {
    if let Some(listen) = typed.listen.filter(|listen| *listen != known.listen) {
        return Err(Failure::refused(format!(
            "the server of {} runs already, on {}; end it first, and then let it listen on {listen}",
            folder.display(),
            known.listen
        )));
    }
    let wanted = wanted(typed, folder, Some(known.clone()))?;
    let prepared = wanted.prepare().map_err(failure)?;
    prepared.reload().map_err(failure)?;
    let last = prepared.agents().last().cloned().map(Role::Agent);
    connect(&prepared, last.as_ref().unwrap_or(&Role::Coordinator))?;
    terminal::say(&format!(
        "prony: the server of {} runs already, on {}; it has read its configuration again",
        folder.display(),
        known.listen
    ));
    tell(&wanted, &prepared);
    Ok(Ending::Done)
}

fn connect(prepared: &Prepared, role: &Role) -> Result<Link, Failure> {
    let credentials = Credentials::read(&prepared.credentials(role)).map_err(Failure::refused)?;
    Link::connect(Some(&prepared.local_url()), &credentials, role).map_err(Failure::refused)
}

/// What was typed, and what was before where nothing was.
fn wanted(typed: &UpArgs, folder: &Path, known: Option<Known>) -> Result<Wanted, Failure> {
    let is_new = known.is_none();
    let before = known.unwrap_or(Known {
        listen: (Ipv4Addr::LOCALHOST, PORT).into(),
        names: Vec::new(),
    });
    let listen = typed.listen.unwrap_or(before.listen);
    let names = match &typed.name[..] {
        [] if before.listen.ip() == listen.ip() => before.names,
        typed => typed.to_vec(),
    };
    let names = reachable(listen, names)?;
    let numbered = |count: u16| (1..=count).map(|n| AgentName::of_host(&format!("agent-{n}")));
    let agents = match (typed.agents, &typed.agent[..]) {
        (Some(count), _) => numbered(count).collect(),
        (None, []) if is_new => numbered(1).collect(),
        (None, named) => named.to_vec(),
    };
    Ok(Wanted {
        folder: folder.to_owned(),
        listen,
        names,
        agents,
    })
}

/// The names by which a server that listens there is reached, if it is.
fn reachable(listen: SocketAddr, names: Vec<String>) -> Result<Vec<String>, Failure> {
    let ip = listen.ip();
    match names.first() {
        None if ip.is_unspecified() => Err(Failure::wrong(format!(
            "--listen {ip} is every address of this machine; add the one by which agents reach it, such \
             as --name 10.0.0.1"
        ))),
        None => Ok(vec![ip.to_string()]),
        Some(first) if ip.is_loopback() && !is_here(first) => Err(Failure::wrong(format!(
            "--name {first} doesn't lead to {ip}, which is heard on this machine only; add --listen \
             0.0.0.0:{}",
            listen.port()
        ))),
        Some(_) => Ok(names),
    }
}

fn is_here(name: &str) -> bool {
    let address = name.parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Prints the lines that are to be typed.
fn tell(wanted: &Wanted, prepared: &Prepared) {
    let first = wanted.names.first().map_or("", String::as_str);
    let is_local = is_here(first);
    let quoted = |role: &Role| quote(&prepared.credentials(role).to_string_lossy());
    let mut lines = String::new();
    for name in prepared.agents() {
        let path = quoted(&Role::Agent(name.clone()));
        lines += &match is_local {
            true => format!("prony agent --creds {path}\n"),
            false => format!(
                "# scp {path} HOST:   and on that host:\nprony agent --creds {name}.creds\n"
            ),
        };
    }
    let coordinator = quoted(&Role::Coordinator);
    let count = prepared.agents().len();
    lines += &format!("prony load --creds {coordinator} --agents {count} URL\n");
    if is_local {
        terminal::say(&format!(
            "prony: it is heard on this machine only; for agents on others, name an address of this \
             one: --listen 0.0.0.0:{} --name 10.0.0.1",
            wanted.listen.port()
        ));
    }
    terminal::print(&lines);
}

/// A word as a shell takes it.
fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

pub(crate) fn failure(error: ServerError) -> Failure {
    match error {
        ServerError::File(path, error) => Failure::file(path.display(), &error),
        ServerError::Unfit(..) | ServerError::Reserved(_) => Failure::wrong(error),
        _ => Failure::refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_what_people_write() {
        for (typed, address) in [
            ("4223", "127.0.0.1:4223"),
            (":4223", "127.0.0.1:4223"),
            ("0.0.0.0", "0.0.0.0:4222"),
            ("0.0.0.0:1", "0.0.0.0:1"),
            ("::", "[::]:4222"),
            ("[::1]", "[::1]:4222"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(parse_listen(typed), Ok(address.parse().unwrap()), "{typed}");
        }
        for bad in ["", "x", "70000", "nats.test:4222", "1.2.3.4:x"] {
            assert!(parse_listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_has_to_lead_to_where_the_server_listens() {
        let names = |listen: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            reachable(listen.parse().unwrap(), names)
        };
        assert_eq!(names("127.0.0.1:1", &[]).unwrap(), ["127.0.0.1"]);
        assert_eq!(names("10.0.0.1:1", &[]).unwrap(), ["10.0.0.1"]);
        assert_eq!(names("0.0.0.0:1", &["web", "x"]).unwrap(), ["web", "x"]);
        assert_eq!(names("127.0.0.1:1", &["localhost"]).unwrap(), ["localhost"]);
        for wrong in [names("0.0.0.0:1", &[]), names("127.0.0.1:1", &["10.0.0.1"])] {
            assert!(matches!(wrong, Err(Failure::Wrong(_))), "{wrong:?}");
        }
    }

    #[test]
    fn words_reach_the_shell_whole() {
        assert_eq!(quote("/a/b.creds"), "/a/b.creds");
        assert_eq!(quote("/a b/it's"), r"'/a b/it'\''s'");
    }
}
