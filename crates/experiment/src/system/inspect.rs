//! Programs of a service: their files, versions, build options and libraries.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use sha2::{Digest, Sha256};

use crate::environment::{Program, version_arguments};

/// Timeout for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which prony checks if the program has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Timeout for the end of the output after the program has ended. A process that left its process
/// group may keep the pipes open.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of bytes of the output that are kept.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

/// Program of a process, as reported by the operating system.
pub(crate) struct LoadedProgram {
    /// Path of the process's executable.
    pub(crate) executable: PathBuf,
    /// Path at which the executable can be read.
    pub(crate) content: PathBuf,
    /// Arguments of the process, starting with the program.
    pub(crate) arguments: Vec<String>,
    /// Value of `LD_LIBRARY_PATH` in the process's environment.
    pub(crate) search_path: Option<OsString>,
    /// Files mapped into the process's memory.
    pub(crate) files: Vec<PathBuf>,
}

/// Returns the distinct programs of these processes. For a script, both the script and its
/// interpreter are listed.
pub(crate) fn programs(processes: impl Iterator<Item = LoadedProgram>) -> Vec<Program> {
    let mut found: Vec<Program> = Vec::new();
    for process in processes {
        let libraries = process
            .files
            .iter()
            .filter(|file| is_library(file))
            .cloned();
        if let Some(known) = found
            .iter_mut()
            .find(|known| known.path == process.executable)
        {
            known.libraries.extend(libraries);
            continue;
        }
        let search_path = process.search_path.as_deref();
        found.push(Program {
            version: version(&process.executable, search_path),
            sha256: sha256(&process.content),
            libraries: libraries.collect(),
            path: process.executable.clone(),
        });
        let is_new = |script: &PathBuf| found.iter().all(|known| known.path != *script);
        if let Some(script) = script(&process.arguments).filter(is_new) {
            found.push(Program {
                version: version(&script, search_path),
                sha256: sha256(&script),
                libraries: Vec::new(),
                path: script,
            });
        }
    }
    for program in &mut found {
        program.libraries.sort();
        program.libraries.dedup();
    }
    found
}

fn is_library(file: &Path) -> bool {
    file.file_name()
        .is_some_and(|name| name.to_string_lossy().contains(".so"))
}

/// Returns the first argument if it is the path of an executable, as in `python3 /usr/bin/gunicorn`.
fn script(arguments: &[String]) -> Option<PathBuf> {
    let path = PathBuf::from(arguments.get(1)?);
    let metadata = path.metadata().ok().filter(|_| path.is_absolute())?;
    (metadata.is_file() && metadata.permissions().mode() & 0o111 != 0).then_some(path)
}

fn sha256(path: &Path) -> Option<String> {
    let mut file = std::fs::File::open(path).ok()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            got => hash.update(&buffer[..got]),
        }
    }
    Some(
        hash.finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// Returns the version and build options that a well-known program prints.
fn version(path: &Path, search_path: Option<&OsStr>) -> Option<String> {
    let arguments = version_arguments(path.file_name()?.to_str()?)?;
    let mut command = Command::new(path);
    command.args(arguments);
    if let Some(search_path) = search_path {
        command.env("LD_LIBRARY_PATH", search_path);
    }
    output_of(command, VERSION_TIMEOUT)
}

/// Runs a program and returns its standard output, or its standard error if standard output is
/// empty: nginx prints its version to standard error, while Apache prints only warnings there. The
/// program's process group is killed when it ends or after the timeout. Output beyond
/// [`OUTPUT_BYTES_MAX`] is dropped.
fn output_of(mut command: Command, within: Duration) -> Option<String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take().map(read_in_thread);
    let errors = child.stderr.take().map(read_in_thread);
    let group = Pid::from_child(&child);
    // NOWAIT leaves the zombie for `wait`, so the process ID can't be reused before the kill.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = loop {
        match waitid(WaitId::Pid(group), look) {
            Ok(Some(_)) => break true,
            Ok(None) if began.elapsed() < within => std::thread::sleep(POLL_INTERVAL),
            _ => break false,
        }
    };
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    let text_of = |receiver: Option<Receiver<String>>| {
        let text = receiver?.recv_timeout(OUTPUT_TIMEOUT).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let text = text_of(output).or_else(|| text_of(errors));
    text.filter(|_| ended)
}

/// Reads a pipe to its end on a new thread, and sends the text.
fn read_in_thread(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // After an error, the text before it is still sent.
        let _ = pipe.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(executable: &str, files: &[&str]) -> LoadedProgram {
        LoadedProgram {
            executable: executable.into(),
            content: executable.into(),
            arguments: vec!["x".to_owned(), "/bin/sh".to_owned()],
            search_path: None,
            files: files.iter().map(PathBuf::from).collect(),
        }
    }

    #[test]
    fn each_executable_comes_once_with_all_its_libraries() {
        let processes = [
            loaded("/a", &["/lib/b.so.1", "/lib/a.so", "/etc/data"]),
            loaded("/a", &["/lib/a.so", "/lib/c.so"]),
        ];
        let found = programs(processes.into_iter());
        let paths: Vec<_> = found.iter().map(|program| program.path.as_path()).collect();
        assert_eq!(paths, [Path::new("/a"), Path::new("/bin/sh")]);
        let libraries: Vec<_> = ["/lib/a.so", "/lib/b.so.1", "/lib/c.so"]
            .map(PathBuf::from)
            .into();
        assert_eq!(found[0].libraries, libraries);
        assert!(found[1].sha256.is_some() && found[0].sha256.is_none());
    }

    fn answer(script: &str) -> Option<String> {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        output_of(command, Duration::from_secs(20))
    }

    #[test]
    fn output_is_read_from_both_streams_for_any_exit_status() {
        let of = |script| answer(script).unwrap_or_default();
        assert_eq!(of("echo x 1.2; echo careful >&2; exit 1"), "x 1.2");
        assert_eq!(
            of("echo nginx 1.2 >&2; echo --with-y >&2"),
            "nginx 1.2\n--with-y"
        );
        assert_eq!(answer("exit 3"), None);
    }

    #[test]
    fn programs_that_talk_or_stay_are_ended() {
        let talker = answer("head -c 1000000 /dev/zero | tr '\\0' x");
        assert_eq!(talker.map(|text| text.len()), Some(64 << 10));
        // The background process would hold the pipe open forever.
        assert_eq!(answer("sleep 1000 & echo 1").as_deref(), Some("1"));
        let mut sleeper = Command::new("/bin/sleep");
        sleeper.arg("1000");
        assert_eq!(output_of(sleeper, Duration::from_millis(20)), None);
    }

    #[test]
    fn hashes_are_of_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("abc");
        std::fs::write(&path, "abc").unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(
            sha256(&path).as_deref(),
            Some(expected),
            "the example of FIPS 180-2"
        );
    }
}
