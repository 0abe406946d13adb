//! A thin layer over the SVG back end of `plotters`: pixels with fractions, and our few styles.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::coord::ranged1d::{BoldPoints, KeyPointHint as _, Ranged};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::{DrawingBackend, RGBAColor, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color as _, FontFamily, FontStyle, IntoTextStyle, RGBColor, ShapeStyle, TextStyle,
};

use super::palette::{self, Color};

/// The back end draws at whole positions; ten of them make a pixel.
const FINE: f64 = 10.0;

/// Where a text stands at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    Middle,
    End,
}

/// How a text looks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Text {
    size: f64,
    bold: bool,
    color: Color,
    side: Side,
}

impl Text {
    /// Labels that are read first.
    pub(super) const LABEL: Text = Text {
        size: 13.0,
        bold: false,
        color: palette::INK,
        side: Side::Start,
    };
    /// Axes and notes.
    pub(super) const AXIS: Text = Text {
        size: 11.5,
        bold: false,
        color: palette::MUTED,
        side: Side::Start,
    };

    pub(super) fn bold(self) -> Text {
        Text { bold: true, ..self }
    }

    pub(super) fn color(self, color: Color) -> Text {
        Text { color, ..self }
    }

    pub(super) fn side(self, side: Side) -> Text {
        Text { side, ..self }
    }

    /// About how wide a text is in pixels; the reader's font decides.
    pub(super) fn width_of(self, text: &str) -> f64 {
        let average = if self.bold { 0.64 } else { 0.58 };
        text.chars().count() as f64 * self.size * average
    }

    /// The text, shortened to what fits `width` pixels. Its middle goes first: names of a kind, as
    /// URLs are, differ at their ends.
    pub(super) fn fit(self, text: &str, width: f64) -> String {
        if self.width_of(text) <= width {
            return text.to_owned();
        }
        let chars: Vec<char> = text.chars().collect();
        let room = (width / self.width_of("n")) as usize;
        let kept = room.saturating_sub(1).min(chars.len());
        let (head, tail) = (kept / 3, kept - kept / 3);
        let part = |chars: &[char]| chars.iter().collect::<String>();
        format!(
            "{}…{}",
            part(&chars[..head]),
            part(&chars[chars.len() - tail..])
        )
    }
}

/// A surface on which shapes are put in pixels.
pub(super) struct Canvas<'a> {
    svg: SVGBackend<'a>,
}

fn rgba(color: Color, opacity: f64) -> RGBAColor {
    let [_, r, g, b] = color.light.to_be_bytes();
    RGBColor(r, g, b).mix(opacity)
}

fn fine(value: f64) -> i32 {
    (value * FINE).round() as i32
}

fn at((x, y): (f64, f64)) -> (i32, i32) {
    (fine(x), fine(y))
}

/// Drawing to a string in memory has no way to fail.
fn drawn<E>(_: Result<(), E>) {}

impl<'a> Canvas<'a> {
    /// A canvas that writes the elements of a drawing to `out`; [`finish`] puts them into a frame.
    pub(super) fn new(out: &'a mut String) -> Canvas<'a> {
        Canvas {
            svg: SVGBackend::with_string(out, (1, 1)),
        }
    }

    /// A text whose middle line is at the position's height.
    pub(super) fn text(&mut self, position: (f64, f64), text: &str, style: Text) {
        let h_pos = match style.side {
            Side::Start => HPos::Left,
            Side::Middle => HPos::Center,
            Side::End => HPos::Right,
        };
        let weight = if style.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        // The back end divides sizes by 1.24, and wants controls and markup to be gone already.
        let color = rgba(style.color, 1.0);
        let font: TextStyle<'_> = (
            FontFamily::SansSerif,
            style.size * FINE * 1.24,
            weight,
            &color,
        )
            .into_text_style(&(1, 1))
            .pos(Pos::new(h_pos, VPos::Center));
        drawn(
            self.svg
                .draw_text(&crate::table::plain(text), &font, at(position)),
        );
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), color: Color, width: f64) {
        let style = stroke(rgba(color, 1.0), width);
        drawn(self.svg.draw_line(at(from), at(to), &style));
    }

    /// A line through all points.
    pub(super) fn path(&mut self, points: &[(f64, f64)], color: Color, width: f64, opacity: f64) {
        let style = stroke(rgba(color, opacity), width);
        drawn(
            self.svg
                .draw_path(points.iter().map(|&point| at(point)), &style),
        );
    }

    /// A filled rectangle between two corners.
    pub(super) fn rect(&mut self, from: (f64, f64), to: (f64, f64), color: Color, opacity: f64) {
        drawn(
            self.svg
                .draw_rect(at(from), at(to), &rgba(color, opacity), true),
        );
    }

    /// A filled disc.
    pub(super) fn dot(&mut self, center: (f64, f64), radius: f64, color: Color, opacity: f64) {
        let radius = fine(radius).unsigned_abs();
        drawn(
            self.svg
                .draw_circle(at(center), radius, &rgba(color, opacity), true),
        );
    }
}

fn stroke(color: RGBAColor, width: f64) -> ShapeStyle {
    ShapeStyle {
        color,
        filled: false,
        stroke_width: fine(width).unsigned_abs(),
    }
}

/// The elements of a drawing in a frame of `width` by `height` pixels that scales down, not up.
pub(super) fn finish(body: &str, label: &str, class: &str, width: f64, height: f64) -> String {
    // The back end opens and closes a frame of its own, of fixed size and without a label.
    let inner = body
        .split_once('>')
        .map_or(body, |(_, rest)| rest)
        .trim_end()
        .trim_end_matches("</svg>");
    let mut escaped = String::new();
    for c in crate::table::plain(label).chars() {
        match c {
            '<' => escaped.push_str("&lt;"),
            '&' => escaped.push_str("&amp;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    let mut out = String::new();
    // Writing to a string can't fail.
    let _ = writeln!(
        out,
        "<svg class=\"{class}\" role=\"img\" aria-label=\"{escaped}\" viewBox=\"0 0 {} {}\" \
         style=\"max-width:{width}px\">",
        fine(width),
        fine(height)
    );
    // One line for each element, without the breaks that the back end puts into texts.
    out + inner
        .replace(">\n", ">")
        .replace("\n</text>", "</text>")
        .trim()
        + "</svg>"
}

/// An axis: values to pixels, and where to put its marks.
#[derive(Debug, Clone)]
pub(super) struct Axis {
    values: Range<f64>,
    pixels: Range<f64>,
}

impl Axis {
    /// An axis over `values`, which must not be empty, drawn from the first to the second pixel.
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

    /// Round values within the range, at most `most` of them.
    pub(super) fn marks(&self, most: usize) -> Vec<f64> {
        let hint = BoldPoints(most);
        let coordinates = RangedCoordf64::from(self.values.clone());
        debug_assert!(hint.max_num_points() >= 1);
        coordinates.key_points(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shortened_to_its_room() {
        let fits = Text::LABEL.fit("native, unix", 200.0);
        assert_eq!(fits, "native, unix");
        let cut = Text::LABEL.fit("a very long name of a variant", 100.0);
        assert!(cut.contains('…') && cut.ends_with('t'), "{cut}");
        assert!(Text::LABEL.width_of(&cut) <= 100.0);
        assert_eq!(Text::LABEL.fit("long", 0.0), "…");
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
