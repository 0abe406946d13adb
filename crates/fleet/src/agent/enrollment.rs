//! Obtains credentials for an agent with an enrollment token.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::AgentError;
use crate::credentials::{FleetCredentials, KeyFile, Secret};
use crate::link::{LinkError, NatsLink};
use crate::names::{AgentName, TokenId};
use crate::permissions::Role;
use crate::wire::{EnrollReply, EnrollRequest};

/// Timeout of the whole enrollment. It is long because many agents may enroll at the same time.
const ENROLL_TIMEOUT: Duration = Duration::from_secs(180);
/// Timeout for a response, after which the request is sent again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// Number of consecutive rejections after which a token counts as invalid.
const REJECTIONS_MAX: u32 = 3;
/// Pause after a rejection.
const REJECTION_PAUSE: Duration = Duration::from_secs(1);
/// Pause between attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// Reads the credentials of agent `name` from `folder`. If there are none, first enrolls the agent
/// with the token. The private key is generated here and never leaves this machine.
///
/// # Errors
///
/// Returns an error if the token can't be used, or if another agent has the name.
pub fn credentials(
    token: &KeyFile,
    server: Option<&str>,
    name: &AgentName,
    folder: &Path,
) -> Result<FleetCredentials, AgentError> {
    let path = folder.join(format!("{name}.creds"));
    if path.exists() {
        return FleetCredentials::read(&path).map_err(AgentError::Credentials);
    }
    let Role::Token(id) = token.role() else {
        let why = format!(
            "these are the credentials of {}, not an enrollment token",
            token.role()
        );
        return Err(AgentError::Wrong(why));
    };
    // Store the key before sending the public key: once the server knows the public key, the
    // private key must not be lost.
    let pending = folder.join(format!("{name}.creds.pending"));
    let own = if pending.exists() {
        FleetCredentials::read(&pending).map_err(AgentError::Credentials)?
    } else {
        let seed = Secret::new_user_seed().map_err(AgentError::NewKey)?;
        let authority = token.authority.as_deref().unwrap_or_default();
        let role = Role::Agent(name.clone());
        let file = KeyFile::new(&role, seed, token.servers.clone(), authority);
        write_private_file(folder, &pending, &file.to_text())?;
        FleetCredentials::Key(file)
    };
    let FleetCredentials::Key(file) = &own else {
        let why = format!("{}: not an agent's key", pending.display());
        return Err(AgentError::Wrong(why));
    };
    let request = EnrollRequest::sign(&id, name, &file.seed).map_err(AgentError::Key)?;
    let role = Role::Agent(name.clone());
    let until = Instant::now() + ENROLL_TIMEOUT;
    // A later request may be rejected because the server accepted an earlier one and the response
    // was lost.
    let mut rejections = 0;
    while NatsLink::connect(server, &own, &role).is_err() {
        match ask(token, server, &id, &request) {
            Err(EnrollFailure::ForGood(error)) => return Err(error),
            // While the server reloads its configuration, it may reject any connection.
            Err(EnrollFailure::Rejected(error)) => {
                rejections += 1;
                if rejections == REJECTIONS_MAX {
                    return Err(error);
                }
                thread::sleep(REJECTION_PAUSE);
            }
            Err(EnrollFailure::ForNow(error)) if Instant::now() > until => return Err(error),
            Ok(()) if Instant::now() > until => {
                let why = "enrolled, but the server does not accept the key; see the output of \
                           `prony fleet up`";
                return Err(AgentError::Environment(why.to_owned()));
            }
            Ok(()) | Err(EnrollFailure::ForNow(_)) => rejections = 0,
        }
        thread::sleep(RETRY_PAUSE);
    }
    let renamed = fs::rename(&pending, &path);
    renamed.map_err(|error| file_error(&path, &error))?;
    Ok(own)
}

/// Reason why an attempt to enroll failed.
enum EnrollFailure {
    /// Another attempt may succeed.
    ForNow(AgentError),
    /// The server rejected the token.
    Rejected(AgentError),
    /// No other attempt can succeed.
    ForGood(AgentError),
}

/// Sends one enrollment request. The request may be lost while the server reloads its configuration
/// to add other agents.
fn ask(
    token: &KeyFile,
    server: Option<&str>,
    id: &TokenId,
    request: &EnrollRequest,
) -> Result<(), EnrollFailure> {
    let environment = |text: String| AgentError::Environment(text);
    let credentials = FleetCredentials::Key(token.clone());
    let link = NatsLink::connect(server, &credentials, &Role::Token(id.clone()));
    let link = link.map_err(|error| no_connection(token, error))?;
    let json = serde_json::to_vec(request).expect("strings");
    let reply = link.request(&id.requests_subject(), json, RESPONSE_TIMEOUT);
    let reply = reply.map_err(|error| {
        EnrollFailure::ForNow(environment(match error {
            LinkError::NoResponders(_) => {
                "no registrar responds; `prony fleet up` must be running on the server's machine"
                    .to_owned()
            }
            other => other.to_string(),
        }))
    })?;
    let why = match serde_json::from_slice(&reply) {
        Ok(EnrollReply::Enrolled) => return Ok(()),
        Ok(EnrollReply::Refused { text }) => text,
        Err(error) => error.to_string(),
    };
    Err(EnrollFailure::ForGood(environment(format!(
        "not enrolled: {why}"
    ))))
}

fn no_connection(token: &KeyFile, error: LinkError) -> EnrollFailure {
    match error {
        LinkError::Connect {
            retryable: false, ..
        } => EnrollFailure::Rejected(AgentError::Environment(format!(
            "{error}; the token has expired{}, is used up, or was revoked",
            token
                .expires
                .as_ref()
                .map_or(String::new(), |at| format!(" ({at})"))
        ))),
        LinkError::Credentials(why) => EnrollFailure::ForGood(AgentError::Wrong(why)),
        other => EnrollFailure::ForNow(AgentError::Environment(other.to_string())),
    }
}

/// Writes a file that only its owner can read.
fn write_private_file(folder: &Path, path: &PathBuf, text: &str) -> Result<(), AgentError> {
    fs::create_dir_all(folder).map_err(|error| file_error(folder, &error))?;
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(file_error(path, &error)),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    let written = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
    written.map_err(|error| file_error(path, &error))
}

fn file_error(path: &Path, error: &std::io::Error) -> AgentError {
    AgentError::Environment(format!("{}: {error}", path.display()))
}
