//! Check of sampling profiles: a function whose cost is 3% of the work in one variant must be named,
//! with an interval that contains its cost, and profiles must not slow a server down.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::experiments::TemporaryFolder;
use super::figures::CheckFigure;
use super::program::{Prony, Running, free_address};
use crate::bench::interval;

/// Units of work of the planted function, and of the two functions that both variants have.
const PLANTED_UNITS: u32 = 3;
const COMMON_UNITS: f64 = 97.0;

/// Number of experiments with a planted cost per server.
const PLANTED_EXPERIMENTS: u64 = 10;
/// Number of experiments with equal variants.
const EQUAL_EXPERIMENTS: u64 = 20;
/// Maximum number of planted experiments that may miss the function or its cost, and of equal ones
/// that may find a difference.
const MISSED_MAX: u64 = 1;

/// Number of pairs of loads with and without a profile.
const PAIRS: usize = 16;
/// Largest change of the CPU time per request by a profile that counts as none.
const OVERHEAD_MAX: f64 = 0.01;

/// A server with functions of known costs.
struct PlantedServer {
    language: &'static str,
    /// The command, as an array of TOML without the arguments.
    command: String,
}

/// The largest certain change of a function in an experiment.
struct NamedFunction {
    name: String,
    interval: [f64; 2],
}

