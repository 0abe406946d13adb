//! Charts of one load's rates, percentiles or failures, over time or against the offered rate.

use std::ops::Range;

use super::canvas::{Axis, Canvas, TextStyle, decimal, highest, positions};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::Color;
use super::panels::short;

/// One line over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimedLine {
    /// The line's name, such as `p99`.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Points of the line: seconds since the measurement started, and the value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Dots for values at their offered rates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RateDots {
    /// The name of the values, such as `p99`.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Position of each dot: offered requests per second, and the value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws the lines over shared axes, which start at zero. `mark` formats a value of the vertical
/// axis, and `unit` is the heading above it.
pub(crate) fn timed(
    label: String,
    unit: &str,
    mark: fn(f64) -> String,
    length_s: f64,
    lines: &[TimedLine],
) -> Chart {
    let length_s = if length_s.is_finite() { length_s } else { 0.0 };
    let x_axis = HorizontalAxis {
        end: length_s.max(0.5),
        mark: decimal,
        title: "seconds since the measurement started",
    };
    along_axis(label, (unit, mark), x_axis, 0.0, lines)
}

/// Draws lines over the numbers of runs, which begin with 1. The vertical axis starts near the
/// lowest value, because changes between runs are small.
pub(crate) fn by_run(
    label: String,
    unit: &str,
    mark: fn(f64) -> String,
    runs: usize,
    lines: &[TimedLine],
) -> Chart {
    let x_axis = HorizontalAxis {
        end: runs as f64 + 0.5,
        mark: decimal,
        title: "number of the run",
    };
    let values = || {
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|point| point.1)
    };
    let lowest = values().fold(f64::INFINITY, f64::min);
    let span = highest(values()) - lowest;
    let floor = (lowest - span.max(lowest * 0.02)).max(0.0);
    along_axis(label, (unit, mark), x_axis, floor, lines)
}

/// Draws the lines over an axis. `floor` is the lower end of the vertical axis.
fn along_axis(
    label: String,
    unit: (&str, fn(f64) -> String),
    x_axis: HorizontalAxis<'_>,
    floor: f64,
    lines: &[TimedLine],
) -> Chart {
    chart(label, |canvas, size| {
        legend(
            canvas,
            lines.iter().map(|line| (line.name.as_str(), line.color)),
        );
        let points = lines.iter().flat_map(|line| &line.points);
        let highest = highest(points.map(|point| point.1));
        let axes = draw_axes(canvas, size, unit, &x_axis, floor..highest);
        for line in lines {
            let at = positions(&line.points, &axes.x, &axes.y);
            canvas.path(&at, line.color, 1.8, 0.9);
            if let [only] = at[..] {
                canvas.dot(only, 3.0, line.color, 0.9);
            }
        }
        axes.lower_end
    })
}

/// Draws a dot for each value over the offered rate. All axes start at zero. `mark` formats a value
/// of the vertical axis, and `unit` is the heading above it.
pub(crate) fn against_rate(
    label: String,
    unit: &str,
    mark: fn(f64) -> String,
    dots: &[RateDots],
) -> Chart {
    chart(label, |canvas, size| {
        legend(
            canvas,
            dots.iter().map(|each| (each.name.as_str(), each.color)),
        );
        let points = || dots.iter().flat_map(|each| &each.points);
        let fastest = points().map(|(rate, _)| *rate).fold(0.0, f64::max);
        let x_axis = HorizontalAxis {
            end: (fastest * 1.02).max(1e-9),
            mark: short,
            title: "offered requests per second",
        };
        let highest = highest(points().map(|point| point.1));
        let axes = draw_axes(canvas, size, (unit, mark), &x_axis, 0.0..highest);
        for each in dots {
            for at in positions(&each.points, &axes.x, &axes.y) {
                canvas.dot(at, 2.2, each.color, 0.7);
            }
        }
        axes.lower_end
    })
}

const LEFT: f64 = 62.0;
const HEIGHT: f64 = 170.0;
const LEGEND: f64 = 20.0;

/// The horizontal axis, which starts at zero.
struct HorizontalAxis<'a> {
    end: f64,
    /// Formats a value.
    mark: fn(f64) -> String,
    title: &'a str,
}

/// Axes that have been drawn.
struct DrawnAxes {
    x: Axis,
    y: Axis,
    lower_end: f64,
}

/// Draws the axes below the legend.
fn draw_axes(
    canvas: &mut Canvas,
    size: DrawingSize,
    (unit, mark): (&str, fn(f64) -> String),
    x_axis: &HorizontalAxis<'_>,
    values: Range<f64>,
) -> DrawnAxes {
    let right = size.width() - 10.0;
    let top = LEGEND + 26.0;
    let bottom = top + HEIGHT;
    let x = Axis::new(0.0..x_axis.end, LEFT..right);
    let y = Axis::new(
        values.start..(values.end * 1.06 - values.start * 0.06).max(1e-9),
        bottom..top,
    );
    canvas.text((0.0, top - 14.0), unit, TextStyle::AXIS);
    canvas.grid(&y, (LEFT, right), (6, 0.0), mark);
    let marks_max = if size.is_narrow() { 5 } else { 9 };
    canvas.marks_below(&x, bottom, marks_max, x_axis.mark);
    let lower_end = canvas.caption(size.width() / 2.0, bottom, x_axis.title);
    DrawnAxes { x, y, lower_end }
}

/// Draws names in their colors.
fn legend<'a>(canvas: &mut Canvas, names: impl Iterator<Item = (&'a str, Color)>) {
    let style = TextStyle::LABEL.bold();
    let mut x = 0.0;
    for (name, color) in names {
        canvas.line((x, LEGEND / 2.0), (x + 16.0, LEGEND / 2.0), color, 3.0);
        canvas.text((x + 24.0, LEGEND / 2.0), name, style.color(color));
        x += 24.0 + style.width_of(name) + 18.0;
    }
}

#[cfg(test)]
mod tests {
    use super::super::palette;
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let line = |name: &str, points: Vec<(f64, f64)>| TimedLine {
            name: name.to_owned(),
            color: palette::variant(0),
            points,
        };
        let lines = [
            line("p50", vec![(0.25, 100.0), (0.75, 120.0)]),
            line("p99", vec![(0.25, 900.0), (0.75, f64::NAN)]),
            line("none", Vec::new()),
        ];
        let made = timed(
            String::new(),
            "time",
            |value| format!("{value} u"),
            1.0,
            &lines,
        );
        for drawing in [&made.wide, &made.narrow] {
            assert!(drawing.contains(">p50<") && drawing.contains(">p99<"));
            assert!(
                drawing.contains("900 u<") || drawing.contains("800 u<"),
                "{drawing}"
            );
            assert!(!drawing.contains("NaN"));
        }
    }

    #[test]
    fn every_value_is_a_dot_at_its_rate() {
        let dots = RateDots {
            name: "p99".to_owned(),
            color: palette::variant(0),
            points: vec![(100.0, 5.0), (20_000.0, 9.0), (f64::NAN, 1.0)],
        };
        let made = against_rate(String::new(), "time", |value| value.to_string(), &[dots]);
        for drawing in [&made.wide, &made.narrow] {
            assert_eq!(drawing.matches("<circle").count(), 2);
            assert!(
                drawing.contains(">p99<") && drawing.contains(">20k<"),
                "{drawing}"
            );
            assert!(!drawing.contains("NaN"));
        }
        let none = against_rate(String::new(), "", |value| value.to_string(), &[]);
        assert!(!none.wide.contains("NaN"));
    }
}
