//! Prints the HTML page as a PDF with an installed browser.

use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use prony_machine::program_output::{ProgramError, run_program};
use prony_machine::system::program;
use tempfile::TempDir;

use crate::ending::Failure;

/// Programs that can print a page, in order of preference.
const BROWSERS: [&str; 4] = [
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];

/// Switches that print a page without a window and without network access.
const SWITCHES: [&str; 13] = [
    "--headless",
    "--no-pdf-header-footer",
    "--generate-pdf-document-outline",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-crash-reporter",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    "--no-first-run",
];

/// Sandbox settings to try, in this order. Some containers and kernels don't allow the browser's
/// sandbox.
const SANDBOXES: [&[&str]; 2] = [&[], &["--no-sandbox"]];

/// Maximum time for printing. It is long because the machine may be busy.
const PRINT_TIMEOUT: Duration = Duration::from_secs(60);

/// Maximum size of the printed file.
const PDF_BYTES_MAX: u64 = 256 << 20;

/// User and group ID of "nobody", as whom the browser runs if prony runs as root.
const NOBODY_ID: u32 = 65534;

const HINT: &str = "any browser can print the page that --html writes";

/// The installed browsers.
#[derive(Debug)]
pub(super) struct Browsers {
    programs: Vec<PathBuf>,
    timeout: Duration,
}

impl Browsers {
    pub(super) fn find() -> Result<Browsers, Failure> {
        let here = Path::new("/");
        let found = BROWSERS.iter().map(|name| program::find(name, here, None));
        let programs: Vec<PathBuf> = found.filter_map(Result::ok).collect();
        if programs.is_empty() {
            return Err(Failure::refused(format!(
                "--pdf needs Chromium or Chrome to print the page, and found none (looked for {}; {HINT})",
                BROWSERS.join(", ")
            )));
        }
        Ok(Browsers {
            programs,
            timeout: PRINT_TIMEOUT,
        })
    }

    /// Prints an HTML page with the first browser that can, and returns the PDF. An installed
    /// browser may be a stub that only names another package.
    ///
    /// # Errors
    /// Returns the reason why each browser failed.
    pub(super) fn print(&self, page: &str) -> Result<Vec<u8>, NotPrinted> {
        let mut errors = Vec::new();
        for program in &self.programs {
            match print_with(program, page, self.timeout) {
                Ok(pdf) => return Ok(pdf),
                Err(error) => errors.push((program.clone(), error)),
            }
        }
        Err(NotPrinted(errors))
    }
}

/// The reason why each browser did not print a page.
#[derive(Debug)]
pub(super) struct NotPrinted(Vec<(PathBuf, PrintError)>);

impl fmt::Display for NotPrinted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = self.0.iter().map(|(program, error)| {
            format!("{} did not print the page: {error}", program.display())
        });
        write!(f, "{} ({HINT})", each.collect::<Vec<_>>().join("; "))
    }
}

#[derive(Debug)]
enum PrintError {
    /// The page could not be written, or the printed file not read.
    File(io::Error),
    Browser(ProgramError),
    /// The last line that the browser printed.
    Said(String),
}

impl fmt::Display for PrintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PrintError::File(error) => error.fmt(f),
            PrintError::Browser(error) => error.fmt(f),
            PrintError::Said(line) => f.write_str(line),
        }
    }
}

fn print_with(program: &Path, page: &str, timeout: Duration) -> Result<Vec<u8>, PrintError> {
    let folder = PrintFolder::create(page).map_err(PrintError::File)?;
    let mut last = Err(PrintError::Said(String::new()));
    for sandbox in SANDBOXES {
        let output = run_program(folder.command(program, sandbox), timeout);
        let output = output.map_err(PrintError::Browser)?;
        last = match folder.printed() {
            Ok(pdf) => return Ok(pdf),
            Err(error) => Err(PrintError::File(error)),
        };
        let lines = output.stderr.lines().map(str::trim);
        if let Some(line) = lines.rev().find(|line| !line.is_empty()) {
            last = Err(PrintError::Said(line.to_owned()));
        }
    }
    last
}

/// A temporary folder with the page, the browser's files and the printed file. It belongs to the
/// user who runs the browser.
struct PrintFolder {
    folder: TempDir,
    /// User who runs the browser, if that is not the user who runs prony.
    user: Option<u32>,
}

