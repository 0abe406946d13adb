//! Two runs against one another as GitHub's Markdown.

use prony_stats::runs::RunsDocument;

use crate::runs_view as view;
use crate::table::{Table, markdown as escaped};
use crate::text::severity_name;
use crate::verdict_view::word;

/// Two runs: the verdicts and their tables first; then what else differs.
pub fn runs(document: &RunsDocument) -> String {
    let mut out = format!("# {}\n\n", escaped(&view::title(document)));
    for between in &document.comparisons {
        let word = between.verdict.map_or("", word);
        out += &format!("- **{word}**: {}\n", escaped(&between.text));
    }
    if document.comparisons.is_empty() {
        out += "The two have no variant in common: nothing can be compared.\n";
    }
    for text in view::unmatched(document) {
        out += &format!("\n{}\n", escaped(&text));
    }
    for metric in view::family(document) {
        out += &section(&view::result_table(document, metric));
    }
    if !document.relative.is_empty() {
        out += "\n## Each against its own baseline\n\n";
        for relative in &document.relative {
            out += &format!("- {}\n", escaped(&relative.text));
        }
    }
    let (described, folded) = view::described(document);
    if let Some(table) = described {
        out += &section(&table);
    }
    if let Some(folded) = folded {
        out += &format!("\n{}\n", escaped(&folded));
    }
    out += &section(&view::sides(document));
    out += &match view::differences(document) {
        Some(table) => section(&table),
        None => format!("\n{}\n", escaped(view::SAME)),
    };
    if let Some(table) = view::gates_table(&document.gates) {
        out += &section(&table);
    }
    if !document.findings.is_empty() {
        out += "\n## Findings\n\n";
    }
    for one in &document.findings {
        out += &format!(
            "- {}: **{} ({})**: {}\n",
            escaped(&one.run),
            escaped(one.finding.id.as_str()),
            severity_name(one.finding.severity),
            escaped(&one.finding.text)
        );
    }
    out + &format!("\n{}\n", escaped(view::CAVEAT))
}

fn section(table: &Table) -> String {
    format!("\n## {}\n\n{}", escaped(&table.title), table.to_markdown())
}
