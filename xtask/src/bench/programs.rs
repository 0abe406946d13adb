//! Detection, installation and versions of the tools and servers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::options::BenchOptions;
use super::rows::{Row, Section, ServerKind};
use super::tool::{PEERS, Source, Tool};
use crate::cargo::{build_program, cargo};
use crate::test::install::{find_program, go_install, install_missing};
use crate::test::packages::{self, Need};

/// Paths of the executables that the rows of a section need. Missing peers and servers are left
/// out.
pub(super) struct Programs {
    pub(super) tools: BTreeMap<Tool, PathBuf>,
    pub(super) servers: BTreeMap<ServerKind, PathBuf>,
    /// Versions of all programs and the kernel, as one sentence.
    pub(super) versions: String,
}

/// Finds the programs, and installs missing ones if the options allow it. `folder` belongs to the
/// benchmark and is below `target`.
pub(super) fn gather(
    section: Section,
    rows: &[&'static Row],
    options: &BenchOptions,
    folder: &Path,
) -> Result<Programs, String> {
    let wanted: BTreeSet<Tool> = rows.iter().flat_map(|row| options.tools_of(row)).collect();
    let kinds: BTreeSet<ServerKind> = rows.iter().flat_map(|row| row.servers).copied().collect();
    if options.install {
        install_packages(section, &wanted);
    }
    let absolute = |path: &PathBuf| std::path::absolute(path).map_err(|e| e.to_string());
    let given = options.prony.last();
    let prony = given.map_or_else(|| build_program("prony", &[]), absolute)?;
    let with = match section {
        Section::Quic => " with HTTP/3",
        _ => "",
    };
    let mut tools = BTreeMap::new();
    for tool in wanted {
        let found = match tool {
            Tool::OldProny => options.prony.first().map(absolute).transpose()?,
            _ if tool.is_prony() => Some(prony.clone()),
            Tool::Floor if section == Section::Quic => {
                Some(build_program("prony-quic-floor", &[])?)
            }
            Tool::Floor => Some(build_program("prony-floor", &[])?),
            _ => find_peer(tool, section, folder, options.install),
        };
        match found {
            Some(path) => drop(tools.insert(tool, path)),
            None => println!(
                "{}{with} is not installed; its column is omitted",
                tool.name()
            ),
        }
    }
    let mut servers = BTreeMap::new();
    for kind in kinds {
        let found = match kind {
            ServerKind::Origin => Some(prony.clone()),
            ServerKind::Caddy => find_program("caddy"),
            ServerKind::Arrivals | ServerKind::FarKernel => {
                Some(build_program("prony-responder", &[])?)
            }
            ServerKind::SimulatedFleet => {
                let example = "simulated_agents";
                Some(build_program("prony-fleet", &["--example", example])?)
            }
            _ => {
                Some(find_program("nginx").ok_or("nginx is not installed, and most rows need it")?)
            }
        };
        match found {
            Some(path) => drop(servers.insert(kind, path)),
            None => println!("{} is not installed; its rows are omitted", kind.name()),
        }
    }
    let versions = versions(&tools, &servers);
    Ok(Programs {
        tools,
        servers,
        versions,
    })
}

fn install_packages(section: Section, tools: &BTreeSet<Tool>) {
    let names: &[&str] = match section {
        Section::Tools => &["nginx", "openssl"],
        Section::Bypass => &["nginx", "openssl", "ip (iproute2)"],
        Section::Fleet | Section::Ceiling | Section::Quic => &[],
    };
    let servers = packages::NEEDS.iter().filter(|n| names.contains(&n.name));
    let peers = packages::PEERS.iter();
    let peers = peers.filter(|n| tools.iter().any(|tool| tool.name() == n.name));
    let mut needs: Vec<&'static Need> = servers.chain(peers).collect();
    if section == Section::Bypass {
        needs.push(&packages::ETHTOOL);
    }
    install_missing(&needs);
}

/// Path of a peer, which is first installed from its source if it is missing and `install` is true.
fn find_peer(tool: Tool, section: Section, folder: &Path, install: bool) -> Option<PathBuf> {
    // oha supports HTTP/3 only if it is built for it.
    if tool == Tool::Oha && section == Section::Quic {
        let root = folder.join("oha-http3");
        let program = root.join("bin/oha");
        if !program.is_file() && install {
            let features = ["--features", "http3"];
            install_from_source(tool, Source::Cargo("oha", None), &root, &features);
        }
        return program.is_file().then_some(program);
    }
    let find = || {
        let own = Some(folder.join("bin").join(tool.name())).filter(|path| path.is_file());
        own.or_else(|| find_program(tool.name()))
    };
    if let (None, Some(source), true) = (find(), tool.source(), install) {
        install_from_source(tool, source, folder, &[]);
    }
    find()
}

/// Builds a tool that isn't available as a package. Its executable is then in `root`/bin.
fn install_from_source(tool: Tool, source: Source, root: &Path, more: &[&str]) {
    let mut command = match source {
        Source::Cargo(name, version) => {
            let mut command = cargo(&["install", "--locked", name]);
            command.args(version.iter().flat_map(|version| ["--version", version]));
            command.args(more).arg("--root").arg(root);
            command.env("CARGO_TARGET_DIR", root.join("build"));
            command
        }
        Source::Go(module) => go_install(module, &root.join("bin")),
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

fn versions(tools: &BTreeMap<Tool, PathBuf>, servers: &BTreeMap<ServerKind, PathBuf>) -> String {
    let mut parts: Vec<String> = servers
        .iter()
        .filter_map(|(kind, path)| {
            let version = version(path, kind.version_arguments()?);
            Some(format!("{} {version}", kind.name()))
        })
        .collect();
    for tool in [Tool::Prony].iter().chain(PEERS) {
        let Some(path) = tools.get(tool) else {
            continue;
        };
        let version = match (tool.version_arguments(), tool.source()) {
            (Some(arguments), _) => version(path, arguments),
            (None, Some(Source::Cargo(_, Some(version)))) => version.to_owned(),
            (None, Some(Source::Go(module))) => {
                module.rsplit('v').next().unwrap_or_default().to_owned()
            }
            (None, _) => UNKNOWN_VERSION.to_owned(),
        };
        parts.push(format!("{} {version}", tool.name()));
    }
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    parts.push(format!("Linux {}", kernel.trim()));
    parts.join(", ")
}

const UNKNOWN_VERSION: &str = "of an unknown version";

fn version(program: &Path, arguments: &[&str]) -> String {
    let Ok(output) = Command::new(program).args(arguments).output() else {
        return UNKNOWN_VERSION.to_string();
    };
    // Some tools print the version to standard error, and wrk exits with an error.
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    first_version(&text).unwrap_or(UNKNOWN_VERSION).to_string()
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
