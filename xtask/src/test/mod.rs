//! `cargo xtask test`: installs the requirements, then runs every check and every test.
//!
//! The workspace is built once. Clippy is the compiler of that build, because a check with `cargo
//! clippy` would compile everything a second time. The program that the tests use also generates
//! the documents.
//!
//! The tests run last, and the last line of output is the sum of all test results. A failed step
//! doesn't prevent later steps, so one run shows all failures; only a build that doesn't compile
//! ends the run.

mod build;
pub(crate) mod install;
pub(crate) mod packages;
#[cfg(test)]
mod policy;
mod runner;
mod totals;

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::cargo::cargo;
use crate::{Ending, docs, tidy};
use runner::TestProgram;
use totals::Totals;

/// One step of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Install,
    Fmt,
    Tidy,
    Build,
    Docs,
    Test,
}

const STEPS: &[Step] = &[
    Step::Install,
    Step::Fmt,
    Step::Tidy,
    Step::Build,
    Step::Docs,
    Step::Test,
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Install => "install",
            Step::Fmt => "fmt",
            Step::Tidy => "tidy",
            Step::Build => "build",
            Step::Docs => "docs",
            Step::Test => "test",
        }
    }

    fn does(self) -> &'static str {
        match self {
            Step::Install => "servers and browser that the tests need",
            Step::Fmt => "cargo fmt --check",
            Step::Tidy => "layers, cycles, licenses, paths in documents",
            Step::Build => "every crate with its tests, compiled by clippy",
            Step::Docs => "generated parts of the documents",
            Step::Test => "every test, two programs at a time",
        }
    }
}

/// The flags of `cargo xtask test`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    steps: Vec<Step>,
}

impl Options {
    /// Parses the flags. Returns a message for the user on error.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut steps = STEPS.to_vec();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg {
                "--no-install" => steps.retain(|s| *s != Step::Install),
                "--only" => {
                    let name = args.next().ok_or("--only needs the name of a step")?;
                    let step = STEPS
                        .iter()
                        .find(|s| s.name() == *name)
                        .ok_or_else(|| format!("unknown step {name}"))?;
                    steps = vec![*step];
                }
                other => return Err(format!("unknown argument {other} of cargo xtask test")),
            }
        }
        Ok(Options { steps })
    }
}

/// Runs the steps. Prints the name of each before it starts, and its duration after it ends.
pub(crate) fn run(options: &Options) -> Ending {
    let mut failed = Vec::new();
    let mut totals = None;
    let mut built = None;
    for step in options.steps.iter().copied() {
        println!("== {}: {}", step.name(), step.does());
        let _ = std::io::stdout().flush();
        let started = Instant::now();
        let ending = match step {
            Step::Install => install::run(),
            Step::Fmt => command(&mut cargo(&["fmt", "--all", "--check"])),
            Step::Tidy => tidy::run(None),
            Step::Build => match build::run() {
                Ok(build) => {
                    let warnings = build.warnings;
                    built = Some(build);
                    match warnings {
                        0 => Ending::Success,
                        _ => {
                            println!("warnings, which count as errors: {warnings}");
                            Ending::Failed
                        }
                    }
                }
                Err(ending) => {
                    print_end(step, ending, started);
                    return ending;
                }
            },
            Step::Docs if options.steps.contains(&Step::Build) => docs::run(docs::Mode::Check),
            Step::Docs => docs::build_and_run(docs::Mode::Check),
            Step::Test => {
                let built = built.take().map_or_else(build::run, Ok);
                match built.map(|build| tests(&build.programs)) {
                    Ok((ending, sum)) => {
                        totals = Some(sum);
                        ending
                    }
                    Err(ending) => ending,
                }
            }
        };
        print_end(step, ending, started);
        match ending {
            Ending::Success => {}
            Ending::Missing => return ending,
            _ => failed.push(step.name()),
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    if let Some(totals) = totals {
        println!("{totals}");
    }
    if failed.is_empty() {
        Ending::Success
    } else {
        Ending::Failed
    }
}

fn print_end(step: Step, ending: Ending, started: Instant) {
    let word = match ending {
        Ending::Success => "ok",
        _ => "FAILED",
    };
    let seconds = started.elapsed().as_secs_f64();
    println!("== {} {word} after {seconds:.1} s", step.name());
}

/// Runs a command with its output connected to the terminal.
fn command(command: &mut Command) -> Ending {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ending::Success,
        Ok(_) => Ending::Failed,
        Err(error) => {
            println!("{}: {error}", command.get_program().display());
            Ending::Missing
        }
    }
}

/// The test programs that take longest. They start first, so that none of them runs alone at the
/// end.
const SLOWEST: [&str; 5] = [
    "crates/load/src/lib.rs",
    "crates/cli/tests/cli/main.rs",
    "crates/tcp/tests/kernel/main.rs",
    "crates/load/tests/load/main.rs",
    "crates/fleet/tests/fleet/main.rs",
];

/// Runs every test of the workspace.
fn tests(programs: &[TestProgram]) -> (Ending, Totals) {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([install::built_programs()]);
    let path = std::env::join_paths(folders).unwrap_or(path.clone());
    // Many tests wait for servers and loads, so more tests run at the same time than there are
    // cores.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = std::env::var_os("RUST_TEST_THREADS");
    let threads = threads.unwrap_or_else(|| (2 * cores).to_string().into());
    let mut programs: Vec<&TestProgram> = programs.iter().collect();
    programs.sort_by_key(|program| {
        let rank = SLOWEST.iter().position(|source| *source == program.source);
        rank.unwrap_or(SLOWEST.len())
    });
    let programs = programs.iter().map(|it| (it.source.clone(), it.command()));
    let documented = build::linted(&["test", "--workspace", "--doc", "--quiet"]);
    let mut commands: Vec<_> = programs.collect();
    commands.push(("examples in documentation".to_string(), documented));
    for (_, command) in &mut commands {
        command.env("PATH", &path);
        command.env("RUST_TEST_THREADS", &threads);
    }
    runner::run(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_runs_and_the_tests_come_last() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.steps, STEPS);
        assert_eq!(options.steps.last(), Some(&Step::Test));
    }

    #[test]
    fn flags_choose_steps() {
        let without = Options::parse(&["--no-install"]).unwrap();
        assert!(!without.steps.contains(&Step::Install));
        assert_eq!(without.steps.len(), STEPS.len() - 1);
        assert_eq!(
            Options::parse(&["--only", "tidy"]).unwrap().steps,
            [Step::Tidy]
        );
    }

    #[test]
    fn unknown_flags_and_steps_are_refused() {
        for args in [&["--only"][..], &["--only", "lint"], &["--fast"]] {
            assert!(Options::parse(args).is_err(), "{args:?}");
        }
    }
}
