//! The programs that a service runs: which file, which version, built how, with which libraries.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use crate::environment::{Program, version_question};

/// How long a program may take to say its version.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

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

/// What a well-known program prints about itself, on either output.
fn version(path: &Path, search_path: Option<&OsStr>) -> Option<String> {
    let question = version_question(path.file_name()?.to_str()?)?;
    let mut command = Command::new(path);
    command
        .args(question)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(search_path) = search_path {
        command.env("LD_LIBRARY_PATH", search_path);
    }
    let mut child = command.spawn().ok()?;
    let began = Instant::now();
    // The answers fit into a pipe; a program that fills it never ends and is given up.
    while child.try_wait().ok()?.is_none() {
        if began.elapsed() > ANSWER_WITHIN {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().ok()?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    (!text.is_empty()).then_some(text)
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
