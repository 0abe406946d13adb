//! What a result depends on besides the plan: the machine, its settings, the programs that ran.
//!
//! It is stored as `environment.json`. Whatever a system does not tell is left out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The name of the format of `environment.json`, its first field; `schema/` describes it.
pub const ENVIRONMENT_SCHEMA: &str = "prony.environment/1";

/// Everything about one host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Environment {
    /// The machine and its settings.
    pub machine: Machine,
    /// The programs of each running service, the one of its first process first.
    pub services: BTreeMap<String, Vec<Program>>,
    /// What became of the settings that the plan has for its named places.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub places: BTreeMap<String, PlaceFacts>,
    /// The other machines on which services run, by their agents' names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Machine>,
    /// The agents of those services that run on another machine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosted: BTreeMap<String, String>,
}

/// Kernel settings of a place: those made in its own network, and those left out.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct PlaceFacts {
    /// Settings by name, as they were made.
    pub sysctls: BTreeMap<String, String>,
    /// Settings that were left out, each with the reason.
    pub not_applicable: BTreeMap<String, String>,
}

/// A machine and the settings of it that matter to servers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Machine {
    /// The system's name, such as `Linux`.
    pub system: String,
    /// The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub distribution: String,
    /// The kernel's release.
    pub kernel: String,
    /// The processor's architecture, such as `x86_64`.
    pub architecture: String,
    /// The processor's model.
    pub cpu: String,
    /// Cores online.
    pub cores: usize,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// How the cores' frequency is governed (`performance`, `powersave`).
    pub cpu_governor: Option<String>,
    /// Whether a hypervisor is below.
    pub virtualised: bool,
    /// How the processor's counters were read: `by core`, `by process`, or `none: ` and why.
    #[serde(default)]
    pub hardware_counters: String,
    /// The limit of open files that services inherit: soft, hard; `None` is unlimited.
    pub open_files: (Option<u64>, Option<u64>),
    /// Kernel settings by name.
    pub sysctls: BTreeMap<String, String>,
    /// The processor's weaknesses and what the kernel does about them.
    pub mitigations: BTreeMap<String, String>,
}

impl Machine {
    /// This machine, now.
    #[must_use]
    pub fn here() -> Machine {
        crate::host::system::environment(&BTreeMap::new()).machine
    }
}

/// One executable that a service runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Program {
    /// Its file.
    pub path: PathBuf,
    /// The file's SHA-256, in hexadecimal.
    pub sha256: Option<String>,
    /// What it says about its version and how it was built, where prony knows how to ask.
    pub version: Option<String>,
    /// The shared libraries that it has loaded.
    pub libraries: Vec<PathBuf>,
}

/// How well-known programs are asked for their version and build options. Others are not run at
/// all: nobody knows what a stranger does with an argument.
const QUESTIONS: [(&str, &[&str]); 26] = [
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

/// The arguments that make a program say its version, by its file name.
#[must_use]
pub fn version_question(file_name: &str) -> Option<&'static [&'static str]> {
    // python3.11, php-fpm8.2 and nginx-1.27.4 are asked like python, php-fpm and nginx.
    let plain = file_name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let plain = plain.strip_suffix('-').unwrap_or(plain);
    QUESTIONS
        .iter()
        .find(|(name, _)| *name == file_name || *name == plain)
        .map(|(_, args)| *args)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn well_known_programs_can_be_asked() {
        assert_eq!(version_question("nginx"), Some(["-V"].as_slice()));
        assert_eq!(version_question("nginx-1.27.4"), Some(["-V"].as_slice()));
        assert_eq!(version_question("php-fpm8.2"), Some(["-v"].as_slice()));
        assert_eq!(version_question("python3.11"), Some(["-VV"].as_slice()));
        assert_eq!(version_question("h2o"), Some(["--version"].as_slice()));
        assert_eq!(version_question("rm"), None);
    }
}
