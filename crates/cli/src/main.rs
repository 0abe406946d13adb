//! The `prony` binary. It turns the command line into settings and calls the other crates.
//!
//! Input: the command line. Output: results on standard output, progress and warnings on standard
//! error, files where requested, and an exit status (see [`ending`]). It measures, computes and
//! renders nothing itself.

mod arguments;
mod command_line;
mod commands;
mod composed_plan;
mod coordinator;
mod ending;
mod experiment;
mod gating;
mod live;
mod load_lines;
mod metrics;
mod output;
mod parsing;
mod precision;
mod progress;
mod running_load;
mod runs_folder;
mod schema;
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
    let command = match parsing::parse_command_line() {
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
        Command::Demo(arguments) => commands::demo::run(&arguments),
        Command::Load(arguments) => commands::load::run(&arguments),
        Command::Capacity(arguments) => commands::capacity::run(&arguments),
        Command::Bisect(arguments) => commands::bisect::run(&arguments),
        Command::Compare(arguments) => commands::compare::run(&arguments),
        Command::Init(arguments) => commands::init::run(&arguments),
        Command::Steps(arguments) => commands::steps::run(&arguments),
        Command::Study(arguments) => commands::study::run(&arguments),
        Command::Report(arguments) => commands::report::run(&arguments),
        Command::History(arguments) => commands::history::run(&arguments),
        Command::Runs(arguments) => commands::runs::run(&arguments),
        Command::Origin(arguments) => commands::origin::run(arguments),
        Command::Agent(arguments) => commands::agent::run(*arguments),
        Command::Fleet(arguments) => commands::fleet::run(&arguments),
        Command::Doctor(arguments) => commands::doctor::run(&arguments),
        Command::Completions(arguments) => Ok(commands::manual::completions(&arguments)),
        Command::Man(arguments) => commands::manual::man(&arguments),
        // `frontends::requested` has already handled the commands of the front ends.
        Command::Hey(_) | Command::Wrk(_) | Command::Ab(_) | Command::Siege(_) => Ok(Ending::Done),
    }
}
