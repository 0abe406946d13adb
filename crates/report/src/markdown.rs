//! Reports in GitHub-flavored Markdown, for issues, wikis and diffs.

use prony_record::Finding;
use prony_wording::VerdictLine;

use crate::document::{Block, Document, Medium};
use crate::table::markdown as escaped;
use crate::text::severity_name;

/// Renders the report as Markdown.
pub fn render(document: &Document) -> String {
    render_below(document, 0)
}

/// Renders the report as part of a larger text. Its headings are `levels` levels lower.
pub(crate) fn render_below(document: &Document, levels: usize) -> String {
    let below = "#".repeat(levels);
    let mut header: Vec<&Block> = document.header.shown(Medium::Markdown).collect();
    let title = match (document.question.as_str(), header.first()) {
        ("", Some(Block::Lead { text, detail: None })) => {
            header.remove(0);
            text
        }
        ("", _) => &document.subject,
        (question, _) => question,
    };
    let mut out = format!("{below}# {}\n", escaped(title));
    out += &blocks(&header, &below);
    for (section, shown) in document.sections_for(Medium::Markdown) {
        out += &format!("\n{below}## {}\n", escaped(&section.title));
        out += &blocks(&shown, &below);
    }
    out
}

/// Renders blocks, each after an empty line.
fn blocks(blocks: &[&Block], below: &str) -> String {
    let each = blocks.iter().map(|one| block(one, below));
    let each = each.filter(|text| !text.is_empty());
    each.map(|text| format!("\n{text}")).collect()
}

fn block(block: &Block, below: &str) -> String {
    match block {
        Block::Lead { text, detail } => {
            let detail = detail.iter().map(|text| format!("\n{}\n", escaped(text)));
            format!("**{}**\n{}", escaped(text), detail.collect::<String>())
        }
        Block::Callout(callout) => {
            let parts = callout.parts.iter().map(|(text, is_strong)| {
                let kept = text.trim();
                if *is_strong && !kept.is_empty() {
                    text.replace(kept, &format!("**{}**", escaped(kept)))
                } else {
                    escaped(text)
                }
            });
            let detail = match callout.detail.as_str() {
                "" => String::new(),
                detail => format!(" ({})", escaped(detail)),
            };
            format!("{}{detail}\n", parts.collect::<String>())
        }
        Block::Subheading(text) => format!("{below}### {}\n", escaped(text)),
        Block::Intro(text) | Block::Paragraph(text) | Block::Note(text) => {
            format!("{}\n", escaped(text))
        }
        Block::Verdicts(lines) => lines.iter().map(verdict).collect(),
        Block::List(items) => items
            .iter()
            .map(|item| format!("- {}\n", escaped(item)))
            .collect(),
        Block::Facts(facts) => {
            let fact = |(name, text): &(String, String)| {
                format!("- {}: {}\n", escaped(name), escaped(text))
            };
            facts.iter().map(fact).collect()
        }
        Block::Table(table) => table.to_markdown(),
        Block::Findings(findings, none) if findings.is_empty() => format!("{none}\n"),
        Block::Findings(findings, _) => findings.iter().map(finding).collect(),
        Block::Folded {
            summary,
            blocks: folded,
        } => {
            let folded: Vec<&Block> = folded.iter().collect();
            let summary = escaped(summary);
            let inner = blocks(&folded, below);
            format!("<details><summary>{summary}</summary>\n{inner}\n</details>\n")
        }
        Block::Chart(_) | Block::Histogram(_) | Block::Code(_) | Block::Environment(_) => {
            String::new()
        }
    }
}

/// Renders a sentence after its verdict. The sentences that it summarizes are collapsed below it.
fn verdict(line: &VerdictLine) -> String {
    let mut out = format!("- **{}**: {}\n", line.word, escaped(&line.text));
    if !line.summarized.is_empty() {
        let all = line.summarized.iter();
        let all: String = all.map(|text| format!("  - {}\n", escaped(text))).collect();
        out += &format!("  <details><summary>all comparisons</summary>\n\n{all}\n  </details>\n");
    }
    out
}

fn finding(finding: &Finding) -> String {
    format!(
        "- **{} ({})**: {}\n",
        escaped(finding.id.as_str()),
        severity_name(finding.severity),
        escaped(&finding.text)
    )
}
