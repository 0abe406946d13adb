//! A chart as two drawings, for a wide page and for a phone.

use super::canvas::{Canvas, Drawing};
use super::svg;

/// A chart: both drawings as markup, and the wide one as shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Chart {
    /// A description for screen readers.
    pub(crate) label: String,
    /// The wide drawing as shapes, for SVG files.
    pub(crate) drawing: Drawing,
    /// Markup for pages that are at least 720 pixels wide.
    pub(crate) wide: String,
    /// Markup for phones.
    pub(crate) narrow: String,
}

impl Chart {
    /// Returns the wide drawing as a standalone SVG file.
    pub(crate) fn file(&self, title: &str) -> String {
        svg::standalone(&self.drawing, title, &self.label)
    }
}

/// The size class of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DrawingSize {
    Wide,
    Narrow,
}

impl DrawingSize {
    /// The drawing's width in pixels.
    pub(super) fn width(self) -> f64 {
        match self {
            DrawingSize::Wide => 720.0,
            DrawingSize::Narrow => 340.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            DrawingSize::Wide => "wide",
            DrawingSize::Narrow => "narrow",
        }
    }

    pub(super) fn is_narrow(self) -> bool {
        self == DrawingSize::Narrow
    }

    /// The number of columns in which to arrange panels.
    pub(super) fn columns(self, panels: usize) -> usize {
        match (self, panels) {
            (DrawingSize::Narrow, _) | (_, 0 | 1) => 1,
            (_, 2 | 4) => 2,
            _ => 3,
        }
    }
}

/// Draws a chart for a wide page and for a phone. `draw` returns the height of the drawing.
pub(super) fn chart(label: String, draw: impl Fn(&mut Canvas, DrawingSize) -> f64) -> Chart {
    let drawn = |size: DrawingSize| {
        let mut canvas = Canvas::default();
        let height = draw(&mut canvas, size);
        Drawing {
            width: size.width(),
            height,
            shapes: canvas.shapes,
        }
    };
    let markup = |size: DrawingSize, drawing: &Drawing| svg::in_page(drawing, &label, size.class());
    let drawing = drawn(DrawingSize::Wide);
    Chart {
        wide: markup(DrawingSize::Wide, &drawing),
        narrow: markup(DrawingSize::Narrow, &drawn(DrawingSize::Narrow)),
        drawing,
        label,
    }
}

#[cfg(test)]
mod tests {
    use super::super::canvas::TextStyle;
    use super::*;

    #[test]
    fn labels_and_texts_are_escaped() {
        let made = chart("a\"><script>".to_owned(), |canvas, _| {
            canvas.text((0.0, 0.0), "<script>&", TextStyle::LABEL);
            20.0
        });
        for drawing in [&made.wide, &made.narrow] {
            assert!(!drawing.contains("<script"));
            assert!(drawing.contains("&lt;script&gt;&amp;"));
            assert!(drawing.contains("role=\"img\""));
        }
    }
}
