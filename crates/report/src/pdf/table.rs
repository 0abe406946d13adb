//! Tables as blocks: a block for each row, the heading repeated on every page, columns that have no
//! room put into further tables below.

use std::rc::Rc;

use super::block::{Block, ElementId, Op, Role, Story};
use super::style::{LINE, MUTED, Style, WIDTH};
use super::wrap::{least_width, wrap};
use crate::table::{self, Align, plain};

/// Between two columns.
const GAP: f64 = 12.0;
/// Above and below a cell's lines.
const PAD: f64 = 4.0;
/// The widest that a single word may make a column.
const WIDEST_WORD: f64 = 120.0;
/// Above and below a cell's lines where many rows are looked up, not compared.
const TIGHT: f64 = 2.2;
/// The highest row that is kept together.
const MOST_LINES: usize = 14;
/// The lines that are kept together of higher ones.
const PART: usize = 6;
/// Room for a coloured dot before a text.
const SWATCH: f64 = 11.0;

/// A cell: lines of its own looks, and a coloured dot before the first.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Cell {
    pub(super) lines: Vec<(String, Style)>,
    pub(super) swatch: Option<u32>,
}

impl Cell {
    pub(super) fn new(text: &str, style: Style) -> Cell {
        Cell {
            lines: vec![(plain(text), style)],
            swatch: None,
        }
    }

    pub(super) fn line(mut self, text: &str, style: Style) -> Cell {
        if !text.is_empty() {
            self.lines.push((plain(text), style));
        }
        self
    }

    pub(super) fn swatch(self, color: u32) -> Cell {
        Cell {
            swatch: Some(color),
            ..self
        }
    }

    fn indent(&self) -> f64 {
        self.swatch.map_or(0.0, |_| SWATCH)
    }

    fn width(&self) -> f64 {
        let widths = self.lines.iter().map(|(text, style)| style.width_of(text));
        widths.fold(0.0, f64::max) + self.indent()
    }

    fn least_width(&self) -> f64 {
        let widths = self.lines.iter();
        let widths = widths.map(|(text, style)| least_width(text, *style));
        widths.fold(0.0, f64::max).min(WIDEST_WORD) + self.indent()
    }

    fn wrapped(&self, width: f64) -> Vec<(String, Style)> {
        let width = width - self.indent();
        let lines = self.lines.iter();
        let lines = lines.flat_map(|(text, style)| {
            let wrapped = wrap(text, *style, width);
            wrapped.into_iter().map(move |line| (line, *style))
        });
        lines.collect()
    }
}

