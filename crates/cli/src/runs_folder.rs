//! The folder of stored runs, and the names of new ones in it.

use std::path::PathBuf;
use std::time::SystemTime;

/// The folder for results if no other folder is named.
pub(crate) const RUNS_DIR: &str = "prony-runs";

/// The folder for an experiment with this name that starts now.
pub(crate) fn for_new_run(name: &str) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time = time
        .trim_end_matches('Z')
        .replace(':', "")
        .replace('T', "-");
    let name: String = name
        .chars()
        .map(|c| if c.is_whitespace() { '-' } else { c })
        .collect();
    let first = PathBuf::from(RUNS_DIR).join(format!("{time}-{name}"));
    // Two experiments that start within the same second must not share a folder.
    let others = (2..1000).map(|n| PathBuf::from(RUNS_DIR).join(format!("{time}-{name}-{n}")));
    std::iter::once(first.clone())
        .chain(others)
        .find(|dir| !dir.exists())
        .unwrap_or(first)
}
