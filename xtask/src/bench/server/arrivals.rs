//! The server of the highest rates, `bench/responder`, which records when each request arrives.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Endpoint, Server, free_port};
use crate::bench::process::{Program, Usage};
use crate::bench::rows::Row;

/// A running responder.
pub(in crate::bench) struct ArrivalsServer {
    program: Program,
    port: u16,
    file: PathBuf,
}

impl ArrivalsServer {
    pub(in crate::bench) fn start(
        program: &Path,
        folder: &Path,
        core: usize,
    ) -> Result<ArrivalsServer, String> {
        let port = free_port()?;
        let file = folder.join("arrivals");
        let mut command = Command::new(program);
        command.arg(format!("127.0.0.1:{port}")).arg(&file);
        let log = folder.join("responder.out");
        let mut program = Program::start(Some(core), &mut command, log)?;
        program.wait_for_port(port)?;
        Ok(ArrivalsServer {
            program,
            port,
            file,
        })
    }

    /// Stops the responder. Returns its resource usage and what it recorded.
    pub(in crate::bench) fn stop(self) -> Result<(Usage, Vec<u8>), String> {
        let usage = self.program.stop()?;
        let place = |e: std::io::Error| format!("{}: {e}", self.file.display());
        Ok((usage, std::fs::read(&self.file).map_err(place)?))
    }
}

impl Server for ArrivalsServer {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Endpoint::local(self.port, row.path)
    }
}
