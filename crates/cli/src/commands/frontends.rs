//! Starts the front ends `prony hey`, `prony wrk`, `prony ab` and `prony siege`. A symbolic link to
//! prony that has the name of a tool also starts that tool's front end. All arguments after the
//! name belong to the tool.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use prony_frontends::{Tool, ToolEnding, ToolSession};

use crate::signals::{self, SecondSignal};
use crate::{ending, terminal};

/// Returns the tool that the command line names, and its arguments. Returns `None` for prony's own
/// commands.
pub(crate) fn requested() -> Option<(Tool, Vec<OsString>)> {
    let mut words = env::args_os();
    let tool = |word: &OsString| Tool::by_name(Path::new(word).file_name()?.to_str()?);
    let called = words.next()?;
    if let Some(tool) = tool(&called) {
        return Some((tool, words.collect()));
    }
    let command = words.next()?;
    let tool = Tool::by_name(command.to_str()?)?;
    Some((tool, words.collect()))
}

/// Runs the front end of a tool.
pub(crate) fn run(tool: Tool, arguments: &[OsString]) -> ExitCode {
    let session = ToolSession::default();
    let stop = session.stop.clone();
    if let Err(failure) = signals::listen(SecondSignal::Exits, move || stop.ask()) {
        terminal::print_line(&format!("{}: {failure}", tool.name()));
        return failure.into();
    }
    match tool.run(arguments, &session) {
        ToolEnding::Done => ending::Ending::Done.into(),
        ToolEnding::Failed => ending::Ending::Doubtful.into(),
        ToolEnding::Wrong => ExitCode::from(2),
        ToolEnding::Refused => ending::Ending::CutShort.into(),
        ToolEnding::Interrupted => ending::Ending::Interrupted.into(),
        ToolEnding::Status(status) => ExitCode::from(status),
    }
}
