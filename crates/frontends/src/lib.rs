//! The arguments and printed results of hey, wrk, ab and siege, over prony's engine.
//!
//! Enters: such a tool's own arguments. Leaves: that tool's own lines, on standard output and
//! standard error as it has them, and an exit status. Between them a tool's arguments become
//! [`prony_load::LoadOptions`], the engine makes a record, and that becomes lines; nothing here
//! drives a connection. docs/front-ends.md lists where a tool is left and why.

mod ab;
mod getopt;
mod head;
mod hey;
mod output;
mod session;
mod siege;
mod wrk;

use std::ffi::OsString;

pub use session::{Ending, Session, Stop};

/// A tool whose arguments and output prony has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// <https://github.com/rakyll/hey>
    Hey,
    /// <https://github.com/wg/wrk>
    Wrk,
    /// Apache's ab.
    Ab,
    /// <https://github.com/JoeDog/siege>
    Siege,
}

impl Tool {
    /// All of them.
    pub const ALL: [Tool; 4] = [Tool::Hey, Tool::Wrk, Tool::Ab, Tool::Siege];

    /// The command's name.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Hey => "hey",
            Tool::Wrk => "wrk",
            Tool::Ab => "ab",
            Tool::Siege => "siege",
        }
    }

    /// The tool of that name.
    pub fn by_name(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Does what the tool does when it is called with these arguments, its own name left out.
    pub fn run(self, arguments: &[OsString], session: &Session) -> Ending {
        let ending = match self {
            Tool::Hey => hey::run(arguments, session),
            Tool::Wrk => wrk::run(arguments, session),
            Tool::Ab => ab::run(arguments, session),
            Tool::Siege => siege::run(arguments, session),
        };
        match output::is_lost() {
            true => Ending::Refused,
            false => ending,
        }
    }
}
