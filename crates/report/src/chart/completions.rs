//! Completions over time of all variants in one chart, until the last request finished.
//!
//! The chart is for loads with a fixed number of requests: the line of a faster variant ends
//! earlier.

use super::canvas::{Axis, Canvas, TextStyle, decimal, highest, positions};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::Color;
use super::panels::short;
use crate::number;

/// Maximum number of variants that can be distinguished in one chart.
pub(crate) const VARIANTS_MAX: usize = 8;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VariantTrials {
    pub(crate) name: String,
    pub(crate) color: Color,
    /// One line for each trial, ordered by block. Each point is a time in seconds and the number of
    /// completions since the previous point.
    pub(crate) lines: Vec<Vec<(f64, f64)>>,
}

impl VariantTrials {
    /// End of the trial with the median length, in seconds.
    fn ended_s(&self) -> Option<f64> {
        let ends = self.lines.iter().filter_map(|line| line.last());
        let mut ends: Vec<f64> = ends.map(|point| point.0).collect();
        ends.sort_by(f64::total_cmp);
        ends.get(ends.len().saturating_sub(1) / 2).copied()
    }
}

/// Draws all variants over the same axes, which start at zero. `every_s` is the time between
/// points.
pub(crate) fn completions(label: String, runs: &[VariantTrials], every_s: f64) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, runs, every_s))
}

/// Describes, for the chart's label, the time at which each variant's trials ended.
pub(crate) fn ends_in_words(runs: &[VariantTrials]) -> String {
    let ends = runs.iter().map(|run| match run.ended_s() {
        Some(end) => format!("{} done after {}", run.name, number::span(end)),
        None => format!("{}: no trial", run.name),
    });
    ends.collect::<Vec<_>>().join("; ")
}

const LEFT: f64 = 52.0;
const ROW: f64 = 20.0;
const HEIGHT: f64 = 220.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, runs: &[VariantTrials], every_s: f64) -> f64 {
    let right = size.width() - 10.0;
    let points = || runs.iter().flat_map(|run| run.lines.iter().flatten());
    let longest = highest(points().map(|point| point.0)).max(every_s);
    let most = (highest(points().map(|point| point.1)) * 1.06).max(1.0);
    let top = draw_names(canvas, size, runs) + 26.0;
    let bottom = top + HEIGHT;
    let x = Axis::new(0.0..longest, LEFT..right);
    let y = Axis::new(0.0..most, bottom..top);
    let unit = format!("completions, each {}", number::span(every_s));
    canvas.text((0.0, top - 14.0), &unit, TextStyle::AXIS);
    canvas.grid(&y, (LEFT, right), (6, 0.0), short);
    canvas.marks_below(&x, bottom, if size.is_narrow() { 6 } else { 12 }, decimal);
    for run in runs {
        let opacity = if run.lines.len() > 1 { 0.6 } else { 0.9 };
        for line in &run.lines {
            let points = positions(line, &x, &y);
            canvas.path(&points, run.color, 1.8, opacity);
            if let Some(&end) = points.last() {
                canvas.dot(end, 3.5, run.color, 0.9);
            }
        }
    }
    let caption = if size.is_narrow() {
        "seconds; the dot marks the last request"
    } else {
        "seconds since the measurement started; the dot marks the last request"
    };
    canvas.caption(size.width() / 2.0, bottom, caption)
}

/// Draws the variants' names in their colors, in as many rows as needed. Returns the vertical
/// position of the last row's lower edge.
fn draw_names(canvas: &mut Canvas, size: DrawingSize, runs: &[VariantTrials]) -> f64 {
    let style = TextStyle::LABEL.bold();
    let (mut x, mut y) = (0.0, ROW / 2.0);
    for run in runs {
        let name = style.fit(&run.name, size.width() - 40.0);
        let width = 24.0 + style.width_of(&name) + 18.0;
        if x > 0.0 && x + width > size.width() {
            (x, y) = (0.0, y + ROW);
        }
        canvas.line((x, y), (x + 16.0, y), run.color, 3.0);
        canvas.text((x + 24.0, y), &name, style.color(run.color));
        x += width;
    }
    y + ROW / 2.0
}

#[cfg(test)]
mod tests {
    use super::super::palette;
    use super::*;

    fn run(name: &str, lines: Vec<Vec<(f64, f64)>>) -> VariantTrials {
        VariantTrials {
            name: name.to_owned(),
            color: palette::variant(0),
            lines,
        }
    }

    #[test]
    fn every_variant_is_named_and_every_trial_drawn_to_its_end() {
        let line = |end| vec![(0.0, 0.0), (0.5, 40.0), (end, 12.0)];
        let runs = [
            run("system", vec![line(1.2), line(1.4)]),
            run("masked", vec![line(9.0)]),
        ];
        let made = completions(String::new(), &runs, 0.5);
        for drawing in [&made.wide, &made.narrow] {
            assert!(drawing.contains(">system<") && drawing.contains(">masked<"));
            assert_eq!(drawing.matches("<polyline").count(), 3);
            assert_eq!(drawing.matches("<circle").count(), 3);
        }
        assert!(ends_in_words(&runs).starts_with("system done after 1.2 s; masked"));
    }

    #[test]
    fn empty_lines_and_nan_are_drawn() {
        let odd = [
            run("a", vec![]),
            run("b", vec![vec![], vec![(f64::NAN, 1.0)]]),
        ];
        let made = completions(String::new(), &odd, 0.5);
        assert!(!made.wide.contains("NaN"));
        assert_eq!(ends_in_words(&[run("a", vec![])]), "a: no trial");
    }
}
