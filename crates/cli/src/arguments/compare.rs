//! Command-line arguments of `prony compare`, and options of all commands that run a plan.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use prony_plan::{BodyComparison, Interleave, metric_to_judge};
use prony_record::quantity;
use prony_stats::Metric;
use prony_stats::capacity::{Goal, GoalError};
use tempfile::NamedTempFile;

use super::{HostsArgs, LoadArguments, MonitoringArgs, ProgressFlag, RevisionArgs};

/// Arguments of `prony compare`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony compare [OPTIONS] PLAN\n       \
                      prony compare [OPTIONS] BASELINE_URL NEW_URL...\n       \
                      prony compare [OPTIONS] --revisions BASELINE,NEW --start COMMAND\n       \
                      prony compare [OPTIONS] --resume DIR",
    after_help = "\
URLs name running servers. The first is the baseline; the verdicts compare each
of the others with it. An address like unix:/run/app.sock:/path names a UNIX
socket. Load options apply to URLs and revisions only: a plan sets them in
[load].

In conditions, `baseline` is the first URL or revision or the plan's baseline,
`new` every other variant, and `stored` the run that --against names.

Examples:
  prony compare plan.toml --dry-run      check a plan and print its variants
  prony compare plan.toml                run it
  prony compare --resume prony-runs/X    resume an interrupted experiment
  prony compare -c 20 -d 5s http://[::1]:81/ http://[::1]:82/
  prony compare --judge p99,rate --require 'p99 of new < baseline + 5%' URL URL
  prony compare --goal 'p99<50ms' URL URL     compare capacities
  prony compare --names old,a,b http://a:81/ http://b:82/ http://c:83/
  prony compare --revisions main,HEAD --build make --start './app $PORT'
  prony compare plan.toml --against main --junit results.xml"
)]
pub(crate) struct CompareArgs {
    /// A plan, or URLs with the baseline first
    #[arg(value_name = "PLAN|URL", num_args = 0..)]
    pub(crate) targets: Vec<String>,
    /// Names of the URLs in results and conditions, in the same order, such as old,new [default:
    /// the URLs]
    #[arg(
        long,
        value_name = "BASELINE,NEW",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) names: Option<String>,
    /// Build these revisions of the Git repository in the current folder, start each, and compare
    /// the others with the first; `worktree` is the working tree as it is
    #[arg(
        long,
        value_name = "BASELINE,NEW",
        value_delimiter = ',',
        requires = "start",
        conflicts_with_all = ["resume", "names", "targets"],
        help_heading = "Revisions"
    )]
    pub(crate) revisions: Vec<String>,
    #[command(flatten)]
    pub(crate) commands: RevisionArgs,
    /// Metrics that decide between URLs, such as p99,rate [default: rate; p99 with --rate; capacity
    /// with --goal]
    #[arg(
        long,
        value_name = "METRICS",
        value_delimiter = ',',
        value_parser = metric_to_judge,
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) judge: Vec<Metric>,
    /// End the experiment with status 1 when EXPR holds over the last --abort-window of a trial's
    /// load, such as 'failed>5%' or 'p99>1s'; repeatable
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["resume", "goal"], help_heading = "Experiment")]
    pub(crate) abort_if: Vec<String>,
    /// Time window over which --abort-if is evaluated, for the first time once a load's measured
    /// part is that long [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, requires = "abort_if", help_heading = "Experiment")]
    pub(crate) abort_window: Option<Duration>,
    /// Compare the highest rates at which the URLs meet this condition, such as 'p99<50ms' or
    /// 'failed<0.1%'; repeatable. Each trial searches for that rate and takes about 1 min
    #[arg(long, value_name = "EXPR", value_parser = goal, conflicts_with = "resume", help_heading = "Capacity")]
    pub(crate) goal: Vec<String>,
    /// Highest rate to probe, in requests per second, such as 1000 or 20k [default: no limit]
    #[arg(long, value_name = "N", value_parser = quantity::rate, requires = "goal", help_heading = "Capacity")]
    pub(crate) max_rate: Option<f64>,
    /// Duration of each search [default: 1m, or up to 5m if the server handles few requests per
    /// second]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, requires = "goal", conflicts_with = "probe", help_heading = "Capacity")]
    pub(crate) search_time: Option<Duration>,
    /// Length of the measured part of each probe [default: chosen to fit the search time]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, requires = "goal", help_heading = "Capacity")]
    pub(crate) probe: Option<Duration>,
    #[command(flatten)]
    pub(crate) run: RunArgs,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Seed that determines the order of trials. It belongs to the experiment, not to the load.
    #[arg(skip)]
    pub(crate) seed: Option<u64>,
    /// True if `--creds` was on the command line. Credentials from the environment may be meant for
    /// other commands.
    #[arg(skip)]
    pub(crate) has_creds_flag: bool,
    /// Temporary file with the body from standard input. The file is removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}

