//! Credentials files. Each contains the private key of a role, and the certificate of the authority
//! that issued the server's certificate.
//!
//! `prony fleet up` writes TOML with a role, the seed of an nkey and the authority's certificate.
//! The `.creds` files of NATS's own tools (a user JWT with its seed) are also accepted. They
//! contain neither a role nor a certificate.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nkeys::KeyPair;
use serde::{Deserialize, Serialize};

use crate::names::AgentName;
use crate::permissions::Role;

/// Maximum number of bytes that are read from a credentials file.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// Contents of a credentials file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FleetCredentials {
    /// A file in prony's format.
    Key(KeyFile),
    /// A file in the format of NATS's own tools, as text.
    Jwt(Secret),
}

/// Contents of a credentials file in prony's format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyFile {
    /// Name of the role: `coordinator`, `agent`, `registrar` or `token`.
    role: String,
    /// Name of the agent or of the token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<AgentName>,
    /// Seed of the nkey. It starts with `SU`.
    pub seed: Secret,
    /// URLs of the servers, such as `tls://10.0.0.1:4222`. They are used unless the user names a
    /// server.
    #[serde(default)]
    pub servers: Vec<String>,
    /// PEM certificate of the only authority to trust. If it is missing, the system's authorities
    /// are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authority: Option<String>,
    /// Expiry time of a token, UTC, RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
}

/// Secret text, which never appears in messages.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl Secret {
    /// Wraps secret text.
    pub fn new(text: impl Into<String>) -> Secret {
        Secret(text.into())
    }

    /// Returns the secret text.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Generates the seed of a new user's nkey.
    ///
    /// # Errors
    ///
    /// The key can't be generated.
    pub fn new_user_seed() -> Result<Secret, nkeys::error::Error> {
        KeyPair::new_user().seed().map(Secret)
    }

    /// Returns the public key for this seed.
    ///
    /// # Errors
    ///
    /// This is not a valid seed.
    pub fn public_key(&self) -> Result<String, nkeys::error::Error> {
        KeyPair::from_seed(&self.0).map(|pair| pair.public_key())
    }
}

impl KeyFile {
    /// Creates credentials for a role.
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

    /// Formats the credentials as the text of a credentials file.
    pub fn to_text(&self) -> String {
        let who = self.role();
        let body = toml::to_string(self).expect("strings and lists of strings");
        format!("# Credentials of {who} for prony. Keep this file private.\n{body}")
    }

    /// Returns the role.
    pub fn role(&self) -> Role {
        // Parsing has already rejected files whose role needs a name but that have none.
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

/// Error of a credentials file. Contains none of its secrets.
#[derive(Debug)]
pub struct CredentialsError {
    path: PathBuf,
    fault: CredentialsFault,
}

#[derive(Debug)]
enum CredentialsFault {
    Read(io::Error),
    /// Other users can read the file.
    Exposed {
        readers: Readers,
        mode: u32,
    },
    /// The file has another format. A TOML error would quote the line, which may contain the seed.
    Syntax {
        line: usize,
    },
    /// This role has no name, but the file has one.
    Named(String),
    /// This role needs a name.
    Nameless(String),
    /// The role is unknown.
    Role,
}

impl fmt::Display for CredentialsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        write!(f, "{path}: ")?;
        match &self.fault {
            CredentialsFault::Read(error) => error.fmt(f),
            CredentialsFault::Exposed { readers, mode } => {
                let readers = match readers {
                    Readers::All => "every user of this machine",
                    Readers::Group => "the file's group",
                };
                write!(
                    f,
                    "{readers} can read this private key (mode {mode:04o}); run `chmod 600 {path}`"
                )
            }
            CredentialsFault::Syntax { line } => write!(
                f,
                "line {line}: not a credentials file (`prony fleet up` writes them; .creds files \
                 from NATS's own tools also work)"
            ),
            CredentialsFault::Named(role) => write!(f, "role \"{role}\" can't have a name"),
            CredentialsFault::Nameless(role) => write!(f, "role \"{role}\" needs a name"),
            CredentialsFault::Role => {
                f.write_str("role must be \"coordinator\", \"agent\", \"registrar\" or \"token\"")
            }
        }
    }
}

impl std::error::Error for CredentialsError {}

/// Users who can read a private key that isn't theirs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    All,
    Group,
}

