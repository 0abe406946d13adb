//! What the benchmark needs of a running server.

use std::process::Command;

use crate::bench::rows::Row;

/// Where a run sends its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::bench) struct Endpoint {
    pub(in crate::bench) host: String,
    pub(in crate::bench) port: u16,
    pub(in crate::bench) path: String,
}

/// A running server.
pub(in crate::bench) trait Server {
    /// Where the next run sends the requests of a row.
    fn endpoint(&mut self, row: &Row) -> Endpoint;

    /// Waits until all connections of the last run are closed.
    fn settle(&mut self) -> Result<(), String> {
        Ok(())
    }

    /// Number of requests so far; `None` if the server doesn't count, so that the tools' own counts
    /// are used.
    fn requests(&mut self) -> Result<Option<u64>, String> {
        Ok(None)
    }

    /// Changes a tool's command so that the tool reaches the server.
    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        let _ = command;
        Ok(())
    }

    /// Checks that a tool behaves as a row requires. `drive` runs the tool for some seconds.
    /// Returns a remark, if there is one, or the deviation as an error.
    fn examine(&mut self, row: &Row, drive: &mut Drive) -> Result<Option<String>, String> {
        let _ = (row, drive);
        Ok(None)
    }
}

/// Runs a tool with the load of a row against an endpoint, for some seconds.
pub(in crate::bench) type Drive<'a> = dyn FnMut(&Row, &Endpoint, u32) -> Result<(), String> + 'a;