/// Options of all commands that run a plan.
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
    /// Print the variants, their order and the time without running the experiment; if the load
    /// ends after a set number of requests, probe each variant for about 1 s
    #[arg(long, help_heading = "Experiment")]
    pub(crate) dry_run: bool,
    /// Resume the experiment in this folder
    #[arg(long, value_name = "DIR", help_heading = "Experiment")]
    pub(crate) resume: Option<PathBuf>,
    /// Resume although plan.toml in the folder was changed; the results then come from both plans
    #[arg(long, requires = "resume", help_heading = "Experiment")]
    pub(crate) accept_plan_changes: bool,
    /// Skip the pre-check, which starts each variant once before the first block to find variants
    /// that can't run; with --dry-run, skip the probe
    #[arg(long, help_heading = "Experiment")]
    pub(crate) no_precheck: bool,
    /// Rule for the response bodies of the variants: same (as sent), same-decoded (after decoding
    /// gzip and other codings), or may-differ (differences become a note, and the
    /// variants may negotiate different protocols) [default: the plan's, or
    /// same-decoded]
    #[arg(long, value_name = "RULE", value_parser = BodyComparison::from_str, help_heading = "Experiment")]
    pub(crate) bodies: Option<BodyComparison>,
    /// Run all variants at the same time and alternate between them in short slices, so that a
    /// noisy machine affects them equally: auto (if possible), off, or the length of a slice, such
    /// as 250ms [default: the plan's, or auto]
    #[arg(long, value_name = "MODE", value_parser = Interleave::from_str, help_heading = "Experiment")]
    pub(crate) interleave: Option<Interleave>,
    /// Sample the services while they are measured, and report the CPU time per request of each
    /// function [default: the plan's, or off]
    #[arg(long, help_heading = "Experiment")]
    pub(crate) profile: bool,
    #[command(flatten)]
    pub(crate) monitoring: MonitoringArgs,
    /// Format of progress output on standard error
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

/// Options for conditions on results, and for files that CI systems read.
#[derive(Debug, Clone, Args)]
pub(crate) struct GateArgs {
    /// Exit with status 1 if the whole interval meets this condition, such as 'p99 of new >
    /// baseline + 5%', 'failed > 0.1%' or 'verdict is slower'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Conditions")]
    pub(crate) fail_if: Vec<String>,
    /// Exit with status 1 if the whole interval violates this condition, such as 'p99 of new <
    /// baseline + 5%'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Conditions")]
    pub(crate) require: Vec<String>,
    /// Compare with this stored run, given as a path or a name, and exit with status 1 if a variant
    /// is certainly worse by more than the margin; repeatable; several runs, or a folder of runs,
    /// are compared by the spread between them
    #[arg(long, value_name = "RUN", help_heading = "Conditions")]
    pub(crate) against: Vec<PathBuf>,
    /// Difference from the stored run that counts as a regression, such as 5% [default: the plan's
    /// margin]
    #[arg(long, value_name = "PERCENT", value_parser = margin, help_heading = "Conditions")]
    pub(crate) margin: Option<f64>,
    /// Treat inconclusive conditions as failures
    #[arg(long, help_heading = "Conditions")]
    pub(crate) strict: bool,
    /// Write verdicts and conditions as JUnit XML to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Conditions")]
    pub(crate) junit: Option<PathBuf>,
    /// Write a badge with the number of failures, or with the first decided result, as an SVG image
    #[arg(long, value_name = "FILE", help_heading = "Conditions")]
    pub(crate) badge: Option<PathBuf>,
    /// Append a summary in GitHub's Markdown to FILE, such as "$GITHUB_STEP_SUMMARY"
    #[arg(long, value_name = "FILE", help_heading = "Conditions")]
    pub(crate) github: Option<PathBuf>,
    /// Print failures as GitHub annotations on standard error
    #[arg(long, help_heading = "Conditions")]
    pub(crate) annotations: bool,
}

/// Checks the syntax of a goal.
fn goal(text: &str) -> Result<String, GoalError> {
    Goal::parse(text).map(|goal| goal.to_string())
}

/// Parses a percentage as a fraction.
fn margin(text: &str) -> Result<f64, String> {
    quantity::percent(text)
        .filter(|share| *share > 0.0 && *share < 1.0)
        .ok_or_else(|| "expected a percentage above 0% and below 100%, such as 5%".to_owned())
}
