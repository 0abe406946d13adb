//! An agent without credentials of its own gets some, with an enrollment token.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::AgentError;
use crate::credentials::{Credentials, KeyFile};
use crate::link::{Link, LinkError};
use crate::names::{AgentName, TokenId};
use crate::permissions::Role;
use crate::server::tokens::{EnrollReply, EnrollRequest, new_key, request};

/// How long it may take until an agent is enrolled: others may be enrolled at the same time.
const ENROLL_TIMEOUT: Duration = Duration::from_secs(180);
/// How long a response is waited for before the request is sent again.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(3);
/// How often in a row a token may be rejected, and the pause between these attempts.
const REJECTIONS_MAX: u32 = 3;
const REJECTION_PAUSE: Duration = Duration::from_secs(1);
/// Pause between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(250);

/// The credentials of agent `name`, which are kept in `folder`; with the token they are made first,
/// where there are none. The private key is made here and never leaves this machine.
///
/// # Errors
///
/// Where the token can't be used, or the name is another agent's.
pub fn credentials(
    token: &KeyFile,
    server: Option<&str>,
    name: &AgentName,
    folder: &Path,
) -> Result<Credentials, AgentError> {
    let path = folder.join(format!("{name}.creds"));
    if path.exists() {
        return Credentials::read(&path).map_err(AgentError::Wrong);
    }
    let Role::Token(id) = token.role() else {
        let why = format!(
            "these are the credentials of {}, and no token",
            token.role()
        );
        return Err(AgentError::Wrong(why));
    };
    // The key is kept before it is sent: one that the server knows must not be lost.
    let pending = folder.join(format!("{name}.creds.pending"));
    let own = match pending.exists() {
        true => Credentials::read(&pending).map_err(AgentError::Wrong)?,
        false => {
            let seed = new_key().map_err(AgentError::Environment)?;
            let authority = token.authority.as_deref().unwrap_or_default();
            let role = Role::Agent(name.clone());
            let file = KeyFile::new(&role, seed, token.servers.clone(), authority);
            write(folder, &pending, &file.to_text())?;
            Credentials::Key(file)
        }
    };
    let Credentials::Key(file) = &own else {
        let why = format!("{}: no key of an agent", pending.display());
        return Err(AgentError::Wrong(why));
    };
    let request = request(&id, name, &file.seed).map_err(AgentError::Wrong)?;
    let role = Role::Agent(name.clone());
    let until = Instant::now() + ENROLL_TIMEOUT;
    // An earlier attempt may have been enrolled without hearing so.
    let mut rejections = 0;
    while Link::connect(server, &own, &role).is_err() {
        match ask(token, server, &id, &request) {
            Err(Failed::ForGood(error)) => return Err(error),
            // While the server reads its configuration it may reject anybody.
            Err(Failed::Rejected(error)) => {
                rejections += 1;
                if rejections == REJECTIONS_MAX {
                    return Err(error);
                }
                thread::sleep(REJECTION_PAUSE);
            }
            Err(Failed::ForNow(error)) if Instant::now() > until => return Err(error),
            Ok(()) if Instant::now() > until => {
                let why = "enrolled, and the server does not know the key; look at the output of \
                           `prony fleet up`";
                return Err(AgentError::Environment(why.to_owned()));
            }
            Ok(()) | Err(Failed::ForNow(_)) => rejections = 0,
        }
        thread::sleep(RETRY_PAUSE);
    }
    let renamed = fs::rename(&pending, &path);
    renamed.map_err(|error| file_error(&path, &error))?;
    Ok(own)
}

/// Why an attempt to be enrolled failed.
enum Failed {
    /// Another attempt may succeed.
    ForNow(AgentError),
    /// The server doesn't know the token.
    Rejected(AgentError),
    /// No attempt will succeed.
    ForGood(AgentError),
}

/// Asks once to be enrolled. Requests are lost while the server reads its configuration, as it does for
/// each agent that is enrolled.
fn ask(
    token: &KeyFile,
    server: Option<&str>,
    id: &TokenId,
    request: &EnrollRequest,
) -> Result<(), Failed> {
    let environment = |text: String| AgentError::Environment(text);
    let credentials = Credentials::Key(token.clone());
    let link = Link::connect(server, &credentials, &Role::Token(id.clone()));
    let link = link.map_err(|error| no_connection(token, error))?;
    let json = serde_json::to_vec(request).expect("strings");
    let reply = link.ask(&id.requests(), json, RESPONSE_TIMEOUT);
    let reply = reply.map_err(|error| {
        Failed::ForNow(environment(match error {
            LinkError::NobodyThere(_) => {
                "nobody enrolls agents there; `prony fleet up` has to run \
                                          on the server's machine"
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
    Err(Failed::ForGood(environment(format!("not enrolled: {why}"))))
}

fn no_connection(token: &KeyFile, error: LinkError) -> Failed {
    match error {
        LinkError::Connect {
            may_pass: false, ..
        } => Failed::Rejected(AgentError::Environment(format!(
            "{error}; the token has expired{}, is used up, or was revoked",
            token
                .expires
                .as_ref()
                .map_or(String::new(), |at| format!(" ({at})"))
        ))),
        LinkError::Credentials(why) => Failed::ForGood(AgentError::Wrong(why)),
        other => Failed::ForNow(AgentError::Environment(other.to_string())),
    }
}

/// Writes a file that only its owner may read.
fn write(folder: &Path, path: &PathBuf, text: &str) -> Result<(), AgentError> {
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
