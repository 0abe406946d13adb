//! The arguments of the command line.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use prony_experiment::plan::{BodyComparison, metric_to_judge};
use prony_record::quantity;
use prony_stats::Metric;
use tempfile::NamedTempFile;

use crate::agent::AgentArgs;
use crate::doctor::DoctorArgs;
use crate::fleet::{ByAgentsArgs, FleetArgs};
use crate::hosts::HostsArgs;
use crate::load_flags::LoadArguments;
use crate::origin;
use crate::runs::RunsArgs;

/// A load generator and an experiment lab: which server set-up is faster, by how much, and can you
/// trust the result?
#[derive(Debug, Parser)]
#[command(
    name = "prony",
    version,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100,
    after_help = "\
Examples:
  prony demo                                a whole experiment in under a minute
  prony load -c 64 -d 10s http://[::1]/     one load, closed loop
  prony load -r 2000 -d 30s http://[::1]/   one load, 2,000 requests per second
  prony compare http://[::1]:81/ http://[::1]:82/     compare 82 with 81
  prony init plan.toml && prony compare plan.toml     an experiment of your own

Exit status: 0 done; 1 done, but a --fail-if held, a --require did not, no
request succeeded, a verdict was withheld or a variant is surely worse than
--against; 2 the arguments or the plan are wrong, nothing was run; 3 the
environment refused; 130 interrupted, results so far are printed and stored."
)]
pub(crate) struct Cli {
    /// The subcommand.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands of prony.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare TCP with a UNIX socket on the built-in server
    Demo(DemoArgs),
    /// Load a server once and print a summary
    Load(Box<LoadArgs>),
    /// Run an experiment: from a plan, or between running servers
    Compare(Box<CompareArgs>),
    /// Write a commented plan to start from
    Init(InitArgs),
    /// List, copy and run the ready-made experiments
    Study(StudyArgs),
    /// Render a stored run again, or compare two stored runs
    Report(Box<ReportArgs>),
    /// List, open, name and remove stored runs
    Runs(RunsArgs),
    /// Run the built-in server: known bodies, delays, freezes and faults
    Origin(OriginArgs),
    /// Use many machines as one load generator, over NATS
    Fleet(FleetArgs),
    /// Run this machine as an agent of a fleet
    Agent(Box<AgentArgs>),
    /// Explain why a running server, or this machine as a generator, might be slow
    Doctor(DoctorArgs),
    /// Load with hey's arguments, and print what hey prints
    #[command(disable_help_flag = true)]
    Hey(ToolArgs),
    /// Load with wrk's arguments and Lua scripts, and print what wrk prints
    #[command(disable_help_flag = true)]
    Wrk(ToolArgs),
    /// Load with ab's arguments, and print what ab prints
    #[command(disable_help_flag = true)]
    Ab(ToolArgs),
    /// Load with siege's arguments, and print what siege prints
    #[command(disable_help_flag = true)]
    Siege(ToolArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page of prony, or of one of its commands
    Man(ManArgs),
}

/// The value of `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressFlag {
    /// A live view on a terminal, plain lines elsewhere
    Auto,
    /// Plain lines
    Lines,
    /// Only warnings
    None,
}

/// `prony demo`.
#[derive(Debug, Args)]
#[command(after_help = "\
Two variants of the built-in server, one behind TCP and one behind a UNIX socket, are loaded in
randomized blocks. DIR then holds the files of `prony compare`: the plan, every trial, verdict.json,
report.html, report.pdf and report.md. It needs no root and nothing installed.")]
pub(crate) struct DemoArgs {
    /// The folder for the results [default: prony-runs/<time>-demo]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Form of the progress on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true
    )]
    pub(crate) progress: ProgressFlag,
}

/// `prony load`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony load [OPTIONS] URL\n       prony load [OPTIONS] --urls FILE [URL]",
    after_help = "\
Examples:
  prony load http://localhost/                   50 connections for 10 s
  prony load -c 10 -n 1000 http://localhost/     1,000 requests, then stop
  prony load -r 2000 --arrivals poisson http://localhost/     open loop
  prony load -c 16 --streams 32 https://localhost/    HTTP/2 by ALPN
  prony load --unix /run/app.sock http://localhost/health
  prony load -X POST --body @in.json http://localhost/
  prony load --json - http://localhost/ | jq .rate.ok_per_s
  prony load --agents 4 --creds coordinator.creds http://10.0.0.5/
  prony load --require 'p99<50ms' --fail-if 'failed>0.1%' http://localhost/

TIME has a unit: 250us, 500ms, 30s, 5m. SIZE is in bytes, or like 64K (1K is
1,024 bytes). Rates are requests per second; 20k is 20,000.

