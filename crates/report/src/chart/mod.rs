//! Figures as SVG: a forest plot, small multiples over time, dot strips, stacked bars.
//!
//! Every chart is drawn twice, for a wide page and for a phone, and the page shows one: scaling one
//! drawing would leave its text unreadable on the smaller. Colours are the light scheme's, as fixed
//! hex values; the page maps them to the dark scheme's by attribute selectors ([`palette`]), so that
//! the charts need neither scripts nor classes.

mod along;
mod bars;
mod canvas;
mod completions;
mod distribution;
mod forest;
pub(crate) mod palette;
mod panels;
mod strips;
mod svg;
mod timed;

pub(crate) use along::{Line, LinePanel, along};
pub(crate) use bars::{Bar, Measure, cpu_bars};
pub(crate) use completions::{MOST_RUNS, Run, completions, ends_in_words};
pub(crate) use distribution::distribution;
pub(crate) use forest::{ForestRow, forest};
pub(crate) use panels::{Panel, over_time};
pub(crate) use strips::{Strip, StripGroup, range_in_words, strips};
pub(crate) use timed::{TimedLine, timed};

use canvas::Canvas;
pub(crate) use canvas::{Shape, Side};

/// Both drawings of one chart, as markup, and the wider one as shapes.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub(crate) struct Chart {
    /// What a reader who can't see it is told.
    pub(crate) label: String,
    /// For paper, and for files.
    #[serde(skip)]
    pub(crate) drawing: Drawing,
    /// For pages of 720 pixels and more.
    pub(crate) wide: String,
    /// For phones.
    pub(crate) narrow: String,
}

impl Chart {
    /// The wider drawing as an SVG file of its own.
    pub(crate) fn file(&self, title: &str) -> String {
        svg::standalone(&self.drawing, title, &self.label)
    }
}

/// A drawing as shapes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Drawing {
    /// In pixels.
    pub(crate) width: f64,
    /// In pixels.
    pub(crate) height: f64,
    pub(crate) shapes: Vec<Shape>,
}

/// How much room a drawing has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Room {
    Wide,
    Narrow,
}

impl Room {
    /// The drawing's width in pixels.
    fn width(self) -> f64 {
        match self {
            Room::Wide => 720.0,
            Room::Narrow => 340.0,
        }
    }

    fn class(self) -> &'static str {
        match self {
            Room::Wide => "wide",
            Room::Narrow => "narrow",
        }
    }

    fn is_narrow(self) -> bool {
        self == Room::Narrow
    }
}

/// Draws for both rooms. `draw` paints and says how high the drawing became.
fn chart(label: String, draw: impl Fn(&mut Canvas, Room) -> f64) -> Chart {
    let in_room = |room: Room| {
        let mut canvas = Canvas::default();
        let height = draw(&mut canvas, room);
        Drawing {
            width: room.width(),
            height,
            shapes: canvas.shapes,
        }
    };
    let markup = |room: Room, drawing: &Drawing| {
        let size = (drawing.width, drawing.height);
        svg::in_page(&drawing.shapes, &label, room.class(), size)
    };
    let drawing = in_room(Room::Wide);
    Chart {
        wide: markup(Room::Wide, &drawing),
        narrow: markup(Room::Narrow, &in_room(Room::Narrow)),
        drawing,
        label,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_texts_can_not_break_out_of_the_drawing() {
        let made = chart("a\"><script>".to_owned(), |canvas, _| {
            canvas.text((0.0, 0.0), "<script>&", canvas::Text::LABEL);
            20.0
        });
        for drawing in [&made.wide, &made.narrow] {
            assert!(!drawing.contains("<script"));
            assert!(drawing.contains("&lt;script&gt;&amp;"));
            assert!(drawing.contains("role=\"img\""));
        }
    }
}
