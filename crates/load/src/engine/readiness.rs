//! Waits until every server of a load accepts connections (`--wait-for-server`).

use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use prony_record::number;

use crate::engine::worker::refusals::target_names;
use crate::server_check::{self, CheckError};
use crate::spec::LoadSpec;

/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);
/// Time limit of one attempt.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval between progress messages while waiting for the server.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// Reason why a wait for a server ended without success.
#[derive(Debug)]
pub enum NotReady {
    /// The wait was interrupted.
    Stopped,
    /// A server did not accept a connection in time.
    TimedOut {
        /// Addresses that the load connects to.
        targets: String,
        /// Time limit of the wait.
        limit: Duration,
        /// Reason why the last attempt failed.
        last: CheckError,
    },
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotReady::Stopped => f.write_str("interrupted while waiting for the server"),
            NotReady::TimedOut {
                targets,
                limit,
                last,
            } => write!(
                f,
                "nothing was listening on {targets} after {} ({last}); start the server, \
                 correct the address, or wait longer with --wait-for-server=TIME",
                number::span(limit.as_secs_f64())
            ),
        }
    }
}

impl std::error::Error for NotReady {}

/// Waits for up to `limit` until each server of the load accepts a connection. Sends nothing. Calls
/// `report` with a line of text when the wait begins, and every five seconds.
///
/// # Errors
///
/// [`NotReady::TimedOut`], or [`NotReady::Stopped`] soon after `is_stopped` returns true.
pub fn wait_for_server(
    spec: &LoadSpec,
    limit: Duration,
    is_stopped: &dyn Fn() -> bool,
    report: &dyn Fn(&str),
) -> Result<(), NotReady> {
    let began = Instant::now();
    let mut reported = None;
    for index in 0..spec.targets.len() {
        loop {
            let left = limit.saturating_sub(began.elapsed());
            let attempt = ATTEMPT_TIMEOUT.min(left.max(RETRY_PAUSE));
            let Err(last) = server_check::connect(spec, index, attempt) else {
                break;
            };
            let waited = began.elapsed();
            if is_stopped() {
                return Err(NotReady::Stopped);
            }
            if waited >= limit {
                let targets = target_names(spec).text();
                return Err(NotReady::TimedOut {
                    targets,
                    limit,
                    last,
                });
            }
            if reported.is_none_or(|at| waited - at >= REPORT_INTERVAL) {
                reported = Some(waited);
                report(&format!(
                    "waiting for {} ({} s of {} s; {last})",
                    target_names(spec).text(),
                    waited.as_secs(),
                    limit.as_secs()
                ));
            }
            thread::sleep(RETRY_PAUSE.min(limit - waited));
        }
    }
    Ok(())
}