EXPR is a metric, one of > >= < <=, and a value: a time, a rate, a count or a
share such as 0.1%. Metrics: min, mean, max, p50, p(99) or any pN of response
times (of others with service., first_byte., connect., tls. or late. before
them), rate, started, ok, failed, the name of an outcome, unfinished, unstarted,
retried, busy."
)]
pub(crate) struct LoadArgs {
    /// URL to request, which may contain USER:PASSWORD@; with --urls, base of the paths
    #[arg(value_name = "URL", required_unless_present = "urls")]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    #[command(flatten)]
    pub(crate) agents: ByAgentsArgs,
    /// Write the record as JSON; - for standard output instead of the summary
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write a row per half second as CSV; - for standard output instead of the summary
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Write a JSON array of [seconds, completions since the last entry] per half second
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) timeline: Option<PathBuf>,
    /// Percentiles in the summary and the page, such as 50,99,99.99 [default: 50,75,90,95,99,99.9]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile, help_heading = "Output")]
    pub(crate) percentiles: Vec<f64>,
    /// Serve the running load's metrics to Prometheus at ADDR, a port of 127.0.0.1 or an address
    /// with a port, under /metrics
    #[arg(long, value_name = "ADDR", help_heading = "Output")]
    pub(crate) metrics: Option<String>,
    /// Form of the progress on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true,
        help_heading = "Output"
    )]
    pub(crate) progress: ProgressFlag,
    /// End with status 1 if this holds, such as 'p99>50ms', 'failed>0.1%' or 'rate<1000';
    /// repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) fail_if: Vec<String>,
    /// End with status 1 unless this holds, such as 'p99<50ms'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) require: Vec<String>,
    /// The body read from standard input; removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}

/// The options of all commands that run a plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// The folder for the results [default: prony-runs/<time>-<name>]
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Run exactly N blocks [default: the plan's, or 5 to 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Experiment")]
    pub(crate) blocks: Option<u32>,
    /// Start no block that would end later than TIME after the start, such as 20m [default: no
    /// limit]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, help_heading = "Experiment")]
    pub(crate) budget: Option<Duration>,
    /// Print the variants, their order and the time, and run nothing except a probe of about 1 s
    /// per variant if the load ends after a number of requests
    #[arg(long, help_heading = "Experiment")]
    pub(crate) dry_run: bool,
    /// Resume the experiment in this folder
    #[arg(long, value_name = "DIR", help_heading = "Experiment")]
    pub(crate) resume: Option<PathBuf>,
    /// Resume although plan.toml in the folder was changed; the results then mix both plans
    #[arg(long, requires = "resume", help_heading = "Experiment")]
    pub(crate) accept_plan_changes: bool,
    /// Skip the pre-check, which starts each variant once before the first block to find those that
    /// can't run; with --dry-run, skip the probe
    #[arg(long, help_heading = "Experiment")]
    pub(crate) no_precheck: bool,
    /// Rule for the variants' response bodies: same (as sent), same-decoded (after gzip and other
    /// codings are undone), or may-differ (differences become a note) [default: the plan's, or
    /// same-decoded]
    #[arg(long, value_name = "RULE", value_parser = BodyComparison::from_str, help_heading = "Experiment")]
    pub(crate) bodies: Option<BodyComparison>,
    /// Serve the running trials' metrics to Prometheus at ADDR, a port of 127.0.0.1 or an address
    /// with a port, under /metrics
    #[arg(long, value_name = "ADDR", help_heading = "Experiment")]
    pub(crate) metrics: Option<String>,
    /// Form of the progress on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true,
        help_heading = "Experiment"
    )]
    pub(crate) progress: ProgressFlag,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
    #[command(flatten)]
    pub(crate) hosts: HostsArgs,
}

/// `prony compare`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony compare [OPTIONS] PLAN\n       \
                      prony compare [OPTIONS] BASELINE_URL NEW_URL...\n       \
                      prony compare [OPTIONS] --resume DIR",
    after_help = "\
URLs name running servers. The first is the baseline; the verdicts compare each
of the others with it. An address like unix:/run/app.sock:/path names a UNIX
socket. The options of the load are for URLs only: a plan has them in [load].

In conditions, `baseline` is the first URL or the plan's baseline, `new` every
other variant, and `stored` the run that --against names.

