//! Converts the project's own Markdown to a manual page: headings, paragraphs, lists, tables and
//! code blocks.

use clap_mangen::roff::{Inline, Roff, bold, italic, roman};

/// Adds the text to a page. The first heading is omitted, because the page has a title.
pub(crate) fn write_roff(markdown: &str, roff: &mut Roff) {
    let mut lines = markdown.lines().peekable();
    roff.control("SH", ["DESCRIPTION"]);
    while let Some(line) = lines.next() {
        if line.trim().is_empty() || line.starts_with("<!--") || line.starts_with("# ") {
            roff.control("PP", []);
        } else if let Some(heading) = line.strip_prefix("## ") {
            roff.control("SH", [plain(heading).to_uppercase().as_str()]);
        } else if line.starts_with("###") {
            roff.control("SS", [plain(line.trim_start_matches(['#', ' '])).as_str()]);
        } else if line.starts_with("```") {
            roff.control("RS", ["4"]);
            roff.control("nf", []);
            for code in lines.by_ref().take_while(|code| !code.starts_with("```")) {
                roff.text([roman(code)]);
            }
            roff.control("fi", []);
            roff.control("RE", []);
        } else if let Some(item) = line.strip_prefix("- ") {
            roff.control("IP", ["\u{2022}", "2"]);
            roff.text(inlines(item));
        } else if line.starts_with('|') {
            let head = cells(line);
            // The line between the head and the rows.
            lines.next();
            while let Some(row) = lines.next_if(|row| row.starts_with('|')) {
                table_row(&head, &cells(row), roff);
            }
            roff.control("PP", []);
        } else {
            roff.text(inlines(line));
        }
    }
}

/// Adds a row as a paragraph: the first cell as its heading, and the last one without the head of
/// its column.
fn table_row(head: &[String], row: &[String], roff: &mut Roff) {
    let Some((first, rest)) = row.split_first() else {
        return;
    };
    roff.control("TP", []);
    roff.text([bold(plain(first))]);
    let last = rest.len().saturating_sub(1);
    let texts =
        rest.iter()
            .enumerate()
            .map(|(index, cell)| match (index == last, head.get(index + 1)) {
                (false, Some(name)) if !cell.is_empty() => format!("{name}: {cell}"),
                _ => cell.clone(),
            });
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    roff.text(inlines(&texts.join("; ")));
}

/// Splits a table's line into cells.
fn cells(line: &str) -> Vec<String> {
    let escaped = line.replace("\\|", "\0");
    let cells = escaped.trim().trim_matches('|').split('|');
    cells.map(|cell| cell.trim().replace('\0', "|")).collect()
}

/// Converts `code` and **strong** text to bold, *emphasis* to italics, and links to their text.
fn inlines(text: &str) -> Vec<Inline> {
    let mut inlines = Vec::new();
    let mut before = String::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let marker = ["`", "**", "*"].into_iter().find(|it| rest.starts_with(it));
        let marked = marker.and_then(|marker| {
            let (inner, after) = rest[marker.len()..].split_once(marker)?;
            (!inner.is_empty() && !inner.starts_with(' ')).then_some((marker, inner, after))
        });
        if let Some((marker, inner, after)) = marked {
            inlines.push(roman(std::mem::take(&mut before)));
            inlines.push(match marker {
                "*" => italic(inner),
                _ => bold(plain(inner)),
            });
            rest = after;
        } else if let Some((shown, after)) = link(rest) {
            inlines.push(roman(std::mem::take(&mut before)));
            inlines.extend(self::inlines(shown));
            rest = after;
        } else {
            before.push(character);
            rest = &rest[character.len_utf8()..];
        }
    }
    inlines.push(roman(before));
    inlines
}

/// Splits a link at the beginning of `text` into its text and what follows it.
fn link(text: &str) -> Option<(&str, &str)> {
    let (shown, after) = text.strip_prefix('[')?.split_once("](")?;
    let (_, after) = after.split_once(')')?;
    (!shown.contains(']')).then_some((shown, after))
}

/// Removes the marks of code and links.
fn plain(text: &str) -> String {
    let text = match link(text) {
        Some((shown, after)) => format!("{shown}{after}"),
        None => text.to_owned(),
    };
    text.replace('`', "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_becomes_a_page() {
        let markdown = "# Title\n\nA `b` and *c* of [d](e.md), 2 * 3.\n\n## Part\n\n- item\n\n\
                        ```toml\n.a = 1\n```\n\n\
                        | key | type | meaning |\n|---|---|---|\n| [`k`](#k) | a \\| b | what it is |\n";
        let mut roff = Roff::new();
        write_roff(markdown, &mut roff);
        let page = roff.render();
        for line in [
            "A \\fBb\\fR and \\fIc\\fR of d, 2 * 3.",
            ".SH PART",
            "\\&.a = 1",
            "\\fBk\\fR",
            "type: a | b; what it is",
        ] {
            assert!(page.lines().any(|it| it == line), "{line}: {page}");
        }
        assert!(!page.contains("Title"), "{page}");
    }
}
