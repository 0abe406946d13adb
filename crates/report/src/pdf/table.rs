//! Tables as blocks: one block per row. The heading is repeated on every page. Columns that don't
//! fit are moved to additional tables below.

use std::rc::Rc;

use super::block::{DrawOp, ElementId, PageBlock, Role, Story};
use super::style::{FontStyle, LINE, MUTED, WIDTH};
use super::wrap::{least_width, wrap};
use crate::chart::palette;
use crate::table::{Align, Emphasis, Table, TableCell, plain};

/// The space between two columns.
const COLUMN_GAP: f64 = 12.0;
/// The space above and below a cell's lines.
const CELL_PADDING: f64 = 4.0;
/// Maximum width to which a single word can widen a column.
const WORD_WIDTH_MAX: f64 = 120.0;
/// The space above and below a cell's lines in a reference table.
const TIGHT_PADDING: f64 = 2.2;
/// Maximum number of lines in a row that is not split between pages.
const ROW_LINES_MAX: usize = 14;
/// The number of lines in each part of a row that is split.
const PART_LINES: usize = 6;
/// The width reserved for a colored dot before text.
const SWATCH_WIDTH: f64 = 11.0;

/// A cell: lines with their styles, and optionally a colored dot before the first line.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct GridCell {
    pub(super) lines: Vec<(String, FontStyle)>,
    pub(super) swatch: Option<u32>,
}

impl GridCell {
    pub(super) fn new(text: &str, style: FontStyle) -> GridCell {
        GridCell {
            lines: vec![(plain(text), style)],
            swatch: None,
        }
    }

    pub(super) fn line(mut self, text: &str, style: FontStyle) -> GridCell {
        if !text.is_empty() {
            self.lines.push((plain(text), style));
        }
        self
    }

    /// Converts a cell of the document's table.
    fn of(cell: &TableCell) -> GridCell {
        let line = |(text, emphasis): &(String, Emphasis)| {
            let style = match emphasis {
                Emphasis::Plain => FontStyle::CELL,
                Emphasis::Strong => FontStyle::CELL.bold(),
                Emphasis::Figure => FontStyle::BODY.bold().size(10.5),
                Emphasis::Muted => FontStyle::NOTE,
            };
            (plain(text), style)
        };
        GridCell {
            lines: cell.lines.iter().map(line).collect(),
            swatch: cell.swatch.map(|variant| palette::variant(variant).light),
        }
    }

    fn indent(&self) -> f64 {
        self.swatch.map_or(0.0, |_| SWATCH_WIDTH)
    }

    fn width(&self) -> f64 {
        let widths = self.lines.iter().map(|(text, style)| style.width_of(text));
        widths.fold(0.0, f64::max) + self.indent()
    }

    fn least_width(&self) -> f64 {
        let widths = self.lines.iter();
        let widths = widths.map(|(text, style)| least_width(text, *style));
        widths.fold(0.0, f64::max).min(WORD_WIDTH_MAX) + self.indent()
    }

    fn wrapped(&self, width: f64) -> Vec<(String, FontStyle)> {
        let width = width - self.indent();
        let lines = self.lines.iter();
        let lines = lines.flat_map(|(text, style)| {
            let wrapped = wrap(text, *style, width);
            wrapped.into_iter().map(move |line| (line, *style))
        });
        lines.collect()
    }
}

/// A table of cells. If the columns need several tables, the first column is repeated in each.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Grid {
    pub(super) head: Vec<GridCell>,
    pub(super) align: Vec<Align>,
    pub(super) rows: Vec<Vec<GridCell>>,
}

impl Grid {
    /// Converts a table.
    pub(super) fn of(table: &Table) -> Grid {
        let head = |(heading, _): &(String, Align)| GridCell::new(heading, FontStyle::CELL_HEAD);
        let row = |row: &Vec<TableCell>| row.iter().map(GridCell::of).collect();
        Grid {
            head: table.columns.iter().map(head).collect(),
            align: table.columns.iter().map(|(_, align)| *align).collect(),
            rows: table.rows.iter().map(row).collect(),
        }
    }

    fn cells(&self, column: usize) -> impl Iterator<Item = &GridCell> {
        let head = self.head.get(column).into_iter();
        head.chain(self.rows.iter().filter_map(move |row| row.get(column)))
    }

