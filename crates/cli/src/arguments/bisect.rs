//! The arguments of `prony bisect`.

use std::path::PathBuf;

use clap::Args;
use prony_plan::{BodyComparison, metric_to_judge};
use prony_stats::Metric;
use std::str::FromStr;
use tempfile::NamedTempFile;

use super::{LoadArguments, ProgressFlag, RevisionArgs};

/// Arguments of `prony bisect`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony bisect [OPTIONS] --good REV [--bad REV] --start COMMAND\n       \
                      prony bisect [OPTIONS] --resume DIR --start COMMAND",
    after_help = "\
Each step compares a commit with the good end, and adds blocks until it is
significantly slower, or equivalent within half of the difference between the
two ends. All steps share an error rate of 5%. The search follows first
parents. Commits that don't build or can't be judged are skipped and named.

Examples:
  prony bisect --good v1.2 --bad main --build make --start './app $PORT'
  prony bisect --good v1.2 --judge p99 -r 500 --start 'python3 app.py $PORT'
  prony bisect --good v1 --fail-if 'failed of new > 1%' --start './app $PORT'"
)]
pub(crate) struct BisectArgs {
    /// A revision that is fast enough
    #[arg(
        long,
        value_name = "REV",
        required_unless_present = "resume",
        help_heading = "Revisions"
    )]
    pub(crate) good: Option<String>,
    /// A later revision that is slower
    #[arg(
        long,
        value_name = "REV",
        default_value = "HEAD",
        conflicts_with = "resume",
        help_heading = "Revisions"
    )]
    pub(crate) bad: String,
    #[command(flatten)]
    pub(crate) commands: RevisionArgs,
    /// Metrics that decide, such as p99,rate [default: rate; p99 with --rate]
    #[arg(long, value_name = "METRICS", value_delimiter = ',', value_parser = metric_to_judge, help_heading = "Experiment")]
    pub(crate) judge: Vec<Metric>,
    /// A commit is bad if the whole interval meets this condition, such as 'p99 of new > baseline +
    /// 5%', and good if no part of it does; repeatable [default: bad if it is slower]
    #[arg(long, value_name = "EXPR", help_heading = "Experiment")]
    pub(crate) fail_if: Vec<String>,
    /// Rule for the response bodies of the commits: same, same-decoded or may-differ
    #[arg(long, value_name = "RULE", default_value = "may-differ", value_parser = BodyComparison::from_str, help_heading = "Experiment")]
    pub(crate) bodies: BodyComparison,
    /// The folder for the steps and bisection.json [default: prony-runs/<time>-bisection]
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with = "resume",
        help_heading = "Experiment"
    )]
    pub(crate) out: Option<PathBuf>,
    /// Continue the search in this folder; the other options must be the same
    #[arg(long, value_name = "DIR", conflicts_with_all = ["good", "out"], help_heading = "Experiment")]
    pub(crate) resume: Option<PathBuf>,
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
    pub(crate) load: LoadArguments,
    /// Temporary file with the body from standard input. The file is removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}
