//! Commands that the tasks run, and the workspace root.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

/// Returns the workspace root: the parent directory of this crate.
pub(crate) fn workspace_root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Returns a cargo command that runs in the workspace root. See [`command`] for its environment.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = command(&program);
    command.args(args).current_dir(workspace_root());
    command
}

/// Builds a program of the workspace in release mode, or an example with `--example NAME` in
/// `which`. Returns the path of the executable.
pub(crate) fn build_program(package: &str, which: &[&str]) -> Result<PathBuf, String> {
    let name = which.last().unwrap_or(&package);
    let failed = |problem: String| format!("cargo build --package {package}: {problem}");
    let output = cargo(&["build", "--release", "--package", package])
        .args(which)
        .arg("--message-format=json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(output.status.to_string()));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .find_map(|line| executable(line, name))
        .ok_or_else(|| failed("no executable".to_owned()))
}

/// Path of a program's executable, if this line of cargo's JSON messages names it.
fn executable(line: &str, program: &str) -> Option<PathBuf> {
    let message: Value = serde_json::from_str(line).ok()?;
    let is_program = message.pointer("/target/name")?.as_str()? == program;
    let path = message.get("executable")?.as_str()?;
    is_program.then(|| PathBuf::from(path))
}

/// Returns a command with the environment that the outer `cargo run` was started with. Variables
/// that cargo adds for the running program are removed, because they would make build scripts run
/// again. Cargo's library paths are removed, because they would affect the servers that the tests
/// start.
pub(crate) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_added_by_cargo_run) {
            command.env_remove(name);
        }
    }
    if let Some(path) = std::env::var_os("LD_LIBRARY_PATH") {
        let sysroot = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
        let kept: Vec<PathBuf> = std::env::split_paths(&path)
            .filter(|p| !is_build_folder(p, &workspace_root(), sysroot.as_deref()))
            .collect();
        match std::env::join_paths(kept) {
            Ok(joined) if !joined.is_empty() => command.env("LD_LIBRARY_PATH", joined),
            _ => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
    command
}

fn is_added_by_cargo_run(name: &str) -> bool {
    name.starts_with("CARGO_PKG_")
        || matches!(
            name,
            "CARGO_MANIFEST_DIR"
                | "CARGO_MANIFEST_PATH"
                | "CARGO_MANIFEST_LINKS"
                | "CARGO_BIN_NAME"
                | "CARGO_CRATE_NAME"
                | "CARGO_PRIMARY_PACKAGE"
        )
}

fn is_build_folder(path: &Path, root: &Path, rustup: Option<&Path>) -> bool {
    path.starts_with(root)
        || rustup.is_some_and(|r| path.starts_with(r))
        || path
            .components()
            .any(|c| c.as_os_str() == "rustlib" || c.as_os_str() == ".rustup")
        || path.components().any(|c| c.as_os_str() == "target")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executable_is_found_among_cargos_messages() {
        let of = |name: &str, path: &str| {
            let text =
                r#"{"reason":"compiler-artifact","target":{"name":"NAME"},"executable":EXE}"#;
            executable(&text.replace("NAME", name).replace("EXE", path), "prony")
        };
        let path = PathBuf::from("/t/prony");
        assert_eq!(of("prony", "\"/t/prony\""), Some(path));
        assert_eq!(of("prony", "null"), None);
        assert_eq!(of("prony-load", "\"/t/x\""), None);
        assert_eq!(executable("not json", "prony"), None);
    }

    #[test]
    fn variables_of_cargo_run_are_distinguished_from_the_users() {
        assert!(is_added_by_cargo_run("CARGO_PKG_NAME"));
        assert!(is_added_by_cargo_run("CARGO_MANIFEST_DIR"));
        assert!(!is_added_by_cargo_run("CARGO_HOME"));
        assert!(!is_added_by_cargo_run("CARGO_TARGET_DIR"));
        assert!(!is_added_by_cargo_run("CARGO_BUILD_JOBS"));
    }

    #[test]
    fn a_users_own_library_path_stays() {
        let root = Path::new("/src/prony");
        assert!(is_build_folder(
            Path::new("/src/prony/target/debug"),
            root,
            None
        ));
        assert!(is_build_folder(
            Path::new("/h/.rustup/toolchains/x/lib"),
            root,
            None
        ));
        assert!(!is_build_folder(Path::new("/opt/openssl/lib"), root, None));
    }
}
