//! Reading of stored experiments and loads.
//!
//! A path that a user typed is read as a [`Stored`]. For comparisons, this is converted to a
//! [`Run`](prony_stats::runs::Run): one number for each metric, block and variant.

mod content;
mod differences;
mod read;
mod sources;

use prony_stats::runs::{RunFinding, RunPairInfo};

pub use content::{LOADS_MARGIN, Stored, StoredContent};
pub use differences::differences;
pub use read::read_results;

/// Describes two runs, and lists their differences and findings.
pub fn describe_pair(old: (&Stored, &str), new: (&Stored, &str)) -> RunPairInfo {
    let mut findings = Vec::new();
    for (stored, label) in [old, new] {
        let all = stored.findings().into_iter();
        findings.extend(all.map(|finding| RunFinding {
            run: label.to_owned(),
            finding,
        }));
    }
    RunPairInfo {
        old: old.0.about(old.1),
        new: new.0.about(new.1),
        differences: differences(old.0, new.0),
        unrecorded: sources::unrecorded(old, new),
        findings,
    }
}
