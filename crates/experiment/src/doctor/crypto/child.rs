//! The parent's side of the child that tries a library: how it is started, and with which mask.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use super::super::run::answer;
use super::probe::{Answer, probe};

/// The argument that makes prony try a library instead of anything else. It is in no help.
const ARGUMENT: &str = "__try-libcrypto";
/// The library is the child's standard input, so that neither its path nor whose it is matters.
const LIBRARY: &str = "/proc/self/fd/0";
/// How long a child may take: it takes half a second where nothing is wrong.
const WITHIN: Duration = Duration::from_secs(60);
/// The user and group that a library runs as when it may be anybody's work: nobody.
const NOBODY: u32 = 65534;

/// The mask of AES-NI and PCLMULQDQ: bits 57 and 33 of OPENSSL_ia32cap(3). Without a second word,
/// OpenSSL from 1.1.0 on also clears what stands there: AVX2, BMI, ADX, SHA and what came later.
#[cfg(not(target_arch = "aarch64"))]
pub const MASK: (&str, &str) = ("OPENSSL_ia32cap", "~0x200000200000000");
/// Nothing but NEON: neither AES nor PMULL nor SHA (arm_arch.h of OpenSSL).
#[cfg(target_arch = "aarch64")]
pub const MASK: (&str, &str) = ("OPENSSL_armcap", "0x1");

/// Tries a library if that is what this process was started for, and gives its exit status. A
/// program that calls [`of_pid`](super::of_pid) or [`of_file`](super::of_file) calls this first of
/// all: those start it again.
pub fn run_if_asked() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != ARGUMENT {
        return None;
    }
    let status = match probe(Path::new(LIBRARY)) {
        Ok(answer) => {
            // Where nobody listens, nothing is lost.
            let _ = serde_json::to_writer(std::io::stdout().lock(), &answer);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    };
    Some(status)
}

/// Lets a child try the library. `capabilities` is the value of the mask's variable, none for the
/// processor as it is; a library that is not `ours` runs as nobody where prony is root.
///
/// # Errors
/// What stood in the way, in words.
pub(super) fn try_library(
    library: &File,
    ours: bool,
    capabilities: Option<&str>,
) -> Result<Answer, String> {
    let library = library.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new("/proc/self/exe");
    command
        .arg(ARGUMENT)
        .env_clear()
        // The machine's configuration could bring other modules in.
        .env("OPENSSL_CONF", "/dev/null")
        .current_dir("/")
        .stdin(Stdio::from(library));
    if let Some(value) = capabilities {
        command.env(MASK.0, value);
    }
    if !ours {
        if !rustix::process::geteuid().is_root() {
            return Err("it is another user's file, and only root can run it as nobody".to_owned());
        }
        command.uid(NOBODY).gid(NOBODY);
    }
    let answered = answer(command, WITHIN)?;
    if !answered.success {
        let said = answered.err.lines().last().unwrap_or_default().trim();
        return Err(match said {
            "" => format!("the child that tried it ended with {}", answered.status),
            said => said.replace(LIBRARY, "the library"),
        });
    }
    serde_json::from_str(&answered.out)
        .map_err(|error| format!("the child that tried it gave no answer ({error})"))
}
