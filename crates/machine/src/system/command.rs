//! Execution of system commands such as `ip`.

use std::path::Path;
use std::process::{Command, Stdio};

use super::{HostError, program};

/// Runs `program` with the given arguments and returns its standard output.
///
/// # Errors
/// [`HostError::Command`], which contains the command's standard error.
pub(crate) fn run(program: &str, args: &[&str]) -> Result<String, HostError> {
    let failed = |message: String| HostError::Command {
        command: format!("{program} {}", args.join(" ")),
        message,
    };
    let path = program::find(program, Path::new("/"), None)
        .map_err(|missing| failed(missing.to_string()))?;
    let output = Command::new(path)
        .args(args)
        .stdin(Stdio::null())
        .env("LC_ALL", "C")
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(failed(if message.is_empty() {
        output.status.to_string()
    } else {
        message
    }))
}
