//! The host name of this machine.

use rustix::system::uname;

/// Returns the host name of this machine.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
