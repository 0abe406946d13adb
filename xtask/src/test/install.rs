//! Detection and installation of the programs that the tests and the benchmark need.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::packages::{self, Detection, Need, Selection};
use crate::cargo::{cargo, workspace_root};
use crate::ending::Ending;

/// Folders of servers and administration tools that a user's PATH may lack.
const MORE_PATH: &[&str] = &[
    "/usr/local/sbin",
    "/usr/sbin",
    "/sbin",
    "/usr/local/bin",
    "/usr/bin",
];

/// Components that a minimal Rust toolchain lacks: cargo subcommand and component name.
const COMPONENTS: &[(&str, &str)] = &[("fmt", "rustfmt"), ("clippy", "clippy")];

/// Installs missing requirements, or reports them.
pub(super) fn run() -> Ending {
    let components = complete_toolchain();
    match complete_machine() {
        Ending::Success => components,
        ending => ending,
    }
}

/// Adds missing components to the Rust toolchain.
fn complete_toolchain() -> Ending {
    let lacks = |subcommand: &str| {
        let output = cargo(&[subcommand, "--version"]).output();
        !output.is_ok_and(|o| o.status.success())
    };
    let missing: Vec<&str> = COMPONENTS
        .iter()
        .filter(|(s, _)| lacks(s))
        .map(|(_, component)| *component)
        .collect();
    if missing.is_empty() {
        return Ending::Success;
    }
    println!("adding to the Rust toolchain: {}", missing.join(", "));
    let added = Command::new("rustup")
        .args(["component", "add"])
        .args(&missing)
        .current_dir(workspace_root())
        .status();
    if added.is_ok_and(|s| s.success()) {
        return Ending::Success;
    }
    println!(
        "missing Rust components: {} (rustup can't add them; install them the way you installed \
            Rust)",
        missing.join(", ")
    );
    Ending::Missing
}

/// Installs missing servers and programs.
fn complete_machine() -> Ending {
    let selection = select(packages::NEEDS);
    if selection == Selection::default() {
        println!("all requirements of the tests are installed");
        return Ending::Success;
    }
    let mut ending = Ending::Success;
    if !selection.install.is_empty() {
        ending = install(&selection.install);
    }
    for need in &selection.build {
        if let Err(error) = build(need.source.unwrap_or_default()) {
            println!("missing: {} ({}): {error}", need.name, need.why);
            ending = Ending::Missing;
        }
    }
    for (need, reason) in &selection.unavailable {
        println!("missing: {} ({}): {reason}", need.name, need.why);
        ending = Ending::Missing;
    }
    if ending == Ending::Missing {
        println!(
            "`cargo xtask test --no-install` skips the installation; tests that need a missing \
                program fail"
        );
    }
    ending
}

/// Installs the missing requirements among `needs`. Requirements that can't be installed are
/// reported, and the rest are still installed.
pub(crate) fn install_missing(needs: &[&'static Need]) {
    let selection = select(needs.iter().copied());
    for (need, reason) in &selection.unavailable {
        println!("missing: {} ({}): {reason}", need.name, need.why);
    }
    if !selection.install.is_empty() {
        let _ = install(&selection.install);
    }
}

/// Folder of programs built from source.
pub(super) fn built_programs() -> PathBuf {
    workspace_root().join("target/programs")
}

/// Selects the actions for requirements that this machine doesn't meet.
fn select(needs: impl IntoIterator<Item = &'static Need>) -> Selection {
    let os_release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let has_apt = find_program("apt-get").is_some();
    packages::select(needs, has_apt, &os_release, is_met)
}

fn build(source: &str) -> Result<(), String> {
    println!("building {source}");
    let status = go_install(source, &built_programs())
        .stdin(Stdio::null())
        .status()
        .map_err(|error| {
            format!(
                "no package is available, and `go install {source}` fails: \
            {error}"
            )
        })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("go install {source}: {status}"))
    }
}

/// Returns the command that builds a Go program into a folder.
pub(crate) fn go_install(source: &str, folder: &Path) -> Command {
    let program = find_program("go")
        .or_else(|| Some(PathBuf::from("/usr/local/go/bin/go")).filter(|p| p.is_file()))
        .unwrap_or_else(|| PathBuf::from("go"));
    let mut command = Command::new(program);
    command.args(["install", source]).env("GOBIN", folder);
    command
}