    /// The natural and the minimum width of a column.
    fn wanted_widths(&self, column: usize) -> (f64, f64) {
        let most = |widths: &mut dyn Iterator<Item = f64>| widths.fold(0.0, f64::max);
        let least = most(&mut self.cells(column).map(GridCell::least_width));
        let body = self.rows.iter().filter_map(|row| row.get(column));
        let natural = most(&mut body.map(GridCell::width));
        // Numbers don't wrap; headings and sentences do.
        match column {
            1.. if natural <= WORD_WIDTH_MAX => {
                let least = least.max(natural);
                (
                    least.max(most(&mut self.cells(column).map(GridCell::width)).min(90.0)),
                    least,
                )
            }
            // Names are important, so they get enough width to wrap into few lines.
            0 => {
                let natural = most(&mut self.cells(column).map(GridCell::width));
                (natural, least.max(natural.min(WIDTH * 0.3)))
            }
            _ => (most(&mut self.cells(column).map(GridCell::width)), least),
        }
    }
}

impl Story {
    /// Adds a table, which must have rows.
    pub(super) fn grid(&mut self, grid: &Grid, before: f64) {
        let wants: Vec<(f64, f64)> = (0..grid.align.len())
            .map(|c| grid.wanted_widths(c))
            .collect();
        for (place, columns) in groups(&wants).into_iter().enumerate() {
            let wants: Vec<(f64, f64)> = columns.iter().map(|&c| wants[c]).collect();
            let widths = widths(&wants);
            let before = if place == 0 { before } else { 14.0 };
            self.part(grid, &columns, (&widths, CELL_PADDING), before);
        }
    }

    /// Adds a reference table with the given column widths.
    pub(super) fn columns(&mut self, grid: &Grid, widths: &[f64], before: f64) {
        let columns: Vec<usize> = (0..widths.len()).collect();
        self.part(grid, &columns, (widths, TIGHT_PADDING), before);
    }

    /// Adds a table with the given columns of a grid, which fit side by side.
    fn part(&mut self, grid: &Grid, columns: &[usize], (widths, pad): (&[f64], f64), before: f64) {
        let table = self.element(Role::Table, None);
        let row = |cells: &[GridCell]| -> Vec<GridCell> {
            let cell = |&c: &usize| cells.get(c).cloned().unwrap_or_default();
            columns.iter().map(cell).collect()
        };
        let aligns: Vec<Align> = columns.iter().map(|&c| grid.align[c]).collect();
        let layout = RowLayout {
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
                // Avoids a single row at the end of a page or at the start of the next.
                block.keep = grid.rows.len() > 1 && (place == 0 || place + 2 == grid.rows.len());
                self.push(block);
            }
        }
    }
}

/// Creates an element for each cell.
fn cell_elements(
    story: &mut Story,
    cells: &[GridCell],
    row: ElementId,
    role: Role,
) -> Vec<ElementId> {
    let each = cells.iter();
    each.map(|_| story.element(role.clone(), Some(row)))
        .collect()
}

/// Divides the columns among tables, each of which starts with the first column.
fn groups(wants: &[(f64, f64)]) -> Vec<Vec<usize>> {
    let Some(first) = wants.first() else {
        return Vec::new();
    };
    let first = first.1;
    let mut groups: Vec<Vec<usize>> = vec![vec![0]];
    let mut reach = first;
    for (column, &(_, least)) in wants.iter().enumerate().skip(1) {
        let is_alone = groups.last().is_none_or(|group| group.len() == 1);
        if reach + COLUMN_GAP + least > WIDTH && !is_alone {
            groups.push(vec![0]);
            reach = first;
        }
        reach += COLUMN_GAP + least;
        if let Some(group) = groups.last_mut() {
            group.push(column);
        }
    }
    if groups.len() > 2 {
        return evened(wants.len(), groups.len());
    }
    groups
}

/// Divides the columns evenly among this number of tables.
fn evened(columns: usize, groups: usize) -> Vec<Vec<usize>> {
    let others = columns - 1;
    let each = others.div_ceil(groups);
    let numbers: Vec<usize> = (1..columns).collect();
    let chunks = numbers.chunks(each);
    chunks
        .map(|chunk| std::iter::once(0).chain(chunk.iter().copied()).collect())
        .collect()
}

