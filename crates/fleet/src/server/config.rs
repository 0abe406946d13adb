//! Generates the server's configuration file.

use std::fmt::Write;
use std::net::SocketAddr;

use super::folder::{CERTIFICATE, CONFIG, PID, PRIVATE_KEY, STORE};
use crate::permissions::{
    ENROLL_SUBJECTS, Permissions, Role, subjects_from_agents, subjects_to_agents,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ServerUser {
    pub(super) role: Role,
    /// Public key of the user.
    pub(super) public: String,
}

/// Returns the configuration of a server with this address and these users. File names are
/// relative, so that the folder can be moved.
pub(super) fn config_text(listen: SocketAddr, users: &[ServerUser]) -> String {
    let mut text = format!(
        "# Written by `prony fleet up`, which overwrites it. To run the server yourself, start it in this\n\
         # folder: nats-server -c {CONFIG}\n\
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
        key = quote(PRIVATE_KEY),
    );
    let registrar = users.iter().find(|user| user.role == Role::Registrar);
    for user in users {
        let name = quote(&user.role.account());
        let _ = match &user.role {
            Role::Coordinator => {
                write!(text, "  {name}: {}", user.coordinator_account(registrar))
            }
            Role::Agent(_) | Role::Token(_) => {
                write!(text, "  {name}: {}", user.isolated_account())
            }
            // The registrar belongs to the coordinator's account.
            Role::Registrar => Ok(()),
        };
    }
    text.push_str("}\n");
    text
}

impl ServerUser {
    /// Returns the coordinator's account, which has JetStream. It imports the agents' messages and
    /// exports orders. If there is a registrar, it also imports enrollment requests.
    fn coordinator_account(&self, registrar: Option<&ServerUser>) -> String {
        let received = [self.role.permissions().inbox].into_iter();
        let requests = registrar.map(|_| ENROLL_SUBJECTS.to_owned());
        let received = received.chain(subjects_from_agents()).chain(requests);
        let received = received.map(|it| service(&it));
        let sent = subjects_to_agents().map(|it| format!("stream: {}", quote(&it)));
        let users = [Some(self), registrar].into_iter().flatten();
        let users: Vec<String> = users.map(ServerUser::user).collect();
        format!(
            "{{\n    jetstream: enabled\n    users: [{users}]\n    exports: [\n{exports}    ]\n  }}\n",
            users = users.join(", "),
            exports = joined_lines(received.chain(sent)),
        )
    }

    /// Returns the account of an agent or a token. Only permitted messages can leave it.
    fn isolated_account(&self) -> String {
        let Permissions {
            publish, subscribe, ..
        } = self.role.permissions();
        let account = quote(&Role::Coordinator.account());
        let imported =
            |subject: &String| format!("{{ account: {account}, subject: {} }}", quote(subject));
        let responses = match &self.role {
            Role::Token(_) => None,
            _ => Some(Role::Coordinator.permissions().inbox),
        };
        let publishes = responses.iter().chain(&publish);
        let publishes = publishes.map(|it| format!("service: {}", imported(it)));
        let subscribes = subscribe
            .iter()
            .map(|it| format!("stream: {}", imported(it)));
        format!(
            "{{\n    users: [{user}]\n    imports: [\n{imports}    ]\n  }}\n",
            user = self.user(),
            imports = joined_lines(publishes.chain(subscribes)),
        )
    }

    fn user(&self) -> String {
        let permissions = self.role.permissions();
        let list = |subjects: &[String]| {
            let quoted: Vec<String> = subjects.iter().map(|it| quote(it)).collect();
            quoted.join(", ")
        };
        let own = &permissions.within_account;
        let publishes: Vec<String> = permissions.publish.iter().chain(own).cloned().collect();
        let mut subscribes: Vec<String> =
            permissions.subscribe.iter().chain(own).cloned().collect();
        subscribes.push(permissions.inbox);
        let responses = if permissions.allow_responses {
            "\n        allow_responses: { max: 1, expires: \"2m\" }"
        } else {
            ""
        };
        format!(
            "{{\n      nkey: {}\n      permissions: {{\n        publish: [{}]\n        \
             subscribe: [{}]{responses}\n      }}\n    }}",
            self.public,
            list(&publishes),
            list(&subscribes),
        )
    }
}

fn service(subject: &str) -> String {
    format!("service: {}", quote(subject))
}

fn joined_lines(items: impl Iterator<Item = String>) -> String {
    items.map(|item| format!("      {{ {item} }}\n")).collect()
}

/// Quotes a string for the configuration file.
fn quote(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
