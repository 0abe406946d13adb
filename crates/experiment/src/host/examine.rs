//! What a look at the program of a running service tells: the cryptography that it has mapped.

use std::collections::BTreeMap;

use prony_record::Finding;

use crate::service::ServiceSpec;

/// What was found of each program, with the library and the environment that it ran with: measuring
/// takes seconds, and the same is found the next time.
#[derive(Debug, Default)]
pub(super) struct Examined(BTreeMap<String, Option<Finding>>);

impl Examined {
    /// What is to be said of the service's cryptography; `tree` are its processes, its first one
    /// first.
    pub(super) fn crypto(&mut self, spec: &ServiceSpec, tree: &[i32]) -> Option<Finding> {
        // Some services have it not in their first process.
        let (pid, programs) = tree
            .iter()
            .find_map(|&pid| Some((pid, programs_with_crypto(pid)?)))?;
        let key = format!("{programs} {:?}", spec.env);
        let found = self.0.entry(key).or_insert_with(|| of_process(pid));
        let finding = found.clone()?;
        let text = format!("Service \"{}\": {}.", spec.name, finding.text);
        Some(Finding { text, ..finding })
    }
}

/// The files of a process that has a libcrypto mapped: its program and the library.
#[cfg(target_os = "linux")]
fn programs_with_crypto(pid: i32) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let library = maps.lines().find(|line| line.contains("libcrypto"))?;
    // Behind the address, which differs each time: the device, the file's number, the path.
    let library: Vec<&str> = library.split_whitespace().skip(3).collect();
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(format!("{} {}", program.display(), library.join(" ")))
}

#[cfg(target_os = "linux")]
fn of_process(pid: i32) -> Option<Finding> {
    // What can't be told of it is the doctor's to say, not an experiment's.
    crate::crypto::of_pid(pid).ok()?.finding()
}

#[cfg(not(target_os = "linux"))]
fn programs_with_crypto(_: i32) -> Option<String> {
    None
}

#[cfg(not(target_os = "linux"))]
fn of_process(_: i32) -> Option<Finding> {
    None
}
