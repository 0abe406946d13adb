//! The arguments of `prony history`.

use std::path::PathBuf;

use clap::Args;
use prony_plan::metric_to_judge;
use prony_stats::Metric;

/// Arguments of `prony history`.
#[derive(Debug, Args)]
#[command(after_help = "\
A history has the stored runs of one plan on one machine, oldest first. Runs
of several machines are never mixed. A change point is shown where a metric
changed for good.

Examples:
  prony history                                 all plans in prony-runs
  prony history bench/plan.toml --html h.html   one plan, with charts
  prony history results/ --metric p99,rate      runs in another folder
  prony history shop --bencher bmf.json --otava otava/")]
pub(crate) struct HistoryArgs {
    /// Plans, by file or name, and folders that hold runs [default: all plans, prony-runs]
    #[arg(value_name = "PLAN|DIR")]
    pub(crate) sources: Vec<PathBuf>,
    /// Metrics to show, such as p99,rate [default: those that decided each run]
    #[arg(long, value_name = "METRICS", value_delimiter = ',', value_parser = metric_to_judge)]
    pub(crate) metric: Vec<Metric>,
    /// Write the report with charts as an HTML page
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the report as Markdown to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write the series as JSON to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the newest results in Bencher Metric Format to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) bencher: Option<PathBuf>,
    /// Write CSV files and otava.yaml for Apache Otava into DIR, which is created if it doesn't
    /// exist
    #[arg(long, value_name = "DIR")]
    pub(crate) otava: Option<PathBuf>,
}
