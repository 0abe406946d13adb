//! Tables of text, for documents and for the terminal.

/// A table whose first row is its head.
pub(crate) struct Table(Vec<Vec<String>>);

impl Table {
    pub(crate) fn new(head: &[&str]) -> Table {
        Table(vec![head.iter().map(|cell| (*cell).to_owned()).collect()])
    }

    /// Adds a row, with a cell for each column.
    pub(crate) fn add<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.0.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as Markdown.
    pub(crate) fn markdown(&self) -> String {
        let line = |cells: &Vec<String>| format!("| {} |\n", cells.join(" | "));
        let mut lines = self.0.iter();
        let head = lines.next().map(line).unwrap_or_default();
        let rule = format!("|{}\n", "---|".repeat(self.0[0].len()));
        head + &rule + &lines.map(line).collect::<String>()
    }

    /// The table with aligned columns.
    pub(crate) fn aligned(&self) -> String {
        let width = |column: usize| {
            let cells = self.0.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.0[0].len()).map(width).collect();
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            format!("{}\n", cells.join("  ").trim_end())
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown_or_aligned() {
        let mut table = Table::new(&["row", "×", ""]);
        table.add(["long name", "1", "yes"]);
        table.add(["b", "12", ""]);
        let markdown = "| row | × |  |\n|---|---|---|\n| long name | 1 | yes |\n| b | 12 |  |\n";
        assert_eq!(table.markdown(), markdown);
        let aligned = "row        ×\nlong name  1   yes\nb          12\n";
        assert_eq!(table.aligned(), aligned);
    }
}
