//! The arguments of `prony load`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_record::quantity;
use tempfile::NamedTempFile;

use super::values::percentile;
use super::{ByAgentsArgs, LoadArguments, MonitoringArgs, ProgressFlag};

/// Arguments of `prony load`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony load [OPTIONS] URL\n       prony load [OPTIONS] --urls FILE [URL]\n       prony load [OPTIONS] --steps FILE [URL]\n       prony load [OPTIONS] --curl COMMAND",
    after_help = "\
Examples:
  prony load http://localhost/                   50 connections for 10 s
  prony load -c 10 -n 1000 http://localhost/     1,000 requests, then stop
  prony load -r 2000 --arrivals poisson http://localhost/     open loop
  prony load -c 16 --streams 32 https://localhost/    HTTP/2 by ALPN
  prony load -r 100:5000 -d 1m http://localhost/      a rate that rises
  prony load --stages 500@30s,2000@1m --abort-if 'p99>1s' http://localhost/
  prony load --unix /run/app.sock http://localhost/health
  prony load -X POST --body @in.json http://localhost/
  prony load --script shop.lua http://localhost/    requests by a Lua script
  prony load -c 10 --curl curl 'http://localhost/' -H 'Accept: text/html'
  prony load --json - http://localhost/ | jq .rate.ok_per_s
  prony load --agents 4 --creds coordinator.creds http://10.0.0.5/
  prony load --precision 'p99 5%' http://localhost/    until p99 is known to ±5%
  prony load --require 'p99<50ms' --fail-if 'failed>0.1%' http://localhost/

TIME is 250us, 500ms, 30s or 1m30s, or a number of seconds. SIZE is a number of
bytes, such as 512 or 64K (1K is 1,024 bytes). Rates are requests per second;
20k is 20,000.

EXPR is a metric, one of > >= < <=, and a value: a time, a rate, a count or a
percentage such as 0.1%. Metrics: min, mean, max, p50, p(99) or any pN of
response times (of other times with the prefix service., first_byte.,
first_event., event_gap., connect., tls. or late.), rate, events_per_s, started,
ok, failed, the name of an outcome, unfinished, unstarted, retried, busy."
)]
pub(crate) struct LoadArgs {
    /// URL to request, which may contain USER:PASSWORD@; with --urls, base of the paths
    #[arg(value_name = "URL", required_unless_present_any = ["urls", "steps", "step", "curl"])]
    pub(crate) url: Option<String>,
    #[command(flatten)]
    pub(crate) load: LoadArguments,
    /// Take URL, method, headers, body and so on from a curl command, as copied from a browser's
    /// developer tools (bash): one quoted argument, @FILE, - for standard input, or unquoted as the
    /// last option
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["url", "urls", "steps", "step"], help_heading = "Request")]
    pub(crate) curl: Option<String>,
    #[command(flatten)]
    pub(crate) agents: ByAgentsArgs,
    /// Write the record as JSON to FILE (`-` for standard output, in place of the summary)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) json: Option<PathBuf>,
    /// Write one CSV row per half second to FILE (`-` for standard output, in place of the summary)
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) csv: Option<PathBuf>,
    /// Write an HTML page with charts
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
    /// Write a JSON array with one [seconds, completions since the previous entry] per half second
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) timeline: Option<PathBuf>,
    /// Write the response times for HdrHistogram's tools: as a percentile distribution if FILE ends
    /// in .hgrm, otherwise as a histogram log of half seconds
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) hdr: Option<PathBuf>,
    /// Sample the server while it is measured, if it runs on this machine, and print the CPU time per
    /// request of its functions after the summary
    #[arg(long, conflicts_with = "agents", help_heading = "Output")]
    pub(crate) profile: bool,
    /// Percentiles in the summary and the page, such as 50,99,99.99 [default: 50,75,90,95,99,99.9]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile, help_heading = "Output")]
    pub(crate) percentiles: Vec<f64>,
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
    /// End the load when METRIC is known to ±PERCENT within it, such as 'p99 5%' or 'rate 1%'; -d is
    /// then the limit [default: 5m]; repeatable
    #[arg(long, value_name = "'METRIC PERCENT'", help_heading = "Output")]
    pub(crate) precision: Vec<String>,
    /// Exit with status 1 if EXPR holds, such as 'p99>50ms', 'failed>0.1%' or 'rate<1000';
    /// repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) fail_if: Vec<String>,
    /// Exit with status 1 unless EXPR holds, such as 'p99<50ms'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) require: Vec<String>,
    /// End the load with status 1 when EXPR holds over the last --abort-window, such as 'p99>1s' or
    /// 'failed>1%'; repeatable
    #[arg(long, value_name = "EXPR", help_heading = "Output")]
    pub(crate) abort_if: Vec<String>,
    /// Time window over which --abort-if is evaluated, for the first time once the measured part is
    /// that long [default: 5s]
    #[arg(long, value_name = "TIME", value_parser = quantity::positive_time, requires = "abort_if", help_heading = "Output")]
    pub(crate) abort_window: Option<Duration>,
    /// Temporary file with the body from standard input. The file is removed on drop.
    #[arg(skip)]
    pub(crate) stdin_body: Option<NamedTempFile>,
}
