//! Number of open files that a load needs, and the limit of this process.

use crate::socket::system;
use crate::values::error::{SettingsError, SpecError};

/// Open files that the process needs in addition to its connections: standard streams, libraries,
/// and results.
const FILES_OF_PROCESS: u64 = 48;
/// Open files that a worker needs in addition to its connections: the files of its poller.
const FILES_PER_WORKER: u64 = 4;

/// Number of open files that this process needs to run loads that have this many connections and
/// threads in total.
pub fn open_files_needed(connections: u64, threads: u64) -> u64 {
    connections
        .saturating_add(FILES_OF_PROCESS)
        .saturating_add(FILES_PER_WORKER.saturating_mul(threads))
}

/// Number of files that this process may open. Raises the soft limit to the hard one first.
pub fn open_files_limit() -> u64 {
    system::open_files_limit()
}

/// Number of open files needed for this number of connections and threads.
pub(crate) fn needed(connections: u32, threads: u32) -> u64 {
    open_files_needed(connections.into(), threads.into())
}

/// Checks that this process may open the files that a load needs.
///
/// # Errors
///
/// An error that names the largest load that fits.
pub(crate) fn check_open_files(connections: u32, threads: u32) -> Result<(), SpecError> {
    let limit = system::open_files_limit();
    let all = needed(connections, threads);
    if all <= limit {
        return Ok(());
    }
    Err(SpecError::Environment(too_few_files(
        connections,
        threads,
        limit,
    )))
}

/// Error for a load that needs more open files than the limit allows. It names the largest load
/// that fits.
fn too_few_files(connections: u32, threads: u32, limit: u64) -> SettingsError {
    let all = needed(connections, threads);
    let room = limit.saturating_sub(needed(0, threads));
    let threads_max = limit.saturating_sub(FILES_OF_PROCESS) / (FILES_PER_WORKER + 1);
    let needs = format!(" needs {all} open files, but the limit of this process is {limit}");
    let error = SettingsError::value("connections", connections);
    let error = if room >= u64::from(threads) {
        let error = error.text(needs).hint_in_parentheses("use ");
        error.and_value("connections", room).text(" or fewer")
    } else {
        let error = error
            .text(" with ")
            .and_value("threads", threads)
            .text(needs);
        match threads_max {
            0 => error,
            threads => {
                let connections = limit - FILES_OF_PROCESS - FILES_PER_WORKER * threads;
                let error = error.hint_in_parentheses("use ");
                let error = error.and_value("threads", threads).text(" ");
                error.and_value("connections", connections)
            }
        }
    };
    error.hint_in_parentheses(format!(
        "raise the limit as root with ulimit -n {all}, or in limits.conf"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_suggested_connections_and_threads_fit_the_limit_of_open_files() {
        for (connections, threads, limit) in
            [(50, 2, 64), (100, 100, 64), (18_000, 2, 1_024), (8, 8, 90)]
        {
            let text = too_few_files(connections, threads, limit).to_string();
            let number = |flag: &str| -> Option<u32> {
                let fits = text.split_once("(use ")?.1;
                let word = fits.split_once(flag)?.1.split([' ', ',']).next()?;
                word.parse().ok()
            };
            let threads = number("--threads ").unwrap_or(threads);
            let connections = number("--connections ").unwrap();
            assert!(connections >= threads && threads > 0, "{text}");
            assert!(needed(connections, threads) <= limit, "{text}");
        }
        let text = too_few_files(1, 1, 20).to_string();
        assert!(
            !text.contains("use --") && text.contains("ulimit -n 53"),
            "{text}"
        );
    }
}
