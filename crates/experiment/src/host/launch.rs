//! From a service's spec to a running keeper with the service below it.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::channel::{self, News};
use super::keeper::{self, CoreSet, Orders};
use super::{HostError, program};
use crate::place::Entry;
use crate::service::ServiceSpec;

/// How often the end of a service is looked for while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A service that was started and whose keeper has not been waited for yet, or only just.
#[derive(Debug)]
pub(super) struct Running {
    keeper: Child,
    keeper_ended: Option<ExitStatus>,
    /// `None` once the keeper was told to kill everything.
    channel: Option<OwnedFd>,
    /// The main process, unless it is in a place with process ids of its own.
    main_pid: Option<i32>,
    main_ended: Option<ExitStatus>,
    stop_signal: i32,
}

/// Where a service's processes go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way<'a> {
    /// They stay with the host.
    Stay,
    /// Into a room of their own: another network, other processes, other users.
    Into(&'a Entry),
    /// Into another network and nothing else.
    Network(&'a Entry),
}

/// Starts a service in a place or natively, its output appended to `log`. A service without cores of
/// its own may use `any_core`.
///
/// # Errors
/// [`HostError::MissingProgram`], [`HostError::Start`], [`HostError::File`].
pub(super) fn launch(
    spec: &ServiceSpec,
    way: Way<'_>,
    any_core: &[usize],
    log: &Path,
) -> Result<Running, HostError> {
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
    let (ours, theirs) = channel::pair().map_err(|error| failed("make a channel", error))?;
    let cores = if spec.cores.is_empty() {
        any_core
    } else {
        &spec.cores
    };
    let orders = Orders {
        channel: theirs.as_raw_fd(),
        cores: core_set(cores, any_core)
            .map_err(|error| failed("bind to the plan's cores", error))?,
        open_files: spec.open_files,
        place: match way {
            Way::Into(entry) => Some(entry.number()),
            Way::Stay | Way::Network(_) => None,
        },
        network: match way {
            Way::Network(entry) => Some(entry.number()),
            Way::Stay | Way::Into(_) => None,
        },
    };
    // SAFETY: `split` keeps to calls that are safe after a fork.
    unsafe { command.pre_exec(move || keeper::split(&orders)) };
    match command.spawn() {
        Ok(keeper) => {
            let mut running = Running {
                keeper,
                keeper_ended: None,
                channel: Some(ours),
                main_pid: None,
                main_ended: None,
                stop_signal: spec.stop_signal,
            };
            // The main process said its id before it executed its program.
            running.hear();
            Ok(running)
        }
        Err(source) => {
            let step = match channel::hear(&ours) {
                Some(News::Failed(step)) => step.describe(),
                _ => "execute its program",
            };
            Err(failed(step, source))
        }
    }
}

/// The command without its output: program, arguments, working directory, environment.
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

/// The plan's folder before whatever the search path was.
fn library_path(folder: &Path, spec: &ServiceSpec) -> OsString {
    let before = spec
        .env
        .get("LD_LIBRARY_PATH")
        .map(OsString::from)
        .or_else(|| std::env::var_os("LD_LIBRARY_PATH"));
    let mut path = spec.cwd.join(folder).into_os_string();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        path.push(":");
        path.push(before);
    }
    path
}

/// `None` for no cores, which means any. The system itself would silently leave out those that are
/// not there.
fn core_set(cores: &[usize], available: &[usize]) -> io::Result<Option<CoreSet>> {
    if cores.is_empty() {
        return Ok(None);
    }
    let is_there = |core: usize| available.is_empty() || available.contains(&core);
    // SAFETY: all-zero is the empty set.
    let mut set: CoreSet = unsafe { std::mem::zeroed() };
    for &core in cores {
        if core >= 8 * size_of::<CoreSet>() || !is_there(core) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("there is no core {core} (prony may use {available:?})"),
            ));
        }
        // SAFETY: the core lies inside the set.
        unsafe { libc::CPU_SET(core, &mut set) };
    }
    Ok(Some(set))
}

