//! Enrollment tokens: with one, agents that are new get credentials until it expires or is used up.
//!
//! A token's file is the seed of a user whose account can do one thing: ask at the token's own subject
//! to be enrolled. The agent makes its own key and sends the public half alone, so that no private key
//! travels, and the server's folder never has it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use nkeys::{KeyPair, KeyPairType};
use serde::{Deserialize, Serialize};

use super::{ServerError, Wanted, agents, folder, keys, url};
use crate::credentials::{KeyFile, Secret};
use crate::names::{AgentName, TokenId};
use crate::permissions::Role;

/// Folder of the tokens that can still be used.
const TOKENS: &str = "tokens";
/// Folder of agents that were enrolled: their public keys.
const ENROLLED: &str = "enrolled";
/// The longest request to be enrolled, in bytes.
const REQUEST_BYTES_MAX: usize = 2048;
/// How many agents one token can enroll at most.
pub const USES_MAX: u32 = 1000;
/// How long a token can be valid at most.
pub const VALID_MAX: Duration = Duration::from_secs(30 * 86_400);

/// What the folder keeps of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its name.
    pub id: TokenId,
    /// The public half of its key.
    public: String,
    /// When it ends, UTC, RFC 3339.
    pub expires: String,
    /// Agents that it can enroll.
    pub uses: u32,
    /// Agents that it has enrolled.
    pub used: u32,
}

/// An agent that was enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Enrolled {
    pub(super) name: AgentName,
    pub(super) public: String,
    /// The token that it used.
    token: TokenId,
    /// When, UTC, RFC 3339.
    at: String,
}

/// An agent's request to be enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollRequest {
    /// The name that it wants.
    pub name: AgentName,
    /// The public half of its key.
    pub public: String,
    /// Made with that key over [`signed_text`], base64: nobody enrolls another's key.
    pub signature: String,
}

/// What comes of a request to be enrolled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reply", rename_all = "kebab-case")]
pub enum EnrollReply {
    /// The server knows the key from now on.
    Enrolled,
    /// It doesn't.
    Refused {
        /// Why.
        text: String,
    },
}

/// The text that an agent signs when it asks to be enrolled.
pub fn signed_text(token: &TokenId, name: &AgentName, public: &str) -> String {
    format!("prony enrollment\n{token}\n{name}\n{public}")
}

impl Token {
    /// Whether it can still enroll an agent.
    pub fn is_open(&self, now: SystemTime) -> bool {
        let expires = humantime::parse_rfc3339(&self.expires);
        self.used < self.uses && expires.is_ok_and(|expires| now < expires)
    }

    /// Makes a token; gives its file's text, which is nowhere else.
    ///
    /// # Errors
    ///
    /// Where it can't be written.
    pub fn make(
        wanted: &Wanted,
        valid: Duration,
        uses: u32,
        now: SystemTime,
    ) -> Result<(Token, String), ServerError> {
        let seed = keys::new_user()?;
        let number: u64 = rand::random();
        let id = TokenId::of_number(number);
        let expires = now + valid.min(VALID_MAX);
        let token = Token {
            public: keys::public(&seed)?,
            expires: humantime::format_rfc3339_seconds(expires).to_string(),
            uses: uses.min(USES_MAX),
            used: 0,
            id: id.clone(),
        };
        let folder = &wanted.folder;
        let authority = fs::read_to_string(folder.join("authority.pem"));
        let authority = authority.map_err(|error| ServerError::File(folder.clone(), error))?;
        let servers = wanted.names.iter().take(1);
        let servers = servers.map(|name| url(name, wanted.listen.port()));
        let mut file = KeyFile::new(&Role::Token(id), seed, servers.collect(), &authority);
        file.expires = Some(token.expires.clone());
        token.write(folder)?;
        Ok((token, file.to_text()))
    }

    fn write(&self, folder: &Path) -> Result<(), ServerError> {
        let text = toml::to_string(self).expect("strings and numbers");
        write(folder, TOKENS, self.id.as_str(), &text)
    }

    /// The tokens of a folder, those that can't be used any more among them.
    ///
    /// # Errors
    ///
    /// Where one can't be read.
    pub fn all(folder: &Path) -> Result<Vec<Token>, ServerError> {
        read_all(folder, TOKENS)
    }