impl FleetCredentials {
    /// Reads a credentials file.
    ///
    /// # Errors
    ///
    /// The file can't be read, others can read it, or it is not a credentials file.
    pub fn read(path: &Path) -> Result<FleetCredentials, CredentialsError> {
        let wrong = |fault| CredentialsError {
            path: path.to_owned(),
            fault,
        };
        let open = || -> std::io::Result<(Metadata, String)> {
            let mut file = File::open(path)?;
            let mut text = String::new();
            let metadata = file.metadata()?;
            file.by_ref()
                .take(FILE_BYTES_MAX)
                .read_to_string(&mut text)?;
            Ok((metadata, text))
        };
        let (metadata, text) = open().map_err(|error| wrong(CredentialsFault::Read(error)))?;
        let own = rustix::process::geteuid().as_raw();
        if let Some(readers) = other_readers(metadata.mode(), metadata.uid(), own) {
            let mode = metadata.mode() & 0o7777;
            return Err(wrong(CredentialsFault::Exposed { readers, mode }));
        }
        FleetCredentials::parse(&text).map_err(wrong)
    }

    fn parse(text: &str) -> Result<FleetCredentials, CredentialsFault> {
        if text.contains("BEGIN NATS USER JWT") {
            return Ok(FleetCredentials::Jwt(Secret::new(text)));
        }
        let file: KeyFile = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            CredentialsFault::Syntax { line }
        })?;
        match (file.role.as_str(), &file.name) {
            ("coordinator" | "registrar", None) | ("agent" | "token", Some(_)) => {
                Ok(FleetCredentials::Key(file))
            }
            ("coordinator" | "registrar", Some(_)) => Err(CredentialsFault::Named(file.role)),
            ("agent" | "token", None) => Err(CredentialsFault::Nameless(file.role)),
            _ => Err(CredentialsFault::Role),
        }
    }
}

/// Returns the users other than `user` who can read a file with this mode and owner. Returns
/// `None` if nobody else can read it, as is required for a private key.
///
/// If root owns the file and `user` isn't root, the group's read permission is ignored, because
/// service managers provide such files. The service reads them as a member of the group
/// (Kubernetes), or through an access list whose mask appears as the group's mode bits (systemd).
fn other_readers(mode: u32, owner: u32, user: u32) -> Option<Readers> {
    if mode & 0o004 != 0 {
        return Some(Readers::All);
    }
    let is_provided = owner == 0 && user != 0;
    (mode & 0o040 != 0 && !is_provided).then_some(Readers::Group)
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
            let read = FleetCredentials::read(&path);
            assert_eq!(read.is_ok(), is_private, "{mode:o}");
            if let Err(error) = read {
                let error = error.to_string();
                let hint = format!("run `chmod 600 {}`", path.display());
                assert!(error.contains(&hint) && !error.contains("SUABC"), "{error}");
            }
        }
        // Kubernetes and systemd provide such files: root owns them, and the service's group can
        // read them.
        assert_eq!(other_readers(0o440, 0, 65_532), None);
        assert!(other_readers(0o444, 0, 65_532).is_some());
        assert!(other_readers(0o440, 1_000, 65_532).is_some());
    }

    fn file(role: Role) -> KeyFile {
        let servers = vec!["tls://127.0.0.1:4222".to_owned()];
        KeyFile::new(&role, Secret::new("SUABC"), servers, "-----BEGIN\nx\n")
    }

    #[test]
    fn credentials_survive_serialization() {
        for role in [
            Role::Coordinator,
            Role::Agent("a-1".parse().unwrap()),
            Role::Registrar,
            Role::Token("t-1".parse().unwrap()),
        ] {
            let file = file(role.clone());
            let read = FleetCredentials::parse(&file.to_text()).unwrap();
            assert_eq!(read, FleetCredentials::Key(file.clone()));
            assert_eq!(file.role(), role);
        }
    }

    #[test]
    fn an_invalid_file_is_refused_without_printing_its_contents() {
        for bad in [
            "",
            "role = 'agent'\nseed = 'SUSECRET'",
            "role = 'agent'\nname = 'a.b'\nseed = 'SUSECRET'",
            "role = 'king'\nseed = 'SUSECRET'",
            "role = 'coordinator'\nname = 'x'\nseed = 'SUSECRET'",
            "role = 'coordinator'\nseed = 'SUSECRET",
            "role = 'coordinator'\nseed = 'SUSECRET'\nsed = 1",
        ] {
            let fault = FleetCredentials::parse(bad).unwrap_err();
            let path = PathBuf::from("a.creds");
            let error = CredentialsError { path, fault };
            let (shown, text) = (format!("{error:?}"), error.to_string());
            assert!(
                !shown.contains("SECRET") && !text.contains("SECRET"),
                "{shown}"
            );
        }
        let shown = format!("{:?}", file(Role::Coordinator));
        assert!(!shown.contains("SUABC"), "{shown}");
    }

    #[test]
    fn creds_files_of_nats_tools_are_accepted() {
        let text = "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n";
        let read = FleetCredentials::parse(text).unwrap();
        assert_eq!(read, FleetCredentials::Jwt(Secret::new(text)));
    }
}
