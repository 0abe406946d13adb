//! The responder in the kernel, at the far end of the link.
//!
//! On a virtual link, the XDP program at the far end would run on the core of the sender. Threaded
//! NAPI moves it to a separate kernel thread, which is pinned to the server's core.

use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use super::super::process;

pub(super) const PORT: u16 = 8080;

/// Time limit for the responder to attach.
const START_TIMEOUT: Duration = Duration::from_secs(10);

/// A running responder, terminated on drop.
pub(super) struct Responder(Child);

impl Responder {
    /// Starts the responder in this thread's namespace.
    pub(super) fn start(program: &Path, folder: &Path, core: usize) -> Result<Responder, String> {
        let text = |e: std::io::Error| format!("{}: {e}", program.display());
        let output = folder.join("responder.out");
        let mut command = Command::new(program);
        command.args(["--xdp", "far", &PORT.to_string()]);
        process::log_into(&mut command, &output).map_err(text)?;
        let child = process::start_on(core, libc::SIGTERM, &mut command).map_err(text)?;
        let mut responder = Responder(child);
        let started = Instant::now();
        loop {
            let said = std::fs::read_to_string(&output).unwrap_or_default();
            if said.contains("attached") {
                use_own_thread(core)?;
                return Ok(responder);
            }
            let ended = responder.0.try_wait().ok().flatten();
            if ended.is_some() || started.elapsed() > START_TIMEOUT {
                return Err(format!("the responder did not attach:\n{said}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
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

impl Drop for Responder {
    fn drop(&mut self) {
        process::terminate(&self.0);
        let _ = self.0.wait();
    }
}