Examples:
  prony compare plan.toml --dry-run      check a plan and print its variants
  prony compare plan.toml                run it
  prony compare --resume prony-runs/X    resume an interrupted experiment
  prony compare -c 20 -d 5s http://[::1]:81/ http://[::1]:82/
  prony compare --judge p99,rate --require 'p99 of new < baseline + 5%' URL URL
  prony compare --names old,a,b http://a:81/ http://b:82/ http://c:83/
  prony compare plan.toml --against main --junit results.xml"
)]
pub(crate) struct CompareArgs {
    /// A plan; or URLs, the baseline first
    #[arg(value_name = "PLAN|URL", num_args = 0..)]
    pub(crate) targets: Vec<String>,
    /// Names of the URLs in results and conditions, in their order, such as old,new
    /// [default: the URLs]
    #[arg(
        long,
        value_name = "BASELINE,NEW",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) names: Option<String>,
    /// Metrics that decide between URLs, such as p99,rate [default: rate; with --rate p99]
    #[arg(
        long,
        value_name = "METRICS",
        value_delimiter = ',',
        value_parser = metric_to_judge,
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) judge: Vec<Metric>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Seed of the order of trials. It is not a setting of the load.
    #[arg(skip)]
    pub(crate) seed: Option<u64>,
    /// True if `--creds` was typed. The environment may set credentials for other commands.
    #[arg(skip)]
    pub(crate) creds_typed: bool,
    /// The body read from standard input; removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}

/// A percentile such as `99`, `99.9` or `p99`.
fn percentile(typed: &str) -> Result<f64, String> {
    let digits = typed.trim().trim_start_matches('p');
    match digits.parse() {
        Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => Ok(percentile),
        _ => Err(format!(
            "\"{typed}\" is not a percentile; write a number above 0 and up to 100, such as 99.9"
        )),
    }
}

/// `prony init`.
#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// The plan to write, which must not exist yet; - for standard output
    #[arg(default_value = "plan.toml")]
    pub(crate) file: PathBuf,
    /// Don't write plan.schema.json, which lets editors complete and check keys, next to the plan
    #[arg(long)]
    pub(crate) no_schema: bool,
    /// Print the JSON schema of plans instead
    #[arg(long, conflicts_with_all = ["file", "no_schema"])]
    pub(crate) schema: bool,
    /// Print the tables of docs/plan.md instead.
    #[arg(long, hide = true, conflicts_with_all = ["file", "no_schema", "schema"])]
    pub(crate) reference: bool,
}

/// `prony study`.
#[derive(Debug, Args)]
pub(crate) struct StudyArgs {
    #[command(subcommand)]
    pub(crate) command: StudyCommand,
}

/// The subcommands of `prony study`.
#[derive(Debug, Subcommand)]
pub(crate) enum StudyCommand {
    /// List the studies and their questions
    List,
    /// Print a study's README and its plan
    Show {
        /// The study
        name: String,
    },
    /// Run a study; its files are written to the results' folder first
    Run(Box<StudyRunArgs>),
    /// Copy a study's files to a folder, as the start of your own plan
    Copy {
        /// The study
        name: String,
        /// The folder, which must be empty or not exist
        dir: PathBuf,
    },
}

/// `prony study run`.
#[derive(Debug, Args)]
pub(crate) struct StudyRunArgs {
    /// The study
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// Time that each trial measures, such as 5s [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) duration: Option<Duration>,
    /// Warm-up of each trial before it measures [default: the study's]
    #[arg(long, value_name = "TIME", value_parser = quantity::time, conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) warmup: Option<Duration>,
    /// Number of requests that each trial measures; with a duration, whichever ends first [default:
    /// the study's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "resume", help_heading = "Experiment")]
    pub(crate) requests: Option<u64>,
    /// Add a level to one of the study's factors, written as in a plan; can be given several times
    #[arg(
        long,
        value_name = "FACTOR=LEVEL",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) level: Vec<String>,
    /// The seed that shuffles the order within blocks [default: drawn, and stored]
    #[arg(
        long,
        value_name = "N",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) seed: Option<u64>,
}

/// `prony report`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony report [OPTIONS] [RUN]\n       \
                      prony report [OPTIONS] BASELINE NEW\n       \
                      prony report [OPTIONS] --against BASELINE RUN",
    after_help = "\
A RUN is a folder that `prony compare` wrote, the name of one in prony-runs, a
record that `prony load --json` wrote, a folder of records, or a quoted pattern
that matches records. Of two runs the first is the baseline. Without a file to
write, the result is printed.

EXPR is a metric, 'of' a variant, one of > >= < <=, and a limit: a value, or
'baseline', 'stored' or a variant, with a percentage or a value more or less.
A condition fails only if the whole 95% interval violates it.

