//! A service on a machine that is reached over ssh, and the script that starts it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use prony_plan::service::{AllocatedService, Endpoint, FollowSpec, ServiceSpec};
use prony_plan::watch_spec::RemoteService;

use crate::host::remote::quoted;

/// A service on another machine.
#[derive(Debug)]
pub(super) struct SshService {
    /// Name of the machine in the plan.
    pub(super) host: String,
    /// Number of the service in the session, which names its files and functions.
    pub(super) id: u32,
    pub(super) allocated: AllocatedService,
    /// Path on this machine to which the log is fetched; `None` before the service has started and
    /// after its log was fetched.
    pub(super) log: Option<PathBuf>,
    pub(super) state: ServiceState,
    /// Program of the service and the `PATH` that the plan sets, for the facts in its environment.
    pub(super) program: Option<(String, Option<String>)>,
    /// Processes that the plan names.
    pub(super) follow: FollowSpec,
    /// Name of the jail in which the service runs; `None` without one.
    pub(super) jail: Option<String>,
    /// Root folder of the jail; empty without one. It precedes the paths that the service sees.
    pub(super) root: String,
    /// Name of the signal that stops the service.
    pub(super) stop_signal: &'static str,
}

/// State of a service as far as this machine knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServiceState {
    Allocated,
    Running,
    Stopped,
}

impl SshService {
    /// Returns what the telemetry follows: the processes that the plan names, and otherwise the
    /// main process with its descendants.
    pub(super) fn followed(&self, folder: &str) -> RemoteService {
        let endpoints = self.allocated.endpoints.values();
        let mut ports = endpoints.filter_map(|endpoint| match endpoint {
            Endpoint::Tcp(address) => Some(address.port()),
            Endpoint::Unix(_) | Endpoint::Udp(_) => None,
        });
        let follow = if self.follow.is_empty() {
            FollowSpec {
                cgroup: None,
                pid_file: Some(format!("{folder}/{}.pid", self.id).into()),
            }
        } else {
            self.follow.clone()
        };
        RemoteService {
            port: ports.next(),
            follow,
        }
    }
}

/// Result of looking at a service's processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServiceCheck {
    /// Exit status of the main process as a shell reports it; `None` while it runs.
    pub(super) ended: Option<u32>,
    /// Number of live processes.
    pub(super) processes: usize,
}

impl ServiceCheck {
    /// Describes the exit status like the standard library does for local processes.
    pub(super) fn status(&self) -> Option<String> {
        let status = self.ended?;
        Some(match status.checked_sub(128) {
            Some(signal @ 1..=64) => match signal_name(signal.cast_signed()) {
                Some(name) => format!("signal: {signal} (SIG{name})"),
                None => format!("signal: {signal}"),
            },
            _ => format!("exit status: {status}"),
        })
    }

    /// Returns true if the service runs: its main process, or what a daemon has left.
    pub(super) fn runs(&self) -> bool {
        match self.ended {
            None => true,
            Some(0) => self.processes > 0,
            Some(_) => false,
        }
    }
}

/// Returns the name of a signal of Linux. Names, unlike numbers, mean the same on every system.
pub(super) fn signal_name(signal: i32) -> Option<&'static str> {
    Some(match signal {
        1 => "HUP",
        2 => "INT",
        3 => "QUIT",
        4 => "ILL",
        6 => "ABRT",
        7 => "BUS",
        8 => "FPE",
        9 => "KILL",
        10 => "USR1",
        11 => "SEGV",
        12 => "USR2",
        13 => "PIPE",
        14 => "ALRM",
        15 => "TERM",
        28 => "WINCH",
        _ => return None,
    })
}

/// Returns the script that defines the service's function and calls it.
pub(super) fn start_script(spec: &ServiceSpec, service: &SshService) -> String {
    let id = service.id;
    let files_dir = service.allocated.files_dir.to_string_lossy();
    let mut script = format!("service_{id}() {{\n");
    let cwd = match spec.cwd.to_str() {
        Some(cwd) if !cwd.is_empty() => cwd,
        _ => &files_dir,
    };
    let mut words = Vec::new();
    match &service.jail {
        None => script += &format!("cd {} || exit 126\n", quoted(cwd)),
        Some(jail) => {
            let enter = "cd \"$1\" && shift && exec \"$@\"";
            words.extend(["jexec".to_owned(), quoted(jail), "/bin/sh".to_owned()]);
            words.extend(["-c".to_owned(), quoted(enter), "sh".to_owned(), quoted(cwd)]);
        }
    }
    if !spec.cores.is_empty() {
        let cores: Vec<String> = spec.cores.iter().map(usize::to_string).collect();
        words.extend(["$on_cores".to_owned(), cores.join(",")]);
    }
    if let Some(files) = spec.open_files {
        script += &format!("ulimit -n {files} || exit 126\n");
    }
    if let Some(folder) = &spec.library_path {
        let folder = quoted(&folder.to_string_lossy());
        let existing = match spec.env.get("LD_LIBRARY_PATH") {
            Some(existing) => quoted(existing),
            None => "\"${LD_LIBRARY_PATH-}\"".to_owned(),
        };
        script += &format!(
            "libraries={existing}\n\
             LD_LIBRARY_PATH={folder}${{libraries:+:$libraries}}; export LD_LIBRARY_PATH\n"
        );
    }
    let mut env: BTreeMap<&String, &String> = spec.env.iter().collect();
    if spec.library_path.is_some() {
        env.retain(|name, _| *name != "LD_LIBRARY_PATH");
    }
    if !env.is_empty() {
        words.push("env".to_owned());
        words.extend(
            env.iter()
                .map(|(name, value)| quoted(&format!("{name}={value}"))),
        );
    }
    words.extend(spec.command.iter().map(|word| quoted(word)));
    let command = words.join(" ");
    script += &format!("exec $fresh {command}\n");
    script += &format!("}}\nlaunch {id}\n");
    script
}

/// Time limit for a service to end after its stop signal.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for killed processes to disappear.
pub(super) const KILL_TIMEOUT: Duration = Duration::from_secs(5);
