//! Folder of stored runs, and the names of new runs in it.

use std::path::PathBuf;
use std::time::SystemTime;

/// Folder for results if the command line names none.
pub(crate) const RUNS_DIR: &str = "prony-runs";

/// Returns the folder for an experiment named `name` that starts now.
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
    // Add a number if another experiment with the same name started within the same second.
    let others = (2..1000).map(|n| PathBuf::from(RUNS_DIR).join(format!("{time}-{name}-{n}")));
    std::iter::once(first.clone())
        .chain(others)
        .find(|dir| !dir.exists())
        .unwrap_or(first)
}
