//! A heat map of one load's response times over time: the darker a cell, the more of the requests
//! that finished then took that long.

use super::canvas::{Axis, Canvas, Side, TextStyle, decimal};
use super::distribution::times_of_axis;
use super::drawing::{Chart, DrawingSize, chart};
use super::palette;

/// The response times of a part of a load.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HeatColumn {
    /// Seconds since the measurement started.
    pub(crate) from_s: f64,
    pub(crate) to_s: f64,
    /// Times in microseconds, each with its count.
    pub(crate) times: Vec<(f64, u64)>,
}

/// Draws the columns from left to right. Neighboring columns are combined if there are many.
pub(crate) fn heat(label: String, columns: &[HeatColumn]) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, columns))
}

const LEFT: f64 = 62.0;
const HEIGHT: f64 = 190.0;
const TOP: f64 = 26.0;
/// Number of rows, each of which covers the same ratio of times.
const ROWS: usize = 28;
/// Number of different opacities. Equal neighbors are drawn as one rectangle.
const LEVELS: f64 = 8.0;
/// Minimum distance between the labels of the vertical axis, in pixels.
const LABEL_DISTANCE_MIN: f64 = 22.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, columns: &[HeatColumn]) -> f64 {
    let (right, bottom) = (size.width() - 10.0, TOP + HEIGHT);
    let all = || columns.iter().flat_map(|column| &column.times);
    let shortest = all().map(|(us, _)| *us).fold(f64::INFINITY, f64::min);
    let longest = all().map(|(us, _)| *us).fold(0.0, f64::max);
    let (Some(last), true) = (columns.last(), longest > 0.0) else {
        return bottom;
    };
    // A margin on both sides keeps the shortest and the longest time within a row.
    let (low, high) = (shortest.max(1e-3) / 1.03, longest.max(1e-3) * 1.03);
    let x = Axis::new(0.0..last.to_s, LEFT..right);
    let y = Axis::new(low.ln()..high.ln(), bottom..TOP);
    canvas.text((0.0, TOP - 14.0), "response time", TextStyle::AXIS);
    let mut free_below = f64::MAX;
    for (us, text) in times_of_axis(low, high) {
        let at = y.at(us.ln());
        if free_below - at >= LABEL_DISTANCE_MIN {
            canvas.line((LEFT, at), (right, at), palette::GRID, 1.0);
            let style = TextStyle::AXIS.side(Side::End);
            canvas.text((LEFT - 8.0, at), &text, style);
            free_below = at;
        }
    }
    let columns_max = if size.is_narrow() { 36 } else { 72 };
    let combined = columns.len().div_ceil(columns_max);
    let cells: Vec<(f64, f64, [u64; ROWS])> = columns
        .chunks(combined)
        .map(|columns| {
            let mut rows = [0; ROWS];
            for (us, count) in columns.iter().flat_map(|column| &column.times) {
                let place = (us.max(1e-3).ln() - low.ln()) / (high.ln() - low.ln());
                let row = (place * ROWS as f64) as usize;
                rows[row.min(ROWS - 1)] += count;
            }
            let (first, last) = (&columns[0], &columns[columns.len() - 1]);
            (first.from_s, last.to_s, rows)
        })
        .collect();
    for (from_s, to_s, rows) in cells {
        let (left, right) = (x.at(from_s), x.at(to_s));
        let all: u64 = rows.iter().sum();
        // The root makes single slow requests visible.
        let level = |count: u64| ((count as f64 / all.max(1) as f64).sqrt() * LEVELS).ceil();
        let height = (bottom - TOP) / ROWS as f64;
        let mut row = 0;
        while row < ROWS {
            let shown = level(rows[row]);
            let equal = rows[row..].iter().take_while(|it| level(**it) == shown);
            let end = row + equal.count();
            if shown > 0.0 {
                let (above, below) = (bottom - height * end as f64, bottom - height * row as f64);
                // Neighboring rectangles overlap a little, because gaps would shine through.
                let opacity = shown / LEVELS;
                canvas.rect(
                    (left, above),
                    (right + 0.3, below),
                    palette::variant(0),
                    opacity,
                );
            }
            row = end;
        }
    }
    let marks_max = if size.is_narrow() { 5 } else { 9 };
    canvas.marks_below(&x, bottom, marks_max, decimal);
    let caption = "seconds since the measurement started";
    canvas.caption(size.width() / 2.0, bottom, caption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_a_cell_in_its_column() {
        let column = |n: u32, times: &[(f64, u64)]| HeatColumn {
            from_s: f64::from(n) / 2.0,
            to_s: f64::from(n + 1) / 2.0,
            times: times.to_vec(),
        };
        let columns = [
            column(0, &[(100.0, 99), (5_000.0, 1)]),
            column(1, &[]),
            column(2, &[(100.0, 7)]),
        ];
        let made = heat(String::new(), &columns);
        for drawing in [&made.wide, &made.narrow] {
            assert_eq!(drawing.matches("<rect").count(), 3, "{drawing}");
            assert!(drawing.contains(" ms<") && !drawing.contains("NaN"));
        }
        let many: Vec<_> = (0..1_000).map(|n| column(n, &[(100.0, 1)])).collect();
        assert!(heat(String::new(), &many).wide.matches("<rect").count() <= 72);
        let none = heat(String::new(), &[column(0, &[])]);
        assert!(!none.wide.contains("<rect") && !none.wide.contains("NaN"));
    }
}
