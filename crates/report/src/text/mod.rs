//! Reports as plain text for a terminal, in color if requested.

mod doctor;
mod load;
mod options;
mod paint;

pub use doctor::doctor;
pub use load::conditions;
pub use options::TextOptions;

use load::histogram;
use paint::Paint;
use prony_record::{Finding, Severity};
use prony_stats::gate::GateResult;
use prony_wording::Tone;
use prony_wording::VerdictLine;

use crate::document::{Block, Callout, Document, Medium, TerminalHeading};
use crate::table::plain;

const FACT_NAME_WIDTH: usize = 16;
/// Width of the column with a condition's result, in characters.
const RESULT_WIDTH: usize = 13;

/// Renders the report as text.
pub fn render(document: &Document, options: TextOptions) -> String {
    let paint = Paint::new(options);
    let mut out = String::new();
    if !document.question.is_empty() {
        out += &format!("{}\n\n", paint.bold(&plain(&document.question)));
    }
    let mut writer = TextWriter {
        paint,
        options,
        lead_is_bold: document.question.is_empty(),
        indent: "",
        out,
    };
    let mut previous = None;
    for block in document.header.shown(Medium::Terminal) {
        let kind = std::mem::discriminant(block);
        let is_apart = matches!(block, Block::Callout(_) | Block::Verdicts(_))
            && previous.replace(kind) != Some(kind);
        if is_apart && !writer.out.is_empty() && !writer.out.ends_with("\n\n") {
            writer.out.push('\n');
        }
        writer.block(block);
    }
    for (section, blocks) in document.sections_for(Medium::Terminal) {
        writer.out.push('\n');
        writer.indent = "";
        if section.terminal == TerminalHeading::Shown {
            writer.out += &format!("{}\n", paint.dim(&plain(&section.title)));
            writer.indent = "  ";
        }
        for (place, block) in blocks.iter().enumerate() {
            if place > 0 && matches!(block, Block::Subheading(_)) {
                writer.out.push('\n');
            }
            writer.block(block);
        }
    }
    writer.out
}

/// Formats the results of conditions; empty without conditions.
pub fn gates(gates: &[GateResult], options: TextOptions) -> String {
    if gates.is_empty() {
        return String::new();
    }
    let lines = crate::reports::conditions(gates);
    format!("\n{}", verdicts(&lines, "", Paint::new(options)))
}

struct TextWriter {
    paint: Paint,
    options: TextOptions,
    lead_is_bold: bool,
    indent: &'static str,
    out: String,
}

impl TextWriter {
    fn block(&mut self, block: &Block) {
        let (paint, indent) = (self.paint, self.indent);
        let paragraph = |text: &str| paint.paragraph(indent, indent.len(), text);
        let text = match block {
            Block::Lead { text, detail } => {
                let lead = paragraph(text);
                let lead = if self.lead_is_bold {
                    paint.bold_lines(&lead)
                } else {
                    lead
                };
                lead + &detail
                    .iter()
                    .map(|detail| paragraph(detail))
                    .collect::<String>()
            }
            Block::Callout(callout) => self.callout(callout),
            Block::Subheading(text) => format!("{indent}{}\n", plain(text)),
            Block::Paragraph(text) | Block::Intro(text) => paragraph(text),
            Block::Note(text) => paint.dim_lines(&paragraph(text)),
            Block::Verdicts(lines) => verdicts(lines, indent, paint),
            Block::List(items) => {
                let item =
                    |item: &String| paint.paragraph(&format!("{indent}- "), indent.len() + 2, item);
                items.iter().map(item).collect()
            }
            Block::Facts(facts) => {
                let fact = |(name, text): &(String, String)| {
                    let name = format!("{:<FACT_NAME_WIDTH$}", plain(name));
                    paint.paragraph(&name, FACT_NAME_WIDTH, text)
                };
                facts.iter().map(fact).collect()
            }
            Block::Table(table) => paint.table(indent, table),
            Block::Histogram(bins) if self.options.histogram => {
                format!("\n{}", histogram(bins, paint))
            }
            Block::Findings(all, _) => findings(all, indent, paint),
            Block::Code(text) => text
                .lines()
                .map(|line| format!("{}\n", plain(line)))
                .collect(),
            Block::Folded { blocks, .. } => {
                blocks.iter().for_each(|block| self.block(block));
                return;
            }
            Block::Histogram(_) | Block::Chart(_) | Block::Environment(_) => return,
        };
        self.out += &text;
    }

    fn callout(&self, callout: &Callout) -> String {
        let paint = self.paint;
        let parts: Vec<(&str, Option<Tone>)> = callout
            .parts
            .iter()
            .map(|(text, is_strong)| (text.as_str(), is_strong.then_some(callout.tone)))
            .collect();
        let detail = match callout.detail.as_str() {
            "" => String::new(),
            detail => paint.dim_lines(&paint.paragraph("", 0, detail)),
        };
        paint.toned_paragraph(&parts) + &detail
    }
}

/// Formats sentences, each preceded by the symbol of its verdict or by its result as a word.
fn verdicts(lines: &[VerdictLine], indent: &str, paint: Paint) -> String {
    let line = |line: &VerdictLine| {
        let (mark, width) = match line.mark {
            Some(mark) => (mark.to_owned(), 2),
            None => (format!("{:<1$}", line.word, RESULT_WIDTH - 1), RESULT_WIDTH),
        };
        let first = format!("{indent}{} ", paint.toned(line.tone, &mark));
        paint.paragraph(&first, indent.len() + width, &line.text)
    };
    lines.iter().map(line).collect()
}

/// Formats findings, each as one paragraph.
fn findings(findings: &[Finding], indent: &str, paint: Paint) -> String {
    let paragraph = |finding: &Finding| {
        let word = format!("{:<8}", severity_name(finding.severity));
        let first = format!("{indent}{}", paint.toned(finding.severity.into(), &word));
        let text = format!("{}: {}", finding.id, finding.text);
        paint.paragraph(&first, indent.len() + word.len(), &text)
    };
    findings.iter().map(paragraph).collect()
}

/// The word for a severity.
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
        for width in [96, 40] {
            let paint = Paint::new(TextOptions {
                width,
                ..TextOptions::PLAIN
            });
            let out = paint.paragraph("note    ", 8, &text);
            assert!(out.lines().all(|line| line.chars().count() <= width));
            assert!(out.lines().count() > 200 / width);
        }
        let out = Paint::new(TextOptions::PLAIN).paragraph("note    ", 8, &text);
        let mut further = out.lines().skip(1);
        assert!(further.all(|line| line.starts_with("        w")));
        assert_eq!(out.split_whitespace().count(), 41);
    }
}
