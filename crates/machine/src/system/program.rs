//! Finds a service's program, or the package that provides a missing program.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders that often contain servers but are missing from an ordinary user's `PATH`.
const SBIN_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Debian packages of programs that plans are likely to start. Error messages suggest packages only
/// for these programs.
const PACKAGES: [(&str, &str); 38] = [
    ("ab", "apache2-utils"),
    ("apache2", "apache2"),
    ("apachectl", "apache2"),
    ("caddy", "caddy"),
    ("daphne", "python3-daphne"),
    ("dnsmasq", "dnsmasq"),
    ("envoy", "envoy"),
    ("gunicorn", "gunicorn"),
    ("h2o", "h2o"),
    ("haproxy", "haproxy"),
    ("hitch", "hitch"),
    ("httpd", "apache2"),
    ("hypercorn", "python3-hypercorn"),
    ("ip", "iproute2"),
    ("java", "default-jre-headless"),
    ("lighttpd", "lighttpd"),
    ("memcached", "memcached"),
    ("mysqld", "default-mysql-server"),
    ("nft", "nftables"),
    ("nginx", "nginx"),
    ("node", "nodejs"),
    ("numactl", "numactl"),
    ("openssl", "openssl"),
    ("perf", "linux-perf"),
    ("perl", "perl"),
    ("php", "php-cli"),
    ("php-fpm", "php-fpm"),
    ("postgres", "postgresql"),
    ("puma", "puma"),
    ("python3", "python3"),
    ("redis-server", "redis-server"),
    ("ruby", "ruby"),
    ("squid", "squid"),
    ("strace", "strace"),
    ("uvicorn", "uvicorn"),
    ("uwsgi", "uwsgi"),
    ("valgrind", "valgrind"),
    ("varnishd", "varnish"),
];

/// A program that does not exist on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProgram {
    /// Name of the program in the plan.
    pub program: String,
    /// Debian package that provides the program, if known.
    pub package: Option<&'static str>,
    /// A file that has the program's name but is not executable, if there is one.
    pub not_executable: Option<PathBuf>,
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.not_executable {
            return write!(
                f,
                "{} is not executable (make it executable with chmod +x)",
                path.display()
            );
        }
        write!(f, "program {:?} was not found", self.program)?;
        match self.package {
            Some(package) => write!(
                f,
                " (install the package {package}: `apt-get install {package}`)"
            ),
            None if self.program.contains('/') => Ok(()),
            None => write!(
                f,
                " in PATH or the sbin folders (install it, or give its path)"
            ),
        }
    }
}

/// Finds the file that a service with the given working directory and `PATH` would start as
/// `program`.
///
/// A name with a slash is relative to `cwd`. Other names are looked up in `path` (`None` means
/// prony's own `PATH`), then in the `sbin` folders. If the program doesn't exist, the newest
/// version with a version suffix is used, because Debian provides `php-fpm` only as `php-fpm8.2`.
///
/// # Errors
/// [`MissingProgram`], which contains the package that provides the program.
pub fn find(program: &str, cwd: &Path, path: Option<&str>) -> Result<PathBuf, MissingProgram> {
    let mut not_executable = None;
    let mut folders = Vec::new();
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![cwd.join(program)]
    } else {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let path = path.map_or(own, Into::into);
        folders = std::env::split_paths(&path)
            .chain(SBIN_FOLDERS.iter().map(PathBuf::from))
            .map(|folder| cwd.join(folder))
            .collect();
        folders.iter().map(|folder| folder.join(program)).collect()
    };
    for candidate in candidates {
        match executable(&candidate) {
            Some(true) => return Ok(candidate),
            Some(false) => drop(not_executable.get_or_insert(candidate)),
            None => {}
        }
    }
    if not_executable.is_none()
        && let Some(versioned) = newest_version(program, &folders)
    {
        return Ok(versioned);
    }
    Err(MissingProgram {
        program: program.to_owned(),
        package: package_of(program),
        not_executable,
    })
}

