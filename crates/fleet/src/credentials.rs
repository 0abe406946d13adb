//! Who somebody is, and which server to believe: one file.
//!
//! What `prony fleet up` writes is TOML with a name, the seed of an nkey and the authority's
//! certificate. The `.creds` files of NATS's own tools (a user JWT with its seed) are taken, too; those
//! say nothing of a name or an authority.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::names::AgentName;
use crate::permissions::Role;

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
    /// `coordinator`, or `agent`.
    role: String,
    /// The agent's name.
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
        };
        KeyFile {
            role: role.to_owned(),
            name,
            seed,
            servers,
            authority: Some(authority.to_owned()),
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
        match &self.name {
            Some(name) => Role::Agent(name.clone()),
            None => Role::Coordinator,
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
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
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
            ("coordinator", None) | ("agent", Some(_)) => Ok(Credentials::Key(file)),
            ("coordinator", Some(_)) => Err("a coordinator has no name".to_owned()),
            ("agent", None) => Err("an agent needs its name".to_owned()),
            _ => Err("role is \"coordinator\" or \"agent\"".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(role: Role) -> KeyFile {
        let servers = vec!["tls://127.0.0.1:4222".to_owned()];
        KeyFile::new(&role, Secret::new("SUABC"), servers, "-----BEGIN\nx\n")
    }

    #[test]
    fn what_is_written_is_read_again() {
        for role in [Role::Coordinator, Role::Agent("a-1".parse().unwrap())] {
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
