//! Two runs against one another as GitHub's Markdown.

use prony_stats::runs::RunsDocument;

use crate::runs_view as view;
use crate::table::{Table, markdown as escaped};
use crate::text::severity_name;
use crate::verdict_view::word;

/// Two runs: which they are and what else differs, first; then the verdicts and the tables.
pub fn runs(document: &RunsDocument) -> String {
    let mut out = format!("# {}\n\n", escaped(&view::title(document)));
    out += &view::sides(document).to_markdown();
    out += &match view::differences(document) {
        Some(table) => section(&table),
        None => format!("\n{}\n", escaped(view::SAME)),
    };
    out += "\n## Results\n\n";
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
    if let Some(table) = view::described_table(document) {
        out += &section(&table);
    }
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
            escaped(&one.finding.id),
            severity_name(one.finding.severity),
            escaped(&one.finding.text)
        );
    }
    out + &format!("\n{}\n", escaped(view::CAVEAT))
}

fn section(table: &Table) -> String {
    format!("\n## {}\n\n{}", escaped(&table.title), table.to_markdown())
}
