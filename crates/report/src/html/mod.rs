//! Reports as a single HTML file, for light and dark screens, desktops, phones and paper. The file
//! needs neither a network nor scripts.
//!
//! All text is escaped, and a content security policy prevents the page from loading or running
//! anything.

mod elements;
mod table;

use elements::{escaped, swatch};
use prony_record::{Finding, FindingId, Severity};
use prony_wording::VerdictLine;

use crate::chart::palette;
use crate::document::{Block, Callout, Document, Figure, Medium, Section};
use crate::figures::file_name;

/// Renders the report as a page.
pub fn render(document: &Document) -> String {
    let mut body = String::from("<header>\n");
    let subject = document.subject_above();
    let subject = subject.map_or(String::new(), |text| format!("<b>{}</b> · ", escaped(text)));
    body += &format!("<p class=\"eyebrow\">{subject}{}</p>\n", document.kind);
    if !document.question.is_empty() {
        let question = escaped(&document.question);
        body += &format!("<p class=\"question\">{question}</p>\n");
    }
    body.extend(document.header.shown(Medium::Page).map(block));
    body += "</header>\n<main>\n";
    let sections = document.sections_for(Medium::Page);
    body.extend(sections.map(|(one, blocks)| section(one, &blocks)));
    body += "</main>\n";
    let version = escaped(&document.version);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{HEAD}<title>{}</title>\n<style>\n{}</style>\n\
         </head>\n<body>\n{body}<footer><p>Made by prony {version} from stored results. This page \
         loads nothing from the network.</p></footer>\n</body>\n</html>\n",
        escaped(&document.title),
        style()
    )
}

/// Script of [`live_page`], which the page loads as `live.js`.
pub const LIVE_SCRIPT: &str = include_str!("live.js");

/// Returns a page that shows a report while it changes. The page asks its server once per second
/// for `state`, a JSON object with a `version`, a `text` and whether the work is `over`, and loads
/// `report` when the version has changed.
pub fn live_page() -> String {
    let head = HEAD.replace(
        "default-src 'none';",
        "default-src 'none'; script-src 'self'; connect-src 'self';",
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{head}<title>prony</title>\n<style>\n{}</style>\n\
         </head>\n<body>\n<p class=\"live\" role=\"status\" id=\"status\">connecting</p>\n\
         <div id=\"report\"></div>\n<script src=\"live.js\"></script>\n</body>\n</html>\n",
        style()
    )
}

/// Metadata that all pages have.
const HEAD: &str = "<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
    <meta name=\"color-scheme\" content=\"light dark\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
    style-src 'unsafe-inline'; img-src data:\">\n\
    <link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 16 16'%3E%3Cpath stroke='%230B66A8' stroke-width='3' d='M1 5h10'/%3E%3Cpath \
    stroke='%23C2369B' stroke-width='3' d='M5 11h10'/%3E%3C/svg%3E\">\n";

/// The style sheet, including the palette's colors.
fn style() -> String {
    include_str!("style.css")
        .replace("/*light*/", &palette::properties(|color| color.light))
        .replace("/*dark*/", &palette::properties(|color| color.dark))
        .replace("/*charts*/", &palette::dark_rules())
        .replace("/*lines*/", &palette::print_rules())
}

fn section(section: &Section, blocks: &[&Block]) -> String {
    let title = escaped(&section.title);
    let blocks: String = blocks.iter().map(|one| block(one)).collect();
    if section.folded {
        format!("<details><summary>{title}</summary>\n{blocks}</details>\n")
    } else {
        let id = file_name(&section.title);
        format!("<h2 id=\"{id}\">{title}</h2>\n{blocks}")
    }
}

