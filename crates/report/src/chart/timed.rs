//! Lines of one load over time: its percentiles, or its failures.

use super::canvas::{Axis, Canvas, Side, TextStyle};
use super::palette::{self, Color};
use super::{Chart, DrawingSize, chart};

/// One line over time.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TimedLine {
    /// The line's name, such as `p99`.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Seconds since the measurement started, and the value.
    pub(crate) points: Vec<(f64, f64)>,
}

/// Draws the lines over shared axes, which start at zero. `mark` formats a value of the vertical axis,
/// and `unit` is the heading above it.
pub(crate) fn timed(
    label: String,
    unit: &str,
    mark: fn(f64) -> String,
    length_s: f64,
    lines: &[TimedLine],
) -> Chart {
    chart(label, |canvas, size| {
        draw(canvas, size, (unit, mark), length_s, lines)
    })
}

const LEFT: f64 = 62.0;
const HEIGHT: f64 = 170.0;
const LEGEND: f64 = 20.0;

fn draw(
    canvas: &mut Canvas,
    size: DrawingSize,
    (unit, mark): (&str, fn(f64) -> String),
    length_s: f64,
    lines: &[TimedLine],
) -> f64 {
    let right = size.width() - 10.0;
    let points = || lines.iter().flat_map(|line| &line.points);
    let finite = points().filter(|(_, value)| value.is_finite());
    let highest = finite.fold(0.0_f64, |most, (_, value)| most.max(*value));
    legend(canvas, lines);
    let top = LEGEND + 26.0;
    let bottom = top + HEIGHT;
    let length_s = if length_s.is_finite() { length_s } else { 0.0 };
    let x = Axis::new(0.0..length_s.max(0.5), LEFT..right);
    let y = Axis::new(0.0..(highest * 1.06).max(1e-9), bottom..top);
    canvas.text((0.0, top - 14.0), unit, TextStyle::AXIS);
    for value in y.marks(6) {
        let color = match value == 0.0 {
            true => palette::REFERENCE,
            false => palette::GRID,
        };
        canvas.line((LEFT, y.at(value)), (right, y.at(value)), color, 1.0);
        let style = TextStyle::AXIS.side(Side::End);
        canvas.text((LEFT - 8.0, y.at(value)), &mark(value), style);
    }
    for value in x.marks(if size.is_narrow() { 5 } else { 9 }) {
        let text = format!("{}", (value * 1000.0).round() / 1000.0);
        let style = TextStyle::AXIS.side(Side::Middle);
        canvas.text((x.at(value), bottom + 13.0), &text, style);
    }
    for line in lines {
        let finite = line
            .points
            .iter()
            .filter(|(t, v)| t.is_finite() && v.is_finite());
        let at: Vec<(f64, f64)> = finite.map(|&(t, v)| (x.at(t), y.at(v))).collect();
        canvas.path(&at, line.color, 1.8, 0.9);
        if let [only] = at[..] {
            canvas.dot(only, 3.0, line.color, 0.9);
        }
    }
    canvas.text(
        (size.width() / 2.0, bottom + 32.0),
        "seconds since the measurement started",
        TextStyle::AXIS.side(Side::Middle),
    );
    bottom + 42.0
}

/// Draws the lines' names in their colors.
fn legend(canvas: &mut Canvas, lines: &[TimedLine]) {
    let style = TextStyle::LABEL.bold();
    let mut x = 0.0;
    for line in lines {
        canvas.line((x, LEGEND / 2.0), (x + 16.0, LEGEND / 2.0), line.color, 3.0);
        canvas.text(
            (x + 24.0, LEGEND / 2.0),
            &line.name,
            style.color(line.color),
        );
        x += 24.0 + style.width_of(&line.name) + 18.0;
    }
}

#[cfg(test)]
mod tests {
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
}
