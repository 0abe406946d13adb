//! Processes pinned to a core, and their resource usage.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Resource usage of a process that has ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    pub(super) status: ExitStatus,
    /// Time from just before the start of the process to its end.
    pub(super) wall: Duration,
    /// User and system CPU time of all threads.
    pub(super) cpu: Duration,
    /// Peak memory. It is never below a few MiB, because the kernel includes the memory of the
    /// process that it was forked from.
    pub(super) peak_bytes: u64,
    /// Highest sample of anonymous memory, which isn't backed by a file and thus excludes the
    /// program's code.
    pub(super) anonymous_bytes: u64,
}

/// Starts a command, with the highest allowed limit on open files, on one core or on any. The
/// process receives `signal` if this program dies first.
fn start(core: Option<usize>, signal: i32, command: &mut Command) -> io::Result<Child> {
    let cores = core.map(set_of);
    let prepare = move || {
        // SAFETY: these calls are async-signal-safe, and their pointers refer to local values.
        unsafe {
            let mut limit: libc::rlimit = std::mem::zeroed();
            if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
            }
            checked(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
            match &cores {
                Some(cores) => checked(libc::sched_setaffinity(0, size_of_val(cores), cores)),
                None => Ok(()),
            }
        }
    };
    // SAFETY: `prepare` only makes system calls between fork and exec.
    unsafe { command.pre_exec(prepare) };
    command.stdin(Stdio::null()).spawn()
}

/// The two ways in which a process may end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The process ends on its own. If it is still running after this time, it is killed and counts
    /// as failed.
    ByItself(Duration),
    /// The process is terminated after this time.
    Terminated(Duration),
}

/// Time limit for a process to end after SIGTERM.
const TERMINATION_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between samples of a process's memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a command on one core, or on any, and waits until it ends.
pub(super) fn run(core: Option<usize>, end: End, command: &mut Command) -> io::Result<Usage> {
    let started = Instant::now();
    follow(&start(core, libc::SIGKILL, command)?, started, end)
}

/// A program that runs in the background, such as a server, and is terminated on drop.
pub(super) struct Program {
    /// `None` after the process has been waited for.
    child: Option<Child>,
    log: PathBuf,
}

/// Time limit for a program to be ready, and to end.
const PROGRAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Time between checks of a program.
const PROGRAM_INTERVAL: Duration = Duration::from_millis(20);

