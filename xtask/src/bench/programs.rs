//! Detection, installation and versions of the tools.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::tool::{PEERS, Tool};
use crate::cargo::cargo;
use crate::test::install::{find_program, go_install, install_missing};
use crate::test::packages::{self, HEY_SOURCE, Need};

/// The last version of fortio that `go install` accepts.
const FORTIO: &str = "fortio.org/fortio@v1.66.5";

/// Version of shb. It needs Rust 1.91.
pub(super) const SHB: &str = "0.6.0";

const VEGETA: &str = "github.com/tsenart/vegeta/v12@v12.13.0";
const K6: &str = "go.k6.io/k6@v1.8.1";

/// Paths of the executables of nginx and all tools.
pub(super) struct Programs {
    pub(super) nginx: PathBuf,
    pub(super) tools: BTreeMap<Tool, PathBuf>,
}

/// Finds nginx and the tools, and installs missing ones if `install` is true. `folder` belongs to
/// the benchmark and is below `target`.
pub(super) fn gather(
    peers: &[Tool],
    prony: &[PathBuf],
    folder: &Path,
    install: bool,
) -> Result<Programs, String> {
    if install {
        install_packages(peers);
        for &tool in peers {
            if find(tool, folder).is_none() {
                install_from_source(tool, folder);
            }
        }
    }
    let nginx = nginx()?;
    let mut tools = BTreeMap::new();
    for &tool in peers {
        match find(tool, folder) {
            Some(path) => {
                tools.insert(tool, path);
            }
            None => println!("{} is not installed, so its column is omitted", tool.name()),
        }
    }
    tools.insert(Tool::Floor, build("prony-floor")?);
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| e.to_string());
    let new = prony.last().map_or_else(|| build("prony"), absolute)?;
    tools.insert(Tool::Prony, new);
    if let [old, _] = prony {
        tools.insert(Tool::OldProny, absolute(old)?);
    }
    Ok(Programs { nginx, tools })
}

/// Path of the nginx executable.
pub(super) fn nginx() -> Result<PathBuf, String> {
    let nginx = find_program("nginx");
    nginx.ok_or_else(|| "nginx is not installed, and all rows need it".to_string())
}

pub(super) fn find(tool: Tool, folder: &Path) -> Option<PathBuf> {
    let own = folder.join("bin").join(tool.name());
    if own.is_file() {
        return Some(own);
    }
    find_program(tool.name())
}

fn install_packages(peers: &[Tool]) {
    let server = packages::NEEDS
        .iter()
        .filter(|n| matches!(n.name, "nginx" | "openssl"));
    let wanted = packages::PEERS
        .iter()
        .filter(|n| peers.iter().any(|p| p.name() == n.name));
    let needs: Vec<&'static Need> = server.chain(wanted).collect();
    install_missing(&needs);
}

/// Builds a tool that isn't available as a package, in the benchmark's folder.
pub(super) fn install_from_source(tool: Tool, folder: &Path) {
    let mut command = match tool {
        Tool::Oha => {
            let mut command = cargo(&["install", "--locked", "oha", "--root"]);
            command.arg(folder);
            command.env("CARGO_TARGET_DIR", folder.join("build"));
            command
        }
        Tool::Shb => {
            let mut command = cargo(&["install", "--locked", "shb", "--version", SHB, "--root"]);
            command.arg(folder);
            command.env("CARGO_TARGET_DIR", folder.join("build"));
            command
        }
        Tool::Hey => go_install(HEY_SOURCE, &folder.join("bin")),
        Tool::Fortio => go_install(FORTIO, &folder.join("bin")),
        Tool::Vegeta => go_install(VEGETA, &folder.join("bin")),
        Tool::K6 => go_install(K6, &folder.join("bin")),
        _ => return,
    };
    println!("building {} (takes minutes)", tool.name());
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(status) => println!("{} can't be built: {status}", tool.name()),
        Err(error) => {
            let program = command.get_program().display();
            println!("{} can't be built: {program}: {error}", tool.name());
        }
    }
}

/// Builds a program of the workspace; returns its path.
pub(super) fn build(package: &str) -> Result<PathBuf, String> {
    build_target(package, &[], package)
}

/// Builds an example from a package in the workspace; returns its path.
pub(super) fn build_example(package: &str, example: &str) -> Result<PathBuf, String> {
    build_target(package, &["--example", example], example)
}

fn build_target(package: &str, which: &[&str], name: &str) -> Result<PathBuf, String> {
    let arguments = ["build", "--release", "--quiet", "--package", package];
    let output = cargo(&arguments)
        .args(which)
        .arg("--message-format=json")
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("cargo build: {e}"))?;
    if !output.status.success() {
        return Err(format!(
            "cargo build --package {package}: {}",
            output.status
        ));
    }
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter(|m| m.pointer("/target/name").is_some_and(|n| n == name))
        .find_map(|m| Some(PathBuf::from(m.get("executable")?.as_str()?)))
        .ok_or_else(|| format!("cargo build --package {package}: no executable"))
}

/// Versions of all programs, nginx and the kernel, as one sentence.
pub(super) fn versions(programs: &Programs) -> String {
    let mut parts = vec![format!("nginx {}", version(&programs.nginx, &["-v"]))];
    for tool in [Tool::Prony].iter().chain(PEERS) {
        let Some(path) = programs.tools.get(tool) else {
            continue;
        };
        let version = match tool.version_arguments() {
            Some(arguments) => version(path, arguments),
            None => version_of_source(*tool).to_string(),
        };
        parts.push(format!("{} {version}", tool.name()));
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    parts.push(format!("Linux {}", kernel.trim()));
    parts.join(", ")
}

/// Version that `install_from_source` installs, for tools that don't print one.
fn version_of_source(tool: Tool) -> &'static str {
    let source = match tool {
        Tool::Vegeta => VEGETA,
        Tool::Shb => return SHB,
        _ => HEY_SOURCE,
    };
    source.rsplit('v').next().unwrap_or_default()
}

pub(super) fn version(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return "of an unknown version".to_string();
    };
    // Some tools print the version to standard error, and wrk exits with an error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    first_version(&text)
        .unwrap_or("of an unknown version")
        .to_string()
}

/// First word that contains a version: `nginx/1.22.1`, `debian/4.1.0-3`, `Version 2.3`.
fn first_version(text: &str) -> Option<&str> {
    text.split(|c: char| c.is_whitespace() || matches!(c, '/' | ',' | '(' | ')'))
        .map(|word| word.strip_prefix('v').unwrap_or(word))
        .find(|word| {
            let begins = word.starts_with(|c: char| c.is_ascii_digit());
            begins && word.contains('.')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        for (text, version) in [
            ("nginx version: nginx/1.22.1\n", "1.22.1"),
            (
                "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012\nUsage:",
                "4.1.0-3+b2",
            ),
            ("This is ApacheBench, Version 2.3 <$Revision$>", "2.3"),
            ("h2load nghttp2/1.52.0", "1.52.0"),
            ("1.66.5\n", "1.66.5"),
            ("oha 1.16.0", "1.16.0"),
            ("SIEGE 4.0.7\n\nCopyright (C) 2019", "4.0.7"),
        ] {
            assert_eq!(first_version(text), Some(version));
        }
        assert_eq!(first_version("no number"), None);
    }
}
