//! Values that the arguments of several commands have.

use clap::ValueEnum;

/// Values of `--progress`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProgressFlag {
    /// A live view on a terminal, otherwise plain lines
    Auto,
    /// Plain lines
    Lines,
    /// Warnings only
    None,
}

/// Parses a percentile such as `99`, `99.9` or `p99`.
pub(super) fn percentile(text: &str) -> Result<f64, String> {
    let digits = text.trim().trim_start_matches('p');
    match digits.parse() {
        Ok(percentile) if percentile > 0.0 && percentile <= 100.0 => Ok(percentile),
        _ => Err(format!(
            "\"{text}\" is not a percentile; write a number above 0 and up to 100, such as 99.9"
        )),
    }
}
