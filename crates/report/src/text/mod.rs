//! What a terminal shows: plain lines, coloured if asked.

mod doctor;
mod load;
mod paint;
mod runs;
mod verdict;

pub use doctor::doctor;
pub use load::{conditions, load_summary};
pub use runs::{gates, runs};
pub use verdict::verdict;

use paint::Paint;
use prony_record::{Finding, Severity};

/// How a text is to look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Coloured by a terminal's escape sequences.
    pub color: bool,
    /// The longest line of a paragraph, in characters; tables are as wide as they are.
    pub width: usize,
    /// With a histogram of a load's response times, as a terminal shows it.
    pub histogram: bool,
}

impl Look {
    /// As a file or another program has it.
    pub const PLAIN: Look = Look {
        color: false,
        width: 96,
        histogram: false,
    };

    /// The same, coloured.
    pub const COLORED: Look = Look {
        color: true,
        ..Look::PLAIN
    };
}

/// Findings, the gravest first, one paragraph each; empty where there are none.
fn findings(findings: &[Finding], paint: Paint) -> String {
    let mut sorted: Vec<&Finding> = findings.iter().collect();
    sorted.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    sorted
        .iter()
        .map(|finding| {
            let word = format!("{:<8}", severity_name(finding.severity));
            let painted = paint.toned(finding.severity.into(), &word);
            let text = format!("{}: {}", finding.id, finding.text);
            paint.paragraph(&painted, word.len(), &text)
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
    use prony_record::FindingId;

    use super::*;

    #[test]
    fn a_paragraph_breaks_between_words_and_hangs() {
        let text = "word ".repeat(40);
        for width in [96, 40] {
            let paint = Paint::new(Look {
                width,
                ..Look::PLAIN
            });
            let out = paint.paragraph("note    ", 8, &text);
            assert!(out.lines().all(|line| line.chars().count() <= width));
            assert!(out.lines().count() > 200 / width);
        }
        let out = Paint::new(Look::PLAIN).paragraph("note    ", 8, &text);
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
            Finding::new(FindingId::FewBlocks, Severity::Note, "a"),
            Finding::new(FindingId::Errors, Severity::Error, "b"),
        ];
        let text = findings(&some, Paint::new(Look::PLAIN));
        assert_eq!(text, "error   errors: b\nnote    few-blocks: a\n");
    }
}