/// A table of cells. The first column is repeated where the others need several tables.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Grid {
    pub(super) head: Vec<Cell>,
    pub(super) align: Vec<Align>,
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Grid {
    /// A table of ready texts.
    pub(super) fn plain(table: &table::Table) -> Grid {
        let cell = |text: &String| Cell::new(text, Style::CELL);
        Grid {
            head: table
                .columns
                .iter()
                .map(|(heading, _)| Cell::new(heading, Style::CELL_HEAD))
                .collect(),
            align: table.columns.iter().map(|(_, align)| *align).collect(),
            rows: table
                .rows
                .iter()
                .map(|row| row.iter().map(cell).collect())
                .collect(),
        }
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &Cell> {
        let head = self.head.get(column).into_iter();
        head.chain(self.rows.iter().filter_map(move |row| row.get(column)))
    }

    /// The natural and the least width of a column.
    fn wants(&self, column: usize) -> (f64, f64) {
        let most = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let least = most(&mut self.cells(column).map(Cell::least_width));
        let body = self.rows.iter().filter_map(|row| row.get(column));
        let natural = most(&mut body.map(Cell::width));
        // Figures and words of a kind are not broken, their headings are; sentences are.
        match column {
            1.. if natural <= WIDEST_WORD => {
                let least = least.max(natural);
                (
                    least.max(most(&mut self.cells(column).map(Cell::width)).min(90.0)),
                    least,
                )
            }
            // Names are read first, and broken into few lines.
            0 => {
                let natural = most(&mut self.cells(column).map(Cell::width));
                (natural, least.max(natural.min(WIDTH * 0.3)))
            }
            _ => (most(&mut self.cells(column).map(Cell::width)), least),
        }
    }
}

impl Story {
    /// Adds a table that has rows.
    pub(super) fn grid(&mut self, grid: &Grid, before: f64) {
        let wants: Vec<(f64, f64)> = (0..grid.align.len()).map(|c| grid.wants(c)).collect();
        for (place, columns) in groups(&wants).into_iter().enumerate() {
            let wants: Vec<(f64, f64)> = columns.iter().map(|&c| wants[c]).collect();
            let widths = widths(&wants);
            let before = if place == 0 { before } else { 14.0 };
            self.part(grid, &columns, (&widths, PAD), before);
        }
    }

    /// The same with columns of given widths, for what is looked up.
    pub(super) fn columns(&mut self, grid: &Grid, widths: &[f64], before: f64) {
        let columns: Vec<usize> = (0..widths.len()).collect();
        self.part(grid, &columns, (widths, TIGHT), before);
    }

    /// The columns of a grid that stand side by side, with what stays free above and below lines.
    fn part(&mut self, grid: &Grid, columns: &[usize], (widths, pad): (&[f64], f64), before: f64) {
        let table = self.element(Role::Table, None);
        let row = |cells: &[Cell]| -> Vec<Cell> {
            let cell = |&c: &usize| cells.get(c).cloned().unwrap_or_default();
            columns.iter().map(cell).collect()
        };
        let aligns: Vec<Align> = columns.iter().map(|&c| grid.align[c]).collect();
        let layout = Layout {
            aligns: &aligns,
            widths,
            pad,
        };
        let head = row(&grid.head);
        let has_head = head
            .iter()
            .any(|cell| cell.lines.iter().any(|(text, _)| !text.is_empty()));
        let mut header = None;
        if has_head {
            let element = self.element(Role::Row, Some(table));
            let ids = cell_elements(self, &head, element, Role::HeadCell);
            let mut blocks = layout.blocks(&head, Some(&ids), 0.0);
            let mut first = blocks.swap_remove(0);
            let repeated = layout.blocks(&head, None, 0.0).swap_remove(0);
            header = Some(Rc::new(repeated));
            first.before = before;
            first.keep = true;
            self.push(first);
        }
        for (place, cells) in grid.rows.iter().enumerate() {
            let cells = row(cells);
            let element = self.element(Role::Row, Some(table));
            let ids = cell_elements(self, &cells, element, Role::Cell);
            let before = if place == 0 && !has_head { before } else { 0.0 };
            for mut block in layout.blocks(&cells, Some(&ids), before) {
                block.header = header.clone();
                // A single row at the foot of a page, or at the head of the next, reads badly.
                block.keep = grid.rows.len() > 1 && (place == 0 || place + 2 == grid.rows.len());
                self.push(block);
            }
        }
    }
}

/// An element for each cell.
fn cell_elements(story: &mut Story, cells: &[Cell], row: ElementId, role: Role) -> Vec<ElementId> {
    let each = cells.iter();
    each.map(|_| story.element(role.clone(), Some(row)))
        .collect()
}

/// The columns by table: as many beside the first as there is room for, evenly.
fn groups(wants: &[(f64, f64)]) -> Vec<Vec<usize>> {
    let Some(first) = wants.first() else {
        return Vec::new();
    };
    let first = first.1;
    let mut groups: Vec<Vec<usize>> = vec![vec![0]];
    let mut reach = first;
    for (column, &(_, least)) in wants.iter().enumerate().skip(1) {
        let is_alone = groups.last().is_none_or(|group| group.len() == 1);
        if reach + GAP + least > WIDTH && !is_alone {
            groups.push(vec![0]);
            reach = first;
        }
        reach += GAP + least;
        if let Some(group) = groups.last_mut() {
            group.push(column);
        }
    }
    if groups.len() > 2 {
        return evened(wants.len(), groups.len());
    }
    groups
}

/// So many groups, each of about as many columns beside the first.
fn evened(columns: usize, groups: usize) -> Vec<Vec<usize>> {
    let others = columns - 1;
    let each = others.div_ceil(groups);
    let numbers: Vec<usize> = (1..columns).collect();
    let chunks = numbers.chunks(each);
    chunks
        .map(|chunk| std::iter::once(0).chain(chunk.iter().copied()).collect())
        .collect()
}

/// The widths of columns that stand side by side and fill the page.
fn widths(wants: &[(f64, f64)]) -> Vec<f64> {
    let room = WIDTH - GAP * wants.len().saturating_sub(1) as f64;
    let natural: f64 = wants.iter().map(|want| want.0).sum();
    if natural <= room {
        // What is left over parts the columns, so that figures don't crowd at one side.
        let mut widths: Vec<f64> = wants.iter().map(|want| want.0).collect();
        let spare = room - natural;
        let others = widths.len().saturating_sub(1).max(1) as f64;
        for (place, width) in widths.iter_mut().enumerate() {
            let share = if place == 0 { 0.4 } else { 0.6 / others };
            *width += spare * share;
        }
        return widths;
    }
    let least: f64 = wants.iter().map(|want| want.1).sum();
    if least >= room {
        return wants.iter().map(|want| want.1 * room / least).collect();
    }
    // Between the least and the natural, each as far as the others.
    let share = (room - least) / (natural - least);
    let each = wants.iter();
    each.map(|(natural, least)| least + (natural - least) * share)
        .collect()
}

/// Where the columns of a row stand.
struct Layout<'a> {
    aligns: &'a [Align],
    widths: &'a [f64],
    pad: f64,
}

