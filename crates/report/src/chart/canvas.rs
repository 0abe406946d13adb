//! A canvas that records drawing operations as shapes, with text styles and axes.

use std::ops::Range;

use super::palette::{self, Color};
use crate::table::xml_plain;

/// The alignment of text at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Start,
    Middle,
    End,
}

/// Size, weight, color and alignment of text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct TextStyle {
    /// Size in pixels.
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) color: Color,
    pub(crate) side: Side,
}

impl TextStyle {
    /// Style of the most prominent labels.
    pub(super) const LABEL: TextStyle = TextStyle {
        size: 13.0,
        bold: false,
        color: palette::INK,
        side: Side::Start,
    };
    /// Style of axes and notes.
    pub(super) const AXIS: TextStyle = TextStyle {
        size: 11.5,
        bold: false,
        color: palette::MUTED,
        side: Side::Start,
    };

    pub(super) fn bold(self) -> TextStyle {
        TextStyle { bold: true, ..self }
    }

    pub(super) fn color(self, color: Color) -> TextStyle {
        TextStyle { color, ..self }
    }

    pub(super) fn side(self, side: Side) -> TextStyle {
        TextStyle { side, ..self }
    }

    /// Estimates the width of text in pixels. The actual width depends on the reader's font.
    pub(super) fn width_of(self, text: &str) -> f64 {
        let average = if self.bold { 0.64 } else { 0.58 };
        text.chars().count() as f64 * self.size * average
    }

    /// Shortens text to `width` pixels by omitting its middle, because similar names, such as URLs,
    /// differ at their ends.
    pub(super) fn fit(self, text: &str, width: f64) -> String {
        if self.width_of(text) <= width {
            return text.to_owned();
        }
        let chars: Vec<char> = text.chars().collect();
        let fitting = (width / self.width_of("n")) as usize;
        let kept = fitting.saturating_sub(1).min(chars.len());
        let (head, tail) = (kept / 3, kept - kept / 3);
        let part = |chars: &[char]| chars.iter().collect::<String>();
        format!(
            "{}…{}",
            part(&chars[..head]),
            part(&chars[chars.len() - tail..])
        )
    }
}

/// A shape, in pixels from the upper left corner. Later shapes cover earlier ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    /// Text that is centered vertically at the position.
    Text {
        at: (f64, f64),
        text: String,
        style: TextStyle,
    },
    /// A line through all points.
    Path {
        points: Vec<(f64, f64)>,
        color: Color,
        width: f64,
        opacity: f64,
    },
    /// A filled rectangle between two corners.
    Rect {
        from: (f64, f64),
        to: (f64, f64),
        color: Color,
        opacity: f64,
    },
    /// A rectangle with text that is cut off at its right edge, and a title that appears when the
    /// pointer is above it. Searches find the whole text.
    Frame {
        from: (f64, f64),
        to: (f64, f64),
        color: Color,
        opacity: f64,
        text: String,
        title: String,
        style: TextStyle,
    },
    /// A filled disc.
    Dot {
        center: (f64, f64),
        radius: f64,
        color: Color,
        opacity: f64,
    },
}

/// A drawing as shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawing {
    /// Width in pixels.
    pub(crate) width: f64,
    /// Height in pixels.
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// A canvas that records shapes.
#[derive(Debug, Default)]
pub(super) struct Canvas {
    pub(super) shapes: Vec<Shape>,
}

impl Canvas {
    /// Draws text that is centered vertically at the position.
    pub(super) fn text(&mut self, at: (f64, f64), text: &str, style: TextStyle) {
        let text = xml_plain(text);
        self.shapes.push(Shape::Text { at, text, style });
    }

    /// Draws a name within `width` pixels. If the name doesn't fit on one line, it is drawn in two
    /// lines of smaller type. If it doesn't fit on these either, it is shortened.
    pub(super) fn name(&mut self, at: (f64, f64), name: &str, width: f64, style: TextStyle) {
        let Some((first, second)) = halves(name, style, width) else {
            self.text(at, &style.fit(name, width), style);
            return;
        };
        let small = TextStyle {
            size: style.size * 0.86,
            ..style
        };
        self.text((at.0, at.1 - 6.0), &small.fit(first, width), small);
        self.text((at.0, at.1 + 6.5), &small.fit(second, width), small);
    }

    /// Draws a straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Color, width: f64) {
        self.path(&[from, to], color, width, 1.0);
    }

    /// Draws a line through all points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], color: Color, width: f64, opacity: f64) {
        self.shapes.push(Shape::Path {
            points: points.to_vec(),
            color,
            width,
            opacity,
        });
    }

    /// Draws a filled rectangle between two corners.
    pub(super) fn rect(&mut self, from: (f64, f64), to: (f64, f64), color: Color, opacity: f64) {
        self.shapes.push(Shape::Rect {
            from,
            to,
            color,
            opacity,
        });
    }

    /// Draws a horizontal line at each mark of the vertical axis, with the mark's text on the left,
    /// if any. There are at most `most` marks. The line at `reference` is darker.
    pub(super) fn grid(
        &mut self,
        y: &Axis,
        (left, right): (f64, f64),
        (most, reference): (usize, f64),
        text: impl Fn(f64) -> String,
    ) {
        for value in y.marks(most) {
            let at = y.at(value);
            // The comparison has a tolerance, because marks have rounding errors.
            let color = if (at - y.at(reference)).abs() < 1e-6 {
                palette::REFERENCE
            } else {
                palette::GRID
            };
            self.line((left, at), (right, at), color, 1.0);
            let text = text(value);
            if !text.is_empty() {
                self.text((left - 8.0, at), &text, TextStyle::AXIS.side(Side::End));
            }
        }
    }

    /// Draws the text, if any, of each mark of the horizontal axis. There are at most `most` marks.
    /// `bottom` is the lower end of the vertical axis.
    pub(super) fn marks_below(
        &mut self,
        x: &Axis,
        bottom: f64,
        most: usize,
        text: impl Fn(f64) -> String,
    ) {
        for value in x.marks(most) {
            let text = text(value);
            if !text.is_empty() {
                let style = TextStyle::AXIS.side(Side::Middle);
                self.text((x.at(value), bottom + 13.0), &text, style);
            }
        }
    }

    /// Draws a caption below the marks of the horizontal axis, centered at `middle`. Returns the
    /// vertical position of the drawing's lower edge.
    pub(super) fn caption(&mut self, middle: f64, bottom: f64, text: &str) -> f64 {
        let style = TextStyle::AXIS.side(Side::Middle);
        self.text((middle, bottom + 32.0), text, style);
        bottom + 42.0
    }

    /// Draws a filled disc.
    pub(super) fn dot(&mut self, center: (f64, f64), radius: f64, color: Color, opacity: f64) {
        self.shapes.push(Shape::Dot {
            center,
            radius,
            color,
            opacity,
        });
    }
}

