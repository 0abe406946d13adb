//! Parses the command line into a [`Command`]. On an error, prints it and returns the exit status.

mod body_argument;
mod curl_command;
mod other_tools;

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches};

use crate::arguments::{Cli, Command, LoadArguments};
use crate::terminal;

/// Returns the definition of the whole command line, for parsing, completion and the manual.
pub(crate) fn command() -> clap::Command {
    let with_trials = |compare: clap::Command| {
        let length =
            "Length of each trial's measurement, such as 500ms, 30s or 1m30s [default: 10s]";
        let warmup = "Duration of each trial's warm-up [default: 2s]";
        let seed = "Seed of the order within blocks [default: random, and stored]";
        compare
            .mut_arg("duration", |arg| arg.help(length))
            .mut_arg("warmup", |arg| arg.help(warmup))
            .mut_arg("seed", |arg| {
                arg.help(seed)
                    .help_heading("Experiment")
                    .conflicts_with("resume")
            })
    };
    let command = Cli::command()
        .mut_subcommand("compare", with_trials)
        .mut_subcommand("bisect", with_trials);
    with_brief_help(
        command
            .mut_subcommand("load", with_body)
            .mut_subcommand("compare", with_body)
            .mut_subcommand("bisect", with_body)
            .mut_subcommand("capacity", |capacity| without_rate(with_body(capacity))),
    )
}

/// Hides the settings that a capacity search chooses itself.
fn without_rate(command: clap::Command) -> clap::Command {
    let connections =
        "Connections to keep open [default: 128 to 1024, enough not to limit the rate]";
    let arrivals = "Spacing of the requests [default: poisson]";
    let mut command = command
        .mut_arg("connections", |arg| arg.help(connections))
        .mut_arg("arrivals", |arg| arg.help(arrivals));
    for hidden in ["rate", "stages", "think", "requests", "duration", "warmup"] {
        command = command.mut_arg(hidden, |arg| arg.hide(true));
    }
    command
}

/// Documents the forms of `--body` that only the command line accepts; in a plan, the value is
/// literal.
fn with_body(command: clap::Command) -> clap::Command {
    let body = "Body of the requests; @FILE reads it from a file, and - reads it from standard input [default: none]";
    command.mut_arg("body", |arg| arg.help(body))
}

/// Makes `--help` print one option per line, like `-h`, because clap's long format would fill
/// several screens.
fn with_brief_help(command: clap::Command) -> clap::Command {
    let help = Arg::new("help").short('h').long("help").help("Print help");
    command
        .disable_help_flag(true)
        .arg(help.action(ArgAction::HelpShort))
        .mut_subcommands(with_brief_help)
}

/// Parses the command line. Prints help, version and errors, and then returns their exit status.
pub(crate) fn parse_command_line() -> Result<Command, ExitCode> {
    let arguments = curl_command::join_pasted(std::env::args_os());
    let matches = command().try_get_matches_from(arguments);
    let parsed = matches.and_then(|matches| {
        let mut command = Cli::from_arg_matches(&matches)?.command;
        if let (Command::Load(load), Some(matches)) =
            (&mut command, matches.subcommand_matches("load"))
        {
            if load.agents.agents.is_none()
                && let Some(option) = ["creds", "nats"]
                    .into_iter()
                    .find(|id| is_argument(matches, id))
            {
                let what = format!("--{option} needs --agents");
                return Err(clap::Error::raw(ErrorKind::MissingRequiredArgument, what));
            }
            load.stdin_body = resolve_body_argument(&mut load.load)?;
            curl_command::resolve_curl(load)
                .map_err(|error| clap::Error::raw(ErrorKind::ValueValidation, error))?;
        }
        if let Command::Bisect(bisect) = &mut command {
            bisect.stdin_body = resolve_body_argument(&mut bisect.load)?;
        }
        if let Command::Capacity(capacity) = &mut command {
            capacity.stdin_body = resolve_body_argument(&mut capacity.load)?;
        }
        if let (Command::Compare(compare), Some(matches)) =
            (&mut command, matches.subcommand_matches("compare"))
        {
            compare.seed = compare.load.settings.seed.take();
            compare.has_creds_flag = is_argument(matches, "creds");
            compare.stdin_body = resolve_body_argument(&mut compare.load)?;
        }
        Ok(command)
    });
    parsed.map_err(|error| print_error(&error))
}

/// Returns true if an option was typed rather than set in the environment.
fn is_argument(matches: &ArgMatches, id: &str) -> bool {
    matches.value_source(id) == Some(ValueSource::CommandLine)
}

fn resolve_body_argument(
    load: &mut LoadArguments,
) -> Result<Option<tempfile::NamedTempFile>, clap::Error> {
    body_argument::resolve_body(&mut load.settings)
        .map_err(|error| clap::Error::raw(ErrorKind::Io, error))
}

fn print_error(error: &clap::Error) -> ExitCode {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // Printing fails if the reader has closed the pipe, which isn't an error.
        let _ = error.print();
        return ExitCode::SUCCESS;
    }
    if let Some(sentence) = other_tool_hint(error) {
        terminal::print_message(sentence);
    } else {
        let text = error.render().to_string();
        let text = text.trim_end();
        terminal::print_line(&match text.strip_prefix("error: ") {
            Some(rest) => format!("prony: {rest}"),
            None => text.to_owned(),
        });
    }
    ExitCode::from(2)
}

/// Returns the hint for an option of another tool.
fn other_tool_hint(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument {
        return None;
    }
    let command = std::env::args().nth(1).unwrap_or_default();
    other_tools::hint(&command, option)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command().debug_assert();
    }

    #[test]
    fn every_option_of_every_command_has_a_description() {
        fn check(command: &clap::Command) {
            for arg in command.get_arguments() {
                assert!(
                    arg.get_help().is_some(),
                    "{} {}",
                    command.get_name(),
                    arg.get_id()
                );
            }
            command.get_subcommands().for_each(check);
        }
        check(&command());
    }
}