Examples:
  prony report                                   the newest run in prony-runs
  prony report prony-runs/X --html x.html
  prony report prony-runs/X prony-runs/Y         compare Y with X
  prony report 'before/*.json' 'after/*.json'
  prony report --against main --require 'p99 < stored + 5%' --junit x.xml"
)]
pub(crate) struct ReportArgs {
    /// One run [default: the newest in prony-runs], or two, the baseline first
    #[arg(value_name = "RUN")]
    pub(crate) stored: Vec<PathBuf>,
    /// Write the report as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the report as a PDF
    #[arg(long, value_name = "FILE")]
    pub(crate) pdf: Option<PathBuf>,
    /// Write each chart as an SVG file into DIR, which is created if it doesn't exist
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the report as Markdown; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write a row for each variant and metric, or for each half second of a load, as CSV; - for
    /// standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the verdict, the record or the comparison as JSON; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write counts and histograms of response times as OpenMetrics text; - for standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
    /// Write every table as CSV and as JSON into DIR, which is created if it doesn't exist
    #[arg(long, value_name = "DIR")]
    pub(crate) tables: Option<PathBuf>,
    /// Percentiles in the report of a load, such as 50,99,99.99 [default: 50,75,90,95,99,99.9]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile)]
    pub(crate) percentiles: Vec<f64>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
}

/// Conditions on results, and outputs for CI.
#[derive(Debug, Clone, Args)]
pub(crate) struct GateArgs {
    /// End with status 1 if this surely holds, such as 'p99 of new > baseline + 5%', 'failed >
    /// 0.1%' or 'verdict is slower'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Conditions")]
    pub(crate) fail_if: Vec<String>,
    /// End with status 1 if this surely doesn't hold, such as 'p99 of new < baseline + 5%';
    /// repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Conditions")]
    pub(crate) require: Vec<String>,
    /// Compare with this stored run, or one of this name, and end with status 1 if a variant is
    /// surely worse by more than the margin; repeatable for records
    #[arg(long, value_name = "RUN", help_heading = "Conditions")]
    pub(crate) against: Vec<PathBuf>,
    /// Difference from the stored run that counts as a regression, such as 5% [default: the plan's
    /// margin]
    #[arg(long, value_name = "PERCENT", value_parser = margin, help_heading = "Conditions")]
    pub(crate) margin: Option<f64>,
    /// Treat inconclusive conditions as failures
    #[arg(long, help_heading = "Conditions")]
    pub(crate) strict: bool,
    /// Write verdicts and conditions as JUnit XML; - for standard output
    #[arg(long, value_name = "FILE", help_heading = "Conditions")]
    pub(crate) junit: Option<PathBuf>,
    /// Add a summary in GitHub's Markdown to FILE, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE", help_heading = "Conditions")]
    pub(crate) github: Option<PathBuf>,
    /// Print failures as GitHub annotations on standard error
    #[arg(long, help_heading = "Conditions")]
    pub(crate) annotations: bool,
}

/// Parses a margin as a fraction.
fn margin(typed: &str) -> Result<f64, String> {
    quantity::percent(typed)
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "expected a percentage above 0% and below 100%, such as 5%".to_owned())
}

/// `prony origin`.
#[derive(Debug, Args)]
#[command(after_help = origin::help())]
pub(crate) struct OriginArgs {
    /// Listen on ADDR: 127.0.0.1:8080, a port alone, port 0 for any, or unix:/path; repeatable
    /// [default: 127.0.0.1:8080, unless --unix is given]
    #[arg(long, value_name = "ADDR", value_parser = origin::Listen::parse)]
    pub(crate) listen: Vec<origin::Listen>,
    /// Listen on a UNIX socket; repeatable
    #[arg(long, value_name = "PATH")]
    pub(crate) unix: Vec<PathBuf>,
    /// Use TLS on every listener, with a certificate generated for this run
    #[arg(long)]
    pub(crate) tls: bool,
    /// One thread on each of these cores, such as 0 or 0-3 [default: one thread, on any]
    #[arg(long, value_name = "LIST", value_parser = origin::Cores::parse)]
    pub(crate) cores: Option<origin::Cores>,
    /// Add work to each request: a CPU time such as 20us, or rounds of arithmetic such as 5000
    /// [default: none]
    #[arg(long, value_name = "TIME|ROUNDS", value_parser = origin::parse_work)]
    pub(crate) work: Option<prony_origin::Work>,
}

/// The arguments of another tool, which its front end parses.
#[derive(Debug, Args)]
pub(crate) struct ToolArgs {
    /// That tool's own arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "ARGS"
    )]
    pub(crate) arguments: Vec<std::ffi::OsString>,
}

/// `prony completions`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `prony man`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  prony man load | man -l -
  prony man runs prune | man -l -")]
pub(crate) struct ManArgs {
    /// A command, such as load or runs prune; "plan" for the keys of a plan, or "findings" for the
    /// meaning of each finding [default: prony itself]
    pub(crate) command: Vec<String>,
}
