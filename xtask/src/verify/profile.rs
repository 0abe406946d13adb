//! Check of sampling profiles: a function whose cost is 3% of the work in one variant must be named,
//! with an interval that contains its cost.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::experiments::{EXPERIMENTS, TemporaryFolder};
use super::figures::CheckFigure;
use super::program::Prony;

/// Units of work of the planted function, and of the two functions that both variants have.
const PLANTED_UNITS: u32 = 3;
const COMMON_UNITS: f64 = 97.0;

/// Minimum number of experiments that must name the function, and whose interval must contain its
/// cost.
const NAMED_MIN: u64 = 9;
/// Number of experiments with equal variants, and the maximum number of those that may find a
/// difference.
const EQUAL_EXPERIMENTS: u64 = 20;
const FALSE_MAX: u64 = 1;

/// The largest certain change of a function in an experiment.
struct NamedFunction {
    name: String,
    interval: [f64; 2],
}

/// Runs experiments with the planted cost, and with equal variants.
pub(super) fn run(prony: &Prony) -> Result<Vec<CheckFigure>, String> {
    let folder = TemporaryFolder::new()?;
    let server = folder.path.join("planted-cost");
    let source = folder.path.join("planted_cost.c");
    fs::write(&source, include_str!("planted_cost.c")).map_err(|error| error.to_string())?;
    let compiled = Command::new("cc")
        .arg("-O1")
        .arg("-o")
        .arg(&server)
        .arg(&source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return Err("cc can't compile the server with the planted cost".to_owned());
    }
    let (mut named, mut contained, mut wrong) = (0, 0, 0);
    for seed in 1..=EXPERIMENTS {
        let verdict = compare(prony, &folder.path, &server, PLANTED_UNITS, seed)?;
        let truth = planted_us(&verdict).ok_or("the verdict has no costs by function")?;
        let first = certain_changes(&verdict).into_iter().next();
        let is_named = first.as_ref().is_some_and(|it| it.name == "extra_work");
        let interval = interval_of(&verdict, "extra_work");
        let contains = interval.is_some_and(|[low, high]| (low..=high).contains(&truth));
        println!(
            "experiment {seed}: first {}, planted {truth:.3} µs, interval {interval:.3?}",
            first.map_or("none".to_owned(), |it| format!(
                "{} {:.3?}",
                it.name, it.interval
            ))
        );
        named += u64::from(is_named);
        contained += u64::from(contains);
    }
    for seed in 1..=EQUAL_EXPERIMENTS {
        let verdict = compare(prony, &folder.path, &server, 0, seed)?;
        let changes = certain_changes(&verdict);
        if let Some(first) = changes.first() {
            println!(
                "equal variants {seed}: {} {:.3?}",
                first.name, first.interval
            );
            wrong += 1;
        }
    }
    let at_least = format!("at least {NAMED_MIN} of {EXPERIMENTS}");
    Ok(vec![
        CheckFigure::judged(
            "planted function first",
            at_least.clone(),
            named.to_string(),
            named >= NAMED_MIN,
        ),
        CheckFigure::judged(
            "interval contains its cost",
            at_least,
            contained.to_string(),
            contained >= NAMED_MIN,
        ),
        CheckFigure::judged(
            "equal variants with a difference",
            format!("at most {FALSE_MAX} of {EQUAL_EXPERIMENTS}"),
            wrong.to_string(),
            wrong <= FALSE_MAX,
        ),
    ])
}

/// Runs an experiment in which the planted function has the given number of units in one variant.
fn compare(
    prony: &Prony,
    folder: &Path,
    server: &Path,
    units: u32,
    seed: u64,
) -> Result<Value, String> {
    let plan = folder.join("plan.toml");
    let text = format!(
        r#"name = "planted-cost"
[trials]
blocks   = 5
warmup   = "500ms"
duration = "6s"
[factors]
build = [{{ name = "old", units = 0 }}, {{ name = "new", units = {units} }}]
[service.web]
command = [{server:?}, "{{{{ web.port }}}}", "{{{{ build.units }}}}"]
cores   = "0"
[load]
target      = "web"
connections = 8
cores       = "1"
[telemetry]
profile = true
"#
    );
    fs::write(&plan, text).map_err(|error| error.to_string())?;
    let out = folder.join(format!("out-{units}-{seed}"));
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

fn interval_of(verdict: &Value, name: &str) -> Option<[f64; 2]> {
    let (_, _, difference) = rows(verdict).find(|(function, ..)| *function == name)?;
    Some([
        difference["low_us"].as_f64()?,
        difference["high_us"].as_f64()?,
    ])
}

/// Returns the functions whose intervals exclude zero, the largest change first.
fn certain_changes(verdict: &Value) -> Vec<NamedFunction> {
    let mut found: Vec<(f64, NamedFunction)> = rows(verdict)
        .filter_map(|(name, _, difference)| {
            let interval = [
                difference["low_us"].as_f64()?,
                difference["high_us"].as_f64()?,
            ];
            let certain = interval[0] > 0.0 || interval[1] < 0.0;
            let name = name.to_owned();
            certain.then_some((
                difference["us"].as_f64()?.abs(),
                NamedFunction { name, interval },
            ))
        })
        .collect();
    found.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    found.into_iter().map(|(_, named)| named).collect()
}

/// Returns the true cost of the planted function: its units, at the price that a unit of the other
/// functions has.
fn planted_us(verdict: &Value) -> Option<f64> {
    let common =
        rows(verdict).filter(|(name, ..)| matches!(*name, "parse_request" | "render_page"));
    let costs = common.map(|(_, costs, _)| Some((costs[0].as_f64()? + costs[1].as_f64()?) / 2.0));
    let sum: f64 = costs.sum::<Option<f64>>()?;
    (sum > 0.0).then_some(sum * f64::from(PLANTED_UNITS) / COMMON_UNITS)
}
