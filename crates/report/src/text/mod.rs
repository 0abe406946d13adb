//! What a terminal shows: plain lines, coloured if asked.

mod doctor;
mod load;
mod paint;
mod runs;
mod verdict;

pub use doctor::doctor;
pub use load::load_summary;
pub use runs::{gates, runs};
pub use verdict::verdict;

use paint::Paint;
use prony_record::{Finding, Severity};

use crate::table::plain;

/// The longest line of a paragraph, in characters.
const LINE: usize = 96;

/// A paragraph: `text` broken between words, the first line led by `first`, the others by as many
/// spaces.
fn paragraph(first: &str, width_of_first: usize, text: &str) -> String {
    let indent = " ".repeat(width_of_first);
    let mut out = String::new();
    let mut line = String::new();
    let mut width = width_of_first;
    for word in plain(text).split_whitespace() {
        let length = word.chars().count();
        if !line.is_empty() && width + 1 + length > LINE {
            out += &format!("{line}\n{indent}");
            line.clear();
            width = width_of_first;
        }
        if !line.is_empty() {
            line.push(' ');
            width += 1;
        }
        line += word;
        width += length;
    }
    format!("{first}{out}{line}\n")
}

/// Findings, the gravest first, one paragraph each; empty where there are none.
fn findings(findings: &[Finding], paint: Paint) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sorted
        .iter()
        .map(|finding| {
            let word = format!("{:<8}", severity_name(finding.severity));
            let painted = match finding.severity {
                Severity::Error => paint.red(&word),
                Severity::Warning => paint.yellow(&word),
                Severity::Note => paint.dim(&word),
            };
            let text = format!("{}: {}", finding.id, finding.text);
            paragraph(&painted, word.len(), &text)
        })
        .collect()
}

/// The word that stands for a severity.
pub(crate) fn severity_name(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paragraph_breaks_between_words_and_hangs() {
        let text = "word ".repeat(40);
        let out = paragraph("note    ", 8, &text);
        assert!(out.lines().all(|line| line.chars().count() <= LINE));
        assert!(
            out.lines()
                .skip(1)
                .all(|line| line.starts_with("        w"))
        );
        assert_eq!(out.split_whitespace().count(), 41);
    }

    #[test]
    fn the_gravest_finding_comes_first() {
        let some = [
            Finding::new("few-blocks", Severity::Note, "a"),
            Finding::new("errors", Severity::Error, "b"),
        ];
        let text = findings(&some, Paint::new(false));
        assert_eq!(text, "error   errors: b\nnote    few-blocks: a\n");
    }
}
