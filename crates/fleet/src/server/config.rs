//! The server's configuration, as text.

use std::fmt::Write;
use std::net::SocketAddr;

use super::folder::{CERTIFICATE, CONFIG, KEY, PID, STORE};
use crate::permissions::{ENROLL_SUBJECTS, Permissions, Role, heard_from_agents, told_to_agents};

/// Somebody whom the server knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct User {
    /// As whom.
    pub(super) role: Role,
    /// The public part of the key.
    pub(super) public: String,
}

/// The configuration of a server that listens there and knows these users: one coordinator, and agents.
/// Its files are named as they are called from their folder, so that it may be moved.
pub(super) fn text(listen: SocketAddr, users: &[User]) -> String {
    let mut text = format!(
        "# Written by `prony fleet up`, which writes it again each time. Where others run the server, it\n\
         # is to be started in this folder: nats-server -c {CONFIG}\n\
         listen: {listen}\n\
         server_name: \"prony\"\n\
         pid_file: {pid}\n\
         max_payload: 1MB\n\
         jetstream {{\n  store_dir: {store}\n  max_file_store: 8GB\n}}\n\
         tls {{\n  cert_file: {certificate}\n  key_file: {key}\n  timeout: 5\n}}\n\
         accounts {{\n",
        listen = quote(&listen.to_string()),
        pid = quote(PID),
        store = quote(STORE),
        certificate = quote(CERTIFICATE),
        key = quote(KEY),
    );
    let registrar = users.iter().find(|user| user.role == Role::Registrar);
    for user in users {
        let name = quote(&user.role.account());
        let _ = match &user.role {
            Role::Coordinator => {
                write!(text, "  {name}: {}", user.coordinators_account(registrar))
            }
            Role::Agent(_) | Role::Token(_) => write!(text, "  {name}: {}", user.agents_account()),
            // It is one of the coordinator's account.
            Role::Registrar => Ok(()),
        };
    }
    text.push_str("}\n");
    text
}

impl User {
    /// The account that has JetStream; agents' say comes to it, and its orders go to them. Where there
    /// is a registrar, requests to be enrolled come to it, too.
    fn coordinators_account(&self, registrar: Option<&User>) -> String {
        let heard = [self.role.permissions().inbox].into_iter();
        let requests = registrar.map(|_| ENROLL_SUBJECTS.to_owned());
        let heard = heard.chain(heard_from_agents()).chain(requests);
        let heard = heard.map(|it| service(&it));
        let told = told_to_agents().map(|it| format!("stream: {}", quote(&it)));
        let users = [Some(self), registrar].into_iter().flatten();
        let users: Vec<String> = users.map(User::user).collect();
        format!(
            "{{\n    jetstream: enabled\n    users: [{users}]\n    exports: [\n{exports}    ]\n  }}\n",
            users = users.join(", "),
            exports = lines(heard.chain(told)),
        )
    }

    /// An account that nothing leaves but what this agent may say; or a token's.
    fn agents_account(&self) -> String {
        let Permissions {
            publish, subscribe, ..
        } = self.role.permissions();
        let account = quote(&Role::Coordinator.account());
        let imported =
            |subject: &String| format!("{{ account: {account}, subject: {} }}", quote(subject));
        let answers = match &self.role {
            Role::Token(_) => None,
            _ => Some(Role::Coordinator.permissions().inbox),
        };
        let says = answers.iter().chain(&publish);
        let says = says.map(|it| format!("service: {}", imported(it)));
        let hears = subscribe
            .iter()
            .map(|it| format!("stream: {}", imported(it)));
        format!(
            "{{\n    users: [{user}]\n    imports: [\n{imports}    ]\n  }}\n",
            user = self.user(),
            imports = lines(says.chain(hears)),
        )
    }

    fn user(&self) -> String {
        let permissions = self.role.permissions();
        let list = |subjects: &[String]| {
            let quoted: Vec<String> = subjects.iter().map(|it| quote(it)).collect();
            quoted.join(", ")
        };
        let own = &permissions.among_own;
        let says: Vec<String> = permissions.publish.iter().chain(own).cloned().collect();
        let mut hears: Vec<String> = permissions.subscribe.iter().chain(own).cloned().collect();
        hears.push(permissions.inbox);
        let answers = match permissions.may_answer {
            true => "\n        allow_responses: { max: 1, expires: \"2m\" }",
            false => "",
        };
        format!(
            "{{\n      nkey: {}\n      permissions: {{\n        publish: [{}]\n        \
             subscribe: [{}]{answers}\n      }}\n    }}",
            self.public,
            list(&says),
            list(&hears),
        )
    }
}

fn service(subject: &str) -> String {
    format!("service: {}", quote(subject))
}

fn lines(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("      {{ {item} }}\n")).collect()
}

/// A string of the configuration's language.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
