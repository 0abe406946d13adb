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

mod bypass;
mod ceiling;
mod document;
mod fleet;
mod options;
mod process;
mod programs;
mod quic;
mod ratios;
mod rotation;
mod rows;
mod server;
mod status;
mod tables;
mod tool;
mod tools;
mod witness;

use std::path::Path;

use crate::Ending;
use crate::cargo::workspace_root;
use bypass::BypassSettings;
use ceiling::CeilingSettings;
use options::BenchOptions;
use programs::Programs;
use quic::QuicSettings;
use ratios::RandomNumbers;
use rotation::{Arena, Outcome};
use rows::Row;
use server::{BenchFolder, Nginx};
use tool::Tool;

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
        for row in rows::ROWS {
            println!("  {:<14} {}", row.id, row.title);
        }
        for row in fleet::ROWS {
            println!("  {:<14} {}", row.id(), row.title());
        }
        println!("  {:<14} {}", ceiling::ID, ceiling::TITLE);
        for row in quic::ROWS {
            println!("  {:<14} {}", row.id, row.title);
        }
        for row in bypass::ROWS {
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

fn bench(options: &BenchOptions) -> Result<Ending, String> {
    let own = workspace_root().join("target/bench");
    let mut all_met = true;
    // The fleet rows use all cores, so they run before the tools are pinned.
    if !options.fleet.is_empty() {
        all_met &= bench_fleet(options, &own)?;
    }
    if options.ceiling {
        all_met &= bench_ceiling(options, &own)?;
    }
    if !options.quic.is_empty() {
        all_met &= bench_quic(options, &own)?;
    }
    if !options.bypass.is_empty() {
        all_met &= bench_bypass(options, &own)?;
    }
    if !options.rows.is_empty() {
        all_met &= bench_tools(options, &own)?;
    }
    Ok(match options.check && !all_met {
        true => Ending::Failed,
        false => Ending::Success,
    })
}

/// Measures the fleet rows. Returns true if all targets are met.
fn bench_fleet(options: &BenchOptions, own: &Path) -> Result<bool, String> {
    let outcomes = fleet::measure(&options.fleet, options.prony(), own)?;
    let table = outcomes.render();
    println!("\n{table}");
    if options.write {
        document::write(&workspace_root().join(DOCUMENT), document::FLEET, &table)?;
        println!("written to {DOCUMENT}");
    }
    Ok(outcomes.all_met())
}

/// Measures the highest sustained rates. Returns true if no other tool sustains a higher rate than
/// prony.
fn bench_ceiling(options: &BenchOptions, own: &Path) -> Result<bool, String> {
    let settings = CeilingSettings {
        peers: &options.peers,
        rotations: options.rotations,
        seed: options.seed,
        prony: &options.prony,
        cores: options.cores,
        install: options.install,
    };
    let ceilings = ceiling::measure(&settings, own)?;
    let table = ceilings.render();
    println!("\n{table}");
    if options.write {
        let path = workspace_root().join(DOCUMENT);
        document::write(&path, document::CEILING, &table)?;
        println!("written to {DOCUMENT}");
    }
    Ok(ceilings.all_met())
}

/// Measures the HTTP/3 rows. Returns true if all targets are met.
fn bench_quic(options: &BenchOptions, own: &Path) -> Result<bool, String> {
    let settings = QuicSettings {
        rows: &options.quic,
        peers: &options.peers,
        rotations: options.rotations,
        seconds: options.seconds,
        seed: options.seed,
        prony: options.prony(),
        cores: options.cores,
        install: options.install,
    };
    let outcomes = quic::measure(&settings, own)?;
    let table = outcomes.render();
    println!("\n{table}");
    if options.write {
        document::write(&workspace_root().join(DOCUMENT), document::QUIC, &table)?;
        println!("written to {DOCUMENT}");
    }
    Ok(outcomes.all_met())
}

/// Measures the AF_XDP rows. Returns true if all targets are met.
fn bench_bypass(options: &BenchOptions, own: &Path) -> Result<bool, String> {
    let settings = BypassSettings {
        rows: &options.bypass,
        rotations: options.rotations,
        seconds: options.seconds,
        seed: options.seed,
        prony: options.prony(),
        cores: options.cores,
        install: options.install,
    };
    let outcomes = bypass::measure(&settings, own)?;
    let table = outcomes.render();
    println!("\n{table}");
    if options.write {
        document::write(&workspace_root().join(DOCUMENT), document::BYPASS, &table)?;
        println!("written to {DOCUMENT}");
    }
    Ok(outcomes.all_met())
}

/// Measures prony and the other tools in all selected rows. Returns true if all targets are met.
fn bench_tools(options: &BenchOptions, own: &Path) -> Result<bool, String> {
    let peers: Vec<Tool> = tool::PEERS
        .iter()
        .copied()
        .filter(|t| {
            options
                .rows
                .iter()
                .any(|r| tools_of(r, options).contains(t))
        })
        .collect();
    let programs = programs::gather(&peers, &options.prony, own, options.install)?;
    let versions = programs::versions(&programs);
    println!("{versions}\nseed {}", options.seed);
    let outcomes = measure(options, &programs, own)?;
    let tables = tables::render(&outcomes);
    println!("\n{tables}");
    if options.prony.len() > 1 {
        println!("{}", tables::render_builds(&outcomes));
    }
    if options.write {
        let text = preface(options, &versions) + &tables;
        document::write(&workspace_root().join(DOCUMENT), document::TOOLS, &text)?;
        println!("written to {DOCUMENT}");
    }
    Ok(tables::all_met(&outcomes))
}

fn measure(
    options: &BenchOptions,
    programs: &Programs,
    own: &Path,
) -> Result<Vec<Outcome>, String> {
    let (server_core, generator_core) = options.cores;
    let here = |e: std::io::Error| format!("{}: {e}", own.display());
    let folder = BenchFolder::new(own).map_err(here)?;
    rotation::configure_siege(folder.path()).map_err(here)?;
    process::stay_on(server_core).map_err(|e| format!("core {server_core}: {e}"))?;
    let mut arena = Arena {
        nginx: Nginx::start(&programs.nginx, folder.path(), server_core)?,
        folder: folder.path(),
        programs: &programs.tools,
        core: generator_core,
        seconds: options.seconds,
        runs: 0,
    };
    let mut numbers = RandomNumbers(options.seed);
    let mut outcomes = Vec::new();
    for row in &options.rows {
        let tools: Vec<Tool> = tools_of(row, options)
            .into_iter()
            .filter(|t| programs.tools.contains_key(t))
            .collect();
        outcomes.push(arena.measure(row, &tools, options.rotations, &mut numbers)?);
    }
    Ok(outcomes)
}

/// Tools of a row: its reference, prony, and the requested tools that support the row.
fn tools_of(row: &Row, options: &BenchOptions) -> Vec<Tool> {
    let wanted = |tool: &Tool| match tool {
        Tool::Floor | Tool::Prony => true,
        Tool::OldProny => options.prony.len() > 1,
        _ if row.references[0] == *tool => true,
        _ if options.best_only => row.quick == Some(*tool),
        _ => options.peers.contains(tool),
    };
    let all = [Tool::Floor, Tool::Prony, Tool::OldProny].into_iter();
    all.chain(tool::PEERS.iter().copied())
        .filter(|t| wanted(t) && t.unfit(row).is_none())
        .collect()
}

fn preface(options: &BenchOptions, versions: &str) -> String {
    let (rotations, seconds) = (options.rotations, options.seconds);
    format!(
        "{rotations} rotations of {seconds}-second runs in random order (seed {}); {versions}.\n\n",
        options.seed
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_always_has_its_reference_and_prony() {
        let options = BenchOptions::parse(&["--peers", "none"]).unwrap();
        let of = |id: &str| {
            let row = rows::ROWS.iter().find(|r| r.id == id).unwrap();
            tools_of(row, &options)
        };
        assert_eq!(of("ka-1k"), [Tool::Floor, Tool::Prony]);
        assert_eq!(of("tls-1k"), [Tool::Prony, Tool::Wrk]);
        assert_eq!(of("h2-clear-16x32"), [Tool::Prony, Tool::H2load]);
    }

    #[test]
    fn two_builds_run_in_the_same_rotations() {
        let words = ["--peers", "none", "--prony", "old", "--prony", "new"];
        let options = BenchOptions::parse(&words).unwrap();
        let row = rows::ROWS.iter().find(|r| r.id == "ka-1k").unwrap();
        let tools = [Tool::Floor, Tool::Prony, Tool::OldProny];
        assert_eq!(tools_of(row, &options), tools);
        assert_eq!(options.prony(), Some(Path::new("new")));
        let three = [&words[..], &["--prony", "c"]].concat();
        assert!(BenchOptions::parse(&three).is_err());
    }

    #[test]
    fn the_quick_benchmark_has_only_the_best_peer() {
        let options = BenchOptions::parse(&["--quick"]).unwrap();
        let tools: Vec<Vec<Tool>> = options.rows.iter().map(|r| tools_of(r, &options)).collect();
        assert_eq!(tools[0], [Tool::Floor, Tool::Prony, Tool::Ab]);
        assert!(tools.iter().all(|t| (2..=3).contains(&t.len())));
    }
}
