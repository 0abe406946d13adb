//! Chart of a metric against a numeric factor. Panels and lines represent the levels of the other
//! factors.

use prony_stats::ScalingPoint;

use super::canvas::{Axis, Canvas, TextStyle, highest};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use super::panels::short;

/// One line: variants that differ only in the numeric factor.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalingLine {
    /// The line's name; empty if it is the only one in its panel.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Points in ascending order.
    pub(crate) points: Vec<ScalingPoint>,
}

/// Lines that share their axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScalingPanel {
    pub(crate) title: String,
    pub(crate) lines: Vec<ScalingLine>,
}

/// Draws the panels in order. All axes start at zero; each panel has its own vertical scale. A gray
/// line through the first point of each line shows proportional growth.
pub(crate) fn along(label: String, unit: &str, number: &str, panels: &[ScalingPanel]) -> Chart {
    chart(label, |canvas, size| {
        draw(canvas, size, unit, number, panels)
    })
}

const LEFT: f64 = 52.0;
const HEAD: f64 = 24.0;
const ROW: f64 = 18.0;

fn draw(
    canvas: &mut Canvas,
    size: DrawingSize,
    unit: &str,
    number: &str,
    panels: &[ScalingPanel],
) -> f64 {
    let columns = size.columns(panels.len());
    let width = size.width() / columns as f64;
    let height = if columns == 1 { 200.0 } else { 150.0 };
    canvas.text((0.0, 8.0), unit, TextStyle::AXIS);
    let mut bottom: f64 = 18.0;
    let mut top: f64 = 18.0;
    for (i, panel) in panels.iter().enumerate() {
        if i > 0 && i.is_multiple_of(columns) {
            top = bottom + 34.0;
        }
        let left = width * (i % columns) as f64 + LEFT;
        let right = width * (i % columns + 1) as f64 - 14.0;
        let style = TextStyle::LABEL.bold();
        let title = style.fit(&panel.title, right - left);
        canvas.text((left, top + 10.0), &title, style);
        let named = draw_names(canvas, panel, (left, right), top + HEAD);
        let frame = (named + 8.0, named + 8.0 + height);
        draw_panel(canvas, panel, (left, right), frame);
        bottom = bottom.max(frame.1);
    }
    canvas.caption(size.width() / 2.0, bottom, number)
}

/// Draws the lines' names below the panel's title. Returns the vertical position of the last name's
/// lower edge.
fn draw_names(
    canvas: &mut Canvas,
    panel: &ScalingPanel,
    (left, right): (f64, f64),
    top: f64,
) -> f64 {
    let mut y = top;
    for line in panel.lines.iter().filter(|line| !line.name.is_empty()) {
        let style = TextStyle::AXIS.bold().color(line.color);
        let name = style.fit(&line.name, right - left - 22.0);
        canvas.line((left, y + 7.0), (left + 14.0, y + 7.0), line.color, 3.0);
        canvas.text((left + 22.0, y + 7.0), &name, style);
        y += ROW;
    }
    y
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &ScalingPanel,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let last = points().map(|point| point.at).max().map_or(1.0, f64::from);
    let highest = highest(points().map(|point| point.high.unwrap_or(point.level())));
    let highest = (highest * 1.06).max(1e-9);
    let x = Axis::new(0.0..last * 1.04, left..right);
    let y = Axis::new(0.0..highest, bottom..top);
    canvas.grid(&y, (left, right), (5, 0.0), short);
    canvas.marks_below(&x, bottom, 7, |value| {
        if value.fract() == 0.0 {
            short(value)
        } else {
            String::new()
        }
    });
    for line in &panel.lines {
        let points = || line.points.iter().filter(|point| point.level().is_finite());
        if let Some(first) = points().next() {
            // Line of proportional growth, clipped at the top of the panel.
            let each = first.level().max(1e-12) / f64::from(first.at.max(1));
            let end = last.min(highest / each);
            let (from, to) = ((x.at(0.0), y.at(0.0)), (x.at(end), y.at(each * end)));
            canvas.line(from, to, palette::REFERENCE, 0.8);
        }
        for point in points() {
            if let (Some(low), Some(high)) = (point.low, point.high) {
                let at = x.at(f64::from(point.at));
                canvas.line((at, y.at(low.max(0.0))), (at, y.at(high)), line.color, 1.4);
            }
        }
        let at: Vec<(f64, f64)> = points()
            .map(|point| (x.at(f64::from(point.at)), y.at(point.level())))
            .collect();
        canvas.path(&at, line.color, 1.8, 0.9);
        for &point in &at {
            canvas.dot(point, 3.5, line.color, 0.9);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(name: &str, values: &[f64]) -> ScalingLine {
        let points = (1..).zip(values).map(|(at, &median)| ScalingPoint {
            at,
            median,
            low: Some(median * 0.9),
            high: None,
            in_step: 1.0,
        });
        ScalingLine {
            name: name.to_owned(),
            color: palette::variant(0),
            points: points.collect(),
        }
    }

    #[test]
    fn every_line_is_drawn_and_named_above_the_axis() {
        let panel = |title: &str| ScalingPanel {
            title: title.to_owned(),
            lines: vec![
                line("kernel", &[5.0, 9.0, 9.5]),
                line("bypass", &[20.0, 40.0, 60.0]),
            ],
        };
        let made = along(
            String::new(),
            "req/s",
            "cores",
            &[panel("1K"), panel("10K")],
        );
        for drawing in [&made.wide, &made.narrow] {
            assert_eq!(drawing.matches("<circle").count(), 12);
            assert_eq!(drawing.matches(">kernel<").count(), 2);
            assert!(drawing.contains(">1K<") && drawing.contains(">cores<"));
        }
    }

    #[test]
    fn empty_lines_and_nan_are_drawn() {
        let odd = ScalingPanel {
            title: String::new(),
            lines: vec![line("", &[f64::NAN, 0.0]), line("", &[])],
        };
        let made = along(String::new(), "", "", &[odd]);
        assert!(!made.wide.contains("NaN") && !made.wide.contains("inf"));
    }
}
