//! Permission check for load targets, for programs whose targets are chosen by others.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Decides whether a target with this name and address may be loaded. The error is the reason for a
/// refusal.
type PermitCheck = dyn Fn(&str, Option<IpAddr>) -> Result<(), String> + Send + Sync;

/// The targets that a load may use, including its proxy and the targets of redirects. Each is
/// checked before anything is sent there.
#[derive(Clone)]
pub struct Permits(Arc<PermitCheck>);

impl Permits {
    /// Creates a check that calls `judge` with a name and an address. The name is the URL's host,
    /// or `unix:` and a path for a UNIX socket. If `--resolve` gave the address, the name is that
    /// address, because the host name then proves nothing. The address is `None` for a UNIX socket,
    /// and for a name that only the proxy resolves.
    pub fn new(
        judge: impl Fn(&str, Option<IpAddr>) -> Result<(), String> + Send + Sync + 'static,
    ) -> Permits {
        Permits(Arc::new(judge))
    }

    pub(crate) fn ask(&self, name: &str, address: Option<IpAddr>) -> Result<(), String> {
        (self.0)(name, address)
    }
}

/// Clones of the same check are equal.
impl PartialEq for Permits {
    fn eq(&self, other: &Permits) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Permits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Permits")
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Mutex;

    use super::*;
    use crate::{LoadScope, LoadSettings};

    /// Returns the checks made for a load with these flags, where only the target `good` is
    /// permitted.
    fn asked(url: &str, words: &str, good: &'static str) -> (bool, Vec<(String, String)>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        let permits = Permits::new(move |name, address| {
            let address = address.map_or(String::new(), |it| it.to_string());
            seen.lock().unwrap().push((name.to_owned(), address));
            if name == good {
                Ok(())
            } else {
                Err("no".to_owned())
            }
        });
        let mut settings = LoadSettings::from_flags(words);
        settings.public = true;
        let scope = LoadScope {
            shards: None,
            permits: Some(permits),
            ..LoadScope::default()
        };
        let resolved = settings.resolve_within(Some(url), &scope);
        let asked = asked.lock().unwrap().clone();
        (resolved.is_ok(), asked)
    }

    #[test]
    fn every_target_is_checked() {
        let check = |name: &str, address: &str| vec![(name.to_owned(), address.to_owned())];
        let url = "http://127.0.0.1:9/";
        let near = check("127.0.0.1", "127.0.0.1");
        assert_eq!(asked(url, "-c 1", "127.0.0.1"), (true, near.clone()));
        assert_eq!(asked(url, "-c 1", "other"), (false, near));
        let socket = asked(url, "-c 1 --unix /run/x", "unix:/run/y");
        assert_eq!(socket, (false, check("unix:/run/x", "")));
        // With `--resolve`, the address is checked instead of the name.
        let fixed = asked(
            "http://good.test/",
            "--resolve good.test:80:192.0.2.1",
            "good.test",
        );
        assert_eq!(fixed, (false, check("192.0.2.1", "192.0.2.1")));
        let (is_good, seen) = asked("http://good.invalid/", "--proxy 127.0.0.1:9", "127.0.0.1");
        assert!(!is_good && seen[0].0 == "127.0.0.1", "{seen:?}");
        assert_eq!(seen[1], ("good.invalid".to_owned(), String::new()));
    }

    #[test]
    fn every_file_of_the_settings_is_listed() {
        let folder = tempfile::tempdir().unwrap();
        let list = folder.path().join("urls");
        std::fs::write(
            &list,
            "/a\n/b POST <body\n/c POST </etc/passwd\n/d POST x\n",
        )
        .unwrap();
        let words = format!("--urls {} --ca ca.pem --body-file b", list.display());
        let files = LoadSettings::from_flags(&words).files().unwrap();
        let body = folder.path().join("body");
        let others = ["b", "ca.pem", "/etc/passwd"].map(PathBuf::from);
        assert_eq!(files.len(), 5);
        assert!(
            others
                .iter()
                .chain([&list, &body])
                .all(|it| files.contains(it))
        );
        assert!(LoadSettings::from_flags("--urls /nowhere").files().is_err());
    }
}
