//! The arguments of `prony report`.

use std::path::PathBuf;

use clap::Args;

use super::GateArgs;
use super::values::percentile;

/// Arguments of `prony report`.
#[derive(Debug, Args)]
#[command(
    override_usage = "prony report [OPTIONS] [RUN]\n       \
                      prony report [OPTIONS] BASELINE NEW\n       \
                      prony report [OPTIONS] --against BASELINE RUN",
    after_help = "\
A RUN is a folder that `prony compare` wrote, the name of one in prony-runs, a
record that `prony load --json` wrote, a folder of records, or a quoted pattern
that matches records. Of two runs, the first is the baseline. If no output
file is given, the report is printed.

EXPR is a metric, 'of' a variant, one of > >= < <=, and a limit: a value, or
'baseline', 'stored' or a variant, plus or minus a percentage or a value.
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
    /// Print the HTML page as a PDF, with an installed Chromium or Chrome
    #[arg(long, value_name = "FILE")]
    pub(crate) pdf: Option<PathBuf>,
    /// Write each chart as an SVG file into DIR, which is created if it doesn't exist
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Write the report as Markdown to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write one CSV row for each variant and metric, or for each half second of a load, to FILE
    /// (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write the verdict, the record or the comparison as JSON to FILE (`-` for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write counts and histograms of response times as OpenMetrics text to FILE (`-` for standard
    /// output)
    #[arg(long, value_name = "FILE")]
    pub(crate) openmetrics: Option<PathBuf>,
    /// Write the response times of a load for HdrHistogram's tools: as a percentile distribution if
    /// FILE ends in .hgrm, otherwise as a histogram log of half seconds
    #[arg(long, value_name = "FILE")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write every table as CSV and as JSON into DIR, which is created if it doesn't exist
    #[arg(long, value_name = "DIR")]
    pub(crate) tables: Option<PathBuf>,
    /// Percentiles in the report of a load, such as 50,99,99.99 [default: 50,75,90,95,99,99.9]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = percentile)]
    pub(crate) percentiles: Vec<f64>,
    #[command(flatten)]
    pub(crate) gates: GateArgs,
}
