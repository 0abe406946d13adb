//! The build of the workspace with clippy as the compiler.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;

use super::runner::TestProgram;
use crate::cargo::{cargo, workspace_root};
use crate::ending::Ending;

/// A build of the program and every test of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Test programs, in cargo's order.
    pub(super) programs: Vec<TestProgram>,
    pub(super) warnings: usize,
}

/// A cargo command with clippy as the compiler. It builds the workspace's crates separately from
/// plain cargo, but shares the dependencies. Incremental compilation and debugging information are
/// disabled to save CPU time; a failed test can be run again with plain cargo.
pub(super) fn linted(args: &[&str]) -> Command {
    let mut command = cargo(args);
    command
        .env("RUSTC_WORKSPACE_WRAPPER", clippy())
        .env("CARGO_INCREMENTAL", "0")
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    command
}

/// Path of clippy's compiler, which is next to cargo.
fn clippy() -> OsString {
    std::env::var_os("CARGO")
        .map(|cargo| Path::new(&cargo).with_file_name("clippy-driver"))
        .filter(|driver| driver.is_file())
        .map_or_else(|| "clippy-driver".into(), Into::into)
}

/// Builds the program and every test of the workspace, and prints the warnings.
pub(super) fn run() -> Result<Build, Ending> {
    let mut command = linted(&["test", "--workspace", "--no-run", "--quiet"]);
    command.arg("--message-format=json-render-diagnostics");
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| {
        println!("{}: {error}", command.get_program().display());
        Ending::Missing
    })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (warnings, artifacts) = thread::scope(|scope| {
        let warnings = scope.spawn(|| stderr.map_or(0, |it| print(it, &mut std::io::stderr())));
        let artifacts = stdout.map(std::io::read_to_string);
        (warnings.join(), artifacts)
    });
    let programs = artifacts.and_then(Result::ok).map(|it| programs(&it));
    match (child.wait(), programs, warnings) {
        (Ok(status), Some(programs), Ok(warnings)) if status.success() => {
            Ok(Build { programs, warnings })
        }
        _ => Err(Ending::Failed),
    }
}

/// Reads the test programs from cargo's messages, which are JSON objects, one per line.
fn programs(messages: &str) -> Vec<TestProgram> {
    let program = |message: Value| {
        let is_test = message["profile"]["test"] == true;
        let path = |value: &Value| value.as_str().map(PathBuf::from);
        let executable = path(&message["executable"]).filter(|_| is_test)?;
        let folder = path(&message["manifest_path"])?.parent()?.to_path_buf();
        let source = path(&message["target"]["src_path"])?;
        let shown = source.strip_prefix(workspace_root()).unwrap_or(&source);
        Some(TestProgram {
            source: shown.display().to_string(),
            executable,
            folder,
        })
    };
    let messages = messages.lines().map(serde_json::from_str);
    messages.map_while(Result::ok).filter_map(program).collect()
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

    #[test]
    fn test_programs_are_read_from_cargos_messages() {
        let root = workspace_root();
        let artifact = |test: bool, executable: Value| {
            serde_json::json!({
                "reason": "compiler-artifact",
                "manifest_path": root.join("crates/cli/Cargo.toml"),
                "target": { "src_path": root.join("crates/cli/src/main.rs") },
                "profile": { "test": test },
                "executable": executable,
            })
        };
        let messages = [
            artifact(true, "/t/prony-1".into()),
            artifact(false, "/t/prony".into()),
            artifact(true, Value::Null),
            serde_json::json!({ "reason": "build-finished", "success": true }),
        ];
        let programs = programs(&messages.map(|it| it.to_string()).join("\n"));
        let only = TestProgram {
            source: "crates/cli/src/main.rs".to_string(),
            executable: "/t/prony-1".into(),
            folder: root.join("crates/cli"),
        };
        assert_eq!(programs, [only]);
    }
}
