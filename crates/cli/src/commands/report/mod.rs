//! `prony report`: renders a stored run, or compares two stored runs.

mod browser;
mod one;
mod outputs;
mod two;

use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{self, GateSettings, LABELS};
use crate::runs_folder::catalog;
use crate::terminal;

/// Labels of two compared runs: the baseline and the new run.
const LABELS_OF_TWO: [&str; 2] = ["baseline", "new"];

/// Runs `prony report`. Never modifies the stored runs.
pub(crate) fn run(arguments: &ReportArgs) -> Result<Ending, Failure> {
    let gated = !arguments.gates.against.is_empty();
    let stored = if arguments.stored.is_empty() {
        let newest = catalog::newest_run()?;
        terminal::print_message(format_args!("the newest run: {}", newest.display()));
        vec![newest]
    } else {
        arguments.stored.clone()
    };
    match stored.as_slice() {
        paths if gated => {
            let new = gating::read_side(paths)?;
            let gating = GateSettings::prepare(&arguments.gates, gating::known_of_stored(&new))?;
            two::report_two_runs(arguments, gating, None, new, LABELS)
        }
        [one] => {
            let stored = gating::read_side(std::slice::from_ref(one))?;
            let gating = GateSettings::prepare(&arguments.gates, gating::known_of_stored(&stored))?;
            one::report_one_run(arguments, gating, stored)
        }
        [old, new] => {
            let old = gating::read_side(std::slice::from_ref(old))?;
            let new = gating::read_side(std::slice::from_ref(new))?;
            let mut known = gating::known_of_stored(&new);
            known.stored = Some(LABELS_OF_TWO[0].to_owned());
            let gating = GateSettings::with_stored(&arguments.gates, &known, None)?;
            two::report_two_runs(arguments, gating, Some(old), new, LABELS_OF_TWO)
        }
        many => Err(Failure::wrong(format!(
            "{} runs were named; a report compares at most two (name folders, or patterns in quotes such \
             as 'old/*.json' 'new/*.json', or the old ones with --against)",
            many.len()
        ))),
    }
}
