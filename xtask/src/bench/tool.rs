//! Names of the tools.

/// A load generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tool {
    Floor,
    Prony,
    /// An earlier build of prony, for comparison.
    OldProny,
    Wrk,
    Ab,
    H2load,
    Fortio,
    Oha,
    Hey,
    Siege,
    Wrk2,
    Vegeta,
    K6,
    Zrk,
    Shb,
}

/// Every peer, in the order of the tables' columns.
pub(super) const PEERS: &[Tool] = &[
    Tool::Wrk,
    Tool::Ab,
    Tool::H2load,
    Tool::Fortio,
    Tool::Oha,
    Tool::Hey,
    Tool::Siege,
    Tool::Wrk2,
    Tool::Vegeta,
    Tool::K6,
    Tool::Zrk,
    Tool::Shb,
];

impl Tool {
    /// Name of the program and of its column.
    pub(super) fn name(self) -> &'static str {
        match self {
            Tool::Floor => "floor",
            Tool::Prony => "prony",
            Tool::OldProny => "old prony",
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
            Tool::H2load => "h2load",
            Tool::Fortio => "fortio",
            Tool::Oha => "oha",
            Tool::Hey => "hey",
            Tool::Siege => "siege",
            Tool::Wrk2 => "wrk2",
            Tool::Vegeta => "vegeta",
            Tool::K6 => "k6",
            Tool::Zrk => "zrk",
            Tool::Shb => "shb",
        }
    }
}
