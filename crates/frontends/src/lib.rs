//! Runs loads with the arguments and the output of hey, wrk, ab and siege, and reads commands of
//! curl.
//!
//! Enters: the arguments of such a tool. Leaves: that tool's output on standard output and standard
//! error, and an exit status. Arguments become [`prony_load::LoadSettings`], the engine makes a
//! record, and the record becomes output; this crate drives no connection. docs/front-ends.md lists
//! the differences.

mod ab;
pub mod curl;
mod getopt;
mod hey;
mod local_time;
mod output;
mod session;
mod siege;
mod wrk;

use std::ffi::OsString;

pub use session::{Ending, Session, Stop};

/// A tool whose arguments and output are supported.
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
    /// All tools.
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

    /// The tool with this name.
    pub fn by_name(name: &str) -> Option<Tool> {
        Tool::ALL.into_iter().find(|tool| tool.name() == name)
    }

    /// Does what the tool does with these arguments (without its own name).
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