    /// Removes a token; false where there is none.
    ///
    /// # Errors
    ///
    /// Where it can't be removed.
    pub fn remove(folder: &Path, id: &TokenId) -> Result<bool, ServerError> {
        let path = file(folder, TOKENS, id.as_str());
        match fs::remove_file(&path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(ServerError::File(path, error)),
        }
    }

    /// Whether the server still has to know it. One that is used up stays for a moment, so that the last
    /// agent hears that it was enrolled.
    pub(super) fn is_served(&self, now: SystemTime) -> bool {
        humantime::parse_rfc3339(&self.expires).is_ok_and(|expires| now < expires)
    }

    /// The public half of its key.
    pub(super) fn public(&self) -> &str {
        &self.public
    }
}

/// Agents that were enrolled in a folder.
pub(super) fn enrolled(folder: &Path) -> Result<Vec<Enrolled>, ServerError> {
    read_all(folder, ENROLLED)
}

/// Enters an agent that asks to be enrolled into the folder. Whoever holds the folder's lock for writing
/// calls this; the server's configuration has to be written afterwards. Gives its name, and whether it
/// is new: a request that is repeated changes nothing.
///
/// # Errors
///
/// In words, for the agent.
pub(super) fn enroll(
    wanted: &Wanted,
    id: &TokenId,
    request: &[u8],
    now: SystemTime,
) -> Result<(AgentName, bool), String> {
    let failed = |error: ServerError| format!("the server's folder can't be used: {error}");
    if request.len() > REQUEST_BYTES_MAX {
        return Err(format!(
            "the request has {} bytes, and {REQUEST_BYTES_MAX} are the most",
            request.len()
        ));
    }
    let request: EnrollRequest =
        serde_json::from_slice(request).map_err(|error| format!("this is no request: {error}"))?;
    let folder = &wanted.folder;
    let mut tokens = Token::all(folder).map_err(failed)?;
    let token = tokens.iter_mut().find(|token| token.id == *id);
    let Some(token) = token else {
        return Err(format!(
            "token {id} is unknown: it was revoked, or is used up"
        ));
    };
    check_key(id, &request)?;
    let known = enrolled(folder).map_err(failed)?;
    let same = |it: &&Enrolled| it.name == request.name && it.public == request.public;
    if known.iter().any(|it| same(&it)) {
        return Ok((request.name, false));
    }
    if !token.is_open(now) {
        return Err(format!("token {id} has expired, or is used up"));
    }
    let name = &request.name;
    let is_taken = known.iter().any(|it| it.name == *name)
        || agents(folder).map_err(failed)?.contains(name)
        || folder::RESERVED.contains(&name.as_str());
    if is_taken {
        return Err(format!(
            "there is an agent {name} already, with another key; choose another name with --name"
        ));
    }
    if wanted.knows(&request.public).map_err(failed)? {
        return Err("this key is somebody else's already".to_owned());
    }
    // A crash in between costs a use, and gives none away.
    token.used += 1;
    token.write(folder).map_err(failed)?;
    let agent = Enrolled {
        name: name.clone(),
        public: request.public.clone(),
        token: id.clone(),
        at: humantime::format_rfc3339_seconds(now).to_string(),
    };
    let text = toml::to_string(&agent).expect("strings");
    write(folder, ENROLLED, name.as_str(), &text).map_err(failed)?;
    Ok((request.name, true))
}

/// Takes an agent out again that the server did not take.
pub(super) fn forget(folder: &Path, name: &AgentName) {
    // What stays is told to the server at the next time.
    let _ = fs::remove_file(file(folder, ENROLLED, name.as_str()));
}

/// Whether the key is a user's, and the requester's own.
fn check_key(token: &TokenId, request: &EnrollRequest) -> Result<(), String> {
    let wrong = || "its key or signature is not valid".to_owned();
    let key = KeyPair::from_public_key(&request.public).map_err(|_| wrong())?;
    if !matches!(key.key_pair_type(), KeyPairType::User) {
        return Err(wrong());
    }
    let signature = BASE64.decode(&request.signature).map_err(|_| wrong())?;
    let text = signed_text(token, &request.name, &request.public);
    key.verify(text.as_bytes(), &signature).map_err(|_| wrong())
}

