//! Removes what killed runs left behind.

use prony_machine::sweep;

use crate::progress::Progress;

/// Removes the leftovers of killed runs, and prints what was removed.
pub(crate) fn remove_leftovers(progress: &Progress) {
    match sweep::sweep() {
        Ok(swept) => {
            if !swept.removed.is_empty() {
                let removed: Vec<String> = swept.removed.iter().map(ToString::to_string).collect();
                progress.warn(format_args!(
                    "removed leftovers of a killed run: {}",
                    removed.join(", ")
                ));
            }
            for failure in swept.failures {
                progress.warn(format_args!(
                    "could not remove leftovers of a killed run: {failure}"
                ));
            }
        }
        Err(error) => {
            progress.warn(format_args!(
                "could not look for leftovers of killed runs: {error}"
            ));
        }
    }
}