impl Running {
    /// The keeper's process id.
    pub(super) fn keeper_pid(&self) -> i32 {
        self.keeper.id().cast_signed()
    }

    /// How the main process ended, if it did.
    pub(super) fn main_ended(&mut self) -> Option<ExitStatus> {
        self.hear();
        self.main_ended
    }

    /// The main process's id, where it is one of this system's.
    pub(super) fn main_pid(&self) -> Option<i32> {
        self.main_pid
    }

    fn hear(&mut self) {
        while let Some(news) = self.channel.as_ref().and_then(channel::hear) {
            match news {
                News::MainStarted(pid) => self.main_pid = Some(pid),
                News::MainEnded(status) => self.main_ended = Some(ExitStatus::from_raw(status)),
                News::Failed(_) => {}
            }
        }
    }

    /// How the keeper ended, if it did; then nothing of the service is left, unless the keeper was
    /// killed by a stranger.
    pub(super) fn keeper_ended(&mut self) -> Option<ExitStatus> {
        if self.keeper_ended.is_none() {
            self.keeper_ended = self.keeper.try_wait().ok().flatten();
        }
        self.keeper_ended
    }

    /// Asks the service to end and waits until nothing of it is left, at most for `patience`.
    pub(super) fn ask_to_end(&mut self, patience: Duration) -> bool {
        self.signal_keeper(Signal::CONT);
        if let Some(channel) = &self.channel {
            // A keeper that is gone can't be asked; the wait then ends at once.
            let _ = channel::ask_to_signal(channel, self.stop_signal);
        }
        self.wait(patience)
    }

    /// Kills whatever is left and waits until nothing is, at most for `patience`.
    pub(super) fn kill(&mut self, patience: Duration) -> bool {
        self.hear();
        self.signal_keeper(Signal::CONT);
        self.channel = None;
        self.wait(patience)
    }

    /// Kills the keeper itself, which its service keeps from doing its work, and waits until it has
    /// ended. Its service is then left to whoever adopts orphans.
    pub(super) fn kill_keeper(&mut self, patience: Duration) -> bool {
        self.signal_keeper(Signal::KILL);
        self.wait(patience)
    }

    fn signal_keeper(&mut self, signal: Signal) {
        if self.keeper_ended().is_none()
            && let Some(pid) = Pid::from_raw(self.keeper_pid())
        {
            // It is our child and was not waited for, so the id is its own.
            let _ = kill_process(pid, signal);
        }
    }

    fn wait(&mut self, patience: Duration) -> bool {
        let began = Instant::now();
        loop {
            if self.keeper_ended().is_some() {
                return true;
            }
            if began.elapsed() >= patience {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Writes a service's rendered files below `folder`, which exists.
///
/// # Errors
/// [`HostError::BadName`] for a name that leads out of the folder, [`HostError::File`].
pub(super) fn write_files(spec: &ServiceSpec, folder: &Path) -> Result<(), HostError> {
    for (name, content) in &spec.files {
        let path = place_for(folder, name)?;
        std::fs::write(&path, content).map_err(HostError::file("write", path))?;
    }
    for (name, content) in &spec.secrets {
        let path = place_for(folder, name)?;
        write_secret(&path, content).map_err(HostError::file("write", path))?;
    }
    Ok(())
}

/// Writes a file that nobody else could read at any moment, whatever lay there before.
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

/// A file's path, its folder made.
fn place_for(folder: &Path, name: &str) -> Result<PathBuf, HostError> {
    let path = inside(folder, name)?;
    if let Some(parent) = path.parent().filter(|parent| *parent != folder) {
        super::state::make_folder(parent)?;
    }
    Ok(path)
}

/// `folder/name`, if that lies below the folder.
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
    fn names_that_lead_out_are_refused() {
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
