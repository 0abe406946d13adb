//! Launches and controls a service and its keeper.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use prony_plan::service::ServiceSpec;
use rustix::process::{Pid, Signal, kill_process};

use super::channel::{self, KeeperMessage};
use super::keeper::{self, CleanupCommand, CoreSet, KeeperSetup};
use crate::place::{ControlGroup, HIERARCHIES_MAX, SandboxEntry};
use crate::system::{HostError, program};

/// Interval at which prony checks if a keeper has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// A started service and its keeper.
#[derive(Debug)]
pub(crate) struct RunningService {
    keeper: Child,
    keeper_ended: Option<ExitStatus>,
    /// Channel to the keeper; `None` after the command to kill the service was sent.
    channel: Option<OwnedFd>,
    /// Process ID of the main process; `None` in a sandbox, whose process IDs differ from those of
    /// the host.
    main_pid: Option<i32>,
    main_ended: Option<ExitStatus>,
    stop_signal: i32,
}

/// Isolation of a service.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LaunchMode<'a> {
    /// No isolation: the service runs directly on the host.
    Native,
    /// The service runs in a sandbox with a separate network, process IDs and users.
    Sandbox(&'a SandboxEntry),
    /// The service runs in another network, without any other isolation.
    Network(&'a SandboxEntry),
}

/// Starts a service in its control group, if it has one, and appends its output to `log`. The keeper
/// runs `cleanup` before and after it kills the service. If the plan assigns no cores to the service,
/// it may use `default_cores`.
///
/// # Errors
/// [`HostError::MissingProgram`] if the program doesn't exist, [`HostError::File`] if the log or
/// the working directory can't be opened, and [`HostError::Start`] for other failures.
pub(crate) fn launch(
    spec: &ServiceSpec,
    mode: LaunchMode<'_>,
    group: Option<&ControlGroup>,
    cleanup: Option<CleanupCommand>,
    default_cores: &[usize],
    log: &Path,
) -> Result<RunningService, HostError> {
    let failed = |step, source| HostError::Start {
        service: spec.name.clone(),
        step,
        source,
    };
    let mut command = command(spec)?;
    let output = OpenOptions::new()
        .append(true)
        .create(true)
        .open(log)
        .map_err(HostError::file("create", log))?;
    let errors = output.try_clone().map_err(HostError::file("open", log))?;
    command.stdin(Stdio::null()).stdout(output).stderr(errors);
    let (ours, theirs) =
        channel::pair().map_err(|error| failed("create the keeper's channel", error))?;
    let cores = if spec.cores.is_empty() {
        default_cores
    } else {
        &spec.cores
    };
    let entries = group
        .map(ControlGroup::entries)
        .transpose()?
        .unwrap_or_default();
    let mut groups = [-1; HIERARCHIES_MAX];
    for (group, entry) in groups.iter_mut().zip(&entries) {
        *group = entry.as_raw_fd();
    }
    let setup = KeeperSetup {
        groups,
        cleanup,
        channel: theirs.as_raw_fd(),
        cores: core_set(cores, default_cores)
            .map_err(|error| failed("bind to the plan's cores", error))?,
        open_files: spec.open_files,
        sandbox: match mode {
            LaunchMode::Sandbox(entry) => Some(entry.raw()),
            LaunchMode::Native | LaunchMode::Network(_) => None,
        },
        network: match mode {
            LaunchMode::Network(entry) => Some(entry.raw()),
            LaunchMode::Native | LaunchMode::Sandbox(_) => None,
        },
    };
    // SAFETY: `split` only makes calls that are safe after a fork.
    unsafe { command.pre_exec(move || keeper::split(&setup)) };
    match command.spawn() {
        Ok(keeper) => {
            let mut running = RunningService {
                keeper,
                keeper_ended: None,
                channel: Some(ours),
                main_pid: None,
                main_ended: None,
                stop_signal: spec.stop_signal,
            };
            // The main process sends its ID before `exec`, so the message has already arrived.
            running.receive_messages();
            Ok(running)
        }
        Err(source) => {
            let step = match channel::receive(&ours) {
                Some(KeeperMessage::Failed(step)) => step.describe(),
                _ => "execute its program",
            };
            Err(failed(step, source))
        }
    }
}

/// Builds the command that starts the service, with its program, arguments, working directory and
/// environment.
fn command(spec: &ServiceSpec) -> Result<Command, HostError> {
    let (program, args) = spec
        .command
        .split_first()
        .ok_or_else(|| HostError::BadName(String::new()))?;
    if !spec.cwd.is_dir() {
        let missing = io::Error::new(io::ErrorKind::NotFound, "no such folder");
        return Err(HostError::file("enter", &spec.cwd)(missing));
    }
    let path = spec.env.get("PATH").map(String::as_str);
    let program =
        program::find(program, &spec.cwd, path).map_err(|missing| HostError::MissingProgram {
            service: spec.name.clone(),
            missing,
        })?;
    let mut command = Command::new(program);
    command.args(args).current_dir(&spec.cwd).envs(&spec.env);
    if let Some(folder) = &spec.library_path {
        command.env("LD_LIBRARY_PATH", library_path(folder, spec));
    }
    Ok(command)
}

/// Returns the search path of the dynamic loader: the plan's library folder, followed by the
/// existing path.
fn library_path(folder: &Path, spec: &ServiceSpec) -> OsString {
    let existing = spec
        .env
        .get("LD_LIBRARY_PATH")
        .map(OsString::from)
        .or_else(|| std::env::var_os("LD_LIBRARY_PATH"));
    let mut path = spec.cwd.join(folder).into_os_string();
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        path.push(":");
        path.push(existing);
    }
    path
}

