//! `cargo xtask verify`: compares prony's results with known true values, in real time.
//!
//! Each check runs the release binary as a user would, in a situation whose outcome is known, and
//! prints a table of figures. The checks need two idle cores. On a busy machine, a check may fail
//! even if prony is correct; the figures then show the disturbance.

mod aa;
mod capacity;
mod coalescing;
mod experiments;
mod figures;
mod interleave;
mod intervals;
mod networks;
mod pacing;
mod power;
mod profile;
mod program;
mod round_trips;
mod saturation;
mod stall;
mod streams;

use std::time::Instant;

use crate::ending::Ending;
use figures::CheckFigure;
use program::Prony;

/// A check: name, purpose and implementation.
struct Check {
    name: &'static str,
    shows: &'static str,
    run: fn(&Prony) -> Result<Vec<CheckFigure>, String>,
}

/// All checks. To add one, add a file to this folder and an entry to this list.
const CHECKS: &[Check] = &[
    Check {
        name: "stall",
        shows: "an open loop reports correct response times of a server that freezes on schedule",
        run: stall::run,
    },
    Check {
        name: "pacing",
        shows: "all requests start on time at 20,000/s from one core",
        run: pacing::run,
    },
    Check {
        name: "saturation",
        shows: "the generator is reported as saturated if it is, and only then",
        run: saturation::run,
    },
    Check {
        name: "power",
        shows: "at least nine of ten experiments detect a server that is 10% slower",
        run: power::run,
    },
    Check {
        name: "aa",
        shows: "at most one of ten experiments finds a difference between equal servers",
        run: aa::run,
    },
    Check {
        name: "profile",
        shows: "a function that costs 3% more is named, and equal servers have no such function",
        run: profile::run,
    },
    Check {
        name: "interleave",
        shows: "interleaved blocks give intervals a third as wide next to a bursty neighbor",
        run: interleave::run,
    },
    Check {
        name: "intervals",
        shows: "intervals within one load contain the true value of simulated queues in 91% to 99.5%",
        run: intervals::run,
    },
    Check {
        name: "coalescing",
        shows: "coalesced waits change neither the times of a steady server nor a comparison",
        run: coalescing::run,
    },
    Check {
        name: "streams",
        shows: "gaps between events are right within 0.1 ms, with 2,000 streams of 20 events/s on one core",
        run: streams::run,
    },
    Check {
        name: "capacity",
        shows: "intervals contain the theoretical capacity of an M/D/1 queue at three limits",
        run: capacity::run,
    },
    Check {
        name: "round-trips",
        shows: "connecting, TLS and 0-RTT take their round trips over a link with 100 ms",
        run: round_trips::run,
    },
    Check {
        name: NETWORKS,
        shows: "a kernel with sch_netem emulates links as planned, in a virtual machine",
        run: networks::run,
    },
];

/// Name of the check that downloads a kernel and needs qemu, and so runs only if it is named.
const NETWORKS: &str = "networks";

/// Runs the named checks, or all but `networks` if none is named, with `--quick` less often where a
/// check supports it. Returns a message about invalid arguments on error.
pub(crate) fn run(args: &[&str]) -> Result<Ending, String> {
    if args == ["--list"] {
        for check in CHECKS {
            println!("{:<12} {}", check.name, check.shows);
        }
        return Ok(Ending::Success);
    }
    let is_quick = args.contains(&"--quick");
    let names: Vec<&str> = args.iter().copied().filter(|it| *it != "--quick").collect();
    let chosen = choose(&names)?;
    let prony = match Prony::build(is_quick) {
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
                print!("{}", figures::figures_table(&figures));
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
        return Ok(Ending::Success);
    }
    println!("failed: {}", failed.join(", "));
    Ok(Ending::Failed)
}

fn choose(args: &[&str]) -> Result<Vec<&'static Check>, String> {
    if args.is_empty() {
        return Ok(CHECKS.iter().filter(|it| it.name != NETWORKS).collect());
    }
    let find = |arg: &&str| {
        CHECKS
            .iter()
            .find(|c| c.name == *arg)
            .ok_or_else(|| format!("unknown check {arg} (cargo xtask verify --list prints all)"))
    };
    args.iter().map(find).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checks_are_chosen_by_name() {
        assert_eq!(choose(&[]).unwrap().len(), CHECKS.len() - 1);
        let names: Vec<&str> = choose(&["aa", "stall"])
            .unwrap()
            .iter()
            .map(|c| c.name)
            .collect();
        assert_eq!(names, ["aa", "stall"]);
        assert!(choose(&["speed"]).is_err());
    }
}
