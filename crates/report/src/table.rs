//! A table of ready texts, and the forms in which it is written.

/// On which side a column's texts stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Align {
    /// Names and sentences.
    Left,
    /// Figures.
    Right,
}

/// A heading for each column and rows of as many cells. Missing cells count as empty.
#[derive(Debug, Clone, PartialEq, Eq, Default, serde::Serialize)]
pub struct Table {
    /// What the table shows; not printed with it.
    pub title: String,
    /// Headings and sides.
    pub columns: Vec<(String, Align)>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table; the first column stands left, all others right.
    pub fn new(title: &str, headings: &[&str]) -> Table {
        let align = |i| if i == 0 { Align::Left } else { Align::Right };
        Table {
            title: title.to_owned(),
            columns: headings
                .iter()
                .enumerate()
                .map(|(i, heading)| ((*heading).to_owned(), align(i)))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn cell<'a>(&self, row: &'a [String], column: usize) -> &'a str {
        row.get(column).map_or("", String::as_str)
    }

    /// Columns padded to one width each, two spaces apart, every line led by `indent`. A row of
    /// headings that are all empty is left out.
    pub fn to_text(&self, indent: &str) -> String {
        let headings: Vec<String> = self.columns.iter().map(|(h, _)| h.clone()).collect();
        let widths = self.widths();
        let line = |row: &[String]| {
            let cells = self.columns.iter().zip(&widths).enumerate();
            let padded = cells.map(|(i, ((_, align), width))| {
                let text = plain(self.cell(row, i));
                let gap = " ".repeat(width - text.chars().count());
                match align {
                    Align::Left => text + &gap,
                    Align::Right => gap + &text,
                }
            });
            let joined = padded.collect::<Vec<_>>().join("  ");
            format!("{indent}{}\n", joined.trim_end())
        };
        let heading = headings.iter().any(|h| !h.is_empty());
        let first = heading.then(|| line(&headings));
        first
            .into_iter()
            .chain(self.rows.iter().map(|r| line(r)))
            .collect()
    }

    /// [`to_text`](Self::to_text) in lines of at most `width` characters: texts that stand left are
    /// broken between words, the longest column first. Figures are never broken, so that a table of
    /// many columns of figures may still be wider.
    pub fn to_text_within(&self, indent: &str, width: usize) -> String {
        const COLUMN_MIN: usize = 12;
        let mut limits = self.widths();
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
            // Down to the next longest at a time, so that columns share what is cut.
            limits[longest] = (limits[longest] - 1.max(excess / 4)).max(COLUMN_MIN);
        }
        let mut broken = Table {
            title: self.title.clone(),
            columns: self.columns.clone(),
            rows: Vec::new(),
        };
        for row in &self.rows {
            let cells: Vec<Vec<String>> = (0..limits.len())
                .map(|i| lines_of(self.cell(row, i), limits[i]))
                .collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(1);
            for line in 0..height {
                let part = |cell: &Vec<String>| cell.get(line).cloned().unwrap_or_default();
                broken.push(cells.iter().map(part).collect());
            }
        }
        broken.to_text(indent)
    }

    /// How many characters each column is wide.
    fn widths(&self) -> Vec<usize> {
        let headings: Vec<String> = self.columns.iter().map(|(h, _)| h.clone()).collect();
        let width = |column: usize| {
            std::iter::once(&headings)
                .chain(&self.rows)
                .map(|row| plain(self.cell(row, column)).chars().count())
                .max()
                .unwrap_or(0)
        };
        (0..self.columns.len()).map(width).collect()
    }

    /// A table of GitHub's Markdown.
    pub fn to_markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let headings = self.columns.iter().map(|(h, _)| markdown(h)).collect();
        let sides = self.columns.iter().map(|(_, align)| match align {
            Align::Left => "---".to_owned(),
            Align::Right => "---:".to_owned(),
        });
        let mut out = line(headings) + &line(sides.collect());
        for row in &self.rows {
            let cells = 0..self.columns.len();
            out += &line(cells.map(|i| markdown(self.cell(row, i))).collect());
        }
        out
    }
}

/// Text that can't steer a terminal: control characters, which a hostile name or server may have
/// put there, become `�`; line breaks become spaces.
pub fn plain(text: &str) -> String {
    let safe = |c: char| match c {
        '\n' | '\t' => ' ',
        c if c.is_control() => '\u{fffd}',
        // Overrides of the writing direction can make a name read as another.
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => '\u{fffd}',
        c => c,
    };
    text.chars().map(safe).collect()
}

/// Text that Markdown, and HTML within it, shows as it is.
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

/// A text in lines of at most `width` characters, broken between words where there are any.
fn lines_of(text: &str, width: usize) -> Vec<String> {
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
        let mut table = Table::new("rates", &["", "rate"]);
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
    fn markdown_keeps_hostile_names_as_text() {
        let text = "|  | rate |\n| --- | ---: |\n| tcp | 769 req/s |\n| a\\|b &lt;i&gt; | 9 |\n";
        assert_eq!(small().to_markdown(), text);
    }

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(plain("a\x1b[31m\nb\u{202e}"), "a\u{fffd}[31m b\u{fffd}");
    }

    #[test]
    fn a_table_fits_a_terminal_by_breaking_its_texts() {
        let mut table = Table::new("", &["what", "rate", "old", "new"]);
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
