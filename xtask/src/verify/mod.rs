//! `cargo xtask verify`: prony's results compared with known truths, in real time.
//!
//! Each check runs the release binary as a user would, in a situation whose truth is known, and
//! prints a table of figures. It needs two cores to itself; on a busy machine a check may fail
//! although prony is correct, which its figures show.

mod aa;
mod capacity;
mod experiments;
mod figures;
mod interleave;
mod pacing;
mod power;
mod program;
mod saturation;
mod stall;

use std::time::Instant;

use crate::Ending;
use figures::CheckFigure;
use program::Prony;

/// A check: name, purpose and implementation.
struct Check {
    name: &'static str,
    shows: &'static str,
    run: fn(&Prony) -> Result<Vec<CheckFigure>, String>,
}

/// All checks. A new one is a file here and an entry in this list.
const CHECKS: &[Check] = &[
    Check {
        name: "stall",
        shows: "response times of an open loop against a server that freezes on schedule",
        run: stall::run,
    },
    Check {
        name: "pacing",
        shows: "20,000 requests a second from one core: all are started, and in time",
        run: pacing::run,
    },
    Check {
        name: "saturation",
        shows: "whether the generator reports that it is the limit exactly when it is",
        run: saturation::run,
    },
    Check {
        name: "power",
        shows: "ten experiments with a server that is 10% dearer: at least nine say slower",
        run: power::run,
    },
    Check {
        name: "aa",
        shows: "ten experiments with two equal servers: at most one says faster or slower",
        run: aa::run,
    },
    Check {
        name: "interleave",
        shows: "next to a bursty neighbor, interleaved blocks give intervals a third as wide",
        run: interleave::run,
    },
    Check {
        name: "capacity",
        shows: "capacities of an M/D/1 queue at three goals: intervals contain those of the theory",
        run: capacity::run,
    },
];

/// Runs the named checks, or all; an error is a sentence about the arguments.
pub(crate) fn run(args: &[&str]) -> Result<Ending, String> {
    if args == ["--list"] {
        for check in CHECKS {
            println!("{:<12} {}", check.name, check.shows);
        }
        return Ok(Ending::Well);
    }
    let chosen = choose(args)?;
    let prony = match Prony::build() {
        Ok(prony) => prony,
        Err(problem) => {
            println!("{problem}");
            return Ok(Ending::Failed);
        }
    };
    let mut failed = Vec::new();
    for check in chosen {
        println!("== {}: {}", check.name, check.shows);
        let started = Instant::now();
        let holds = match (check.run)(&prony) {
            Ok(figures) => {
                print!("{}", figures::table(&figures));
                figures.iter().all(|f| f.holds != Some(false))
            }
            Err(problem) => {
                println!("{}", problem.trim_end());
                false
            }
        };
        let word = if holds { "holds" } else { "FAILED" };
        println!(
            "== {} {word} after {:.0} s",
            check.name,
            started.elapsed().as_secs_f64()
        );
        if !holds {
            failed.push(check.name);
        }
    }
    if failed.is_empty() {
        return Ok(Ending::Well);
    }
    println!("failed: {}", failed.join(", "));
    Ok(Ending::Failed)
}

fn choose(args: &[&str]) -> Result<Vec<&'static Check>, String> {
    if args.is_empty() {
        return Ok(CHECKS.iter().collect());
    }
    let find = |arg: &&str| {
        CHECKS
            .iter()
            .find(|c| c.name == *arg)
            .ok_or_else(|| format!("no check is called {arg}; see cargo xtask verify --list"))
    };
    args.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_name() {
        assert_eq!(choose(&[]).unwrap().len(), CHECKS.len());
        let names: Vec<&str> = choose(&["aa", "stall"])
            .unwrap()
            .iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names, ["aa", "stall"]);
        assert!(choose(&["speed"]).is_err());
    }
}
