//! `prony doctor`: why might this server, or this machine as a generator, be slow?
//!
//! Enters: process ids. Leaves: a [`Report`] of lines (what was seen, what would be well, why it
//! matters, how to change it, where that is written) and of what could not be found out, by name. It
//! changes nothing and formats nothing for people. What it starts is itself, to try a library
//! ([`crypto`]), and `nginx -V`, which prints and ends.

#[cfg(target_os = "linux")]
pub mod crypto;
pub mod freebsd;
#[cfg(target_os = "linux")]
mod limits;
mod line;
#[cfg(target_os = "linux")]
mod listen;
#[cfg(target_os = "linux")]
mod machine;
#[cfg(target_os = "linux")]
mod offload;
#[cfg(target_os = "linux")]
mod process;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod settings;

use std::fmt;

use serde::Serialize;

pub use line::{Level, Line, Unknown};

/// The name of the format of a report, its first field; `schema/` describes it.
pub const DOCTOR_SCHEMA: &str = "prony.doctor/1";

/// All that was seen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// [`DOCTOR_SCHEMA`].
    pub schema: &'static str,
    /// The version of prony that looked.
    pub version: &'static str,
    /// The servers in the order in which they were named, then this machine.
    pub subjects: Vec<Subject>,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Subject {
    /// What it is.
    pub kind: Kind,
    /// What to call it, such as `nginx, process 1234`.
    pub name: String,
    /// The process that was named; none for the machine.
    pub pid: Option<i32>,
    /// What was seen.
    pub lines: Vec<Line>,
    /// What could not be found out.
    pub unknown: Vec<Unknown>,
    /// A server's cryptography with all its figures.
    #[cfg(target_os = "linux")]
    pub crypto: Option<crypto::Crypto>,
}

/// What a subject is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A running server.
    Server,
    /// This machine as a generator.
    Machine,
}

/// Why a process can't be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProcessError {
    /// There is none of that id.
    Missing(i32),
    /// It has ended, and its parent has not noticed.
    Ended(i32),
    /// It is a part of the kernel.
    Kernel(i32),
}

impl fmt::Display for ProcessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessError::Missing(pid) => write!(
                f,
                "there is no process {pid} (pgrep -a NAME lists the processes of a server)"
            ),
            ProcessError::Ended(pid) => {
                write!(f, "process {pid} has ended; only its entry is left")
            }
            ProcessError::Kernel(pid) => {
                write!(f, "process {pid} is a part of the kernel, not a server")
            }
        }
    }
}

impl std::error::Error for ProcessError {}

/// Looks at these servers and at this machine. It takes a second, and some three for each server
/// that has a libcrypto.
///
/// # Errors
/// A process that isn't there, or can't be a server; nothing was looked at then.
#[cfg(target_os = "linux")]
pub fn examine(pids: &[i32]) -> Result<Report, ProcessError> {
    use process::Server;

    /// How long the machine is watched.
    const WATCHED: std::time::Duration = std::time::Duration::from_secs(1);

    let servers: Vec<Server> = pids
        .iter()
        .map(|pid| Server::of(*pid))
        .collect::<Result<_, _>>()?;
    let turned: Vec<_> = servers
        .iter()
        .map(|server| listen::Turned::of(server.pid))
        .collect();
    let before = machine::Moment::now();
    std::thread::sleep(WATCHED);
    let moments = before.zip(machine::Moment::now());
    let own: Vec<i32> = servers
        .iter()
        .flat_map(|server| server.family.clone())
        .collect();
    let mut subjects = Vec::new();
    for (server, before) in servers.iter().zip(turned) {
        let mut seen = line::Seen::default();
        let crypto = match crypto::of_server(server) {
            Ok(crypto) => {
                seen.extend(crypto::lines(&crypto));
                Some(crypto)
            }
            Err(error) => {
                seen.unknown("its cryptography", error.to_string());
                None
            }
        };
        seen.extend(listen::look(server, before, WATCHED.as_secs_f64()));
        seen.extend(limits::look(server));
        seen.extend(settings::look(server));
        subjects.push(Subject {
            kind: Kind::Server,
            name: format!("{}, process {}", server.program(), server.pid),
            pid: Some(server.pid),
            lines: seen.lines,
            unknown: seen.unknown,
            crypto,
        });
    }
    let seen = machine::look(moments, &own);
    subjects.push(Subject {
        kind: Kind::Machine,
        name: "this machine as a generator".to_owned(),
        pid: None,
        lines: seen.lines,
        unknown: seen.unknown,
        crypto: None,
    });
    Ok(Report {
        schema: DOCTOR_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        subjects,
    })
}

/// The same on FreeBSD: this machine, as far as `sysctl` tells.
///
/// # Errors
/// A process that isn't there.
#[cfg(target_os = "freebsd")]
pub fn examine(pids: &[i32]) -> Result<Report, ProcessError> {
    let table = crate::host::freebsd::processes();
    if let Some(missing) = pids.iter().find(|pid| table.get(**pid).is_none()) {
        return Err(ProcessError::Missing(*missing));
    }
    let printed = std::process::Command::new("sysctl")
        .args(freebsd::NAMES)
        .output();
    let printed = printed.map(|said| String::from_utf8_lossy(&said.stdout).into_owned());
    Ok(Report {
        schema: DOCTOR_SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        subjects: vec![freebsd::machine(&printed.unwrap_or_default())],
    })
}
