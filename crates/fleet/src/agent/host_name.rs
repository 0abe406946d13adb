//! This machine's host name.

use rustix::system::uname;

/// This machine's host name.
pub fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