impl Program {
    /// Starts a program on one core or on any, with its output in the file `log`.
    pub(super) fn start(
        core: Option<usize>,
        command: &mut Command,
        log: PathBuf,
    ) -> Result<Program, String> {
        let name = command.get_program().display().to_string();
        let child = log_into(command, &log).and_then(|()| start(core, libc::SIGTERM, command));
        let child = child.map_err(|e| format!("{name}: {e}"))?;
        Ok(Program {
            child: Some(child),
            log,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Returns the output so far.
    pub(super) fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until the program is ready.
    pub(super) fn wait_until(
        &mut self,
        mut is_ready: impl FnMut(&Program) -> bool,
    ) -> Result<(), String> {
        let started = Instant::now();
        while !is_ready(self) {
            if self.status()?.is_some() || started.elapsed() > PROGRAM_TIMEOUT {
                let log = self.log.display();
                return Err(format!("not ready ({log}):\n{}", self.said()));
            }
            std::thread::sleep(PROGRAM_INTERVAL);
        }
        Ok(())
    }

    /// Waits until the program listens on a port of the loopback interface.
    pub(super) fn wait_for_port(&mut self, port: u16) -> Result<(), String> {
        self.wait_until(|_| TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
    }

    /// Waits until the output contains `text`.
    pub(super) fn wait_for(&mut self, text: &str) -> Result<(), String> {
        self.wait_until(|program| program.said().contains(text))
    }

    /// Waits until the program ends, which it must do successfully. Returns its output.
    pub(super) fn end(self) -> Result<String, String> {
        let said = self.log.clone();
        let usage = self.follow(End::ByItself(PROGRAM_TIMEOUT))?;
        let said = std::fs::read_to_string(said).unwrap_or_default();
        if usage.status.success() {
            Ok(said)
        } else {
            Err(format!("{}:\n{said}", usage.status))
        }
    }

    /// Terminates the program, and returns its resource usage.
    pub(super) fn stop(self) -> Result<Usage, String> {
        self.follow(End::Terminated(Duration::ZERO))
    }

    fn follow(mut self, end: End) -> Result<Usage, String> {
        let child = self.child.take().ok_or("the program has ended")?;
        follow(&child, Instant::now(), end).map_err(|e| e.to_string())
    }

    fn status(&mut self) -> Result<Option<ExitStatus>, String> {
        let status = self.child.as_mut().map(Child::try_wait).transpose();
        status.map(Option::flatten).map_err(|e| e.to_string())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // A program that has been waited for has no process anymore.
        if let (Ok(None), Some(child)) = (self.status(), &self.child) {
            let _ = follow(child, Instant::now(), End::Terminated(Duration::ZERO));
        }
    }
}

fn follow(child: &Child, started: Instant, end: End) -> io::Result<Usage> {
    let pid = child.id() as libc::pid_t;
    let mut anonymous_bytes = 0;
    let mut wait = |limit| wait_until_ended(pid, limit, &mut anonymous_bytes);
    let ended = match end {
        End::ByItself(limit) => wait(limit),
        End::Terminated(after) => wait(after).and_then(|early| {
            if !early {
                terminate(child);
            }
            wait(TERMINATION_TIMEOUT)
        }),
    };
    let wall = started.elapsed();
    if !matches!(ended, Ok(true)) {
        // SAFETY: the call takes no pointers. The process has not been waited for, so its ID is
        // still valid.
        unsafe { libc::kill(pid, libc::SIGKILL) };
    }
    let mut status = 0;
    // SAFETY: all zeroes is a valid `rusage`.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers refer to local values, and nothing else waits for `child`.
    checked(unsafe { libc::wait4(pid, &mut status, 0, &mut usage) })?;
    if !ended? {
        let text = format!("still running after {} s, killed", wall.as_secs());
        return Err(io::Error::new(io::ErrorKind::TimedOut, text));
    }
    Ok(Usage {
        status: ExitStatus::from_raw(status),
        wall,
        cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
        peak_bytes: usage.ru_maxrss.unsigned_abs() * 1024,
        anonymous_bytes,
    })
}

/// Waits until a child has ended, without reaping it. Returns false if `limit` passes first.
/// Raises `anonymous_bytes` to the highest sample of the child's anonymous memory.
fn wait_until_ended(
    pid: libc::pid_t,
    limit: Duration,
    anonymous_bytes: &mut u64,
) -> io::Result<bool> {
    // SAFETY: the call takes no pointers; the result is checked before use.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as i32;
    checked(fd)?;
    // SAFETY: the kernel has just returned this descriptor, and nothing else owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    let mut poll = libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout_ms = left.min(SAMPLE_INTERVAL).as_millis() as i32;
        // SAFETY: the pointer refers to one `pollfd`, and the count is 1.
        let found = unsafe { libc::poll(&mut poll, 1, timeout_ms) };
        checked(found)?;
        if found > 0 || left.is_zero() {
            return Ok(found > 0);
        }
        *anonymous_bytes = (*anonymous_bytes).max(anonymous_memory(pid).unwrap_or(0));
    }
}

/// Reads a process's anonymous memory in bytes.
fn anonymous_memory(pid: libc::pid_t) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|it| it.strip_prefix("RssAnon:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

/// Sends SIGTERM to a child process.
fn terminate(child: &Child) {
    // SAFETY: the call takes no pointers. The child has not been waited for, so its ID is still
    // valid.
    unsafe { libc::kill(child.id() as libc::pid_t, libc::SIGTERM) };
}

/// Pins this program, and processes that it starts, to one core.
pub(super) fn stay_on(core: usize) -> io::Result<()> {
    let cores = set_of(core);
    // SAFETY: the pointer and the size describe one local value.
    checked(unsafe { libc::sched_setaffinity(0, size_of_val(&cores), &cores) })
}

/// Highest number of file descriptors that a process may open.
pub(super) fn descriptor_limit() -> u64 {
    // SAFETY: all zeroes is a valid `rlimit`, and the pointer refers to it.
    let (result, limit) = unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        (libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), limit)
    };
    if result == 0 { limit.rlim_max } else { 1024 }
}

/// Clock ticks per second, the unit of times in proc(5).
pub(super) fn ticks_per_second() -> f64 {
    // SAFETY: the call takes no pointers.
    let ticks = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    if ticks > 0 { ticks as f64 } else { 100.0 }
}

/// Returns true if this program runs as root.
pub(super) fn is_root() -> bool {
    // SAFETY: the call takes no pointers and can't fail.
    unsafe { libc::geteuid() == 0 }
}

/// Redirects standard output and standard error of a command to a file.
pub(super) fn log_into(command: &mut Command, path: &Path) -> io::Result<()> {
    let file = File::create(path)?;
    command.stderr(file.try_clone()?).stdout(file);
    Ok(())
}

/// Runs a command, which must succeed, and returns its standard output.
pub(super) fn output_of(command: &mut Command) -> Result<String, String> {
    let output = command.output();
    let name = format!("{command:?}");
    let output = output.map_err(|e| format!("{name}: {e}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("{name}: {}: {}", output.status, said.trim()))
    }
}

fn set_of(core: usize) -> libc::cpu_set_t {
    // SAFETY: all zeroes is an empty set, and CPU_SET checks its index.
    unsafe {
        let mut cores: libc::cpu_set_t = std::mem::zeroed();
        if core < libc::CPU_SETSIZE as usize {
            libc::CPU_SET(core, &mut cores);
        }
        cores
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

fn checked(result: i32) -> io::Result<()> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn the_cost_is_that_of_the_process_on_its_core() {
        let script = "grep -q '^Cpus_allowed_list:.0$' /proc/self/status || exit 3; \
                      i=0; while [ $i -lt 200000 ]; do i=$((i + 1)); done; exit 7";
        let end = End::ByItself(Duration::from_secs(60));
        let usage = run(Some(0), end, &mut shell(script)).unwrap();
        assert_eq!(usage.status.code(), Some(7));
        assert!(usage.cpu > Duration::ZERO && usage.wall > Duration::ZERO);
        assert!(usage.peak_bytes > 0);
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let end = End::ByItself(Duration::from_millis(50));
        let error = run(Some(0), end, &mut shell("exec sleep 60")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn an_endless_process_is_terminated_and_has_not_failed() {
        let end = End::Terminated(Duration::from_millis(50));
        let usage = run(Some(0), end, &mut shell("exec sleep 60")).unwrap();
        assert_eq!(usage.status.signal(), Some(libc::SIGTERM));
    }

    #[test]
    fn a_program_in_the_background_ends_with_its_owner() {
        let log = |name: &str| {
            let id = std::process::id();
            std::env::temp_dir().join(format!("xtask-process-{id}-{name}"))
        };
        let start = |name: &str, script: &str| Program::start(None, &mut shell(script), log(name));
        let mut ready = start("ready", "echo ready; exec sleep 60").unwrap();
        ready.wait_for("ready").unwrap();
        let process = Path::new("/proc").join(ready.id().to_string());
        assert!(process.exists());
        drop(ready);
        assert!(!process.exists());
        let mut failed = start("failed", "echo why; exit 1").unwrap();
        assert!(failed.wait_for("ready").unwrap_err().contains("why"));
        assert!(start("ended", "exit 1").unwrap().end().is_err());
        assert_eq!(start("ended", "echo all").unwrap().end().unwrap(), "all\n");
        let usage = start("stopped", "exec sleep 60").unwrap().stop().unwrap();
        assert_eq!(usage.status.signal(), Some(libc::SIGTERM));
        for name in ["ready", "failed", "ended", "stopped"] {
            std::fs::remove_file(log(name)).unwrap();
        }
    }

    #[test]
    fn the_anonymous_memory_of_a_process_is_read() {
        let own = anonymous_memory(std::process::id() as libc::pid_t).unwrap();
        assert!(own > 0 && own.is_multiple_of(1024), "{own}");
        assert_eq!(anonymous_memory(-1), None);
    }
}
