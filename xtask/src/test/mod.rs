//! `cargo xtask test`: installs the requirements, then runs every check and every test.
//!
//! The tests come last, and the sum of their runners' summaries is the last line, so that the end
//! of a log shows the result. A failed step doesn't prevent the later ones: one run shows all
//! failures.

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
use totals::Totals;

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Install,
    Fmt,
    Clippy,
    Tidy,
    Docs,
    Test,
}

const STEPS: &[Step] = &[
    Step::Install,
    Step::Fmt,
    Step::Clippy,
    Step::Tidy,
    Step::Docs,
    Step::Test,
];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Install => "install",
            Step::Fmt => "fmt",
            Step::Clippy => "clippy",
            Step::Tidy => "tidy",
            Step::Docs => "docs",
            Step::Test => "test",
        }
    }

    fn does(self) -> &'static str {
        match self {
            Step::Install => "servers and browser that the tests need",
            Step::Fmt => "cargo fmt --check",
            Step::Clippy => "cargo clippy, warnings as errors",
            Step::Tidy => "layers, sizes, words, names in documents",
            Step::Docs => "generated parts of the documents",
            Step::Test => "cargo test, every crate",
        }
    }
}

/// The flags of `cargo xtask test`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    steps: Vec<Step>,
}

impl Options {
    /// Reads the flags; an error is a sentence for the user.
    pub(crate) fn parse(args: &[&str]) -> Result<Options, String> {
        let mut steps = STEPS.to_vec();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            match arg {
                "--no-install" => steps.retain(|s| *s != Step::Install),
                "--only" => {
                    let name = args.next().ok_or("--only wants the name of a step")?;
                    let step = STEPS
                        .iter()
                        .find(|s| s.name() == *name)
                        .ok_or_else(|| format!("no step is called {name}"))?;
                    steps = vec![*step];
                }
                other => return Err(format!("cargo xtask test does not know {other}")),
            }
        }
        Ok(Options { steps })
    }
}

/// Runs the steps, printing each one's name before it and its duration after it.
pub(crate) fn run(options: &Options) -> Ending {
    let mut failed = Vec::new();
    let mut totals = None;
    for &step in &options.steps {
        println!("== {}: {}", step.name(), step.does());
        let _ = std::io::stdout().flush();
        let started = Instant::now();
        let ending = match step {
            Step::Install => install::run(),
            Step::Fmt => command(&mut cargo(&["fmt", "--all", "--check"])),
            Step::Clippy => command(&mut cargo(&[
                "clippy",
                "--workspace",
                "--all-targets",
                "--quiet",
                "--",
                "-D",
                "warnings",
            ])),
            Step::Tidy => tidy::run(None),
            Step::Docs => docs::run(docs::Mode::Check),
            Step::Test => {
                let (ending, sum) = tests();
                totals = Some(sum);
                ending
            }
        };
        let word = if ending == Ending::Well {
            "ok"
        } else {
            "FAILED"
        };
        println!(
            "== {} {word} after {:.1} s",
            step.name(),
            started.elapsed().as_secs_f64()
        );
        if ending == Ending::Missing {
            return Ending::Missing;
        }
        if ending != Ending::Well {
            failed.push(step.name());
        }
    }
    if !failed.is_empty() {
        println!("failed: {}", failed.join(", "));
    }
    if let Some(totals) = totals {
        println!("{totals}");
    }
    if failed.is_empty() {
        Ending::Well
    } else {
        Ending::Failed
    }
}

/// Runs a command; its output is passed through.
fn command(command: &mut Command) -> Ending {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ending::Well,
        Ok(_) => Ending::Failed,
        Err(error) => {
            println!("{}: {error}", command.get_program().display());
            Ending::Missing
        }
    }
}

/// Builds every test of the workspace, then runs them all.
fn tests() -> (Ending, Totals) {
    let built = command(&mut cargo(&["test", "--workspace", "--no-run", "--quiet"]));
    if built != Ending::Well {
        return (built, Totals::default());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([install::built_programs()]);
    let path = std::env::join_paths(folders).unwrap_or(path.clone());
    let mut tests = cargo(&["test", "--workspace", "--no-fail-fast"]);
    tests.env("PATH", path);
    // Many tests wait for servers and loads, so more tests than cores run at a time.
    if std::env::var_os("RUST_TEST_THREADS").is_none() {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        tests.env("RUST_TEST_THREADS", (2 * cores).to_string());
    }
    runner::run(&mut tests)
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
