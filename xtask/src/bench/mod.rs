//! `cargo xtask bench`: comparison of prony with other tools in interleaved runs.
//!
//! Input: rows, tools, and the number and duration of runs. Output: tables of ratios to a reference
//! tool in the same rotation, with their range, on the terminal and in docs/performance.md.
//! Absolute costs and rates are not in the tables, because they depend more on the machine than on
//! the tool.
//!
//! The server is nginx with one worker on one core; the generator runs on another core. The cost of
//! a generator is its user and system time as counted by the kernel, divided by the number of
//! requests that the server counted.

mod arguments;
mod ceiling;
mod engine;
mod figures;
mod fleet;
mod folder;
mod judgement;
mod namespaces;
mod options;
mod process;
mod programs;
mod report;
mod rows;
mod runner;
mod server;
mod targets;
mod tool;

pub(crate) use figures::interval;

use std::path::Path;

use crate::cargo::workspace_root;
use crate::ending::Ending;
use crate::random::RandomNumbers;
use ceiling::CeilingContest;
use engine::{Contest, Outcome, rotate};
use fleet::FleetContest;
use folder::BenchFolder;
use options::BenchOptions;
use programs::Programs;
use rows::{ROWS, Row, Section, ServerKind};
use runner::{LoadContest, Runner};

const DOCUMENT: &str = "docs/performance.md";

const HELP: &str = "\
cargo xtask bench [--quick] [FLAG...]

  --quick            measure five rows with the best peer of each, 3 rotations of 3 s; write nothing
  --rows LIST        measure only these rows, such as ka-1k,close-1k; write nothing
  --peers LIST       measure only these peers, such as wrk,ab, or none; write nothing
  --rotations N      number of runs of each tool in each row (5)
  --seconds S        duration of each run (6)
  --seed N           seed of the random order in the rotations (1)
  --cores S,G        cores of the server and of the generator (0,1)
  --prony PATH       use this prony binary instead of building one; given twice, compare the
                     second binary with the first
  --no-install       don't install missing programs; omit their columns
  --write            write docs/performance.md even if rows or peers were omitted
  --check            exit with status 1 if a target is missed
";

/// Runs the benchmark. Returns a message about invalid arguments on error.
pub(crate) fn run(args: &[&str]) -> Result<Ending, String> {
    if args.iter().any(|a| matches!(*a, "--help" | "-h")) {
        print!("{HELP}\nrows:\n");
        for row in ROWS {
            println!("  {:<14} {}", row.id, row.title);
        }
        return Ok(Ending::Success);
    }
    let options = BenchOptions::parse(args)?;
    Ok(bench(&options).unwrap_or_else(|problem| {
        println!("{}", problem.trim_end());
        Ending::Missing
    }))
}

/// The sections in the order in which they are measured. Fleets use all cores, so they run before
/// this program is pinned to one.
const SECTIONS: [Section; 5] = [
    Section::Fleet,
    Section::Ceiling,
    Section::Quic,
    Section::Bypass,
    Section::Tools,
];

fn bench(options: &BenchOptions) -> Result<Ending, String> {
    let own = workspace_root().join("target/bench");
    let mut sections = Vec::new();
    for section in SECTIONS {
        let rows = options.rows.iter().copied();
        let rows: Vec<&'static Row> = rows.filter(|row| row.section == section).collect();
        if !rows.is_empty() {
            // Programs are built on all cores, too.
            let programs = programs::gather(section, &rows, options, &own)?;
            println!("{}", programs.versions);
            sections.push((section, rows, programs));
        }
    }
    println!("seed {}", options.seed);
    let mut all_met = true;
    for (section, rows, programs) in sections {
        let outcomes = measure(section, &rows, &programs, options, &own)?;
        let tables = report::render(section, &outcomes);
        println!("\n{tables}");
        if let Some(targets) = report::render_targets(section, &outcomes) {
            println!("{targets}");
        }
        if options.compares_builds() {
            println!("{}", report::render_builds(&outcomes));
        }
        if options.write {
            let text = preface(section, options, &programs.versions) + &tables;
            report::write(&workspace_root().join(DOCUMENT), section, &text)?;
            println!("written to {DOCUMENT}");
        }
        all_met &= outcomes.iter().all(judgement::all_met);
    }
    Ok(if options.check && !all_met {
        Ending::Failed
    } else {
        Ending::Success
    })
}

/// Rotates the tools over each row of a section, on each server of the row that is installed.
fn measure(
    section: Section,
    rows: &[&'static Row],
    programs: &Programs,
    options: &BenchOptions,
    own: &Path,
) -> Result<Vec<Outcome>, String> {
    let here = |e: std::io::Error| format!("{}: {e}", own.display());
    let folder = BenchFolder::new(own).map_err(here)?;
    let (server_core, _) = options.cores;
    if section != Section::Fleet {
        process::stay_on(server_core).map_err(|e| format!("core {server_core}: {e}"))?;
    }
    let mut numbers = RandomNumbers::new(options.seed);
    let mut outcomes = Vec::new();
    for &row in rows {
        let mut tools = options.tools_of(row);
        tools.retain(|tool| programs.tools.contains_key(tool));
        for &kind in row.servers {
            let Some(program) = programs.servers.get(&kind) else {
                continue;
            };
            let mut contest = contest(row, kind, program, programs, options, folder.path())?;
            let contest = contest.as_mut();
            let rotations = rotations(section, options);
            outcomes.push(rotate(row, kind, contest, &tools, rotations, &mut numbers)?);
        }
    }
    Ok(outcomes)
}

/// Starts what the tools run against in a row.
fn contest<'a>(
    row: &'static Row,
    kind: ServerKind,
    server: &'a Path,
    programs: &'a Programs,
    options: &BenchOptions,
    folder: &'a Path,
) -> Result<Box<dyn Contest + 'a>, String> {
    let (server_core, core) = options.cores;
    let runner = Runner {
        folder,
        programs: &programs.tools,
        core,
    };
    Ok(match row.section {
        Section::Fleet => Box::new(FleetContest {
            kind,
            programs: &programs.tools,
            server,
            folder,
        }),
        Section::Ceiling => Box::new(CeilingContest {
            row,
            kind,
            responder: server,
            runner,
            server_core,
        }),
        Section::Tools | Section::Quic | Section::Bypass => Box::new(LoadContest {
            row,
            server: kind.start(server, folder, server_core)?,
            runner,
            seconds: options.seconds,
        }),
    })
}

/// Number of rotations. A fleet row repeats its load by itself, so a single build of prony is
/// measured once.
fn rotations(section: Section, options: &BenchOptions) -> usize {
    match section {
        Section::Fleet if !options.compares_builds() => 1,
        _ => options.rotations,
    }
}

/// The sentence above a section's tables in the document.
fn preface(section: Section, options: &BenchOptions, versions: &str) -> String {
    let BenchOptions { seconds, seed, .. } = options;
    let rotations = rotations(section, options);
    let plural = if rotations == 1 { "" } else { "s" };
    let runs = match section {
        Section::Fleet => String::new(),
        Section::Ceiling => format!("{rotations} rotation{plural} in random order (seed {seed}); "),
        _ => format!(
            "{rotations} rotation{plural} of {seconds}-second runs in random order (seed {seed}); "
        ),
    };
    format!("{runs}{versions}.\n\n")
}
