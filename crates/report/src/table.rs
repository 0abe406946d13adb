//! Tables of formatted text, and their conversion to plain text and Markdown.

/// The alignment of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Left-aligned, for names and sentences.
    Left,
    /// Right-aligned, for numbers.
    Right,
}

/// The layout of a table on a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TableKind {
    /// Many numbers in small type.
    #[default]
    Figures,
    /// The most important results, in larger type.
    Results,
    /// Reference text, which wraps.
    Lookup,
}

/// The emphasis of one line in a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Emphasis {
    #[default]
    Plain,
    Strong,
    /// A headline value.
    Figure,
    Muted,
}

/// A cell with one or more lines, each with its emphasis. A dot in a variant's color may precede
/// the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct TableCell {
    pub(crate) lines: Vec<(String, Emphasis)>,
    /// Index of the variant that determines the dot's color.
    pub(crate) swatch: Option<usize>,
}

impl TableCell {
    pub(crate) fn new(text: &str, emphasis: Emphasis) -> TableCell {
        TableCell {
            lines: vec![(text.to_owned(), emphasis)],
            swatch: None,
        }
    }

    /// Adds a line, unless it is empty.
    pub(crate) fn line(mut self, text: &str, emphasis: Emphasis) -> TableCell {
        if !text.is_empty() {
            self.lines.push((text.to_owned(), emphasis));
        }
        self
    }

    pub(crate) fn swatch(self, variant: usize) -> TableCell {
        TableCell {
            swatch: Some(variant),
            ..self
        }
    }

    /// Returns the text of the first line.
    pub(crate) fn main(&self) -> &str {
        self.lines.first().map_or("", |(text, _)| text)
    }

    /// All lines joined into one: `769 req/s (−3.1%, −4.1% to −2.2%)`.
    fn text(&self) -> String {
        let others = self.lines.iter().skip(1);
        let others: Vec<&str> = others.map(|(text, _)| text.as_str()).collect();
        if others.is_empty() {
            self.main().to_owned()
        } else {
            format!("{} ({})", self.main(), others.join(", "))
        }
    }
}

#[cfg(test)]
impl PartialEq<&str> for TableCell {
    fn eq(&self, other: &&str) -> bool {
        self.text() == *other
    }
}

impl From<&str> for TableCell {
    fn from(text: &str) -> TableCell {
        TableCell::new(text, Emphasis::Plain)
    }
}

impl From<String> for TableCell {
    fn from(text: String) -> TableCell {
        TableCell::from(text.as_str())
    }
}

/// A table with a heading for each column. Missing cells at the end of a row count as empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Table {
    /// Headings and alignments.
    pub columns: Vec<(String, Align)>,
    pub(crate) rows: Vec<Vec<TableCell>>,
    pub(crate) kind: TableKind,
}

impl Table {
    /// Creates an empty table. The first column is aligned left, all others right.
    pub fn new(headings: &[&str]) -> Table {
        let align = |i| if i == 0 { Align::Left } else { Align::Right };
        Table {
            columns: headings
                .iter()
                .enumerate()
                .map(|(i, heading)| ((*heading).to_owned(), align(i)))
                .collect(),
            ..Table::default()
        }
    }

    /// Starts a table with a row for each item.
    pub(crate) fn of<T>(items: impl IntoIterator<Item = T>) -> TableBuilder<T> {
        let items: Vec<T> = items.into_iter().collect();
        let table = Table {
            rows: vec![Vec::new(); items.len()],
            ..Table::default()
        };
        TableBuilder { items, table }
    }

    /// Returns true if the table has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Adds a row of cells with plain text.
    pub fn push(&mut self, row: Vec<String>) {
        let cells = row.iter().map(|text| TableCell::from(text.as_str()));
        self.rows.push(cells.collect());
    }

    /// The heading row and the other rows, with each cell as one line.
    fn lines(&self) -> Vec<Vec<String>> {
        let headings = self.columns.iter().map(|(heading, _)| heading.clone());
        let cell = |row: &Vec<TableCell>, column| {
            row.get(column).map_or_else(String::new, TableCell::text)
        };
        let row = |row: &Vec<TableCell>| (0..self.columns.len()).map(|i| cell(row, i)).collect();
        std::iter::once(headings.collect())
            .chain(self.rows.iter().map(row))
            .collect()
    }