impl Layout<'_> {
    /// A row as blocks: one, unless its texts are very long. Without elements it is decoration.
    fn blocks(&self, cells: &[Cell], ids: Option<&[ElementId]>, before: f64) -> Vec<Block> {
        let wrapped: Vec<Vec<(String, Style)>> = cells
            .iter()
            .zip(self.widths)
            .map(|(cell, &width)| cell.wrapped(width))
            .collect();
        let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let each = if lines > MOST_LINES { PART } else { lines };
        let parts = lines.div_ceil(each);
        let mut blocks = Vec::with_capacity(parts);
        for part in 0..parts {
            let from = part * each;
            let above = if part == 0 { self.pad } else { 0.0 };
            let is_last = part + 1 == parts;
            let mut height: f64 = 0.0;
            let mut ops = Vec::new();
            let mut x = 0.0;
            for (column, (cell, &width)) in cells.iter().zip(self.widths).enumerate() {
                let lines = wrapped[column].iter().skip(from).take(each);
                ops.push(ids.map_or(Op::Decoration, |ids| Op::Begin(ids[column])));
                let mut y = above;
                for (place, (text, style)) in lines.enumerate() {
                    let left = match self.aligns.get(column) {
                        Some(Align::Right) => x + width - style.width_of(text),
                        _ => x + cell.indent(),
                    };
                    if let (Some(color), 0, 0) = (cell.swatch, place, part) {
                        let center = (left - SWATCH + 3.5, y + style.ascent() - style.size * 0.36);
                        ops.push(Op::Dot {
                            center,
                            radius: 2.9,
                            color,
                            opacity: 1.0,
                        });
                    }
                    ops.push(Op::Text {
                        x: left,
                        y: y + style.ascent(),
                        text: text.clone(),
                        style: *style,
                    });
                    y += style.leading;
                }
                ops.push(Op::End);
                height = height.max(if is_last { y + self.pad } else { y });
                x += width + GAP;
            }
            if is_last {
                ops.extend(rule(height, if ids.is_none() { MUTED } else { LINE }));
            }
            blocks.push(Block {
                ops,
                height,
                before: if part == 0 { before } else { 0.0 },
                ..Block::default()
            });
        }
        blocks
    }
}

/// The line below a row.
fn rule(y: f64, color: u32) -> [Op; 3] {
    let line = Op::Path {
        points: vec![(0.0, y), (WIDTH, y)],
        color,
        width: 0.5,
        opacity: 1.0,
    };
    [Op::Decoration, line, Op::End]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(columns: usize, rows: usize, text: &str) -> Grid {
        let headings: Vec<String> = (0..columns).map(|c| format!("variant {c}")).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut made = table::Table::new("", &headings);
        for row in 0..rows {
            made.push((0..columns).map(|c| format!("{text} {row}.{c}")).collect());
        }
        Grid::plain(&made)
    }

    fn texts(story: &Story) -> Vec<(f64, f64, String)> {
        let ops = story.blocks.iter().flat_map(|block| &block.ops);
        let text = |op: &Op| match op {
            Op::Text { x, text, style, .. } => Some((*x, style.width_of(text), text.clone())),
            _ => None,
        };
        ops.filter_map(text).collect()
    }

    #[test]
    fn no_cell_leaves_the_page_and_none_is_lost() {
        let long = "an interminable_name_without_a_single_space_in_it_anywhere_at_all";
        for (columns, rows, text) in [(2, 3, "769 req/s"), (6, 3, long), (300, 4, "1,234 µs")] {
            let mut story = Story::default();
            story.grid(&grid(columns, rows, text), 0.0);
            let texts = texts(&story);
            for (x, width, text) in &texts {
                assert!(*x >= -1e-6 && x + width <= WIDTH + 1e-6, "{text} at {x}");
            }
            let joined: String = texts.iter().map(|(_, _, text)| text.as_str()).collect();
            for column in 1..columns {
                let cell = format!("{}.{column}", rows - 1);
                assert!(joined.contains(&cell), "{cell}");
            }
        }
    }

    #[test]
    fn a_row_longer_than_a_page_is_parted() {
        let mut story = Story::default();
        story.grid(&grid(2, 1, &"word ".repeat(3000)), 0.0);
        assert!(story.blocks.len() > 5);
        assert!(story.blocks.iter().all(|block| block.height < 400.0));
    }

    #[test]
    fn figures_end_at_the_same_place() {
        let mut table = table::Table::new("", &["", "rate"]);
        table.push(vec!["a".into(), "1".into()]);
        table.push(vec!["b".into(), "1,234".into()]);
        let mut story = Story::default();
        story.grid(&Grid::plain(&table), 0.0);
        let ends: Vec<f64> = texts(&story)
            .iter()
            .filter(|(_, _, text)| text.starts_with('1') || text == "rate")
            .map(|(x, width, _)| x + width)
            .collect();
        assert_eq!(ends.len(), 3);
        assert!(
            ends.iter().all(|end| (end - WIDTH).abs() < 1e-6),
            "{ends:?}"
        );
    }
}
