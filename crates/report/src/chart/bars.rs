//! Bar chart of the variants' CPU time, split into user and system time.

use super::canvas::{Axis, Canvas, Side, TextStyle, highest};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use crate::number;

/// The CPU time of one variant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    /// The variant's name.
    pub(crate) name: String,
    /// The variant's color.
    pub(crate) color: Color,
    /// The names and values of the parts, from left to right.
    pub(crate) parts: Vec<(&'static str, f64)>,
    /// The value that determines the bar's length. The parts are scaled to add up to it.
    pub(crate) total: f64,
    /// The text next to the bar.
    pub(crate) note: String,
}

/// The unit of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CpuMeasure {
    /// Microseconds for each request.
    PerRequest,
    /// Percent of one core.
    OfOneCore,
}

impl CpuMeasure {
    /// Formats a value with its unit.
    pub(crate) fn figure(self, value: f64) -> String {
        match self {
            CpuMeasure::PerRequest => number::time(value),
            CpuMeasure::OfOneCore => format!("{}%", number::significant(value, 2)),
        }
    }

    /// The unit in a sentence.
    pub(crate) fn words(self) -> &'static str {
        match self {
            CpuMeasure::PerRequest => "per request",
            CpuMeasure::OfOneCore => "percent of one core",
        }
    }

    /// Returns the distance between two marks of the axis, and the axis's unit.
    fn axis(self, highest: f64) -> (f64, &'static str) {
        match self {
            CpuMeasure::OfOneCore => (1.0, "%"),
            CpuMeasure::PerRequest if highest >= 2e6 => (1e6, " s"),
            CpuMeasure::PerRequest if highest >= 2e3 => (1e3, " ms"),
            CpuMeasure::PerRequest => (1.0, " µs"),
        }
    }
}

/// The opacities of the parts, from left to right.
const OPACITIES: [f64; 2] = [1.0, 0.5];

/// Draws a bar for each variant. User time has the variant's full color, and system time a paler
/// one.
pub(crate) fn cpu_bars(label: String, bars: &[Bar], measure: CpuMeasure) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, bars, measure))
}

fn draw(canvas: &mut Canvas, size: DrawingSize, bars: &[Bar], measure: CpuMeasure) -> f64 {
    let name = TextStyle::LABEL.bold();
    let longest = bars.iter().map(|bar| name.width_of(&bar.name));
    let (left, right, row) = if size.is_narrow() {
        (0.0, size.width() - 16.0, 50.0)
    } else {
        let left = longest.fold(80.0_f64, f64::max).min(180.0) + 14.0;
        (left, size.width() - 190.0, 34.0)
    };
    let highest = highest(bars.iter().map(|bar| bar.total));
    let (step, unit) = measure.axis(highest);
    let least = if measure == CpuMeasure::OfOneCore {
        1.0
    } else {
        1e-3
    };
    let axis = Axis::new(0.0..(highest * 1.02 / step).max(least), left..right);
    let bottom = row * bars.len() as f64 + 4.0;
    for value in axis.marks(if size.is_narrow() { 5 } else { 6 }) {
        let x = axis.at(value);
        canvas.line((x, 2.0), (x, bottom), palette::GRID, 1.0);
        let side = if value == 0.0 && size.is_narrow() {
            Side::Start
        } else {
            Side::Middle
        };
        // The value is rounded; otherwise 0.3 would print as 0.30000000000000004.
        let text = format!("{}{unit}", (value * 1e6).round() / 1e6);
        canvas.text((x, bottom + 13.0), &text, TextStyle::AXIS.side(side));
    }
    for (i, bar) in bars.iter().enumerate() {
        let top = row * i as f64 + 4.0;
        let style = name.color(bar.color);
        let note = &bar.note;
        let (y, height) = if size.is_narrow() {
            let note_width = TextStyle::AXIS.width_of(note);
            let fitted = name.fit(&bar.name, right - note_width - 10.0);
            canvas.text((left, top + 12.0), &fitted, style);
            canvas.text((right, top + 12.0), note, TextStyle::AXIS.side(Side::End));
            (top + 24.0, 18.0)
        } else {
            let y = top + row / 2.0;
            canvas.name((0.0, y), &bar.name, left - 14.0, style);
            canvas.text((right + 14.0, y), note, TextStyle::AXIS);
            (top + 6.0, 22.0)
        };
        draw_bar(canvas, bar, (&axis, step), y, height);
    }
    canvas.text(
        ((left + right) / 2.0, bottom + 31.0),
        &format!("{}, mean over the blocks", measure.words()),
        TextStyle::AXIS.side(Side::Middle),
    );
    bottom + 42.0
}

fn draw_bar(canvas: &mut Canvas, bar: &Bar, (axis, step): (&Axis, f64), top: f64, height: f64) {
    let sum: f64 = bar.parts.iter().map(|(_, value)| value).sum();
    let stretch = if sum > 0.0 { bar.total / sum } else { 1.0 };
    let mut start = 0.0;
    for (&(word, length), opacity) in bar.parts.iter().zip(OPACITIES) {
        let length = length * stretch;
        if !length.is_finite() || length <= 0.0 {
            continue;
        }
        let (from, to) = (axis.at(start / step), axis.at((start + length) / step));
        start += length;
        // A gap in the page's color separates the parts.
        canvas.rect((from, top), (to, top + height), bar.color, opacity);
        canvas.line((to, top), (to, top + height), palette::PAPER, 1.5);
        let style = TextStyle::AXIS
            .color(if opacity < 1.0 {
                palette::INK
            } else {
                palette::PAPER
            })
            .side(Side::Middle);
        if style.width_of(word) + 10.0 < to - from {
            canvas.text(((from + to) / 2.0, top + height / 2.0), word, style);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(parts: &[(&'static str, f64)]) -> Bar {
        Bar {
            name: "tcp".to_owned(),
            color: palette::variant(0),
            total: parts.iter().map(|(_, value)| value).sum(),
            parts: parts.to_vec(),
            note: "90% of a core".to_owned(),
        }
    }

    #[test]
    fn a_bar_shows_names_of_parts_that_fit() {
        let bars = [
            bar(&[("user", 60.0), ("system", 30.0)]),
            bar(&[("user", 60.0), ("system", 0.4)]),
        ];
        let made = cpu_bars(String::new(), &bars, CpuMeasure::OfOneCore);
        assert_eq!(made.wide.matches(">user<").count(), 2);
        assert_eq!(made.wide.matches(">system<").count(), 1);
        assert!(made.wide.contains(">90% of a core<"));
        let nothing = [bar(&[("user", f64::NAN), ("system", 0.0)])];
        let made = cpu_bars(String::new(), &nothing, CpuMeasure::PerRequest);
        assert!(!made.wide.contains("NaN"));
    }

    #[test]
    fn the_axis_uses_a_suitable_unit() {
        let bars = |us| [bar(&[("user", us), ("system", us / 2.0)])];
        for (us, mark) in [(12.0, ">10 µs<"), (2_000.0, ">1 ms<"), (4e6, ">2 s<")] {
            let made = cpu_bars(String::new(), &bars(us), CpuMeasure::PerRequest);
            assert!(made.wide.contains(mark), "{us}: {}", made.wide);
        }
    }
}
