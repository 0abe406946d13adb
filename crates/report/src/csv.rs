//! Results as CSV for spreadsheets and scripts: plain, unrounded numbers, with units in the column
//! names.
//!
//! The table of a load has a row for each half second ([`series`]), and the table of an experiment
//! has a row for each variant and metric ([`verdict`]). Fields are quoted if necessary (RFC 4180),
//! and lines end with a line feed.

use prony_record::Record;
use prony_stats::VerdictDocument;
use prony_stats::runs::RunsDocument;

use crate::data;

/// Returns the time series of one load, with a row for each half second, in the format of `prony
/// load --csv`.
pub fn series(record: &Record) -> String {
    data::series(record).to_csv()
}

/// Returns one row for each variant and metric that was measured. The first columns describe the
/// variant, and the others its comparison with its baseline. Unknown values are empty; shares have
/// a `difference` instead of a `ratio`.
pub fn verdict(verdict: &VerdictDocument) -> String {
    data::compared_metrics(verdict).to_csv()
}

/// Returns one row for each variant and metric that two runs have in common.
pub fn runs(document: &RunsDocument) -> String {
    data::run_comparisons(document).to_csv()
}
