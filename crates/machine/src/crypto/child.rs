//! Starts the child process that probes a library, and defines the mask that hides CPU features
//! from the library.

use std::fmt;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use super::probe::{ProbeResult, probe};
use crate::program_output::{ProgramError, run_program};

/// Hidden argument that makes prony probe a library and exit.
const PROBE_ARGUMENT: &str = "__try-libcrypto";
/// Path at which the child process opens the library. The library is passed as standard input, so
/// its real path and owner don't matter.
const LIBRARY_PATH: &str = "/proc/self/fd/0";
/// Time limit of a child process. A probe normally takes half a second.
const PROBE_TIMEOUT: Duration = Duration::from_secs(60);
/// User and group ID of "nobody", for libraries that are not trusted.
const NOBODY_ID: u32 = 65534;

/// Environment variable and value that mask AES-NI and PCLMULQDQ (bits 57 and 33 of
/// OPENSSL_ia32cap(3)). The value has no second word, so OpenSSL 1.1.0 and later versions clear all
/// capabilities in that word: AVX2, BMI, ADX, SHA and newer ones.
#[cfg(not(target_arch = "aarch64"))]
pub const MASK: (&str, &str) = ("OPENSSL_ia32cap", "~0x200000200000000");
/// Environment variable and value that leave only NEON and mask AES, PMULL and SHA (OpenSSL's
/// arm_arch.h).
#[cfg(target_arch = "aarch64")]
pub const MASK: (&str, &str) = ("OPENSSL_armcap", "0x1");

/// If this process was started to probe a library, probes it and returns the exit status.
///
/// [`of_pid`](super::of_pid) starts the program again, so any program that uses it must call this
/// function first.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != PROBE_ARGUMENT {
        return None;
    }
    let status = match probe(Path::new(LIBRARY_PATH)) {
        Ok(result) => {
            // If writing fails, the parent has exited and doesn't need the result.
            let _ = serde_json::to_writer(std::io::stdout().lock(), &result);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    };
    Some(status)
}

/// Reason why a library could not be probed.
#[derive(Debug)]
pub(super) enum ProbeError {
    /// The child process could not be run.
    Program(ProgramError),
    /// The library belongs to another user, and prony doesn't run as root.
    ForeignLibrary,
    /// The child process ended with this status and said nothing.
    Ended(String),
    /// The reason that the child process gave.
    Said(String),
    /// The child process returned no result.
    NoResult(serde_json::Error),
}

impl From<ProgramError> for ProbeError {
    fn from(error: ProgramError) -> ProbeError {
        ProbeError::Program(error)
    }
}

impl fmt::Display for ProbeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProbeError::Program(error) => error.fmt(f),
            ProbeError::ForeignLibrary => f.write_str(
                "the library belongs to another user (only root can probe it, as the user nobody)",
            ),
            ProbeError::Ended(status) => write!(
                f,
                "the child process that probed the library ended with {status}"
            ),
            ProbeError::Said(reason) => f.write_str(reason),
            ProbeError::NoResult(error) => {
                write!(f, "the child process returned no probe result ({error})")
            }
        }
    }
}

/// Probes a library in a child process. `capabilities` is the value of the mask variable; if it is
/// `None`, nothing is masked. If prony runs as root, a library that is not `trusted` runs as the
/// user nobody.
///
/// # Errors
/// Returns the reason why the library can't be probed.
pub(super) fn probe_in_child(
    library: &File,
    trusted: bool,
    capabilities: Option<&str>,
) -> Result<ProbeResult, ProbeError> {
    let library = library.try_clone().map_err(ProgramError::Io)?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(PROBE_ARGUMENT)
        .env_clear()
        // The machine's OpenSSL configuration could load additional modules.
        .env("OPENSSL_CONF", "/dev/null")
        .current_dir("/")
        .stdin(Stdio::from(library));
    if let Some(value) = capabilities {
        command.env(MASK.0, value);
    }
    if !trusted {
        if !rustix::process::geteuid().is_root() {
            return Err(ProbeError::ForeignLibrary);
        }
        command.uid(NOBODY_ID).gid(NOBODY_ID);
    }
    let output = run_program(command, PROBE_TIMEOUT)?;
    if !output.success {
        let said = output.stderr.lines().last().unwrap_or_default().trim();
        return Err(match said {
            "" => ProbeError::Ended(output.status),
            said => ProbeError::Said(said.replace(LIBRARY_PATH, "the library")),
        });
    }
    serde_json::from_str(&output.stdout).map_err(ProbeError::NoResult)
}