/// Splits a name that doesn't fit on one line into two parts of similar length; `None` if it fits
/// or has no separator.
fn halves(name: &str, style: TextStyle, width: f64) -> Option<(&str, &str)> {
    if style.width_of(name) <= width {
        return None;
    }
    let marks = name.char_indices().filter(|(_, c)| " /-_".contains(*c));
    let ends = marks.map(|(place, c)| place + c.len_utf8());
    let inside = ends.filter(|&end| end < name.len());
    let longer = |&end: &usize| name[..end].chars().count().max(name[end..].chars().count());
    let end = inside.min_by_key(longer)?;
    Some((name[..end].trim_end(), &name[end..]))
}

/// Formats a value of an axis with up to three decimals.
pub(super) fn decimal(value: f64) -> String {
    format!("{}", (value * 1000.0).round() / 1000.0)
}

/// The highest of the finite values; zero if there are none.
pub(super) fn highest(values: impl Iterator<Item = f64>) -> f64 {
    let finite = values.filter(|value| value.is_finite());
    finite.fold(0.0, f64::max)
}

/// Returns the positions of the points whose values are finite.
pub(super) fn positions(points: &[(f64, f64)], x: &Axis, y: &Axis) -> Vec<(f64, f64)> {
    let finite = points
        .iter()
        .filter(|(a, b)| a.is_finite() && b.is_finite());
    finite.map(|&(a, b)| (x.at(a), y.at(b))).collect()
}

/// An axis: maps values to pixels and places marks.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    values: Range<f64>,
    pixels: Range<f64>,
}

impl Axis {
    /// Creates an axis over `values`, which must not be empty. It extends from `pixels.start` to
    /// `pixels.end`.
    pub(super) fn new(values: Range<f64>, pixels: Range<f64>) -> Axis {
        let end = if values.end > values.start {
            values.end
        } else {
            values.start + 1.0
        };
        Axis {
            values: values.start..end,
            pixels,
        }
    }

    pub(super) fn at(&self, value: f64) -> f64 {
        let share = (value - self.values.start) / (self.values.end - self.values.start);
        self.pixels.start + share * (self.pixels.end - self.pixels.start)
    }

    /// Returns at most `most` round values within the range.
    pub(super) fn marks(&self, most: usize) -> Vec<f64> {
        let (start, end) = (self.values.start, self.values.end);
        let least_step = (end - start) / most.max(1) as f64;
        if !least_step.is_finite() || least_step <= 0.0 {
            return Vec::new();
        }
        let decade = 10f64.powf(least_step.log10().floor());
        let marks = |step: f64| {
            // Marks are computed as whole multiples, so rounding errors don't accumulate.
            let first = (start / step).ceil() as i64;
            let last = (end / step).floor() as i64;
            (first..=last).map(move |n| n as f64 * step)
        };
        let steps = [1.0, 2.0, 5.0, 10.0, 20.0].map(|factor| factor * decade);
        let mut steps = steps.into_iter();
        let fitting = steps.find(|&step| marks(step).count() <= most);
        fitting.map_or_else(Vec::new, |step| marks(step).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_to_the_width() {
        let fits = TextStyle::LABEL.fit("native, unix", 200.0);
        assert_eq!(fits, "native, unix");
        let cut = TextStyle::LABEL.fit("a very long name of a variant", 100.0);
        assert!(cut.contains('…') && cut.ends_with('t'), "{cut}");
        assert!(TextStyle::LABEL.width_of(&cut) <= 100.0);
        assert_eq!(TextStyle::LABEL.fit("long", 0.0), "…");
    }

    #[test]
    fn a_long_name_takes_two_lines() {
        let style = TextStyle::LABEL.bold();
        let parted = |name, width| halves(name, style, width);
        assert_eq!(parted("native, unix", 200.0), None);
        let name = "portable, no CPU extensions, 1 MiB, 1.1";
        let lines = ("portable, no CPU", "extensions, 1 MiB, 1.1");
        assert_eq!(parted(name, 180.0), Some(lines));
        assert_eq!(parted("interminable", 20.0), None);
        let mut canvas = Canvas::default();
        canvas.name((0.0, 50.0), name, 180.0, style);
        assert_eq!(canvas.shapes.len(), 2);
    }

    #[test]
    fn marks_are_round_and_inside() {
        let axis = Axis::new(0.0..137.0, 0.0..100.0);
        let marks = axis.marks(5);
        assert!((2..=5).contains(&marks.len()), "{marks:?}");
        assert!(
            marks
                .iter()
                .all(|m| (0.0..=137.0).contains(m) && m % 10.0 == 0.0)
        );
    }
}
