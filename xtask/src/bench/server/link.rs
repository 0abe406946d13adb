//! A veth pair between two network namespaces: the server is at the far end, and the generator at
//! the near end.

use std::process::Command;

use crate::bench::namespaces::{Namespaces, Visit, enter_on_start, in_namespace};
use crate::bench::process;
use crate::test::install::find_program;

/// Address of the server's end.
const SERVER: &str = "10.9.0.2";

/// Source addresses that are not assigned to any interface. The server reaches them through a
/// route.
pub(in crate::bench) const SOURCES: &str = "10.64.0.1-10.67.13.64";

/// The link. This thread is in the server's namespace while the link exists.
pub(super) struct Link {
    // The thread must leave the namespace before the namespace is removed.
    _visit: Visit,
    _namespaces: Namespaces,
    /// Name of the generator's namespace.
    near: String,
}

impl Link {
    /// Makes the link, and moves this thread to the far end.
    pub(super) fn new() -> Result<Link, String> {
        find_program("ethtool").ok_or("ethtool (package ethtool) is not installed")?;
        let mut namespaces = Namespaces::new()?;
        let (far, near) = (namespaces.add("far")?, namespaces.add("near")?);
        for line in [
            &format!(
                "ip link add far address 02:00:00:00:00:02 type veth peer name near address \
                 02:00:00:00:00:01 netns {near}"
            ),
            "ip address add 10.9.0.2/16 dev far",
            "ip link set far up",
            // AF_XDP requires frames that fit into a page.
            "ethtool -K far tso off gso off",
        ] {
            in_namespace(&far, line)?;
        }
        for line in [
            "ip address add 10.9.0.1/16 dev near",
            "ip link set near up",
            "sysctl -qw net.ipv4.ip_local_port_range=1024\t65535",
        ] {
            in_namespace(&near, line)?;
        }
        in_namespace(&far, "ip route add 10.64.0.0/14 via 10.9.0.1")?;
        in_namespace(&near, "ip route add local 10.64.0.0/14 dev lo")?;
        Ok(Link {
            _visit: Visit::to(&far)?,
            _namespaces: namespaces,
            near,
        })
    }

    /// Makes a command run at the near end.
    pub(super) fn prepare(&self, command: &mut Command) -> Result<(), String> {
        enter_on_start(command, &self.near)
    }
}

/// Host of a server that is behind this link, or on the loopback interface.
pub(super) fn host(link: Option<&Link>) -> String {
    let host = if link.is_some() { SERVER } else { "127.0.0.1" };
    host.to_owned()
}

/// Moves packet reception at the far end to a kernel thread on this core.
pub(super) fn receive_on(core: usize) -> Result<(), String> {
    // /sys shows the interfaces of the namespace in which it was mounted, so it is mounted again
    // here.
    let script = format!(
        "mount -t sysfs none /sys && echo 1 > /sys/class/net/far/threaded && \
         taskset -p -c {core} $(pgrep -n 'napi/far')"
    );
    let mut command = Command::new("unshare");
    process::output_of(command.args(["--mount", "sh", "-c", &script])).map(drop)
}
