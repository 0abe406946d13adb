//! Servers at the far end of a veth pair between two network namespaces. The generator is at the
//! near end.

use std::path::Path;
use std::process::Command;

use super::nginx::Nginx;
use super::{Endpoint, Server};
use crate::bench::namespaces::{Namespaces, Visit, enter_on_start, in_namespace};
use crate::bench::process::Program;
use crate::bench::rows::Row;
use crate::test::install::find_program;

/// Address of the server's end.
const SERVER: &str = "10.9.0.2";

/// Source addresses that are not assigned to any interface. The server reaches them through a
/// route.
pub(in crate::bench) const SOURCES: &str = "10.64.0.1-10.67.13.64";

/// Port of the responder in the kernel.
const KERNEL_PORT: u16 = 8080;

/// The link. This thread is in the server's namespace while the link exists.
struct Link {
    // The thread must leave the namespace before the namespace is removed.
    _visit: Visit,
    _namespaces: Namespaces,
    /// Name of the generator's namespace.
    near: String,
}

impl Link {
    fn new() -> Result<Link, String> {
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

    fn endpoint(port: u16, row: &Row) -> Endpoint {
        Endpoint {
            host: SERVER.to_owned(),
            port,
            path: row.path.to_owned(),
        }
    }
}

/// nginx at the far end.
pub(super) struct FarNginx {
    nginx: Nginx,
    link: Link,
}

impl FarNginx {
    pub(super) fn start(program: &Path, folder: &Path, core: usize) -> Result<FarNginx, String> {
        let link = Link::new()?;
        let nginx = Nginx::start(program, folder, core)?;
        Ok(FarNginx { nginx, link })
    }
}

impl Server for FarNginx {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Link::endpoint(self.nginx.port(row), row)
    }

    fn settle(&mut self) -> Result<(), String> {
        self.nginx.settle()
    }

    fn requests(&mut self) -> Result<Option<u64>, String> {
        self.nginx.requests()
    }

    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        enter_on_start(command, &self.link.near)
    }
}

/// A responder in the kernel at the far end.
///
/// On a virtual link, its XDP program would run on the core of the sender. Threaded NAPI moves it to
/// a separate kernel thread, which is pinned to the server's core.
pub(super) struct FarKernel {
    _program: Program,
    link: Link,
}

impl FarKernel {
    pub(super) fn start(program: &Path, folder: &Path, core: usize) -> Result<FarKernel, String> {
        let link = Link::new()?;
        let mut command = Command::new(program);
        command.args(["--xdp", "far", &KERNEL_PORT.to_string()]);
        let log = folder.join("responder.out");
        let mut program = Program::start(Some(core), &mut command, log)?;
        program.wait_for("attached")?;
        use_own_thread(core)?;
        Ok(FarKernel {
            _program: program,
            link,
        })
    }
}

impl Server for FarKernel {
    fn endpoint(&mut self, row: &Row) -> Endpoint {
        Link::endpoint(KERNEL_PORT, row)
    }

    fn prepare(&self, command: &mut Command) -> Result<(), String> {
        enter_on_start(command, &self.link.near)
    }
}

/// Moves packet reception at the far end to a kernel thread on this core.
fn use_own_thread(core: usize) -> Result<(), String> {
    // /sys shows the interfaces of the namespace in which it was mounted, so it is mounted again
    // here.
    let script = format!(
        "mount -t sysfs none /sys && echo 1 > /sys/class/net/far/threaded && \
         taskset -p -c {core} $(pgrep -n 'napi/far')"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .output();
    let output = output.map_err(|e| format!("unshare: {e}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "can't move packet reception to a kernel thread: {}",
                said.trim()
            ))
        }
    }
}
