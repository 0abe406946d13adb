//! The build of the workspace with clippy as the compiler.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Ending;
use crate::cargo::cargo;

/// Result of the build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Built {
    /// Number of warnings of a build that is complete.
    Complete { warnings: usize },
    /// Nothing can be run.
    Broken(Ending),
}

/// A cargo command whose compiler is clippy. Clippy's artifacts of the workspace's crates are
/// separate from those of a plain build; the dependencies are the same. Incremental compilation and
/// debugging information would cost CPU time; a failed test can be run again with plain cargo.
pub(super) fn linted(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command
        .env("RUSTC_WORKSPACE_WRAPPER", clippy())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Path of clippy's compiler, which is in cargo's folder.
fn clippy() -> OsString {
    std::env::var_os("CARGO")
        .map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"))
        .filter(|driver| driver.is_file())
        .map_or_else(|| "clippy-driver".into(), Into::into)
}

/// Builds the program and every test of the workspace, and prints the warnings.
pub(super) fn run() -> Built {
    let mut command = linted(&["test", "--workspace", "--no-run", "--quiet"]);
    match command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn() {
        Ok(mut child) => {
            let stderr = child.stderr.take();
            let warnings = stderr.map_or(0, |stderr| print(stderr, &mut std::io::stderr()));
            match child.wait() {
                Ok(status) if status.success() => Built::Complete { warnings },
                _ => Built::Broken(Ending::Failed),
            }
        }
        Err(error) => {
            println!("{}: {error}", command.get_program().display());
            Built::Broken(Ending::Missing)
        }
    }
}

/// Forwards the compiler's messages. Returns the number of warnings, which `--quiet` restricts to
/// those about the workspace's crates. Cargo repeats the warnings of a crate that is already built.
fn print(messages: impl Read, out: &mut dyn Write) -> usize {
    let mut warnings = 0;
    for line in BufReader::new(messages).split(b'\n').map_while(Result::ok) {
        warnings += usize::from(line.starts_with(b"warning:") || line.starts_with(b"warning["));
        let _ = out.write_all(&line).and_then(|()| out.write_all(b"\n"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_counted_and_forwarded() {
        let messages = "warning: unused variable\n --> a.rs\n  = note: warning: no\n\
            warning[E0170]: pattern\nerror: no\n";
        let mut out = Vec::new();
        assert_eq!(print(messages.as_bytes(), &mut out), 2);
        assert_eq!(out, messages.as_bytes());
    }
}