fn install(needs: &[&Need]) -> Ending {
    println!("installing with apt-get:");
    for need in needs {
        println!("  {:<16} {}", need.package, need.why);
    }
    println!("(their daemons are not started)");
    let line = install_line(needs);
    if as_root(&line).is_none() {
        println!("root is needed, and sudo needs a password; run this command, then try again:");
        println!("  sudo {}", line.join(" "));
        return Ending::Missing;
    }
    if !succeeds_as_root(&line) && needs.len() > 1 {
        // A package that the system doesn't know makes apt-get fail for all packages.
        for need in needs {
            succeeds_as_root(&install_line(&[need]));
        }
    }
    let still: Vec<&&Need> = needs.iter().filter(|n| !is_met(n)).collect();
    for need in &still {
        println!("{} (package {}) is still missing", need.name, need.package);
    }
    if still.is_empty() {
        Ending::Success
    } else {
        Ending::Missing
    }
}

/// Returns the command that installs the packages of the given requirements.
fn install_line(needs: &[&Need]) -> Vec<String> {
    let script = workspace_root().join("xtask/install/apt.sh");
    let mut line = vec!["sh".to_string(), script.to_string_lossy().into_owned()];
    line.extend(needs.iter().map(|n| n.package.to_string()));
    line
}

/// Runs a command as root. If it fails, prints the failure.
fn succeeds_as_root(line: &[String]) -> bool {
    let Some(mut command) = as_root(line) else {
        return false;
    };
    let problem = match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => return true,
        Ok(status) => status.to_string(),
        Err(error) => error.to_string(),
    };
    println!("{}: {problem}", line.join(" "));
    false
}

/// Returns the command to run as root: directly, or with sudo if that needs no password; otherwise
/// `None`.
fn as_root(line: &[String]) -> Option<Command> {
    let (program, args) = line.split_first()?;
    if is_root() {
        let mut command = Command::new(program);
        command.args(args);
        return Some(command);
    }
    let sudo = find_program("sudo")?;
    let may = Command::new(&sudo)
        .args(["-n", "true"])
        .stderr(Stdio::null())
        .status();
    if !may.is_ok_and(|s| s.success()) {
        return None;
    }
    let mut command = Command::new(sudo);
    command.arg("-n").args(line);
    Some(command)
}

fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|o| o.stdout.trim_ascii() == b"0")
}

fn is_met(need: &Need) -> bool {
    match need.detection {
        Detection::Program(names) => names.iter().any(|n| find_program(n).is_some()),
        Detection::PythonModule(module) => {
            succeeds(&python(), &["-c", &format!("import {module}")])
        }
        Detection::Browser(names) => names
            .iter()
            .filter_map(|n| find_program(n))
            .any(|p| succeeds(&p, &["--version"])),
    }
}

fn succeeds(program: &Path, args: &[&str]) -> bool {
    Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|s| s.success())
}

/// Path of the Python that runs gunicorn, from the first line of gunicorn's script. It is not
/// necessarily the first `python3` on the path: Debian's script names /usr/bin/python3 even if a
/// version manager comes first.
fn python() -> PathBuf {
    find_program("gunicorn")
        .and_then(|path| std::fs::read_to_string(path).ok())
        .and_then(|script| interpreter(&script))
        .or_else(|| Some(PathBuf::from("/usr/bin/python3")).filter(|p| p.is_file()))
        .unwrap_or_else(|| PathBuf::from("python3"))
}

/// Returns the path of the Python interpreter on a script's first line, or `None` if the line names
/// another program.
fn interpreter(script: &str) -> Option<PathBuf> {
    let program = script
        .lines()
        .next()?
        .strip_prefix("#!")?
        .split_whitespace()
        .next()?;
    let path = PathBuf::from(program);
    path.file_name()?
        .to_str()?
        .starts_with("python")
        .then_some(path)
}

/// Searches for a program in `PATH`, [`MORE_PATH`] and the folder of programs built from source.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE_PATH.iter().map(PathBuf::from))
        .chain([built_programs()])
        .map(|folder| folder.join(name))
        .find(|p| p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interpreter_is_the_one_that_the_script_names() {
        let debian = "#!/usr/bin/python3\n# EASY-INSTALL\nimport sys\n";
        assert_eq!(interpreter(debian), Some(PathBuf::from("/usr/bin/python3")));
        assert_eq!(
            interpreter("#!/opt/py/bin/python3.12 -s\n"),
            Some("/opt/py/bin/python3.12".into())
        );
        assert_eq!(interpreter("#!/usr/bin/env bash\nexec pyenv\n"), None);
        assert_eq!(interpreter(""), None);
    }
}