    /// Pads columns to equal width, two spaces apart, and starts every line with `indent`. Omits a
    /// heading row without text.
    pub fn to_text(&self, indent: &str) -> String {
        self.padded(&self.lines(), indent)
    }

    fn padded(&self, lines: &[Vec<String>], indent: &str) -> String {
        let plain: Vec<Vec<String>> = lines
            .iter()
            .map(|line| line.iter().map(|text| plain(text)).collect())
            .collect();
        let widths = widths(&plain);
        let line = |row: &Vec<String>| {
            let cells = self.columns.iter().zip(&widths).zip(row);
            let padded = cells.map(|(((_, align), width), text)| {
                let gap = " ".repeat(width - text.chars().count());
                match align {
                    Align::Left => format!("{text}{gap}"),
                    Align::Right => format!("{gap}{text}"),
                }
            });
            let joined = padded.collect::<Vec<_>>().join("  ");
            format!("{indent}{}\n", joined.trim_end())
        };
        let has_heading = self.columns.iter().any(|(heading, _)| !heading.is_empty());
        let skipped = usize::from(!has_heading);
        plain.iter().skip(skipped).map(line).collect()
    }

    /// Like [`to_text`](Self::to_text), in lines of at most `width` characters. Text in
    /// left-aligned columns wraps between words, starting with the widest column. Numbers never
    /// wrap, so a table with many columns of numbers may still be wider.
    pub fn to_text_within(&self, indent: &str, width: usize) -> String {
        const COLUMN_MIN: usize = 12;
        let lines = self.lines();
        let mut limits = widths(&lines);
        let total = |widths: &[usize]| {
            indent.chars().count() + widths.iter().map(|width| width + 2).sum::<usize>() - 2
        };
        while !limits.is_empty() && total(&limits) > width {
            let left = (0..limits.len())
                .filter(|&i| self.columns[i].1 == Align::Left && limits[i] > COLUMN_MIN);
            let Some(longest) = left.max_by_key(|&i| limits[i]) else {
                break;
            };
            let excess = total(&limits) - width;
            // Columns shrink in small steps, so columns of similar width shrink equally.
            let narrower = limits[longest].saturating_sub(1.max(excess / 4));
            limits[longest] = narrower.max(COLUMN_MIN);
        }
        let mut broken = Vec::new();
        for (place, row) in lines.iter().enumerate() {
            if place == 0 {
                broken.push(row.clone());
                continue;
            }
            let cells: Vec<Vec<String>> = row
                .iter()
                .zip(&limits)
                .map(|(text, &limit)| lines_of(text, limit))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let part = |cell: &Vec<String>| cell.get(line).cloned().unwrap_or_default();
                broken.push(cells.iter().map(part).collect());
            }
        }
        self.padded(&broken, indent)
    }

    /// Converts the table to GitHub-flavored Markdown.
    pub fn to_markdown(&self) -> String {
        let sides = self.columns.iter().map(|(_, align)| match align {
            Align::Left => "---",
            Align::Right => "---:",
        });
        let sides = format!("| {} |\n", sides.collect::<Vec<_>>().join(" | "));
        let mut out = String::new();
        for (place, row) in self.lines().iter().enumerate() {
            let cells: Vec<String> = row.iter().map(|text| markdown(text)).collect();
            out += &format!("| {} |\n", cells.join(" | "));
            if place == 0 {
                out += &sides;
            }
        }
        out
    }
}

/// A table under construction: the items that its rows describe, and the columns so far.
pub(crate) struct TableBuilder<T> {
    items: Vec<T>,
    table: Table,
}

impl<T: Copy> TableBuilder<T> {
    /// Adds a column of names or sentences. `cell` returns an item's text.
    pub(crate) fn left<C: Into<TableCell>>(self, heading: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(heading, Align::Left, cell)
    }

    /// Adds a column of numbers.
    pub(crate) fn right<C: Into<TableCell>>(self, heading: &str, cell: impl Fn(T) -> C) -> Self {
        self.column(heading, Align::Right, cell)
    }

