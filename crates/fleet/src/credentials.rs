//! Who somebody is, and which server to believe: one file.
//!
//! What `prony fleet up` writes is TOML with a name, the seed of an nkey and the authority's
//! certificate. The `.creds` files of NATS's own tools (a user JWT with its seed) are taken, too; those
//! say nothing of a name or an authority.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::names::AgentName;
use crate::permissions::Role;

/// Bytes of a credentials file that are read.
const SIZE_MAX: u64 = 64 << 10;

/// What a credentials file holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// prony's own.
    Key(KeyFile),
    /// NATS's own, as text.
    Jwt(Secret),
}

/// prony's own credentials file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// `coordinator`, `agent`, `registrar` or `token`.
    role: String,
    /// The agent's name, or the token's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<AgentName>,
    /// The nkey's seed, `SU…`.
    pub seed: Secret,
    /// Servers, such as `tls://10.0.0.1:4222`, where none is given by hand.
    #[serde(default)]
    pub servers: Vec<String>,
    /// The certificate of the authority that the server's has to be from, PEM; that of the system's
    /// authorities, where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// When a token ends, UTC, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// A text that no message shows.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Secret {
    /// Keeps a text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// The text, for those who need it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl KeyFile {
    /// Somebody's credentials.
    pub fn new(role: &Role, seed: Secret, servers: Vec<String>, authority: &str) -> KeyFile {
        let (role, name) = match role {
            Role::Coordinator => ("coordinator", None),
            Role::Agent(name) => ("agent", Some(name.clone())),
            Role::Registrar => ("registrar", None),
            Role::Token(id) => ("token", id.as_str().parse().ok()),
        };
        KeyFile {
            role: role.to_owned(),
            name,
            seed,
            servers,
            authority: Some(authority.to_owned()),
            expires: None,
        }
    }

    /// As the file's text.
    pub fn to_text(&self) -> String {
        let who = self.role();
        let body = toml::to_string(self).expect("strings and lists of strings");
        format!("# Credentials of {who} for prony: whoever reads this file can be it.\n{body}")
    }

    /// Whose they are.
    pub fn role(&self) -> Role {
        // Which of them have a name was seen when the file was read.
        match (self.role.as_str(), &self.name) {
            ("token", Some(id)) => match id.as_str().parse() {
                Ok(id) => Role::Token(id),
                Err(_) => Role::Agent(id.clone()),
            },
            (_, Some(name)) => Role::Agent(name.clone()),
            ("registrar", None) => Role::Registrar,
            (_, None) => Role::Coordinator,
        }
    }
}

impl Credentials {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// In words, with the file's name; never with what is in it.
    pub fn read(path: &Path) -> Result<Credentials, String> {
        let wrong = |what: String| format!("{}: {what}", path.display());
        let open = || -> std::io::Result<(Metadata, String)> {
            let mut file = File::open(path)?;
            let mut text = String::new();
            let metadata = file.metadata()?;
            file.by_ref().take(SIZE_MAX).read_to_string(&mut text)?;
            Ok((metadata, text))
        };
        let (metadata, text) = open().map_err(|error| wrong(error.to_string()))?;
        let own = rustix::process::geteuid().as_raw();
        if let Some(readers) = other_readers(metadata.mode(), metadata.uid(), own) {
            return Err(wrong(format!(
                "{readers} can read this private key (mode {:04o}); run `chmod 600 {}`",
                metadata.mode() & 0o7777,
                path.display()
            )));
        }
        Credentials::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<Credentials, String> {
        if text.contains("BEGIN NATS USER JWT") {
            return Ok(Credentials::Jwt(Secret::new(text)));
        }
        let file: KeyFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            // The error's own text would show the line, and with it the seed.
            format!(
                "line {line}: no credentials; `prony fleet up` writes them, and the .creds files of \
                 NATS's tools are taken, too"
            )
        })?;
        match (file.role.as_str(), &file.name) {
            ("coordinator" | "registrar", None) | ("agent" | "token", Some(_)) => {
                Ok(Credentials::Key(file))
            }
            (role @ ("coordinator" | "registrar"), Some(_)) => Err(format!("a {role} has no name")),
            (role @ ("agent" | "token"), None) => Err(format!("role \"{role}\" needs a name")),
            _ => Err("role is \"coordinator\", \"agent\" or \"token\"".to_owned()),
        }
    }
}

/// Who besides `user` can read a file of this mode and owner: a private key is for one user.
///
/// The group counts only where the file is the user's own: service managers hand over files of root's
/// that the service reads as a member of a group (Kubernetes), or by an access list, whose mask the
/// group's bits show (systemd).
fn other_readers(mode: u32, owner: u32, user: u32) -> Option<&'static str> {
    if mode & 0o004 != 0 {
        return Some("every user of this machine");
    }
    (mode & 0o040 != 0 && owner == user).then_some("the file's group")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn credentials_that_others_can_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.creds");
        std::fs::write(&path, file(Role::Coordinator).to_text()).unwrap();
        for (mode, is_private) in [
            (0o600, true),
            (0o400, true),
            (0o604, false),
            (0o644, false),
            (0o640, false),
        ] {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            let read = Credentials::read(&path);
            assert_eq!(read.is_ok(), is_private, "{mode:o}");
            if let Err(error) = read {
                let hint = format!("run `chmod 600 {}`", path.display());
                assert!(error.contains(&hint) && !error.contains("SUABC"), "{error}");
            }
        }
        // As Kubernetes and systemd hand over secrets: root's, readable by the service's group.
        assert_eq!(other_readers(0o440, 0, 65_532), None);
        assert!(other_readers(0o444, 0, 65_532).is_some());
    }

    fn file(role: Role) -> KeyFile {
        let servers = vec!["tls://127.0.0.1:4222".to_owned()];
        KeyFile::new(&role, Secret::new("SUABC"), servers, "-----BEGIN\nx\n")
    }

    #[test]
    fn what_is_written_is_read_again() {
        for role in [
            Role::Coordinator,
            Role::Agent("a-1".parse().unwrap()),
            Role::Registrar,
            Role::Token("t-1".parse().unwrap()),
        ] {
            let file = file(role.clone());
            let read = Credentials::parse(&file.to_text()).unwrap();
            assert_eq!(read, Credentials::Key(file.clone()));
            assert_eq!(file.role(), role);
        }
    }

    #[test]
    fn a_file_with_a_slip_is_refused_without_showing_what_is_in_it() {
        for bad in [
            "",
            "role = 'agent'\nseed = 'SUSECRET'",
            "role = 'agent'\nname = 'a.b'\nseed = 'SUSECRET'",
            "role = 'king'\nseed = 'SUSECRET'",
            "role = 'coordinator'\nname = 'x'\nseed = 'SUSECRET'",
            "role = 'coordinator'\nseed = 'SUSECRET",
            "role = 'coordinator'\nseed = 'SUSECRET'\nsed = 1",
        ] {
            let error = Credentials::parse(bad).unwrap_err();
            assert!(!error.contains("SECRET"), "{error}");
        }
        let shown = format!("{:?}", file(Role::Coordinator));
        assert!(!shown.contains("SUABC"), "{shown}");
    }

    #[test]
    fn the_files_of_other_tools_are_taken() {
        let text = "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n";
        let read = Credentials::parse(text).unwrap();
        assert_eq!(read, Credentials::Jwt(Secret::new(text)));
    }
}
