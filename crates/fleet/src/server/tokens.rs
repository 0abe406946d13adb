//! Enrollment tokens. With a token, new agents can obtain credentials until it expires or is used
//! up.
//!
//! The file of a token contains the key of a user with a single permission: to publish enrollment
//! requests on the token's subject. Agents generate their own keys and send only the public key;
//! private keys never leave their machines.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::error::ServerError;
use super::{ServerSetup, agents, folder, url};
use crate::credentials::{KeyFile, Secret};
use crate::names::{AgentName, TokenId};
use crate::permissions::Role;
use crate::wire::EnrollRequest;

/// Folder of usable tokens.
const TOKENS: &str = "tokens";
/// Folder of the enrolled agents' public keys.
const ENROLLED: &str = "enrolled";
/// Maximum length of an enrollment request, in bytes.
const REQUEST_BYTES_MAX: usize = 2048;
/// Maximum number of agents that a token can enroll.
pub const USES_MAX: u32 = 1000;
/// Maximum validity of a token.
pub const VALID_MAX: Duration = Duration::from_secs(30 * 86_400);

/// Token, as stored in the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollmentToken {
    /// ID of the token.
    pub id: TokenId,
    /// Public key of the token.
    public: String,
    /// Expiry time, UTC, RFC 3339.
    pub expires: String,
    /// Number of agents that the token can enroll.
    pub uses: u32,
    /// Number of agents that the token has enrolled.
    pub used: u32,
}

/// An enrolled agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Enrolled {
    pub(super) name: AgentName,
    pub(super) public: String,
    /// ID of the token that enrolled the agent.
    token: TokenId,
    /// Time of the enrollment, UTC, RFC 3339.
    at: String,
}

impl EnrollmentToken {
    /// Returns true if the token can still enroll an agent.
    pub fn is_open(&self, now: SystemTime) -> bool {
        let expires = humantime::parse_rfc3339(&self.expires);
        self.used < self.uses && expires.is_ok_and(|expires| now < expires)
    }

    /// Creates a token. Returns it together with the content of its file, which is not stored.
    ///
    /// # Errors
    ///
    /// Returns an error if the token can't be stored.
    pub fn make(
        setup: &ServerSetup,
        valid: Duration,
        uses: u32,
        now: SystemTime,
    ) -> Result<(EnrollmentToken, String), ServerError> {
        let seed = Secret::new_user_seed().map_err(ServerError::keys)?;
        let number: u64 = rand::random();
        let id = TokenId::of_number(number);
        let expires = now + valid.min(VALID_MAX);
        let token = EnrollmentToken {
            public: seed.public_key().map_err(ServerError::keys)?,
            expires: humantime::format_rfc3339_seconds(expires).to_string(),
            uses: uses.min(USES_MAX),
            used: 0,
            id: id.clone(),
        };
        let folder = &setup.folder;
        let authority = fs::read_to_string(folder.join("authority.pem"));
        let authority = authority.map_err(|error| ServerError::File(folder.clone(), error))?;
        let servers = setup.names.iter().take(1);
        let servers = servers.map(|name| url(name, setup.listen.port()));
        let mut file = KeyFile::new(&Role::Token(id), seed, servers.collect(), &authority);
        file.expires = Some(token.expires.clone());
        token.write(folder)?;
        Ok((token, file.to_text()))
    }

    fn write(&self, folder: &Path) -> Result<(), ServerError> {
        let text = toml::to_string(self).expect("strings and numbers");
        write_record(folder, TOKENS, self.id.as_str(), &text)
    }

    /// Returns all tokens in a folder, including unusable ones.
    ///
    /// # Errors
    ///
    /// Returns an error if a token can't be read.
    pub fn all(folder: &Path) -> Result<Vec<EnrollmentToken>, ServerError> {
        read_all(folder, TOKENS)
    }

    /// Removes a token. Returns false if it doesn't exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the token can't be removed.
    pub fn remove(folder: &Path, id: &TokenId) -> Result<bool, ServerError> {
        let path = file(folder, TOKENS, id.as_str());
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ServerError::File(path, error)),
        }
    }

    /// Returns true if the server must accept the token. A used-up token is accepted for a while,
    /// so that repeated requests get a reply.
    pub(super) fn is_served(&self, now: SystemTime) -> bool {
        humantime::parse_rfc3339(&self.expires).is_ok_and(|expires| now < expires)
    }

    /// Returns the public key of the token.
    pub(super) fn public(&self) -> &str {
        &self.public
    }
}

