//! The arguments of `prony capacity`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_record::quantity;
use tempfile::NamedTempFile;

use super::{LoadArguments, MonitoringArgs, ProgressFlag};

/// Arguments of `prony capacity`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony capacity --goal EXPR [OPTIONS] URL\n       prony capacity --goal EXPR [OPTIONS] --urls FILE [URL]",
    after_help = "\
Examples:
  prony capacity --goal 'p99<50ms' http://localhost/
  prony capacity --goal 'p99<50ms' --goal 'failed<0.1%' http://localhost/
  prony capacity --goal 'p99.9<20ms' --max-rate 20k http://localhost/
  prony capacity --goal 'p99<50ms' --fail-if 'capacity<8000' http://localhost/

A search probes request rates in an open loop until it finds the highest rate
that meets every goal. The variation between five searches gives the 95%
interval. A search takes about a minute, or up to five if the server handles
few requests per second. Use --dry-run to see the maximum time.

EXPR is an upper limit on a time (p99<50ms or any pN, mean<5ms, also with the
prefix service., first_byte., first_event., event_gap., connect. or tls.) or on
a share of requests (failed<0.1%, timeout<1%). Response times start when a
request is due."
)]
pub(crate) struct CapacityArgs {
    /// URL to request, which may contain USER:PASSWORD@; with --urls, base of the paths
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "steps", "step"])]
    pub(crate) url: Option<String>,
    /// Condition that the server must meet, such as 'p99<50ms' or 'failed<0.1%'; repeatable
    #[arg(long, value_name = "EXPR", required = true, help_heading = "Capacity")]
    pub(crate) goal: Vec<String>,
    /// Highest rate to probe, in requests per second, such as 1000 or 20k [default: no limit]
    #[arg(long, value_name = "N", value_parser = quantity::rate, help_heading = "Capacity")]
    pub(crate) max_rate: Option<f64>,
    /// Number of searches, from 5 to 100; the variation between them gives the interval
    #[arg(
        long,
        value_name = "N",
        default_value = "5",
        value_parser = clap::value_parser!(u32).range(5..=100),
        help_heading = "Capacity"
    )]
    pub(crate) repeats: u32,
    /// Duration of each search [default: 1m, or up to 5m if the server handles few requests per
    /// second]
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::positive_time,
        conflicts_with = "probe",
        help_heading = "Capacity"
    )]
    pub(crate) search_time: Option<Duration>,
    /// Length of the measured part of each probe [default: chosen to fit the search time]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, help_heading = "Capacity")]
    pub(crate) probe: Option<Duration>,
    /// Print the maximum time that the searches can take, and run nothing
    #[arg(long, help_heading = "Capacity")]
    pub(crate) dry_run: bool,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Write the result and all probes as JSON to FILE (`-` for standard output, in place of the
    /// summary)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) monitoring: MonitoringArgs,
    /// Format of progress output on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true,
        help_heading = "Output"
    )]
    pub(crate) progress: ProgressFlag,
    /// Exit with status 1 if EXPR holds for the whole interval, such as 'capacity<8000'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) fail_if: Vec<String>,
    /// Temporary file with the body from standard input. The file is removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}
