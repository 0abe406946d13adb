//! Environment of a result: the machines, their settings, and the programs of the services.
//!
//! The environment is stored as `environment.json`. Facts that a system doesn't report are omitted.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Schema of `environment.json`, stored as its first field.
pub const ENVIRONMENT_SCHEMA: &str = "prony.environment/1";

/// The environment of a trial.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// This machine and its settings.
    pub machine: MachineFacts,
    /// Programs of each running service, by service. The program of the service's first process
    /// comes first.
    pub services: BTreeMap<String, Vec<Program>>,
    /// Files that the command of each service names, and the state of its working directory in
    /// Git, by service. Empty if an older version of prony ran the services.
    #[serde(default)]
    pub sources: BTreeMap<String, ServiceSources>,
    /// Kernel settings of named places.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, PlaceFacts>,
    /// Emulated links.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub links: BTreeMap<String, LinkFacts>,
    /// Facts about other machines that run services, by the name of their agent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, MachineFacts>,
    /// For each service on another machine, the name of the agent that runs it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosted: BTreeMap<String, String>,
}

/// Kernel settings of a named place.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlaceFacts {
    /// Applied settings by name.
    pub sysctls: BTreeMap<String, String>,
    /// Skipped settings, each with the reason.
    pub not_applicable: BTreeMap<String, String>,
}

/// Facts about an emulated link.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct LinkFacts {
    /// The emulator: `kernel` or `relay`.
    pub emulator: String,
}

/// Facts about a machine, including settings that affect servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct MachineFacts {
    /// Operating system, such as `Linux`.
    pub system: String,
    /// Distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: String,
    /// Kernel release.
    pub kernel: String,
    /// Architecture, such as `x86_64`.
    pub architecture: String,
    /// Processor model.
    pub cpu: String,
    /// Number of online cores.
    pub cores: usize,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// CPU frequency governor, such as `performance` or `powersave`.
    pub cpu_governor: Option<String>,
    /// Revision of the processor's microcode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// True if the processor may exceed its nominal frequency.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turbo: Option<bool>,
    /// Use of transparent huge pages: `always`, `madvise` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transparent_huge_pages: Option<String>,
    /// Network cards by interface.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub network_cards: BTreeMap<String, NetworkCard>,
    /// True if the system runs in a virtual machine.
    pub virtualised: bool,
    /// Availability of hardware counters: `by core`, `by process`, or `none: ` followed by the
    /// reason.
    #[serde(default)]
    pub hardware_counters: String,
    /// Soft and hard limits on open files that services inherit; `None` means unlimited.
    pub open_files: (Option<u64>, Option<u64>),
    /// Kernel settings by name.
    pub sysctls: BTreeMap<String, String>,
    /// Known vulnerabilities of the processor, with the kernel's mitigation of each.
    pub mitigations: BTreeMap<String, String>,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkCard {
    /// Name of the driver.
    pub driver: String,
    /// Version of the firmware.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub firmware: Option<String>,
    /// Speed of the link, in Mbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_mbit_per_s: Option<u64>,
    /// Number of receive queues.
    pub receive_queues: usize,
    /// Number of transmit queues.
    pub transmit_queues: usize,
}

/// A program of a service.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// Path of the program's file.
    pub path: PathBuf,
    /// SHA-256 of the program's file, in hexadecimal.
    pub sha256: Option<String>,
    /// Version and build options as the program prints them; `None` for programs that prony doesn't
    /// recognize.
    pub version: Option<String>,
    /// Shared libraries that the process has loaded into memory.
    pub libraries: Vec<PathBuf>,
}

/// Files of a service that its processes don't reveal, as they were while the service ran.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServiceSources {
    /// Regular files that the command names, except programs, by the path in the command.
    pub files: BTreeMap<String, SourceFile>,
    /// State of the Git repository that contains the working directory; `None` if there is none, or
    /// if `git` can't read it.
    pub git: Option<GitState>,
    /// Image of the service's container; `None` without a container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<ImageFacts>,
}

/// Image of a container.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ImageFacts {
    /// Name of the image.
    pub name: String,
    /// Digest of the image in its registry; of its configuration if it is in none.
    pub digest: String,
    /// Name and version of the program that runs the container.
    pub runtime: String,
}

/// A file that a command names.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SourceFile {
    /// Size in bytes.
    pub bytes: u64,
    /// SHA-256 of the contents, in hexadecimal; `None` if the file is too large or can't be read.
    pub sha256: Option<String>,
    /// Time of the last change, in seconds since 1970, if the contents have no hash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified_s: Option<i64>,
}

/// State of a Git repository.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GitState {
    /// Hash of the current commit.
    pub commit: String,
    /// Changes since the commit; `None` if `git` could not list them in time.
    pub changes: Option<GitChanges>,
}

/// Changes in a repository since its current commit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GitChanges {
    /// Number of tracked files that were changed, added or deleted.
    pub changed_files: u64,
    /// SHA-256 over the names and contents of these files; `None` without changes, or if a file is
    /// too large.
    pub sha256: Option<String>,
    /// Number of files and folders that Git neither tracks nor ignores, except folders of prony's
    /// results. Their contents are not recorded.
    pub untracked: u64,
}

/// Arguments that make well-known programs print their version and build options. Other programs
/// are not run, because they might not ignore an unknown argument.
const VERSION_ARGUMENTS: [(&str, &[&str]); 26] = [
    ("angie", &["-V"]),
    ("apache2", &["-V"]),
    ("caddy", &["version"]),
    ("envoy", &["--version"]),
    ("gunicorn", &["--version"]),
    ("h2o", &["--version"]),
    ("haproxy", &["-vv"]),
    ("httpd", &["-V"]),
    ("hypercorn", &["--version"]),
    ("java", &["-version"]),
    ("lighttpd", &["-V"]),
    ("nghttpd", &["--version"]),
    ("nginx", &["-V"]),
    ("nginx-debug", &["-V"]),
    ("node", &["-p", "JSON.stringify(process.versions)"]),
    ("openresty", &["-V"]),
    ("openssl", &["version", "-a"]),
    ("php", &["-v"]),
    ("php-fpm", &["-v"]),
    ("postgres", &["--version"]),
    ("python", &["-VV"]),
    ("redis-server", &["--version"]),
    ("ruby", &["--version"]),
    ("uvicorn", &["--version"]),
    ("uwsgi", &["--version"]),
    ("varnishd", &["-V"]),
];

/// Returns the arguments that make the program with this file name print its version.
#[must_use]
pub fn version_arguments(file_name: &str) -> Option<&'static [&'static str]> {
    // The version suffix is removed: python3.11, php-fpm8.2 and nginx-1.27.4 become python, php-fpm
    // and nginx.
    let plain = file_name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let plain = plain.strip_suffix('-').unwrap_or(plain);
    VERSION_ARGUMENTS
        .iter()
        .find(|(name, _)| *name == file_name || *name == plain)
        .map(|(_, args)| *args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_programs_have_version_arguments() {
        assert_eq!(version_arguments("nginx"), Some(["-V"].as_slice()));
        assert_eq!(version_arguments("nginx-1.27.4"), Some(["-V"].as_slice()));
        assert_eq!(version_arguments("php-fpm8.2"), Some(["-v"].as_slice()));
        assert_eq!(version_arguments("python3.11"), Some(["-VV"].as_slice()));
        assert_eq!(version_arguments("h2o"), Some(["--version"].as_slice()));
        assert_eq!(version_arguments("rm"), None);
    }
}