/// Returns the agents whose enrollment is recorded in a folder.
pub(super) fn enrolled(folder: &Path) -> Result<Vec<Enrolled>, ServerError> {
    read_all(folder, ENROLLED)
}

/// Reason why an agent was not enrolled. The agent receives the text.
#[derive(Debug)]
pub(super) enum EnrollError {
    /// The request has this number of bytes.
    Long(usize),
    /// The request can't be parsed.
    Syntax(serde_json::Error),
    /// The token doesn't exist.
    UnknownToken(TokenId),
    /// The key or the signature is invalid.
    Forged,
    /// The token has expired or is used up.
    ClosedToken(TokenId),
    /// Another agent has the name.
    NameTaken(AgentName),
    /// Another agent or role has the key.
    KeyInUse,
    /// The server's folder can't be used.
    Server(ServerError),
}

impl fmt::Display for EnrollError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EnrollError::Long(bytes) => write!(
                f,
                "the request has {bytes} bytes; at most {REQUEST_BYTES_MAX} are accepted"
            ),
            EnrollError::Syntax(error) => write!(f, "not an enrollment request: {error}"),
            EnrollError::UnknownToken(id) => {
                write!(f, "token {id} is unknown: it was revoked, or is used up")
            }
            EnrollError::Forged => f.write_str("its key or signature is not valid"),
            EnrollError::ClosedToken(id) => write!(f, "token {id} has expired or is used up"),
            EnrollError::NameTaken(name) => write!(
                f,
                "agent {name} already exists with another key (choose another name with --name)"
            ),
            EnrollError::KeyInUse => f.write_str("this key is already in use"),
            EnrollError::Server(error) => {
                write!(f, "the server's folder can't be used: {error}")
            }
        }
    }
}

impl From<ServerError> for EnrollError {
    fn from(error: ServerError) -> EnrollError {
        EnrollError::Server(error)
    }
}

/// Enrolls an agent in the folder. The caller must hold the folder's lock, and must rewrite the
/// server's configuration afterwards. Returns the agent's name, and whether this request enrolled
/// it; if an earlier request did, nothing changes.
///
/// # Errors
///
/// The request is rejected, or the folder can't be used.
pub(super) fn enroll(
    setup: &ServerSetup,
    id: &TokenId,
    request: &[u8],
    now: SystemTime,
) -> Result<(AgentName, bool), EnrollError> {
    if request.len() > REQUEST_BYTES_MAX {
        return Err(EnrollError::Long(request.len()));
    }
    let request: EnrollRequest = serde_json::from_slice(request).map_err(EnrollError::Syntax)?;
    let folder = &setup.folder;
    let mut tokens = EnrollmentToken::all(folder)?;
    let token = tokens.iter_mut().find(|token| token.id == *id);
    let Some(token) = token else {
        return Err(EnrollError::UnknownToken(id.clone()));
    };
    if !request.is_genuine(id) {
        return Err(EnrollError::Forged);
    }
    let known = enrolled(folder)?;
    let same = |it: &&Enrolled| it.name == request.name && it.public == request.public;
    if known.iter().any(|it| same(&it)) {
        return Ok((request.name, false));
    }
    if !token.is_open(now) {
        return Err(EnrollError::ClosedToken(id.clone()));
    }
    let name = &request.name;
    let is_taken = known.iter().any(|it| it.name == *name)
        || agents(folder)?.contains(name)
        || folder::RESERVED.contains(&name.as_str());
    if is_taken {
        return Err(EnrollError::NameTaken(name.clone()));
    }
    if setup.knows(&request.public)? {
        return Err(EnrollError::KeyInUse);
    }
    // The use is counted first: a crash after this line wastes one use of the token, but never
    // grants an additional one.
    token.used += 1;
    token.write(folder)?;
    let agent = Enrolled {
        name: name.clone(),
        public: request.public.clone(),
        token: id.clone(),
        at: humantime::format_rfc3339_seconds(now).to_string(),
    };
    let text = toml::to_string(&agent).expect("strings");
    write_record(folder, ENROLLED, name.as_str(), &text)?;
    Ok((request.name, true))
}

/// Removes an enrolled agent that the server did not accept.
pub(super) fn forget(folder: &Path, name: &AgentName) {
    // If the file can't be removed, the server will get the agent's key at the next reload.
    let _ = fs::remove_file(file(folder, ENROLLED, name.as_str()));
}

