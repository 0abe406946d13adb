//! Runs loads with the arguments and the output of hey, wrk, ab and siege, and parses curl
//! commands.
//!
//! Input: the arguments of such a tool. Output: the text that the tool would print on standard
//! output and standard error, and an exit status. The arguments are converted into
//! [`prony_load::LoadSettings`], the load engine produces a record, and the record is converted
//! into output. The connections of a load are opened by the engine, not by this crate.
//! docs/front-ends.md lists the differences from the original tools.

mod ab;
mod authority;
pub mod curl;
mod getopt;
mod hey;
mod local_time;
mod output;
pub mod recorded;
mod session;
mod siege;
mod tally;
mod tool;
mod wrk;

use std::ffi::OsString;

use prony_load::Notation;

pub use session::{StopRequest, ToolEnding, ToolSession};
pub use tool::Tool;

impl Tool {
    /// The names of the engine's settings in the tool's messages.
    pub(crate) fn notation(self) -> Notation {
        match self {
            Tool::Hey => hey::NOTATION,
            Tool::Wrk => wrk::NOTATION,
            Tool::Ab => ab::NOTATION,
            Tool::Siege => siege::NOTATION,
        }
    }

    /// Runs the tool's front end with these arguments, which don't include the tool's name.
    pub fn run(self, arguments: &[OsString], session: &ToolSession) -> ToolEnding {
        let ending = match self {
            Tool::Hey => hey::run(arguments, session),
            Tool::Wrk => wrk::run(arguments, session),
            Tool::Ab => ab::run(arguments, session),
            Tool::Siege => siege::run(arguments, session),
        };
        if output::output_failed() {
            ToolEnding::Refused
        } else {
            ending
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_load::LoadSettings;

    #[test]
    fn notations_name_settings_that_exist() {
        for tool in Tool::ALL {
            let Notation::Options(names) = tool.notation() else {
                panic!("{tool:?} has no options");
            };
            for (key, _) in names {
                let is_known = LoadSettings::TABLE.iter().any(|it| it.key == *key);
                assert!(is_known, "{tool:?}: {key}");
            }
        }
    }

    #[test]
    fn messages_name_the_options_of_the_tool() {
        let refused = |settings: &LoadSettings, url: &str, tool: Tool| {
            let error = session::resolve_literal(url, settings).err().unwrap();
            error.in_notation(tool.notation())
        };
        let public = LoadSettings::default();
        for tool in Tool::ALL {
            let text = refused(&public, "http://192.0.2.1/", tool);
            assert!(text.ends_with(", set PRONY_PUBLIC=1"), "{text}");
        }
        let suite = LoadSettings {
            ciphers: vec!["NULL".to_owned()],
            insecure: true,
            ..LoadSettings::default()
        };
        for (tool, option) in [(Tool::Ab, "-Z: "), (Tool::Siege, "ssl-ciphers: ")] {
            let text = refused(&suite, "https://127.0.0.1:9/", tool);
            assert!(text.starts_with(option), "{text}");
        }
    }
}
