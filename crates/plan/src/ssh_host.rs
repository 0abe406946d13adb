//! Machines of `[host.NAME]`, on which services run over ssh.

use core::net::IpAddr;

/// A machine on which prony starts services over ssh. It needs a POSIX shell and nothing of prony.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SshHost {
    /// Name of the table, which `host` of a service refers to.
    pub name: String,
    /// Line of the table in the plan.
    pub line: usize,
    /// Destination for ssh: `user@host`, `ssh://user@host:port`, or a name from the configuration
    /// of ssh.
    pub destination: String,
    /// Arguments of ssh that precede the destination, such as `-i` and a key file.
    pub ssh: Vec<String>,
    /// Address on which services listen and to which the load connects; `None` for the address that
    /// ssh connects to.
    pub address: Option<IpAddr>,
    /// True if everything on the machine runs as root, through `sudo`.
    pub sudo: bool,
    /// Folder on the machine in which services have their files; `None` for its folder of temporary
    /// files.
    pub dir: Option<String>,
}

/// Returns true if ssh takes this text as a destination, not as an option or several words.
pub(crate) fn is_destination(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && !text.contains(char::is_whitespace)
}