fn file(folder: &Path, kind: &str, name: &str) -> PathBuf {
    folder.join(kind).join(format!("{name}.toml"))
}

fn write_record(folder: &Path, kind: &str, name: &str, text: &str) -> Result<(), ServerError> {
    let path = file(folder, kind, name);
    let within = folder.join(kind);
    fs::create_dir_all(&within).map_err(|error| ServerError::File(within, error))?;
    folder::write_secret(&path, text)
}

fn read_all<T: for<'a> Deserialize<'a>>(folder: &Path, kind: &str) -> Result<Vec<T>, ServerError> {
    let within = folder.join(kind);
    let failed = |error| ServerError::File(within.clone(), error);
    let entries = match fs::read_dir(&within) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(failed)?,
    };
    let mut all = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        let text = match fs::read_to_string(&path) {
            // The file has been removed since it was listed.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            text => text.map_err(|error| ServerError::File(path.clone(), error))?,
        };
        let one = toml::from_str(&text);
        all.push(one.map_err(|error| ServerError::Unfit(path, error.message().to_owned()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup(folder: &Path) -> ServerSetup {
        let setup = ServerSetup {
            folder: folder.to_owned(),
            listen: "127.0.0.1:4222".parse().unwrap(),
            names: vec!["127.0.0.1".to_owned()],
            agents: vec!["agent-1".parse().unwrap()],
        };
        setup.prepare().unwrap();
        setup
    }

    #[test]
    fn a_token_enrolls_new_names_until_it_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let setup = setup(folder.path());
        let now = SystemTime::now();
        let (token, text) = EnrollmentToken::make(&setup, Duration::from_secs(60), 2, now).unwrap();
        assert!(
            !fs::read_to_string(file(folder.path(), TOKENS, token.id.as_str()))
                .unwrap()
                .contains("\"SU")
        );
        assert!(
            text.contains("\"SU") && text.contains(&token.expires),
            "{text}"
        );
        let ask = |request: &EnrollRequest, now| {
            enroll(
                &setup,
                &token.id,
                &serde_json::to_vec(request).unwrap(),
                now,
            )
        };
        let of = |name: &str| {
            let seed = Secret::new_user_seed().unwrap();
            EnrollRequest::sign(&token.id, &name.parse().unwrap(), &seed).unwrap()
        };
        let (one, two, three) = (of("web-1"), of("web-2"), of("web-3"));
        assert_eq!(ask(&one, now).unwrap(), ("web-1".parse().unwrap(), true));
        assert!(!ask(&one, now).unwrap().1, "a repetition costs nothing");

        for taken in ["web-1", "agent-1", "coordinator", "registrar"] {
            let refused = ask(&of(taken), now);
            assert!(matches!(refused, Err(EnrollError::NameTaken(_))), "{taken}");
        }
        // These requests contain another agent's key, or a key that is already in use.
        let stolen = EnrollRequest {
            name: "web-9".parse().unwrap(),
            ..one.clone()
        };
        assert!(matches!(ask(&stolen, now), Err(EnrollError::Forged)));
        let long = vec![b' '; REQUEST_BYTES_MAX + 1];
        let long = enroll(&setup, &token.id, &long, now);
        assert!(matches!(long, Err(EnrollError::Long(_))));
        assert!(enroll(&setup, &token.id, b"{}", now).is_err());

        let late = ask(&two, now + Duration::from_secs(61));
        assert!(matches!(late, Err(EnrollError::ClosedToken(_))));
        assert!(ask(&two, now).is_ok());
        assert!(matches!(ask(&three, now), Err(EnrollError::ClosedToken(_))));
        assert_eq!(enrolled(folder.path()).unwrap().len(), 2);

        let config = || fs::read_to_string(folder.path().join("nats.conf")).unwrap();
        setup.prepare().unwrap();
        assert!(config().contains("AGENT_web-1") && config().contains("ENROLL_"));
        assert!(EnrollmentToken::remove(folder.path(), &token.id).unwrap());
        assert!(!EnrollmentToken::remove(folder.path(), &token.id).unwrap());
        setup.prepare().unwrap();
        assert!(config().contains("AGENT_web-1") && !config().contains("nroll"));
        assert!(matches!(ask(&one, now), Err(EnrollError::UnknownToken(_))));
    }
}
