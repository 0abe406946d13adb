//! Small multiples of rates over time: one panel for each variant and one line for each trial, all
//! on the same scale.

use super::canvas::{Axis, Canvas, TextStyle, decimal, highest, positions};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::Color;

/// One variant's trials.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RatePanel {
    /// The variant's name.
    pub(crate) name: String,
    /// The variant's color.
    pub(crate) color: Color,
    /// The length of the longest trial, in seconds.
    pub(crate) length_s: f64,
    /// One line for each trial, ordered by block. Each point is a time in seconds and a number of
    /// successes per second.
    pub(crate) lines: Vec<Vec<(f64, f64)>>,
}

/// Draws the panels in order. Both axes start at zero and have the same scale in all panels.
pub(crate) fn over_time(label: String, panels: &[RatePanel]) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, panels))
}

const LEFT: f64 = 52.0;
const GAP: f64 = 22.0;
const TITLE: f64 = 26.0;
/// Height of a title with two lines, in pixels.
const TALL_TITLE: f64 = 38.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, panels: &[RatePanel]) -> f64 {
    let columns = size.columns(panels.len());
    let rows = panels.len().div_ceil(columns);
    let plot_height = match (size, rows) {
        (DrawingSize::Wide, 1) => 170.0,
        (DrawingSize::Wide, _) => 120.0,
        (DrawingSize::Narrow, _) => 84.0,
    };
    let width = (size.width() - LEFT - 8.0 - GAP * (columns - 1) as f64) / columns as f64;
    let is_long = |panel: &RatePanel| TextStyle::LABEL.bold().width_of(&panel.name) > width;
    let title = if panels.iter().any(is_long) {
        TALL_TITLE
    } else {
        TITLE
    };
    let (longest, highest) = extent(panels);
    // The unit is shown once, above the marks of the first panel.
    let top = 18.0;
    canvas.text((0.0, 8.0), "successes per second", TextStyle::AXIS);
    let mut bottom = top;
    for (i, panel) in panels.iter().enumerate() {
        let left = LEFT + (width + GAP) * (i % columns) as f64;
        let head = top + (plot_height + title + 12.0) * (i / columns) as f64;
        let frame = Frame {
            x: Axis::new(0.0..longest, left..left + width),
            y: Axis::new(0.0..highest, head + title + plot_height..head + title),
            marks_y: i.is_multiple_of(columns),
            marks_x: i + columns >= panels.len(),
        };
        bottom = head + title + plot_height;
        let at = (left, head + title / 2.0);
        let name = TextStyle::LABEL.bold().color(panel.color);
        canvas.name(at, &panel.name, width, name);
        draw_panel(canvas, panel, &frame, (left, left + width), bottom);
    }
    let caption = "seconds since the measurement started";
    canvas.caption(size.width() / 2.0, bottom, caption)
}

/// The ends of both axes: the length of the longest trial, and slightly more than the highest rate.
fn extent(panels: &[RatePanel]) -> (f64, f64) {
    let points = panels.iter().flat_map(|p| p.lines.iter().flatten());
    let longest = highest(panels.iter().map(|panel| panel.length_s));
    let highest = highest(points.map(|&(_, rate)| rate));
    (longest.max(0.5), (highest * 1.06).max(1.0))
}

/// The axes of one panel. `marks_x` and `marks_y` are true if the axis has labeled marks.
struct Frame {
    x: Axis,
    y: Axis,
    marks_y: bool,
    marks_x: bool,
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &RatePanel,
    frame: &Frame,
    (left, right): (f64, f64),
    bottom: f64,
) {
    canvas.grid(&frame.y, (left, right), (6, 0.0), |value| {
        if frame.marks_y {
            short(value)
        } else {
            String::new()
        }
    });
    if frame.marks_x {
        canvas.marks_below(&frame.x, bottom, 7, decimal);
    }
    // If many trials overlap, each line is fainter.
    let opacity = if panel.lines.len() > 3 { 0.6 } else { 0.85 };
    for line in &panel.lines {
        let points = positions(line, &frame.x, &frame.y);
        canvas.path(&points, panel.color, 1.6, opacity);
    }
}

/// Formats a number for an axis: `800`, `5k`, `1.5M`.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = if value >= 1e6 {
        (value / 1e6, "M")
    } else if value >= 1e3 {
        (value / 1e3, "k")
    } else {
        (value, "")
    };
    format!("{}{unit}", decimal(scaled))
}

#[cfg(test)]
mod tests {
    use super::super::palette;
    use super::*;

    #[test]
    fn figures_on_axes_are_short() {
        for (value, text) in [
            (0.0, "0"),
            (0.25, "0.25"),
            (800.0, "800"),
            (5000.0, "5k"),
            (12_500.0, "12.5k"),
            (2e6, "2M"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn panels_without_points_are_drawn() {
        let empty = RatePanel {
            name: "tcp".to_owned(),
            color: palette::variant(0),
            length_s: 0.0,
            lines: vec![Vec::new()],
        };
        let made = over_time("label".to_owned(), &[empty]);
        assert!(made.wide.contains(">tcp<") && !made.wide.contains("NaN"));
    }
}
