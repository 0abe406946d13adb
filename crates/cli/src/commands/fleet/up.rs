//! `prony fleet up`: runs a NATS server for a fleet until a signal ends it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use prony_fleet::credentials::FleetCredentials;
use prony_fleet::link::NatsLink;
use prony_fleet::names::AgentName;
use prony_fleet::permissions::Role;
use prony_fleet::server::{
    self, FolderLock, KnownServer, PreparedServer, Registrar, ServerError, ServerProcess,
    ServerSetup,
};

use crate::arguments::{DEFAULT_PORT, UpArgs};
use crate::ending::{Ending, Failure};
use crate::signals::{self, SecondSignal};
use crate::{command_line, terminal};

/// Runs the server until a signal arrives. If a running server already uses the folder, adds agents
/// to that server.
pub(crate) fn run(arguments: &UpArgs) -> Result<Ending, Failure> {
    let folder = match &arguments.dir {
        Some(dir) => {
            std::path::absolute(dir).map_err(|error| Failure::file(dir.display(), &error))?
        }
        None => default_folder()?,
    };
    let lock = FolderLock::hold(&folder).map_err(server_failure)?;
    let known = KnownServer::read(&folder).map_err(server_failure)?;
    match (lock, known) {
        (Some(_lock), known) if arguments.keys_only => {
            let setup = setup(arguments, &folder, known)?;
            let prepared = setup.prepare().map_err(server_failure)?;
            terminal::print_message(format_args!(
                "keys and nats.conf are in {}",
                folder.display()
            ));
            print_commands(&setup, &prepared);
            Ok(Ending::Done)
        }
        (Some(lock), known) => serve(arguments, &folder, known, &lock),
        (None, Some(known)) => add_agents(arguments, &folder, &known),
        (None, None) => Err(Failure::refused(format!(
            "another `prony fleet up` is starting on {}; try again",
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
        state.ok_or_else(|| Failure::wrong("$HOME is not set; name a folder with --dir"))?;
    Ok(state.join("prony/fleet"))
}

/// Starts a server, and waits for a signal or the exit of the server.
fn serve(
    arguments: &UpArgs,
    folder: &Path,
    known: Option<KnownServer>,
    lock: &FolderLock,
) -> Result<Ending, Failure> {
    // From here on, a signal stops the server instead of ending this process.
    let (signal, signalled) = mpsc::channel();
    signals::listen(SecondSignal::AsksAgain, move || {
        let _ = signal.send(());
    })?;
    let mut setup = setup(arguments, folder, known)?;
    // If an earlier process was killed, its server may still occupy the address.
    lock.end_leftover();
    // Check the address before storing it.
    setup.listen = server::free_address(setup.listen).map_err(server_failure)?;
    let prepared = setup.prepare().map_err(server_failure)?;
    let mut server = prepared.start().map_err(server_failure)?;
    let link = connect(&prepared, &Role::Coordinator)?;
    link.prepare_server().map_err(Failure::refused)?;
    drop(link);
    terminal::print_message(format_args!(
        "nats-server listens on {} (process {}); its files are in {}; Ctrl-C stops it and \
         keeps all data",
        setup.listen,
        server.pid(),
        folder.display()
    ));
    print_commands(&setup, &prepared);
    let registrar = Registrar::new(&setup, &prepared);
    if wait_for_end(&mut server, &signalled, registrar) {
        Ok(Ending::Done)
    } else {
        Err(Failure::refused(format!(
            "nats-server exited unexpectedly; its log is {}",
            folder.join("nats.log").display()
        )))
    }
}

/// Enrolls agents until a signal arrives or the server exits. Returns true if a signal arrived.
fn wait_for_end(
    server: &mut ServerProcess,
    signalled: &mpsc::Receiver<()>,
    mut registrar: Registrar,
) -> bool {
    loop {
        for line in registrar.serve(Duration::from_millis(300)) {
            terminal::print_message(line);
        }
        if signalled.try_recv().is_ok() {
            return true;
        }
        if !server.is_running() {
            // When the machine shuts down, both prony and the server get a signal, and the server
            // may exit first.
            return signalled.recv_timeout(Duration::from_millis(300)).is_ok();
        }
    }
}

/// Adds agents to a server that another process runs.
fn add_agents(arguments: &UpArgs, folder: &Path, known: &KnownServer) -> Result<Ending, Failure> {
    if let Some(listen) = arguments.listen.filter(|listen| *listen != known.listen) {
        return Err(Failure::refused(format!(
            "the server for {} is already running on {}; stop it before changing --listen to \
                {listen}",
            folder.display(),
            known.listen
        )));
    }
    let setup = setup(arguments, folder, Some(known.clone()))?;
    let prepared = setup.prepare().map_err(server_failure)?;
    prepared.reload().map_err(server_failure)?;
    let last = prepared.agents().last().cloned().map(Role::Agent);
    connect(&prepared, last.as_ref().unwrap_or(&Role::Coordinator))?;
    terminal::print_message(format_args!(
        "the server for {} is already running on {}; it has reloaded its configuration",
        folder.display(),
        known.listen
    ));
    print_commands(&setup, &prepared);
    Ok(Ending::Done)
}

fn connect(prepared: &PreparedServer, role: &Role) -> Result<NatsLink, Failure> {
    let credentials =
        FleetCredentials::read(&prepared.credentials(role)).map_err(Failure::refused)?;
    NatsLink::connect(Some(&prepared.local_url()), &credentials, role).map_err(Failure::refused)
}

/// Builds the server's setup from the command line. Omitted options keep their previous values.
fn setup(
    arguments: &UpArgs,
    folder: &Path,
    known: Option<KnownServer>,
) -> Result<ServerSetup, Failure> {
    let is_new = known.is_none();
    let before = known.unwrap_or(KnownServer {
        listen: (Ipv4Addr::LOCALHOST, DEFAULT_PORT).into(),
        names: Vec::new(),
    });
    let listen = arguments.listen.unwrap_or(before.listen);
    let names = match &arguments.name[..] {
        [] if before.listen.ip() == listen.ip() => before.names,
        arguments => arguments.to_vec(),
    };
    let names = reachable_names(listen, names)?;
    let numbered =
        |count: u16| (1..=count).map(|n| AgentName::from_hostname(&format!("agent-{n}")));
    let agents = match (arguments.agents, &arguments.agent[..]) {
        (Some(count), _) => numbered(count).collect(),
        (None, []) if is_new => numbered(1).collect(),
        (None, named) => named.to_vec(),
    };
    Ok(ServerSetup {
        folder: folder.to_owned(),
        listen,
        names,
        agents,
    })
}

/// Returns the names at which agents reach a server that listens on the address `listen`.
fn reachable_names(listen: SocketAddr, names: Vec<String>) -> Result<Vec<String>, Failure> {
    let ip = listen.ip();
    match names.first() {
        None if ip.is_unspecified() => Err(Failure::wrong(format!(
            "--listen {ip} listens on all addresses; add --name with the address that agents \
             connect to, such as --name 10.0.0.1"
        ))),
        None => Ok(vec![ip.to_string()]),
        Some(first) if ip.is_loopback() && !is_here(first) => Err(Failure::wrong(format!(
            "--name {first}: agents can't reach the server there, because it listens only on \
                loopback, {ip}; add --listen 0.0.0.0:{}",
            listen.port()
        ))),
        Some(_) => Ok(names),
    }
}

fn is_here(name: &str) -> bool {
    let address = name.parse::<IpAddr>();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Prints the commands to run on the agents' machines and as the coordinator.
fn print_commands(setup: &ServerSetup, prepared: &PreparedServer) {
    let first = setup.names.first().map_or("", String::as_str);
    let is_local = is_here(first);
    let quoted = |role: &Role| command_line::quoted(&prepared.credentials(role).to_string_lossy());
    let mut lines = String::new();
    for name in prepared.agents() {
        let path = quoted(&Role::Agent(name.clone()));
        lines += &if is_local {
            format!("prony agent --creds {path}\n")
        } else {
            format!("# scp {path} HOST:   then on that host:\nprony agent --creds {name}.creds\n")
        };
    }
    let coordinator = quoted(&Role::Coordinator);
    let count = prepared.agents().len();
    lines += &format!("prony load --creds {coordinator} --agents {count} URL\n");
    if is_local {
        terminal::print_message(format_args!(
            "the server is reachable from this machine only; for agents elsewhere, add --listen \
             0.0.0.0:{} --name ADDRESS",
            setup.listen.port()
        ));
    }
    terminal::print(&lines);
}

pub(crate) fn server_failure(error: ServerError) -> Failure {
    match error {
        ServerError::File(path, error) => Failure::file(path.display(), &error),
        ServerError::Unfit(..) | ServerError::Credentials(_) | ServerError::Reserved(_) => {
            Failure::wrong(error)
        }
        _ => Failure::refused(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_must_resolve_to_the_servers_address() {
        let names = |listen: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            reachable_names(listen.parse().unwrap(), names)
        };
        assert_eq!(names("127.0.0.1:1", &[]).unwrap(), ["127.0.0.1"]);
        assert_eq!(names("10.0.0.1:1", &[]).unwrap(), ["10.0.0.1"]);
        assert_eq!(names("0.0.0.0:1", &["web", "x"]).unwrap(), ["web", "x"]);
        assert_eq!(names("127.0.0.1:1", &["localhost"]).unwrap(), ["localhost"]);
        for wrong in [names("0.0.0.0:1", &[]), names("127.0.0.1:1", &["10.0.0.1"])] {
            assert!(matches!(wrong, Err(Failure::Wrong(_))), "{wrong:?}");
        }
    }
}
