//! The arguments of `prony noise`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use prony_record::quantity;

use super::ProgressFlag;

/// Arguments of `prony noise`.
#[derive(Debug, Args)]
#[command(after_help = "\
Two equal variants are compared in blocks: two copies of the built-in server, or of the baseline of
PLAN. How much their ratio varies between blocks determines which differences an experiment on this
machine can see. DIR then holds what `prony compare` writes.

Examples:
  prony noise                  the noise of this machine, in 3 minutes
  prony noise plan.toml -d 10m the noise of a plan's baseline
  prony noise --json - | jq .metrics")]
pub(crate) struct NoiseArgs {
    /// Plan whose baseline is compared with itself [default: the built-in server]
    #[arg(value_name = "PLAN")]
    pub(crate) plan: Option<PathBuf>,
    /// Duration of the comparison
    #[arg(short, long, value_name = "TIME", value_parser = quantity::positive_time, default_value = "3m")]
    pub(crate) duration: Duration,
    /// The folder for the results [default: prony-runs/<time>-noise]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the results as JSON to FILE (`-` for standard output, in place of the text)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Format of progress output on standard error
    #[arg(
        long,
        value_enum,
        default_value = "auto",
        env = "PRONY_PROGRESS",
        hide_env_values = true
    )]
    pub(crate) progress: ProgressFlag,
}
