//! The machine that runs a plan: its programs and cores.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::plan::syntax::{TomlEntry, TomlNode, TomlValue};
use crate::system::program::{self, MissingProgram};

/// Command in a plan that stands for the running prony binary.
const OWN_NAME: &str = "prony";

/// Programs and cores of a machine. Tests simulate other machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineProfile {
    /// Cores that this process may use, in ascending order.
    pub cores: Vec<usize>,
    /// Folders that are searched for programs, in order.
    pub path: Vec<PathBuf>,
    /// Path of the running prony binary.
    pub own_program: PathBuf,
}

impl MachineProfile {
    /// Returns the profile of this machine.
    pub fn this() -> Self {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self {
            cores: usable_cores(),
            path: std::env::split_paths(&path).collect(),
            own_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from(OWN_NAME)),
        }
    }

    /// Returns the value of `machine` in templates, with its keys. `machine.cores` is the list of
    /// cores.
    pub(crate) fn template_value(&self) -> (BTreeSet<String>, TomlNode) {
        let cores = self.cores.iter().filter_map(|&core| {
            let value = TomlValue::Integer(i64::try_from(core).ok()?);
            Some(TomlNode { line: 0, value })
        });
        let entry = TomlEntry {
            key: "cores".to_owned(),
            line: 0,
            node: TomlNode::array(0, cores.collect()),
        };
        let keys = BTreeSet::from(["cores".to_owned()]);
        (keys, TomlNode::table(0, vec![entry]))
    }

    /// Resolves a program name to the path that the host starts.
    ///
    /// `prony` becomes the path of the running prony binary. A name with a slash is a path relative
    /// to the plan's folder. Any other name is unchanged, or gets a version suffix if only a
    /// versioned program is installed.
    ///
    /// # Errors
    /// The program was not found.
    pub(crate) fn program(
        &self,
        name: &str,
        folder: &Path,
        env: &BTreeMap<String, String>,
    ) -> Result<String, ProgramNotFound> {
        if name == OWN_NAME {
            return Ok(self.own_program.to_string_lossy().into_owned());
        }
        let started = if name.contains('/') {
            let path: PathBuf = folder.join(name).components().collect();
            path.to_string_lossy().into_owned()
        } else {
            name.to_owned()
        };
        let own_path = std::env::join_paths(&self.path).unwrap_or_default();
        let path = env
            .get("PATH")
            .cloned()
            .unwrap_or_else(|| own_path.to_string_lossy().into());
        match program::find(&started, folder, Some(&path)) {
            Ok(found) if found.file_name() != Path::new(&started).file_name() => {
                let versioned = found.file_name().unwrap_or_default();
                Ok(versioned.to_string_lossy().into_owned())
            }
            Ok(_) => Ok(started),
            Err(missing) => Err(ProgramNotFound {
                hint: install_hint(name, &missing),
                package: missing_package(name, &missing),
                started,
            }),
        }
    }
}

/// Returns the package that contains a missing program, if installing it would help.
fn missing_package(name: &str, missing: &MissingProgram) -> Option<&'static str> {
    let is_absent = missing.not_executable.is_none() && !name.contains('/');
    missing.package.filter(|_| is_absent)
}

/// Returns a hint for installing a missing program.
fn install_hint(name: &str, missing: &MissingProgram) -> String {
    if let Some(path) = &missing.not_executable {
        return format!("chmod +x {}", path.display());
    }
    if name.contains('/') {
        return "check the path; relative paths are resolved against the plan's folder".to_owned();
    }
    match missing.package {
        Some(debian) => format!("apt install {debian}"),
        None => "install it, or write its full path".to_owned(),
    }
}

/// A program that was not found.
pub(crate) struct ProgramNotFound {
    /// Command that would start the program.
    pub(crate) started: String,
    /// Hint for installing the program.
    pub(crate) hint: String,
    /// Debian package that contains the program, if installing it would help.
    pub(crate) package: Option<&'static str>,
}

/// Returns the cores that the scheduler allows this process to use.
fn usable_cores() -> Vec<usize> {
    if let Ok(set) = rustix::thread::sched_getaffinity(None) {
        let cores: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|core| set.is_set(*core))
            .collect();
        if !cores.is_empty() {
            return cores;
        }
    }
    (0..std::thread::available_parallelism().map_or(1, usize::from)).collect()
}