/// A key for a new agent.
///
/// # Errors
///
/// In words, where none can be made.
pub fn new_key() -> Result<Secret, String> {
    keys::new_user().map_err(|error| error.to_string())
}

/// An agent's request to be enrolled with its own key.
///
/// # Errors
///
/// In words, where the key can't be used.
pub fn request(token: &TokenId, name: &AgentName, seed: &Secret) -> Result<EnrollRequest, String> {
    let failed = |error: nkeys::error::Error| format!("using a key: {error}");
    let key = KeyPair::from_seed(seed.reveal()).map_err(failed)?;
    let public = key.public_key();
    let text = signed_text(token, name, &public);
    let signature = key.sign(text.as_bytes()).map_err(failed)?;
    Ok(EnrollRequest {
        name: name.clone(),
        public,
        signature: BASE64.encode(signature),
    })
}

fn file(folder: &Path, kind: &str, name: &str) -> PathBuf {
    folder.join(kind).join(format!("{name}.toml"))
}

fn write(folder: &Path, kind: &str, name: &str, text: &str) -> Result<(), ServerError> {
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
            // It was removed in this moment.
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

    fn wanted(folder: &Path) -> Wanted {
        let wanted = Wanted {
            folder: folder.to_owned(),
            listen: "127.0.0.1:4222".parse().unwrap(),
            names: vec!["127.0.0.1".to_owned()],
            agents: vec!["agent-1".parse().unwrap()],
        };
        wanted.prepare().unwrap();
        wanted
    }

    #[test]
    fn a_token_enrolls_new_names_until_it_is_used_up() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = wanted(folder.path());
        let now = SystemTime::now();
        let (token, text) = Token::make(&wanted, Duration::from_secs(60), 2, now).unwrap();
        assert!(
            !fs::read_to_string(file(folder.path(), TOKENS, token.id.as_str()))
                .unwrap()
                .contains("SU")
        );
        assert!(
            text.contains("SU") && text.contains(&token.expires),
            "{text}"
        );
        let ask = |request: &EnrollRequest, now| {
            enroll(
                &wanted,
                &token.id,
                &serde_json::to_vec(request).unwrap(),
                now,
            )
        };
        let of = |name: &str| {
            let seed = new_key().unwrap();
            request(&token.id, &name.parse().unwrap(), &seed).unwrap()
        };
        let (one, two, three) = (of("web-1"), of("web-2"), of("web-3"));
        assert_eq!(ask(&one, now), Ok(("web-1".parse().unwrap(), true)));
        assert!(!ask(&one, now).unwrap().1, "a repetition costs nothing");

        for taken in ["web-1", "agent-1", "coordinator", "registrar"] {
            let error = ask(&of(taken), now).unwrap_err();
            assert!(error.contains("already"), "{taken}: {error}");
        }
        // A key that is not the requester's, or is known already.
        let stolen = EnrollRequest {
            name: "web-9".parse().unwrap(),
            ..one.clone()
        };
        assert!(ask(&stolen, now).unwrap_err().contains("not valid"));
        let long = vec![b' '; REQUEST_BYTES_MAX + 1];
        assert!(enroll(&wanted, &token.id, &long, now).is_err());
        assert!(enroll(&wanted, &token.id, b"{}", now).is_err());

        assert!(
            ask(&two, now + Duration::from_secs(61))
                .unwrap_err()
                .contains("expired")
        );
        assert!(ask(&two, now).is_ok());
        assert!(ask(&three, now).unwrap_err().contains("used up"));
        assert_eq!(enrolled(folder.path()).unwrap().len(), 2);

        let config = || fs::read_to_string(folder.path().join("nats.conf")).unwrap();
        wanted.prepare().unwrap();
        assert!(config().contains("AGENT_web-1") && config().contains("ENROLL_"));
        assert!(Token::remove(folder.path(), &token.id).unwrap());
        assert!(!Token::remove(folder.path(), &token.id).unwrap());
        wanted.prepare().unwrap();
        assert!(config().contains("AGENT_web-1") && !config().contains("nroll"));
        assert!(ask(&one, now).unwrap_err().contains("revoked"));
    }
}
