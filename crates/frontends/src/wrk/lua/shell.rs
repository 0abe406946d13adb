//! `os.execute` without C's `system`, which makes the whole process ignore Ctrl-C meanwhile.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Lua's answer to the question whether there is a shell.
const HAS_SHELL: i32 = 1;
/// Lua's status of a shell that could not be started.
const NO_SHELL: i32 = -1;

/// Runs a command, and returns its status as `system` does.
pub(super) fn execute(command: Option<&[u8]>) -> i32 {
    let Some(command) = command else {
        return HAS_SHELL;
    };
    let shell = Command::new("/bin/sh")
        .arg("-c")
        .arg(OsStr::from_bytes(command))
        .status();
    shell.map_or(NO_SHELL, ExitStatusExt::into_raw)
}
