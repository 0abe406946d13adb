//! The emulated tools.

/// A tool whose arguments and output are emulated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// hey: <https://github.com/rakyll/hey>
    Hey,
    /// wrk: <https://github.com/wg/wrk>
    Wrk,
    /// ab, from the Apache HTTP Server.
    Ab,
    /// siege: <https://github.com/JoeDog/siege>
    Siege,
}

impl Tool {
    /// All emulated tools.
    pub const ALL: [Tool; 4] = [Tool::Hey, Tool::Wrk, Tool::Ab, Tool::Siege];

    /// Returns the name of the tool's command.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hey => "hey",
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
            Tool::Siege => "siege",
        }
    }

    /// Returns the tool with this name.
    pub fn by_name(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }
}

/// Key exchange groups that ab, siege and wrk offer: those of OpenSSL before 3.5, with which systems
/// build them, as far as the engine has them. Their handshakes would cost more otherwise.
pub(crate) fn openssl_groups() -> Vec<String> {
    ["X25519", "P-256", "P-384"].map(str::to_owned).to_vec()
}
