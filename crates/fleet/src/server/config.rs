//! The server's configuration, as text.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;

use crate::permissions::Role;

/// Somebody whom the server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// As whom.
    pub(super) role: Role,
    /// The public part of the key.
    pub(super) public: String,
}

/// The configuration of a server that listens there, keeps all in `folder`, and knows these users.
pub(super) fn text(listen: SocketAddr, folder: &Path, users: &[User]) -> String {
    let quoted = |path: &Path| quote(&path.to_string_lossy());
    let mut text = format!(
        "# Written by `prony fleet up`, which writes it again each time.\n\
         listen: {listen}\n\
         server_name: \"prony\"\n\
         max_payload: 1MB\n\
         jetstream {{\n  store_dir: {store}\n  max_file_store: 8GB\n}}\n\
         tls {{\n  cert_file: {certificate}\n  key_file: {key}\n  timeout: 5\n}}\n\
         authorization {{\n  users = [\n",
        listen = quote(&listen.to_string()),
        store = quoted(&folder.join("store")),
        certificate = quoted(&folder.join("server.pem")),
        key = quoted(&folder.join("server.key")),
    );
    for user in users {
        let _ = writeln!(text, "{}", user.text());
    }
    text.push_str("  ]\n}\n");
    text
}

impl User {
    fn text(&self) -> String {
        let permissions = self.role.permissions();
        let list = |subjects: &[String]| {
            let quoted: Vec<String> = subjects.iter().map(|it| quote(it)).collect();
            quoted.join(", ")
        };
        let who = match &self.role {
            Role::Coordinator => "the coordinator".to_owned(),
            Role::Agent(name) => format!("agent {name}"),
        };
        let answers = match permissions.may_answer {
            true => "\n        allow_responses: true",
            false => "",
        };
        format!(
            "    # {who}\n    {{\n      nkey: {}\n      permissions: {{\n        \
             publish: [{}]\n        subscribe: [{}]{answers}\n      }}\n    }}",
            self.public,
            list(&permissions.publish),
            list(&permissions.subscribe),
        )
    }
}

/// A string of the configuration's language.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
