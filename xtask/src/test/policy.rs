//! Tests of `xtask/install/apt.sh` on a simulated machine: a folder with a policy file and an
//! `apt-get` that only records its calls.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard};

use crate::cargo::workspace_root;

/// A simulated Debian machine, removed on drop.
struct Machine {
    folder: PathBuf,
    /// Serializes the tests. A process forked by another test while a script is being written would
    /// keep that script open for writing, and the kernel refuses to run such a file.
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    fn new(apt_get: &str) -> Machine {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("xtask-policy-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(folder.join("bin")).unwrap();
        write_script(&folder.join("bin/apt-get"), apt_get);
        Machine {
            folder,
            _alone: alone,
        }
    }

    fn policy(&self) -> PathBuf {
        self.folder.join("policy-rc.d")
    }

    fn install(&self) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .arg(workspace_root().join("xtask/install/apt.sh"))
            .args(["nginx", "gunicorn"])
            .env(
                "PATH",
                format!("{}:{path}", self.folder.join("bin").display()),
            )
            .env("POLICY_RC_D", self.policy())
            .env("RETRY_PAUSE_S", "0")
            .env("LOG", self.folder.join("log"))
            .output()
            .unwrap()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn write_script(path: &Path, body: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// A simulated `apt-get` that records the call and asks the policy whether a daemon may start.
const RECORDS: &str = r#"
status=0; "$POLICY_RC_D" nginx start || status=$?
echo "$1 $DEBIAN_FRONTEND policy=$status" >>"$LOG"
"#;

#[test]
fn daemons_are_refused_during_installation_and_the_policy_is_removed() {
    let machine = Machine::new(RECORDS);
    let output = machine.install();
    assert!(output.status.success(), "{output:?}");
    let expected = "update noninteractive policy=101\ninstall noninteractive policy=101\n";
    assert_eq!(machine.log(), expected);
    assert!(!machine.policy().exists());
}

#[test]
fn a_failed_installation_removes_the_policy_too() {
    let machine = Machine::new(r#"[ "$1" = update ]"#);
    assert!(!machine.install().status.success());
    assert!(!machine.policy().exists());
}

#[test]
fn an_update_that_fails_once_is_retried() {
    let once = r#"
echo "$1" >>"$LOG"
[ "$1" != update ] || [ "$(grep -c update "$LOG")" -eq 2 ]
"#;
    let machine = Machine::new(once);
    assert!(machine.install().status.success());
    assert_eq!(machine.log(), "update\nupdate\ninstall\n");
}

#[test]
fn an_update_that_fails_twice_ends_the_installation() {
    let machine = Machine::new(r#"echo "$1" >>"$LOG"; exit 1"#);
    assert!(!machine.install().status.success());
    assert_eq!(machine.log(), "update\nupdate\n");
}

#[test]
fn a_policy_that_stands_there_is_kept() {
    let machine = Machine::new(RECORDS);
    write_script(&machine.policy(), "# somebody's own\nexit 101");
    let before = std::fs::read(machine.policy()).unwrap();
    assert!(machine.install().status.success());
    assert_eq!(std::fs::read(machine.policy()).unwrap(), before);
}

#[test]
fn a_policy_that_would_start_daemons_stops_the_installation() {
    let machine = Machine::new(RECORDS);
    write_script(&machine.policy(), "exit 0");
    let before = std::fs::read(machine.policy()).unwrap();
    let output = machine.install();
    assert!(!output.status.success());
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("left alone"),
        "{output:?}"
    );
    assert_eq!(machine.log(), "");
    assert_eq!(std::fs::read(machine.policy()).unwrap(), before);
}

#[test]
fn what_a_killed_run_left_is_swept() {
    let machine = Machine::new(r#"kill -9 "$PPID""#);
    assert!(!machine.install().status.success());
    assert!(
        machine.policy().exists(),
        "the shell was killed before it could clean up"
    );
    write_script(&machine.folder.join("bin/apt-get"), RECORDS);
    assert!(machine.install().status.success());
    assert!(!machine.policy().exists());
}