/// Runs experiments with the planted cost, and with equal variants, and compares loads with and
/// without a profile.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let folder = TemporaryFolder::new()?;
    let program = folder.path.join("planted-cost");
    let source = write(
        &folder.path,
        "planted_cost.c",
        include_str!("planted_cost.c"),
    )?;
    let compiled = Command::new("cc")
        .args(["-O1", "-o"])
        .args([&program, &source])
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return Err("cc can't compile the server with the planted cost".to_owned());
    }
    let c = PlantedServer {
        language: "C",
        command: format!("{program:?}"),
    };
    let mut figures = planted(prony, &folder.path, &c)?;
    let script = write(
        &folder.path,
        "planted_cost.js",
        include_str!("planted_cost.js"),
    )?;
    // Without inlining, each function has an entry of its own in the perf map.
    let node = PlantedServer {
        language: "Node",
        command: format!(r#""node", "--perf-basic-prof", "--no-turbo-inlining", {script:?}"#),
    };
    let has_node = Command::new("node").arg("--version").output();
    if has_node.is_ok_and(|output| output.status.success()) {
        figures.extend(planted(prony, &folder.path, &node)?);
    } else {
        let found = "skipped: node is not installed".to_owned();
        figures.push(CheckFigure::shown("Node".to_owned(), found));
    }
    figures.push(equal(prony, &folder.path, &c)?);
    figures.push(overhead(prony, &program)?);
    Ok(figures)
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf, String> {
    let path = folder.join(name);
    fs::write(&path, text).map_err(|error| error.to_string())?;
    Ok(path)
}

/// Runs experiments in which one variant has the planted function.
fn planted(
    prony: &Prony,
    folder: &Path,
    server: &PlantedServer,
) -> Result<Vec<CheckFigure>, String> {
    let experiments = prony.number_of(PLANTED_EXPERIMENTS);
    let (mut named, mut contained) = (0, 0);
    for seed in 1..=experiments {
        let verdict = compare(prony, folder, server, PLANTED_UNITS, seed)?;
        let truth = planted_us(&verdict).ok_or("the verdict has no costs by function")?;
        let first = certain_changes(&verdict).into_iter().next();
        let interval = interval_of(&verdict, &is_extra_work);
        named += u64::from(first.as_ref().is_some_and(|it| is_extra_work(&it.name)));
        contained += u64::from(interval.is_some_and(|[low, high]| (low..=high).contains(&truth)));
        println!(
            "{} {seed}: first {}, planted {truth:.3} µs, interval {interval:.3?}",
            server.language,
            first.map_or("none".to_owned(), |it| format!(
                "{} {:.3?}",
                it.name, it.interval
            ))
        );
    }
    let count = |name: &str, found: u64| {
        let min = experiments - MISSED_MAX.min(experiments / 2);
        CheckFigure::judged(
            &format!("{}: {name}", server.language),
            format!("at least {min} of {experiments}"),
            found.to_string(),
            found >= min,
        )
    };
    Ok(vec![
        count("planted function first", named),
        count("interval contains its cost", contained),
    ])
}

/// Runs experiments with equal variants.
fn equal(prony: &Prony, folder: &Path, server: &PlantedServer) -> Result<CheckFigure, String> {
    let experiments = prony.number_of(EQUAL_EXPERIMENTS);
    let mut wrong = 0;
    for seed in 1..=experiments {
        let verdict = compare(prony, folder, server, 0, seed)?;
        if let Some(first) = certain_changes(&verdict).first() {
            println!("equal {seed}: {} {:.3?}", first.name, first.interval);
            wrong += 1;
        }
    }
    Ok(CheckFigure::judged(
        "equal variants with a difference",
        format!("at most {MISSED_MAX} of {experiments}"),
        wrong.to_string(),
        wrong <= MISSED_MAX,
    ))
}

/// Compares the CPU time per request of a server with and without a profile. The server does little
/// for each request, so it receives as many requests as possible.
fn overhead(prony: &Prony, program: &Path) -> Result<CheckFigure, String> {
    let address = free_address().map_err(|error| error.to_string())?;
    let server = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .args([address.port().to_string(), "0".to_owned(), "10".to_owned()])
        .spawn();
    let server = Running(server.map_err(|error| format!("taskset: {error}"))?);
    std::thread::sleep(Duration::from_millis(300));
    let url = format!("http://{address}/");
    let load = |profile: &[&str]| -> Result<f64, String> {
        let before = cpu_ns(&server)?;
        let args = [
            &["load", "-c", "8", "-d", "1s", "--cores", "1", "--json", "-"],
            profile,
            &[&url],
        ];
        let output = prony.run(&args.concat(), &[0])?;
        let record: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let ok = record.pointer("/totals/ok").and_then(Value::as_f64);
        let ok = ok
            .filter(|ok| *ok > 0.0)
            .ok_or("the load had no response")?;
        Ok((cpu_ns(&server)? - before) / ok)
    };
    let mut ratios = Vec::new();
    load(&[])?;
    for pair in 0..prony.number_of(PAIRS as u64) {
        // Alternate the order within pairs.
        let (with, without) = if pair % 2 == 0 {
            let without = load(&[])?;
            (load(&["--profile"])?, without)
        } else {
            (load(&["--profile"])?, load(&[])?)
        };
        ratios.push(with / without);
    }
    let spread = interval(ratios).ok_or("no pair of loads")?;
    let [low, high] = [1.0 - OVERHEAD_MAX, 1.0 + OVERHEAD_MAX];
    let is_known = spread.max < low || spread.min > high;
    let is_equivalent = spread.min > low && spread.max < high;
    Ok(CheckFigure {
        name: "CPU time per request, with a profile ÷ without".to_owned(),
        expected: format!("{low} to {high}"),
        found: format!(
            "{}{}",
            spread.text(4),
            if is_known || is_equivalent {
                ""
            } else {
                ", undecided"
            }
        ),
        // A busy machine leaves it undecided, which is no error of prony.
        holds: (is_known || is_equivalent).then_some(is_equivalent),
    })
}

/// CPU time of a process's only thread in nanoseconds.
fn cpu_ns(process: &Running) -> Result<f64, String> {
    let path = format!("/proc/{}/schedstat", process.id());
    let text = fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let first = text.split_ascii_whitespace().next();
    first
        .and_then(|it| it.parse().ok())
        .ok_or_else(|| format!("{path} has no CPU time"))
}

/// Runs an experiment in which the planted function has the given number of units in one variant.
fn compare(
    prony: &Prony,
    folder: &Path,
    server: &PlantedServer,
    units: u32,
    seed: u64,
) -> Result<Value, String> {
    let command = &server.command;
    let text = format!(
        r#"name = "planted-cost"
[trials]
blocks   = 5
warmup   = "300ms"
duration = "1s"
[factors]
build = [{{ name = "old", units = 0 }}, {{ name = "new", units = {units} }}]
[service.web]
command = [{command}, "{{{{ web.port }}}}", "{{{{ build.units }}}}"]
cores   = "0"
[load]
target      = "web"
connections = 8
cores       = "1"
[telemetry]
profile = true
profile_rate = 997
"#
    );
    let plan = write(folder, "plan.toml", &text)?;
    let out = folder.join(format!("out-{}-{units}-{seed}", server.language));
    let (plan, out_arg) = (plan.to_string_lossy(), out.to_string_lossy());
    let seed = seed.to_string();
    // Exit status 1: a verdict is withheld, which says nothing about the profile.
    prony.run(
        &["compare", &plan, "--out", &out_arg, "--seed", &seed],
        &[0, 1],
    )?;
    let json = fs::read_to_string(out.join("verdict.json")).map_err(|error| error.to_string())?;
    serde_json::from_str(&json).map_err(|error| error.to_string())
}

/// Returns true for the planted function, whose name in a perf map is followed by that of its file.
fn is_extra_work(name: &str) -> bool {
    matches!(name.split(' ').next(), Some("extra_work" | "extraWork"))
}

/// Returns the rows of the table of functions, with the difference between the variants.
fn rows(verdict: &Value) -> impl Iterator<Item = (&str, &Value, &Value)> {
    let rows = verdict
        .pointer("/functions/0/functions")
        .and_then(Value::as_array);
    rows.into_iter().flatten().filter_map(|row| {
        Some((
            row["function"].as_str()?,
            &row["us_per_request"],
            row["differences"].get(0)?,
        ))
    })
}

fn interval_of(verdict: &Value, is_wanted: &dyn Fn(&str) -> bool) -> Option<[f64; 2]> {
    let (_, _, difference) = rows(verdict).find(|(function, ..)| is_wanted(function))?;
    Some([
        difference["low_us"].as_f64()?,
        difference["high_us"].as_f64()?,
    ])
}

/// Returns the functions whose intervals exclude zero, the largest certain change first.
fn certain_changes(verdict: &Value) -> Vec<NamedFunction> {
    let mut found: Vec<(f64, NamedFunction)> = rows(verdict)
        .filter_map(|(name, _, difference)| {
            let interval = [
                difference["low_us"].as_f64()?,
                difference["high_us"].as_f64()?,
            ];
            let certain = interval[0] > 0.0 || interval[1] < 0.0;
            let name = name.to_owned();
            let certain_us = interval[0].max(-interval[1]);
            certain.then_some((certain_us, NamedFunction { name, interval }))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, named)| named).collect()
}

/// Returns the true cost of the planted function: its units, at the price that a unit of the other
/// functions has.
fn planted_us(verdict: &Value) -> Option<f64> {
    let names = ["parse_request", "render_page", "parseRequest", "renderPage"];
    let is_common = |name: &str| name.split(' ').next().is_some_and(|it| names.contains(&it));
    let common = rows(verdict).filter(|(name, ..)| is_common(name));
    let costs = common.map(|(_, costs, _)| Some((costs[0].as_f64()? + costs[1].as_f64()?) / 2.0));
    let sum: f64 = costs.sum::<Option<f64>>()?;
    (sum > 0.0).then_some(sum * f64::from(PLANTED_UNITS) / COMMON_UNITS)
}
