//! Checks what scripts of `prony wrk` can't do: load C modules, or keep the process from ending.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::programs::{Origin, command, ours};

/// Timeout that is long enough for a busy machine.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

#[test]
fn modules_in_c_can_not_be_loaded() {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let script = "
        print(pcall(package.loadlib, 'libc.so.6', '*'))
        package.cpath = './?.so'
        print(pcall(require, 'module'))
        print('loaders', #package.loaders, 'status', os.execute('exit 3'), os.execute())
    ";
    std::fs::write(folder.path().join("script.lua"), script).unwrap();
    // Any content would do, because the module is never loaded.
    std::fs::write(folder.path().join("module.so"), b"").unwrap();
    let url = origin.url("/");
    let output = ours(
        "wrk",
        &["-t1", "-c1", "-d1", "-s", "script.lua", &url],
        folder.path(),
    );
    let output = output.expect(0);
    assert!(
        output.out.contains("false\tC modules can't be loaded"),
        "{output:?}"
    );
    assert!(
        output.out.contains("module 'module' not found"),
        "{output:?}"
    );
    assert!(!output.out.contains("module.so"), "{output:?}");
    assert!(
        output.out.contains("loaders\t2\tstatus\t768\t1"),
        "{output:?}"
    );
}

fn wait_for_end(child: &mut Child) -> Option<i32> {
    let began = Instant::now();
    while began.elapsed() < TEST_TIMEOUT {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    panic!("the process does not end");
}

/// Runs a script whose first call of `request` never returns, and interrupts it `times` times.
/// Returns the exit status.
fn interrupted(forever: &str, times: u32) -> Option<i32> {
    let origin = Origin::start(&[]);
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "function request()\n print('forever') io.stdout:flush()\n {forever}\n return '' end"
    );
    std::fs::write(folder.path().join("script.lua"), script).unwrap();
    let url = origin.url("/");
    let arguments = ["wrk", "-t1", "-c1", "-d600", "-s", "script.lua", &url];
    let program = PathBuf::from(env!("CARGO_BIN_EXE_prony"));
    let mut child = command(program, &arguments, folder.path()).spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("forever") {
        assert!(stdout.read_line(&mut line).unwrap() > 0, "{line}");
    }
    for _ in 0..times {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        // Two simultaneous signals would count as one.
        thread::sleep(Duration::from_millis(100));
    }
    wait_for_end(&mut child)
}

#[test]
fn a_script_can_not_catch_an_interrupt() {
    let forever = "while true do pcall(function() while true do end end) end";
    assert_eq!(interrupted(forever, 1), Some(1));
}

#[test]
fn a_second_interrupt_ends_the_process_despite_the_script() {
    for forever in [
        // A Lua debug hook can't interrupt any of these scripts.
        "local p = newproxy(true)
         getmetatable(p).__gc = function() while true do end end
         p = nil
         collectgarbage()",
        "string.find(string.rep('a', 300), string.rep('a*', 60) .. 'b')",
        "while true do os.execute('sleep 1') end",
    ] {
        assert_eq!(interrupted(forever, 2), Some(130), "{forever}");
    }
}
