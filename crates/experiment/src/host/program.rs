//! Finding a service's program, and the package that has it when it is missing.

use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Folders in which servers lie that an ordinary user's `PATH` lacks.
const SERVER_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Programs whose Debian package has another name than themselves. Everything that a plan is likely
/// to start is listed, those with the same name too: only what is listed is claimed to exist.
const PACKAGES: [(&str, &str); 37] = [
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

/// A program that is not on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingProgram {
    /// The program as the plan names it.
    pub program: String,
    /// The Debian package that has it, if known.
    pub package: Option<&'static str>,
    /// Set when a file of that name exists, but can't be executed.
    pub not_executable: Option<PathBuf>,
}

impl fmt::Display for MissingProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.not_executable {
            return write!(f, "{} is not executable (chmod +x it)", path.display());
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

/// Finds `program` as a service with this working directory and `PATH` would start it.
///
/// A name with a slash is relative to `cwd`; any other is looked up in `path` (`None`: prony's own
/// `PATH`), then in the `sbin` folders.
///
/// # Errors
/// [`MissingProgram`] with the package that has it.
pub fn find(program: &str, cwd: &Path, path: Option<&str>) -> Result<PathBuf, MissingProgram> {
    let mut not_executable = None;
    let candidates: Vec<PathBuf> = if program.contains('/') {
        vec![cwd.join(program)]
    } else {
        let own = std::env::var_os("PATH").unwrap_or_default();
        let folders = path.map_or(own, Into::into);
        std::env::split_paths(&folders)
            .chain(SERVER_FOLDERS.iter().map(PathBuf::from))
            .map(|folder| cwd.join(folder).join(program))
            .collect()
    };
    for candidate in candidates {
        let Ok(metadata) = candidate.metadata() else {
            continue;
        };
        if !metadata.is_file() {
            continue;
        }
        if metadata.permissions().mode() & 0o111 != 0 {
            return Ok(candidate);
        }
        not_executable.get_or_insert(candidate);
    }
    Err(MissingProgram {
        program: program.to_owned(),
        package: package_of(program),
        not_executable,
    })
}

/// The Debian package that has a program of this name, if known.
#[must_use]
pub fn package_of(program: &str) -> Option<&'static str> {
    let name = Path::new(program).file_name()?.to_str()?;
    // Versioned names, such as php-fpm8.2 or python3.11, come with the package of the plain one.
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
            "/etc/passwd is not executable (chmod +x it)"
        );
    }

    #[test]
    fn the_table_is_sorted_and_without_doubles() {
        assert!(PACKAGES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
