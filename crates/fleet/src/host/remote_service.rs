//! A service on an agent's machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use prony_machine::host::HostError;

use super::logs;
use super::session::AgentSession;

/// A service on an agent's machine.
#[derive(Debug)]
pub(super) struct RemoteService {
    pub(super) session: Arc<AgentSession>,
    /// Path on this machine to which the service's log is fetched; set when the service has
    /// started.
    pub(super) log: Option<PathBuf>,
}

impl RemoteService {
    /// Fetches the log of a started service into the trial's folder, unless it was already fetched.
    /// Skips the log if the agent is lost.
    pub(super) fn fetch_log(&mut self, service: &str) -> Result<(), HostError> {
        let Some(path) = self.log.take() else {
            return Ok(());
        };
        match logs::fetch(&self.session, service) {
            Err(_) if self.session.loss().is_some() => Ok(()),
            log => write_file(&path, &log?),
        }
    }
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), HostError> {
    let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
    let written = folder.and_then(|()| fs::write(path, bytes));
    written.map_err(|source| HostError::File {
        action: "write",
        path: path.to_owned(),
        source,
    })
}
