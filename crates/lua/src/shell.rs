//! Implements `os.execute` without C's `system`, which would make the process ignore Ctrl-C.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Lua's result of `os.execute()` without a command if a shell exists.
const HAS_SHELL: i32 = 1;
/// Status that Lua returns if the shell can't be started.
const NO_SHELL: i32 = -1;

/// Runs a command and returns the status that `system` would return.
pub(crate) fn execute(command: Option<&[u8]>) -> i32 {
    let Some(command) = command else {
        return HAS_SHELL;
    };
    let shell = Command::new("/bin/sh")
        .arg("-c")
        .arg(OsStr::from_bytes(command))
        .status();
    shell.map_or(NO_SHELL, ExitStatusExt::into_raw)
}
