//! The programs that a service runs: which file, which version, built how, with which libraries.

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

use crate::environment::{Program, version_question};

/// How long a program may take to say its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How often it is looked for the end of it.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long the end of its pipes is waited for when it has ended: something that left its process
/// group may hold them.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// The most that is kept of an answer, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// What one process has loaded, as its system tells it.
pub(super) struct Loaded {
    /// Its executable.
    pub(super) executable: PathBuf,
    /// Where the executable's content can be read.
    pub(super) content: PathBuf,
    /// Its arguments, the program first.
    pub(super) arguments: Vec<String>,
    /// Its `LD_LIBRARY_PATH`.
    pub(super) search_path: Option<OsString>,
    /// The files mapped into it.
    pub(super) files: Vec<PathBuf>,
}

/// The distinct executables of these processes. A script counts besides its interpreter.
pub(super) fn programs(processes: impl Iterator<Item = Loaded>) -> Vec<Program> {
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

/// The first argument, if it names an executable file: `python3 /usr/bin/gunicorn`.
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

/// What a well-known program says about its version and how it was built.
fn version(path: &Path, search_path: Option<&OsStr>) -> Option<String> {
    let question = version_question(path.file_name()?.to_str()?)?;
    let mut command = Command::new(path);
    command.args(question);
    if let Some(search_path) = search_path {
        command.env("LD_LIBRARY_PATH", search_path);
    }
    ask(command, ANSWER_WITHIN)
}

/// What a program prints: on its standard output or, where that stays empty, on its standard error
/// (nginx answers there, Apache warns there). It is killed with all that it has started once it ends
/// or the time is over, and what it says beyond [`LONGEST_ANSWER`] is lost.
fn ask(mut command: Command, within: Duration) -> Option<String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    let began = Instant::now();
    let mut child = command.spawn().ok()?;
    let output = child.stdout.take().map(heard);
    let errors = child.stderr.take().map(heard);
    let group = Pid::from_child(&child);
    // It is looked at and left for `wait`: until then no stranger can have its number.
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let ended = loop {
        match waitid(WaitId::Pid(group), look) {
            Ok(Some(_)) => break true,
            Ok(None) if began.elapsed() < within => std::thread::sleep(LOOK_EVERY),
            _ => break false,
        }
    };
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
    let said = |heard: Option<Receiver<String>>| {
        let text = heard?.recv_timeout(LAST_WORDS).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    let text = said(output).or_else(|| said(errors));
    text.filter(|_| ended)
}

/// What comes out of a pipe, once it is closed.
fn heard(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before a failure is said, too.
        let _ = pipe.take(LONGEST_ANSWER).read_to_end(&mut bytes);
        let _ = sender.send(String::from_utf8_lossy(&bytes).into_owned());
    });
    receiver
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(executable: &str, files: &[&str]) -> Loaded {
        Loaded {
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
        ask(command, Duration::from_secs(20))
    }

    #[test]
    fn answers_come_from_either_output_and_whatever_the_status() {
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
        // Would hold the pipe for ever if it were left alone.
        assert_eq!(answer("sleep 1000 & echo 1").as_deref(), Some("1"));
        let mut sleeper = Command::new("/bin/sleep");
        sleeper.arg("1000");
        assert_eq!(ask(sleeper, Duration::from_millis(20)), None);
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
