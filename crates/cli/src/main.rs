//! The `prony` binary. It turns the command line into settings and calls the other crates.
//!
//! Input: the command line. Output: results on standard output, progress and warnings on standard
//! error, files where requested, and an exit status (see [`ending`]). It measures, computes and
//! renders nothing itself.

mod arguments;
mod command_line;
mod commands;
mod coordinator;
mod ending;
mod experiment;
mod gating;
mod live;
mod load_lines;
mod metrics;
mod output;
mod parsing;
mod progress;
mod running_load;
mod runs_folder;
mod scripts;
mod session;
mod signals;
mod terminal;

use std::process::ExitCode;

use arguments::Command;
use ending::{Ending, Failure};

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    // `prony doctor` starts this program again to test a cryptographic library in a separate
    // process.
    if let Some(status) = prony_machine::crypto::run_if_asked() {
        return status;
    }
    if let Some((tool, arguments)) = commands::frontends::requested() {
        return commands::frontends::run(tool, &arguments);
    }
    let command = match parsing::parse() {
        Ok(command) => command,
        Err(status) => return status,
    };
    match run(command) {
        Ok(Ending::Done | Ending::Doubtful) if terminal::lost_output() => Ending::CutShort.into(),
        Ok(ending) => ending.into(),
        Err(failure) => {
            terminal::print_message(&failure);
            failure.into()
        }
    }
}

fn run(command: Command) -> Result<Ending, Failure> {
    match command {
        Command::Demo(text) => commands::demo::run(&text),
        Command::Load(text) => commands::load::run(&text),
        Command::Capacity(text) => commands::capacity::run(&text),
        Command::Compare(text) => commands::compare::run(&text),
        Command::Init(text) => commands::init::run(&text),
        Command::Study(text) => commands::study::run(&text),
        Command::Report(text) => commands::report::run(&text),
        Command::Runs(text) => commands::runs::run(&text),
        Command::Origin(text) => commands::origin::run(text),
        Command::Agent(text) => commands::agent::run(*text),
        Command::Fleet(text) => commands::fleet::run(&text),
        Command::Doctor(text) => commands::doctor::run(&text),
        Command::Completions(text) => Ok(commands::manual::completions(&text)),
        Command::Man(text) => commands::manual::man(&text),
        // `frontends::requested` has already handled the commands of the front ends.
        Command::Hey(_) | Command::Wrk(_) | Command::Ab(_) | Command::Siege(_) => Ok(Ending::Done),
    }
}