    fn column<C: Into<TableCell>>(
        mut self,
        heading: &str,
        align: Align,
        cell: impl Fn(T) -> C,
    ) -> Self {
        self.table.columns.push((heading.to_owned(), align));
        for (row, item) in self.table.rows.iter_mut().zip(&self.items) {
            row.push(cell(*item).into());
        }
        self
    }

    pub(crate) fn build(self) -> Table {
        self.table
    }

    pub(crate) fn build_as(self, kind: TableKind) -> Table {
        Table { kind, ..self.table }
    }
}

/// The width of each column in characters.
fn widths(lines: &[Vec<String>]) -> Vec<usize> {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let texts = lines.iter().filter_map(|line| line.get(column));
        texts
            .map(|text| plain(text).chars().count())
            .max()
            .unwrap_or(0)
    };
    (0..columns).map(width).collect()
}

/// Makes text safe for a terminal. Control characters, which may come from a hostile name or
/// server, become `�`, and line breaks become spaces.
pub fn plain(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        // Characters that override the writing direction could disguise a name.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Like [`plain`], but keeps line breaks.
pub fn plain_lines(text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(plain).collect();
    lines.join("\n")
}

/// Like [`plain`], but also replaces characters that XML forbids.
pub(crate) fn xml_plain(text: &str) -> String {
    plain(text).replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}

/// Escapes text for XML: content, and attributes between double quotes.
pub(crate) fn xml(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

/// Escapes text for Markdown, including HTML, so it is shown unchanged.
pub fn markdown(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in plain(text).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '~' | '#' => {
                out.push('\\');
                out.push(c);
            }
            c => out.push(c),
        }
    }
    out
}

/// Breaks text into lines of at most `width` characters. Lines break between words if possible.
pub fn lines_of(text: &str, width: usize) -> Vec<String> {
    let text = plain(text);
    if text.chars().count() <= width {
        return vec![text];
    }
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let mut letters: Vec<char> = word.chars().collect();
        let room = width.saturating_sub(lines.last().map_or(0, |line| line.chars().count()) + 1);
        if letters.len() > room && lines.last().is_some_and(|line| !line.is_empty()) {
            lines.push(String::new());
        }
        while letters.len() > width {
            let rest = letters.split_off(width);
            lines
                .last_mut()
                .into_iter()
                .for_each(|line| line.extend(&letters));
            lines.push(String::new());
            letters = rest;
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.extend(letters);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> Table {
        let mut table = Table::new(&["", "rate"]);
        table.push(vec!["tcp".into(), "769 req/s".into()]);
        table.push(vec!["a|b <i>".into(), "9".into()]);
        table
    }

    #[test]
    fn columns_line_up_and_no_line_ends_in_spaces() {
        let text = "                rate\n  tcp      769 req/s\n  a|b <i>          9\n";
        assert_eq!(small().to_text("  "), text);
    }

    #[test]
    fn markdown_shows_hostile_names_as_text() {
        let text = "|  | rate |\n| --- | ---: |\n| tcp | 769 req/s |\n| a\\|b &lt;i&gt; | 9 |\n";
        assert_eq!(small().to_markdown(), text);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(plain("a\x1b[31m\nb\u{202e}"), "a\u{fffd}[31m b\u{fffd}");
    }

    #[test]
    fn a_table_fits_a_terminal_by_breaking_its_texts() {
        let mut table = Table::new(&["what", "rate", "old", "new"]);
        table.columns[2].1 = Align::Left;
        table.columns[3].1 = Align::Left;
        let long = "nginx version: nginx/1.22.1 built with OpenSSL 3.0.15 ".repeat(3);
        let path = "/a/path/without/any/space/that/is/longer/than/a/line/of/this/table";
        table.push(vec![
            "web".into(),
            "769 req/s".into(),
            long.clone(),
            path.into(),
        ]);
        let text = table.to_text_within("  ", 60);
        assert!(
            text.lines().all(|line| line.chars().count() <= 60),
            "{text}"
        );
        let joined: String = text.split_whitespace().collect();
        assert!(joined.contains("769req/s"), "{text}");
        assert_eq!(table.to_text_within("", 1_000), table.to_text(""));
    }

    #[test]
    fn a_row_that_is_too_short_is_padded() {
        let mut table = small();
        table.push(vec!["short".into()]);
        assert!(table.to_text("").ends_with("short\n"));
    }
}
