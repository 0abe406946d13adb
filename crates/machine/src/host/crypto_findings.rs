//! Findings about the cryptographic library that a running service has mapped.

use std::collections::BTreeMap;

use prony_plan::service::ServiceSpec;
use prony_record::Finding;
use prony_record::finding::Subject;

/// Cache of findings by program, library and environment. A measurement takes seconds, and another
/// measurement would give the same result.
#[derive(Debug, Default)]
pub(super) struct CryptoFindings(BTreeMap<String, Option<Finding>>);

impl CryptoFindings {
    /// Returns the finding about a service. `pids` lists the service's processes, starting with the
    /// first one.
    pub(super) fn of_service(&mut self, spec: &ServiceSpec, pids: &[i32]) -> Option<Finding> {
        // The first process of a service doesn't always map the library.
        let (pid, programs) = pids
            .iter()
            .find_map(|&pid| Some((pid, programs_with_crypto(pid)?)))?;
        let key = format!("{programs} {:?}", spec.env);
        let found = self.0.entry(key).or_insert_with(|| of_process(pid));
        let subject = Subject::Service(spec.name.clone());
        found.as_ref().map(|it| it.with_subject(subject))
    }
}

/// Identifies the program and the libcrypto of a process; `None` if it maps no libcrypto.
fn programs_with_crypto(pid: i32) -> Option<String> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
    let library = maps.lines().find(|line| line.contains("libcrypto"))?;
    // Skip the address, permissions and offset; the device, inode and path identify the file.
    let library: Vec<&str> = library.split_whitespace().skip(3).collect();
    let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(format!("{} {}", program.display(), library.join(" ")))
}

fn of_process(pid: i32) -> Option<Finding> {
    // Ignore a failed examination, which `prony doctor` would report.
    crate::crypto::of_pid(pid).ok()?.finding()
}
