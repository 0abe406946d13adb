//! `prony report`: what was stored, rendered again, or held against another run.

mod one;
mod outputs;
mod two;

use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{self, Gating, LABELS};

/// Renders one run or two; nothing in them is changed.
pub(crate) fn run(typed: &ReportArgs) -> Result<Ending, Failure> {
    let gated = !typed.gates.against.is_empty();
    match typed.stored.as_slice() {
        paths if gated => {
            let new = gating::read(paths)?;
            let gating = Gating::prepare(&typed.gates, gating::known_of_stored(&new))?;
            two::run(typed, gating, None, new, LABELS)
        }
        [one] => {
            let stored = gating::read(std::slice::from_ref(one))?;
            let gating = Gating::prepare(&typed.gates, gating::known_of_stored(&stored))?;
            one::run(typed, gating, stored)
        }
        [old, new] => {
            let old = gating::read(std::slice::from_ref(old))?;
            let new = gating::read(std::slice::from_ref(new))?;
            let mut known = gating::known_of_stored(&new);
            known.stored = Some("A".to_owned());
            let gating = Gating::with_stored(&typed.gates, &known, None)?;
            two::run(typed, gating, Some(old), new, ["A", "B"])
        }
        many => Err(Failure::wrong(format!(
            "{} were named, and a report has two sides at most: name folders, or patterns in quotes \
             ('old/*.json' 'new/*.json'), or the old ones with --against",
            many.len()
        ))),
    }
}