/// Computes the widths of columns that together fill the page.
fn widths(wants: &[(f64, f64)]) -> Vec<f64> {
    let room = WIDTH - COLUMN_GAP * wants.len().saturating_sub(1) as f64;
    let natural: f64 = wants.iter().map(|want| want.0).sum();
    if natural <= room {
        // The spare width is distributed, so that numbers are not crowded on one side.
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
    // Each column gets the same share of the difference between its minimum and its natural width.
    let share = (room - least) / (natural - least);
    let each = wants.iter();
    each.map(|(natural, least)| least + (natural - least) * share)
        .collect()
}

/// The columns' layout in a row.
struct RowLayout<'a> {
    aligns: &'a [Align],
    widths: &'a [f64],
    pad: f64,
}

impl RowLayout<'_> {
    /// Converts a row to one block, or to several if its text is very long. Without elements, the
    /// row is decoration.
    fn blocks(&self, cells: &[GridCell], ids: Option<&[ElementId]>, before: f64) -> Vec<PageBlock> {
        let wrapped: Vec<Vec<(String, FontStyle)>> = cells
            .iter()
            .zip(self.widths)
            .map(|(cell, &width)| cell.wrapped(width))
            .collect();
        let lines = wrapped.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let each = if lines > ROW_LINES_MAX {
            PART_LINES
        } else {
            lines
        };
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
                ops.push(ids.map_or(DrawOp::Decoration, |ids| DrawOp::Begin(ids[column])));
                let mut y = above;
                for (place, (text, style)) in lines.enumerate() {
                    let left = match self.aligns.get(column) {
                        Some(Align::Right) => x + width - style.width_of(text),
                        _ => x + cell.indent(),
                    };
                    if let (Some(color), 0, 0) = (cell.swatch, place, part) {
                        let center = (
                            left - SWATCH_WIDTH + 3.5,
                            y + style.ascent() - style.size * 0.36,
                        );
                        ops.push(DrawOp::Dot {
                            center,
                            radius: 2.9,
                            color,
                            opacity: 1.0,
                        });
                    }
                    ops.push(DrawOp::Text {
                        x: left,
                        y: y + style.ascent(),
                        text: text.clone(),
                        style: *style,
                    });
                    y += style.leading;
                }
                ops.push(DrawOp::End);
                height = height.max(if is_last { y + self.pad } else { y });
                x += width + COLUMN_GAP;
            }
            if is_last {
                ops.extend(rule(height, if ids.is_none() { MUTED } else { LINE }));
            }
            blocks.push(PageBlock {
                ops,
                height,
                before: if part == 0 { before } else { 0.0 },
                ..PageBlock::default()
            });
        }
        blocks
    }
}

/// The line below a row.
fn rule(y: f64, color: u32) -> [DrawOp; 3] {
    let line = DrawOp::Path {
        points: vec![(0.0, y), (WIDTH, y)],
        color,
        width: 0.5,
        opacity: 1.0,
    };
    [DrawOp::Decoration, line, DrawOp::End]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(columns: usize, rows: usize, text: &str) -> Grid {
        let headings: Vec<String> = (0..columns).map(|c| format!("variant {c}")).collect();
        let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
        let mut made = Table::new(&headings);
        for row in 0..rows {
            made.push((0..columns).map(|c| format!("{text} {row}.{c}")).collect());
        }
        Grid::of(&made)
    }

    fn texts(story: &Story) -> Vec<(f64, f64, String)> {
        let ops = story.blocks.iter().flat_map(|block| &block.ops);
        let text = |op: &DrawOp| match op {
            DrawOp::Text { x, text, style, .. } => Some((*x, style.width_of(text), text.clone())),
            _ => None,
        };
        ops.filter_map(text).collect()
    }

    #[test]
    fn no_cell_leaves_the_page_or_is_lost() {
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
    fn a_row_longer_than_a_page_is_split() {
        let mut story = Story::default();
        story.grid(&grid(2, 1, &"word ".repeat(3000)), 0.0);
        assert!(story.blocks.len() > 5);
        assert!(story.blocks.iter().all(|block| block.height < 400.0));
    }

    #[test]
    fn figures_are_right_aligned() {
        let mut table = Table::new(&["", "rate"]);
        table.push(vec!["a".into(), "1".into()]);
        table.push(vec!["b".into(), "1,234".into()]);
        let mut story = Story::default();
        story.grid(&Grid::of(&table), 0.0);
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
