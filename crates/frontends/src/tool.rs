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