/// Converts a list of cores to a set; `None` for an empty list, which means any core. Fails if a
/// core doesn't exist, because the system would silently ignore that core.
fn core_set(cores: &[usize], available: &[usize]) -> io::Result<Option<CoreSet>> {
    if cores.is_empty() {
        return Ok(None);
    }
    let exists = |core: usize| available.is_empty() || available.contains(&core);
    // SAFETY: all zeroes is the empty set.
    let mut set: CoreSet = unsafe { std::mem::zeroed() };
    for &core in cores {
        if core >= 8 * size_of::<CoreSet>() || !exists(core) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("core {core} is not available (prony may use {available:?})"),
            ));
        }
        // SAFETY: the core is within the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    Ok(Some(set))
}

impl RunningService {
    /// Returns the process ID of the keeper.
    pub(super) fn keeper_pid(&self) -> i32 {
        self.keeper.id().cast_signed()
    }

    /// Returns the exit status of the main process, if it has ended.
    pub(crate) fn main_ended(&mut self) -> Option<ExitStatus> {
        self.receive_messages();
        self.main_ended
    }

    /// Returns the process ID of the main process, if known.
    pub(super) fn main_pid(&self) -> Option<i32> {
        self.main_pid
    }

    fn receive_messages(&mut self) {
        while let Some(message) = self.channel.as_ref().and_then(channel::receive) {
            match message {
                KeeperMessage::MainStarted(pid) => self.main_pid = Some(pid),
                KeeperMessage::MainEnded(status) => {
                    self.main_ended = Some(ExitStatus::from_raw(status))
                }
                KeeperMessage::Failed(_) => {}
            }
        }
    }

    /// Returns the exit status of the keeper, if it has ended. Once the keeper has ended, no
    /// process of the service is left, unless the keeper was killed.
    pub(crate) fn keeper_ended(&mut self) -> Option<ExitStatus> {
        if self.keeper_ended.is_none() {
            self.keeper_ended = self.keeper.try_wait().ok().flatten();
        }
        self.keeper_ended
    }

    /// Sends the stop signal and waits until all processes of the service have ended. Returns false
    /// if they don't end within `timeout`.
    pub(crate) fn ask_to_end(&mut self, timeout: Duration) -> bool {
        self.signal_keeper(Signal::CONT);
        if let Some(channel) = &self.channel {
            // An error means that the keeper has ended, so the wait below returns immediately.
            let _ = channel::ask_to_signal(channel, self.stop_signal);
        }
        self.wait(timeout)
    }

    /// Makes the keeper kill the service, and waits until both have ended. Returns false if they
    /// don't end within `timeout`.
    pub(crate) fn kill(&mut self, timeout: Duration) -> bool {
        self.receive_messages();
        self.signal_keeper(Signal::CONT);
        self.channel = None;
        self.wait(timeout)
    }

    /// Kills a keeper that doesn't respond, and waits until it has ended. This process then adopts
    /// the service's processes.
    pub(crate) fn kill_keeper(&mut self, timeout: Duration) -> bool {
        self.signal_keeper(Signal::KILL);
        self.wait(timeout)
    }

    fn signal_keeper(&mut self, signal: Signal) {
        if self.keeper_ended().is_none()
            && let Some(pid) = Pid::from_raw(self.keeper_pid())
        {
            // The keeper hasn't been reaped yet, so its ID can't belong to another process.
            let _ = kill_process(pid, signal);
        }
    }

    fn wait(&mut self, timeout: Duration) -> bool {
        let began = Instant::now();
        loop {
            if self.keeper_ended().is_some() {
                return true;
            }
            if began.elapsed() >= timeout {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Writes a service's rendered files into the existing folder `folder`.
///
/// # Errors
/// [`HostError::BadName`] for a path that leads out of the folder, and [`HostError::File`] if a
/// file can't be written.
pub(super) fn write_files(spec: &ServiceSpec, folder: &Path) -> Result<(), HostError> {
    for (name, content) in &spec.files {
        let path = prepare_path(folder, name)?;
        std::fs::write(&path, content).map_err(HostError::file("write", path))?;
    }
    for (name, content) in &spec.secrets {
        let path = prepare_path(folder, name)?;
        write_secret(&path, content).map_err(HostError::file("write", path))?;
    }
    Ok(())
}

/// Replaces a file. The new file is never readable by other users, not even while it is being
/// written.
fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    if let Err(error) = std::fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error);
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)
}

/// Returns the path of a file, and creates the folder that contains the file if necessary.
fn prepare_path(folder: &Path, name: &str) -> Result<PathBuf, HostError> {
    let path = inside(folder, name)?;
    if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
        crate::run_state::make_folder(parent)?;
    }
    Ok(path)
}

/// Returns `folder/name` if that path is below `folder`.
pub(super) fn inside(folder: &Path, name: &str) -> Result<PathBuf, HostError> {
    let plain = Path::new(name)
        .components()
        .all(|part| matches!(part, std::path::Component::Normal(_)));
    if plain && !name.is_empty() {
        Ok(folder.join(name))
    } else {
        Err(HostError::BadName(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let folder = Path::new("/run/x");
        assert_eq!(
            inside(folder, "conf.d/a.conf").unwrap(),
            Path::new("/run/x/conf.d/a.conf")
        );
        for name in ["", "..", "../a", "/etc/passwd", "a/../../b"] {
            assert!(inside(folder, name).is_err(), "{name:?}");
        }
    }
}