fn block(block: &Block) -> String {
    match block {
        Block::Lead { text, detail } => {
            let detail = detail.iter();
            let detail = detail.map(|text| format!("<small>{}</small>", escaped(text)));
            let text = escaped(text);
            let detail: String = detail.collect();
            format!("<h1 class=\"lead\" id=\"verdict\">{text}{detail}</h1>\n")
        }
        Block::Callout(one) => callout(one),
        Block::Subheading(text) => format!("<h3>{}</h3>\n", escaped(text)),
        Block::Intro(text) => format!("<p class=\"sub\">{}</p>\n", escaped(text)),
        Block::Paragraph(text) => format!("<p>{}</p>\n", escaped(text)),
        Block::Note(text) => format!("<p class=\"note\">{}</p>\n", escaped(text)),
        Block::Verdicts(lines) => {
            let lines: String = lines.iter().map(verdict).collect();
            format!("<ul class=\"verdicts\">\n{lines}</ul>\n")
        }
        Block::List(items) => format!("{}\n", list(items)),
        Block::Facts(facts) => {
            let fact = |(name, text): &(String, String)| {
                format!("<dt>{}</dt><dd>{}</dd>\n", escaped(name), escaped(text))
            };
            let facts: String = facts.iter().map(fact).collect();
            format!("<dl>\n{facts}</dl>\n")
        }
        Block::Table(one) => table::table(one),
        Block::Chart(one) => figure(one),
        Block::Findings(findings, none) if findings.is_empty() => format!("<p>{none}</p>\n"),
        Block::Findings(findings, _) => findings.iter().map(finding).collect(),
        Block::Code(text) => format!("<pre tabindex=\"0\">{}</pre>\n", escaped(text)),
        Block::Environment(facts) => table::environment(facts),
        Block::Folded { summary, blocks } => {
            let summary = escaped(summary);
            let blocks: String = blocks.iter().map(self::block).collect();
            format!("<details><summary>{summary}</summary>\n{blocks}</details>\n")
        }
        Block::Histogram(_) => String::new(),
    }
}

fn list(items: &[String]) -> String {
    let items = items
        .iter()
        .map(|item| format!("<li>{}</li>", escaped(item)));
    format!("<ul>{}</ul>", items.collect::<String>())
}

fn callout(callout: &Callout) -> String {
    let parts = callout
        .parts
        .iter()
        .map(|(text, is_strong)| match is_strong {
            true => format!("<b>{}</b>", escaped(text)),
            false => escaped(text),
        });
    let link = callout.findings_link.iter();
    let link = link.map(|text| format!(" <a href=\"#findings\">{}</a>", escaped(text)));
    let detail = match callout.detail.as_str() {
        "" => String::new(),
        detail => format!("\n<span>{}</span>", escaped(detail)),
    };
    let (parts, link): (String, String) = (parts.collect(), link.collect());
    let tone = callout.tone.name();
    format!("<p class=\"trust {tone}\">{parts}{link}{detail}</p>\n")
}

fn verdict(line: &VerdictLine) -> String {
    let summarized = if line.summarized.is_empty() {
        String::new()
    } else {
        format!(
            "<details class=\"folded\"><summary>all comparisons</summary>{}</details>",
            list(&line.summarized)
        )
    };
    format!(
        "<li><span class=\"word {}\">{}{}</span><span>{}{summarized}</span></li>\n",
        line.tone.name(),
        swatch(line.variant),
        line.word,
        escaped(&line.text)
    )
}

fn figure(figure: &Figure) -> String {
    let chart = &figure.chart;
    let caption = figure.caption.iter();
    let caption = caption.map(|text| format!("\n<figcaption>{}</figcaption>", escaped(text)));
    let caption: String = caption.collect();
    format!(
        "<figure>\n{}\n{}{caption}\n</figure>\n",
        chart.wide, chart.narrow
    )
}

fn finding(finding: &Finding) -> String {
    let (class, word) = match finding.severity {
        Severity::Error => ("error", "Error"),
        Severity::Warning => ("warning", "Warning"),
        Severity::Note => ("minor", "Note"),
    };
    // Only findings that this version of prony knows have documentation.
    let documented = FindingId::parse(finding.id.as_str());
    let reference = documented.map_or(String::new(), |id| {
        format!("\n<p class=\"reference\">{}</p>", id.reference())
    });
    format!(
        "<div class=\"finding {class}\"><span class=\"severity\">{word}</span><b>{}</b>\n<p>{}</p>\
         {reference}</div>\n",
        escaped(finding.id.as_str()),
        escaped(&finding.text)
    )
}
