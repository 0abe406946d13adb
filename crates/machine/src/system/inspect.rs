//! Programs of a service: their files, versions, build options and libraries.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::environment::{Program, version_arguments};
use crate::program_output::run_program;

/// Time limit for a program to print its version.
const VERSION_TIMEOUT: Duration = Duration::from_secs(5);

/// Program of a process, as reported by the operating system.
pub(crate) struct LoadedProgram {
    /// Path of the process's executable.
    pub(crate) executable: PathBuf,
    /// Path at which the executable can be read.
    pub(crate) content: PathBuf,
    /// Arguments of the process. The first one is the program.
    pub(crate) arguments: Vec<String>,
    /// Value of `LD_LIBRARY_PATH` in the process's environment.
    pub(crate) search_path: Option<OsString>,
    /// Files mapped into the process's memory.
    pub(crate) files: Vec<PathBuf>,
}

/// Returns the distinct programs of the given processes. For a script, both the script and its
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

/// Returns the SHA-256 of a file, in hexadecimal.
pub(crate) fn sha256(path: &Path) -> Option<String> {
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
    command.args(arguments).stdin(Stdio::null());
    if let Some(search_path) = search_path {
        command.env("LD_LIBRARY_PATH", search_path);
    }
    let output = run_program(command, VERSION_TIMEOUT).ok()?;
    version_text(&output.stdout, &output.stderr).map(str::to_owned)
}

/// Returns the standard output or, if that is empty, the standard error. nginx prints its version
/// to standard error, whereas Apache prints only warnings there.
fn version_text<'a>(stdout: &'a str, stderr: &'a str) -> Option<&'a str> {
    let mut texts = [stdout, stderr].into_iter().map(str::trim);
    texts.find(|text| !text.is_empty())
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

    #[test]
    fn versions_are_read_from_both_streams() {
        assert_eq!(version_text("x 1.2\n", "careful\n"), Some("x 1.2"));
        let stderr = "nginx 1.2\n--with-y\n";
        assert_eq!(version_text("\n", stderr), Some("nginx 1.2\n--with-y"));
        assert_eq!(version_text("", ""), None);
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