/// Returns true if a path is an executable file; `None` if it is not a regular file.
fn executable(path: &Path) -> Option<bool> {
    let metadata = path.metadata().ok().filter(|metadata| metadata.is_file())?;
    Some(metadata.permissions().mode() & 0o111 != 0)
}

/// Returns the program with the given name and the highest version suffix. Of equal versions, the
/// one in the first folder is used.
fn newest_version(program: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    let mut newest: Option<(Vec<u64>, PathBuf)> = None;
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
    for entry in entries.flatten().flatten() {
        let name = entry.file_name();
        let Some(version) = name
            .to_str()
            .and_then(|name| version(name.strip_prefix(program)?))
        else {
            continue;
        };
        let is_newer = newest.as_ref().is_none_or(|(known, _)| version > *known);
        if is_newer && executable(&entry.path()) == Some(true) {
            newest = Some((version, entry.path()));
        }
    }
    newest.map(|(_, path)| path)
}

/// Parses a version suffix such as `8.2` or `-1.27.4`; `None` for other text.
fn version(text: &str) -> Option<Vec<u64>> {
    let text = text.strip_prefix('-').unwrap_or(text);
    text.split('.').map(|part| part.parse().ok()).collect()
}

/// Returns the Debian package that provides a program, if known.
#[must_use]
pub fn package_of(program: &str) -> Option<&'static str> {
    let name = Path::new(program).file_name()?.to_str()?;
    // A versioned name, such as php-fpm8.2, belongs to the package of the plain name.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let find = |wanted: &str| PACKAGES.iter().find(|(program, _)| *program == wanted);
    find(name)
        .or_else(|| find(plain))
        .or_else(|| {
            if plain == "python" {
                find("python3")
            } else {
                None
            }
        })
        .map(|(_, package)| *package)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_by_name_and_by_path() {
        let here = Path::new("/");
        assert!(find("sh", here, None).is_ok());
        assert_eq!(find("bin/sh", here, None), Ok(PathBuf::from("/bin/sh")));
        assert_eq!(find("sh", here, Some("/bin")), Ok(PathBuf::from("/bin/sh")));
    }

    #[test]
    fn a_versioned_name_counts_if_there_is_no_plain_one() {
        let folder = tempfile::tempdir().unwrap();
        let make = |name: &str, mode: u32| {
            let path = folder.path().join(name);
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        for name in [
            "x-fpm8.2",
            "x-fpm8.10",
            "x-fpm8.3",
            "x-fpm9.x",
            "x-fpm-stat",
        ] {
            make(name, 0o755);
        }
        make("x-fpm11", 0o644);
        let path = folder.path().to_str().unwrap();
        let found = || find("x-fpm", Path::new("/"), Some(path)).unwrap();
        assert_eq!(found(), folder.path().join("x-fpm8.10"));
        make("x-fpm", 0o755);
        assert_eq!(found(), folder.path().join("x-fpm"));
        assert!(find("x", Path::new("/"), Some(path)).is_err());
    }

    #[test]
    fn a_missing_program_names_its_package() {
        let missing = find("no-such-server", Path::new("/"), None).unwrap_err();
        assert_eq!(missing.package, None);
        assert!(
            missing
                .to_string()
                .contains("\"no-such-server\" was not found")
        );
        assert_eq!(package_of("/usr/sbin/varnishd"), Some("varnish"));
        assert_eq!(package_of("php-fpm8.2"), Some("php-fpm"));
        assert_eq!(package_of("python3.11"), Some("python3"));
    }

    #[test]
    fn a_file_without_the_executable_bit_is_named() {
        let missing = find("etc/passwd", Path::new("/"), None).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "/etc/passwd is not executable (make it executable with chmod +x)"
        );
    }

    #[test]
    fn the_table_is_sorted_and_without_doubles() {
        assert!(PACKAGES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
