//! Functions that withhold or qualify verdicts after the evaluation.

use crate::comparison::{Comparison, Verdict};
use crate::sentences::verdicts as sentence;

impl Comparison {
    /// Appends a doubt to the comparison and its sentence, without changing the verdict.
    pub fn doubt(&mut self, doubt: &str) {
        self.text = format!("{}; {doubt}", self.text);
        self.doubt = Some(doubt.to_owned());
    }

    /// Returns the sentence without the doubt that [`Comparison::doubt`] appended.
    pub fn claim(&self) -> &str {
        let doubt = self.doubt.as_deref().filter(|doubt| !doubt.is_empty());
        let claim = doubt.and_then(|doubt| self.text.strip_suffix(doubt)?.strip_suffix("; "));
        claim.unwrap_or(&self.text)
    }

    /// Withdraws the verdict because the measurement can't support it. The estimate is kept as a
    /// description. `reason` completes the sentence "verdict withheld: …".
    pub fn withhold(&mut self, reason: &str) {
        self.verdict = Verdict::Withheld;
        self.more_blocks = None;
        self.doubt = None;
        self.text = sentence::withheld(self, reason);
    }
}
