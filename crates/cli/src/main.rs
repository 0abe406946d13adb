//! The `prony` binary. It turns the command line into settings and calls the other crates.
//!
//! Input: the command line. Output: results on standard output, progress and warnings on standard
//! error, files where requested, and an exit status (see [`ending`]). It measures, computes and
//! renders nothing itself.

mod adapt;
mod agent;
mod arguments;
mod built_in_studies;
mod capacity;
mod command_line;
mod compare;
mod coordinator;
mod curl_command;
mod demo;
mod doctor;
mod dry_run;
mod ending;
mod experiment;
mod findings_reference;
mod fleet;
mod frontends;
mod gating;
mod hosts;
mod init;
mod leftovers;
mod live;
mod load;
mod load_by_agents;
mod load_lines;
mod load_results;
mod markdown_page;
mod metrics;
mod origin;
mod other_tools;
mod outlook;
mod output;
mod pages;
mod parsing;
mod plan_file;
mod plan_reference;
mod progress;
mod replaced_file;
mod report;
mod running_load;
mod runs;
mod runs_folder;
mod scripts;
mod servers;
mod session;
mod setups;
mod signals;
mod study;
mod terminal;
mod typed_body;
mod watch;

use std::process::ExitCode;

use arguments::Command;
use ending::{Ending, Failure};

fn main() -> ExitCode {
    signals::survive_file_size_limit();
    // `prony doctor` starts this program again to test a cryptographic library in a separate
    // process.
    if let Some(status) = prony_experiment::crypto::run_if_asked() {
        return status;
    }
    if let Some((tool, arguments)) = frontends::requested() {
        return frontends::run(tool, &arguments);
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
        Command::Demo(text) => demo::run(&text),
        Command::Load(text) => load::run(&text),
        Command::Capacity(text) => capacity::run(&text),
        Command::Compare(text) => compare::run(&text),
        Command::Init(text) => init::run(&text),
        Command::Study(text) => study::run(&text),
        Command::Report(text) => report::run(&text),
        Command::Runs(text) => runs::run(&text),
        Command::Origin(text) => origin::run(text),
        Command::Agent(text) => agent::run(*text),
        Command::Fleet(text) => fleet::run(&text),
        Command::Doctor(text) => doctor::run(&text),
        Command::Completions(text) => Ok(pages::completions(&text)),
        Command::Man(text) => pages::man(&text),
        // `frontends::requested` has already handled the commands of the front ends.
        Command::Hey(_) | Command::Wrk(_) | Command::Ab(_) | Command::Siege(_) => Ok(Ending::Done),
    }
}
