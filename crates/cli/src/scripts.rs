//! Lua scripts that generate the requests of loads.

use std::path::Path;

use prony_load::LoadSettings;
use prony_lua::{LuaLoader, ScriptSource};
use prony_plan::Plan;

use crate::ending::Failure;

/// A loader for scripts whose output goes to standard error, because standard output carries
/// results.
pub(crate) const QUIET_LOADER: LuaLoader = LuaLoader {
    prints_to_stderr: true,
};

/// Checks all scripts of a plan in the same way as [`check_syntax`].
///
/// # Errors
///
/// Returns the first error, with its file and line.
pub(crate) fn check_plan(plan: &Plan) -> Result<(), Failure> {
    plan.scripts().iter().try_for_each(|file| check_file(file))
}

/// Checks that the script of a load can be read and has no syntax error.
///
/// # Errors
///
/// Returns the first error, with its file and line.
pub(crate) fn check_syntax(settings: &LoadSettings) -> Result<(), Failure> {
    match &settings.script {
        Some(file) => check_file(file),
        None => Ok(()),
    }
}

fn check_file(file: &Path) -> Result<(), Failure> {
    // A pipe can be read only once, so leave it for the load.
    if file.metadata().is_ok_and(|it| !it.is_file()) {
        return Ok(());
    }
    let source = ScriptSource::read(file).map_err(Failure::wrong)?;
    source.check().map_err(Failure::wrong)
}
