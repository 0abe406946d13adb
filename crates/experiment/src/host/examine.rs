//! What a look at the programs of running services tells: the cryptography that they have mapped.

use prony_record::{Finding, Severity};

/// One finding about all services that encrypt without the processor's instructions; `services` are
/// their names and process trees, the first process of each first.
pub(super) fn crypto(services: &[(String, Vec<i32>)]) -> Option<Finding> {
    let found = services.iter().filter_map(|(name, tree)| {
        let pid = tree.iter().copied().find(|pid| maps_crypto(*pid))?;
        Some((name, of_process(pid)?))
    });
    let texts: Vec<(Severity, String, String)> = found
        .map(|(name, finding)| {
            let text = format!("Service \"{name}\": {}.", finding.text);
            (finding.severity, finding.id, text)
        })
        .collect();
    let severity = texts.iter().map(|(severity, ..)| *severity).max()?;
    let id = texts[0].1.clone();
    let texts: Vec<String> = texts.into_iter().map(|(.., text)| text).collect();
    Some(Finding::new(&id, severity, texts.join(" ")))
}

/// Whether the process has a libcrypto mapped: some services have none, and some none in their first
/// process.
#[cfg(target_os = "linux")]
fn maps_crypto(pid: i32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps"));
    maps.is_ok_and(|maps| maps.contains("libcrypto"))
}

#[cfg(target_os = "linux")]
fn of_process(pid: i32) -> Option<Finding> {
    // What can't be told of it is the doctor's to say, not an experiment's.
    crate::doctor::crypto::of_pid(pid).ok()?.finding()
}

#[cfg(not(target_os = "linux"))]
fn maps_crypto(_: i32) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
fn of_process(_: i32) -> Option<Finding> {
    None
}