impl PrintFolder {
    fn create(page: &str) -> io::Result<PrintFolder> {
        let user = rustix::process::geteuid().is_root().then_some(NOBODY_ID);
        let mut builder = tempfile::Builder::new();
        builder.prefix("prony-pdf-");
        let folder = match user {
            // Root's own folder for temporary files may be closed to others.
            Some(_) => builder.tempdir_in("/tmp")?,
            None => builder.tempdir()?,
        };
        let made = PrintFolder { folder, user };
        fs::write(made.path("report.html"), page)?;
        if let Some(user) = user {
            chown(made.path("report.html"), Some(user), Some(user))?;
            chown(made.folder.path(), Some(user), Some(user))?;
        }
        Ok(made)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: &Path, sandbox: &[&str]) -> Command {
        let argument = |name: &str, file: &str| format!("{name}{}", self.path(file).display());
        let mut command = Command::new(program);
        command
            .args(SWITCHES)
            .args(sandbox)
            .arg(argument("--user-data-dir=", "profile"))
            .arg(argument("--print-to-pdf=", "report.pdf"))
            .arg(argument("file://", "report.html"))
            // The environment may contain secrets, which the other user must not see.
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", self.folder.path())
            .env("TMPDIR", self.folder.path())
            .current_dir(self.folder.path())
            .stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Reads the printed file. Another user may own the folder, so the file could be anything.
    fn printed(&self) -> io::Result<Vec<u8>> {
        let path = self.path("report.pdf");
        let file: File = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
            .open(&path)
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => io::Error::other("it wrote no file"),
                _ => error,
            })?;
        let metadata = file.metadata()?;
        let owner = self.user.unwrap_or_else(|| metadata.uid());
        let mut pdf = Vec::new();
        if metadata.is_file() && metadata.uid() == owner {
            file.take(PDF_BYTES_MAX).read_to_end(&mut pdf)?;
        }
        if pdf.starts_with(b"%PDF-") {
            Ok(pdf)
        } else {
            Err(io::Error::other("the file that it wrote is not a PDF"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    /// Runs a shell script in place of a browser.
    fn print_by(script: &str, timeout: Duration) -> Result<Vec<u8>, NotPrinted> {
        let folder = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let program = folder.path().join("browser");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        for path in [folder.path(), &program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let programs = vec![program];
        Browsers { programs, timeout }.print("<p>text</p>")
    }

    fn failure_of(script: &str) -> String {
        print_by(script, PRINT_TIMEOUT).unwrap_err().to_string()
    }

    #[test]
    fn failures_of_the_browser_are_named() {
        let failed = failure_of("echo no display >&2; echo >&2; exit 1");
        assert!(failed.contains("page: no display (any"), "{failed}");
        let silent = failure_of("exit 0");
        assert!(silent.contains("page: it wrote no file (any"), "{silent}");
        for wrong in [
            "echo text >report.pdf",
            "ln -s report.html report.pdf",
            "mkfifo report.pdf",
        ] {
            let not_pdf = failure_of(wrong);
            assert!(
                not_pdf.contains("/browser did not print the page: "),
                "{not_pdf}"
            );
        }
        let hung = print_by("sleep 1000 & wait", Duration::from_millis(50))
            .unwrap_err()
            .to_string();
        assert!(hung.contains("did not end"), "{hung}");
    }

    #[test]
    fn the_browser_never_runs_as_root() {
        let user = failure_of("echo user $(id -u) $(id -G) home $HOME >&2");
        let own = rustix::process::geteuid();
        if own.is_root() {
            assert!(
                user.contains("user 65534 65534 home /tmp/prony-pdf-"),
                "{user}"
            )
        } else {
            assert!(user.contains(&format!("user {}", own.as_raw())), "{user}")
        }
    }

    #[test]
    fn the_sandbox_is_off_only_if_printing_fails_with_it() {
        let script = "case \"$*\" in *--no-sandbox*) printf %%PDF-without >report.pdf;; esac";
        assert_eq!(print_by(script, PRINT_TIMEOUT).unwrap(), b"%PDF-without");
        let script = "printf \"%%PDF-$*\" >report.pdf";
        let pdf = String::from_utf8(print_by(script, PRINT_TIMEOUT).unwrap()).unwrap();
        assert!(!pdf.contains("--no-sandbox"), "{pdf}");
    }
}
