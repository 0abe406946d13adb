//! The functions of a server that use the most CPU time.

use std::time::Duration;

use prony_record::sampling::ServerProfile;

use crate::sampling::{DEFAULT_RATE_HZ, SamplingRefused, SamplingSession};

/// Samples several servers, each with its processes, at the same time.
pub(super) fn sample(
    servers: &[&[i32]],
    duration: Duration,
) -> Vec<Result<ServerProfile, SamplingRefused>> {
    let begin = |pids: &&[i32]| {
        let mut session = SamplingSession::of_processes(pids, DEFAULT_RATE_HZ)?;
        session.begin()?;
        session.count(true);
        Ok(session)
    };
    let sessions: Vec<Result<SamplingSession, _>> = servers.iter().map(begin).collect();
    if sessions.iter().any(Result::is_ok) {
        std::thread::sleep(duration);
    }
    for session in sessions.iter().flatten() {
        session.count(false);
    }
    let finish = |session: Result<SamplingSession, SamplingRefused>| {
        let profile = session?.finish().ok_or(SamplingRefused::Ended)?;
        Ok(ServerProfile::from(&profile))
    };
    sessions.into_iter().map(finish).collect()
}
