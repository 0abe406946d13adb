//! A metric along a factor whose levels are numbers: a panel for each combination of the other
//! factors but the last, a line for each level of the last.

use prony_stats::ScalingPoint;

use super::canvas::{Axis, Canvas, Side, Text};
use super::palette::{self, Color};
use super::panels::short;
use super::{Chart, Room, chart};

/// One line: what a variant's metric becomes as the number grows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    /// What it is called; empty where it is the panel's only one.
    pub(crate) name: String,
    pub(crate) color: Color,
    /// Ascending.
    pub(crate) points: Vec<ScalingPoint>,
}

/// Lines over the same axes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LinePanel {
    pub(crate) title: String,
    pub(crate) lines: Vec<Line>,
}

/// Draws the panels in their order. All axes begin at zero; each panel has its own scale upwards. A
/// grey line from each first point shows growth in proportion.
pub(crate) fn along(label: String, unit: &str, number: &str, panels: &[LinePanel]) -> Chart {
    chart(label, |canvas, room| {
        draw(canvas, room, unit, number, panels)
    })
}

const LEFT: f64 = 52.0;
const HEAD: f64 = 24.0;
const ROW: f64 = 18.0;

fn draw(canvas: &mut Canvas, room: Room, unit: &str, number: &str, panels: &[LinePanel]) -> f64 {
    let columns = match (room, panels.len()) {
        (Room::Narrow, _) | (_, 0 | 1) => 1,
        (_, 2 | 4) => 2,
        _ => 3,
    };
    let width = room.width() / columns as f64;
    let height = if columns == 1 { 200.0 } else { 150.0 };
    canvas.text((0.0, 8.0), unit, Text::AXIS);
    let mut bottom: f64 = 18.0;
    let mut top: f64 = 18.0;
    for (i, panel) in panels.iter().enumerate() {
        if i > 0 && i.is_multiple_of(columns) {
            top = bottom + 34.0;
        }
        let left = width * (i % columns) as f64 + LEFT;
        let right = width * (i % columns + 1) as f64 - 14.0;
        let style = Text::LABEL.bold();
        let title = style.fit(&panel.title, right - left);
        canvas.text((left, top + 10.0), &title, style);
        let named = names(canvas, panel, (left, right), top + HEAD);
        let frame = (named + 8.0, named + 8.0 + height);
        draw_panel(canvas, panel, (left, right), frame);
        bottom = bottom.max(frame.1);
    }
    let middle = Text::AXIS.side(Side::Middle);
    canvas.text((room.width() / 2.0, bottom + 32.0), number, middle);
    bottom + 42.0
}

/// The lines' names below the panel's title; gives the lower end of the last.
fn names(canvas: &mut Canvas, panel: &LinePanel, (left, right): (f64, f64), top: f64) -> f64 {
    let mut y = top;
    for line in panel.lines.iter().filter(|line| !line.name.is_empty()) {
        let style = Text::AXIS.bold().color(line.color);
        let name = style.fit(&line.name, right - left - 22.0);
        canvas.line((left, y + 7.0), (left + 14.0, y + 7.0), line.color, 3.0);
        canvas.text((left + 22.0, y + 7.0), &name, style);
        y += ROW;
    }
    y
}

fn draw_panel(
    canvas: &mut Canvas,
    panel: &LinePanel,
    (left, right): (f64, f64),
    (top, bottom): (f64, f64),
) {
    let points = || panel.lines.iter().flat_map(|line| &line.points);
    let most = |values: &mut dyn Iterator<Item = f64>| {
        let finite = values.filter(|value| value.is_finite());
        finite.fold(0.0_f64, f64::max)
    };
    let last = points().map(|point| point.at).max().map_or(1.0, f64::from);
    let highest = most(&mut points().map(|point| point.high.unwrap_or(point.median)));
    let highest = (highest * 1.06).max(1e-9);
    let x = Axis::new(0.0..last * 1.04, left..right);
    let y = Axis::new(0.0..highest, bottom..top);
    for value in y.marks(5) {
        let color = match value == 0.0 {
            true => palette::REFERENCE,
            false => palette::GRID,
        };
        canvas.line((left, y.at(value)), (right, y.at(value)), color, 1.0);
        let style = Text::AXIS.side(Side::End);
        canvas.text((left - 8.0, y.at(value)), &short(value), style);
    }
    for value in x.marks(7).into_iter().filter(|value| value.fract() == 0.0) {
        let style = Text::AXIS.side(Side::Middle);
        canvas.text((x.at(value), bottom + 13.0), &short(value), style);
    }
    for line in &panel.lines {
        let points = || line.points.iter().filter(|point| point.median.is_finite());
        if let Some(first) = points().next() {
            // In proportion, as far as the panel reaches.
            let each = first.median.max(1e-12) / f64::from(first.at.max(1));
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
            .map(|point| (x.at(f64::from(point.at)), y.at(point.median)))
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

    fn line(name: &str, values: &[f64]) -> Line {
        let points = (1..).zip(values).map(|(at, &median)| ScalingPoint {
            at,
            median,
            low: Some(median * 0.9),
            high: None,
            in_step: 1.0,
        });
        Line {
            name: name.to_owned(),
            color: palette::variant(0),
            points: points.collect(),
        }
    }

    #[test]
    fn every_line_is_drawn_and_named_and_numbers_stand_below() {
        let panel = |title: &str| LinePanel {
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
    fn nothing_and_no_numbers_are_drawn_all_the_same() {
        let odd = LinePanel {
            title: String::new(),
            lines: vec![line("", &[f64::NAN, 0.0]), line("", &[])],
        };
        let made = along(String::new(), "", "", &[odd]);
        assert!(!made.wide.contains("NaN") && !made.wide.contains("inf"));
    }
}
