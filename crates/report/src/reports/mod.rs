//! The content of each kind of report, as a [`Document`](crate::Document).

mod capacity;
mod experiment;
mod history;
mod load;
mod runs;

pub(crate) use runs::conditions;

use prony_record::Finding;

use crate::document::{Audience, Block, Section};

/// The section of findings; `none` is the sentence shown if there are none.
fn findings_section(findings: &[Finding], none: &'static str) -> Section {
    let mut section = Section::new("Findings").untitled_on_terminal();
    if !findings.is_empty() {
        section = section.intro("What was seen, what it means, and what to do.");
    }
    let audience = if findings.is_empty() {
        Audience::Files
    } else {
        Audience::Everyone
    };
    let mut sorted = findings.to_vec();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    section.with(audience, Block::Findings(sorted, none))
}
