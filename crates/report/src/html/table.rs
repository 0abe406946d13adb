//! Tables on an HTML page.

use super::elements::{escaped, swatch};
use crate::table::{Align, Emphasis, Table, TableCell, TableKind};

/// Table widths, in pixels, for which the style sheet has a class. If the window is narrower than
/// the width of a table's class, the page shows a hint to scroll.
const WIDTHS: [usize; 3] = [340, 460, 660];
/// The average width of a character in a table, in pixels.
const CHARACTER_WIDTH: usize = 7;
/// The padding of a cell, in pixels.
const CELL_PADDING: usize = 16;

/// Renders a table, with a hint that it scrolls if the window is too narrow.
pub(super) fn table(table: &Table) -> String {
    let names = table.rows.iter().filter_map(|row| row.first());
    let has_phrases = names.into_iter().any(|name| name.main().contains(' '));
    let class = match table.kind {
        TableKind::Figures if has_phrases => "metrics phrases",
        TableKind::Figures => "metrics",
        TableKind::Results => "results",
        TableKind::Lookup => "environment lookup",
    };
    let headings = table.columns.iter().map(|(heading, align)| {
        let align = side(*align);
        format!(
            "<th class=\"{align}\" scope=\"col\">{}</th>",
            escaped(heading)
        )
    });
    let headings: String = headings.collect();
    let rows: String = table.rows.iter().map(|cells| row(table, cells)).collect();
    let has_headings = table.columns.iter().any(|(heading, _)| !heading.is_empty());
    let head = if has_headings {
        format!("<thead><tr>{headings}</tr></thead>\n")
    } else {
        String::new()
    };
    let kind = table.kind;
    let width = match kind {
        TableKind::Lookup => 0,
        _ => width(table),
    };
    let exceeded = WIDTHS.iter().rev().find(|&&limit| width > limit);
    let hint = exceeded.map_or(String::new(), |limit| {
        format!("<p class=\"scrolls over-{limit}\">Scroll sideways for all columns →</p>\n")
    });
    let table = format!("<table class=\"{class}\">\n{head}<tbody>\n{rows}</tbody></table>");
    match kind {
        // Texts in this table wrap.
        TableKind::Lookup => format!("{table}\n"),
        _ => format!("{hint}<div class=\"scroll\" tabindex=\"0\">{table}</div>\n"),
    }
}

/// Estimates the table's minimum width in pixels.
fn width(table: &Table) -> usize {
    let column = |i: usize| {
        let cells = table.rows.iter().filter_map(|row| row.get(i));
        let lines = cells.flat_map(|cell| &cell.lines);
        let characters = |text: &str, emphasis: Emphasis| match (table.columns[i].1, emphasis) {
            // Numbers don't wrap, but texts and intervals below numbers do.
            (Align::Right, Emphasis::Plain | Emphasis::Strong | Emphasis::Figure) => {
                text.chars().count()
            }
            (Align::Left, _) | (_, Emphasis::Muted) => text
                .split(' ')
                .map(|word| word.chars().count())
                .max()
                .unwrap_or(0),
        };
        let lengths = lines.map(|(text, emphasis)| characters(text, *emphasis));
        let longest = lengths.max().unwrap_or(0);
        longest * CHARACTER_WIDTH + CELL_PADDING
    };
    (0..table.columns.len()).map(column).sum()
}

fn side(align: Align) -> &'static str {
    match align {
        Align::Left => "left",
        Align::Right => "right",
    }
}

fn row(table: &Table, cells: &[TableCell]) -> String {
    let cells = cells.iter().zip(&table.columns).enumerate();
    let cells = cells.map(|(place, (cell, (_, align)))| match place {
        0 => format!("<th class=\"plain\" scope=\"row\">{}</th>", content(cell)),
        _ => format!("<td class=\"{}\">{}</td>", side(*align), content(cell)),
    });
    format!("<tr>{}</tr>\n", cells.collect::<String>())
}

fn content(cell: &TableCell) -> String {
    let lines = cell.lines.iter().map(|(text, emphasis)| {
        let text = breakable(text);
        let class = match emphasis {
            Emphasis::Plain => return text,
            Emphasis::Strong => "strong",
            Emphasis::Figure => "figure",
            Emphasis::Muted => "muted",
        };
        format!("<span class=\"{class}\">{text}</span>")
    });
    let lines: Vec<String> = lines.collect();
    format!("{}{}", swatch(cell.swatch), lines.join("<br>"))
}

/// Length in characters beyond which a URL may be broken into lines.
const URL_LINE_CHARS: usize = 30;

/// Escapes a text. A long URL in it can be broken after the characters that divide it.
fn breakable(text: &str) -> String {
    if text.len() <= URL_LINE_CHARS || !text.contains("://") {
        return escaped(text);
    }
    let parts = text.split_inclusive(['/', '?', '&', ',']);
    let parts: Vec<String> = parts.map(escaped).collect();
    parts.join("<wbr>")
}

/// Renders the environment as a table of paths and values.
pub(super) fn environment(facts: &[(String, String)]) -> String {
    let row = |(name, text): &(String, String)| {
        let (name, text) = (escaped(name), escaped(text));
        format!("<tr><th scope=\"row\">{name}</th><td>{text}</td></tr>\n")
    };
    let rows: String = facts.iter().map(row).collect();
    format!("<table class=\"environment\"><tbody>\n{rows}</tbody></table>\n")
}

#[cfg(test)]
mod tests {
    use super::breakable;

    #[test]
    fn long_urls_can_be_broken() {
        assert_eq!(breakable("http://a/?b&c"), "http://a/?b&amp;c");
        assert_eq!(
            breakable("https://shop.test:8443/items?page=2&size=50"),
            "https:/<wbr>/<wbr>shop.test:8443/<wbr>items?<wbr>page=2&amp;<wbr>size=50"
        );
    }
}
