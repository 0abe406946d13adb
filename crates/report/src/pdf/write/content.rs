//! The content stream of a page.

use std::collections::BTreeSet;

use pdf_writer::types::{LineCapStyle, LineJoinStyle};
use pdf_writer::{Content as Stream, Name, Str, TextStr};

use super::fonts::Fonts;
use crate::pdf::block::{DrawOp, ElementId};
use crate::pdf::flow::Page;
use crate::pdf::style::{FontStyle, PAGE_HEIGHT};

/// A page's content stream.
#[derive(Debug)]
pub(super) struct PageContent {
    pub(super) bytes: Vec<u8>,
    /// Structure element of each marked part, in order of appearance.
    pub(super) marked: Vec<ElementId>,
    /// All opacities that the page uses, in percent.
    pub(super) opacities: BTreeSet<u8>,
}

/// The name of the graphics state with this opacity in percent.
pub(super) fn state_name(opacity: u8) -> String {
    format!("O{opacity}")
}

impl PageContent {
    pub(super) fn of(page: &Page, fonts: &Fonts) -> PageContent {
        let mut writer = ContentWriter {
            stream: Stream::new(),
            fonts,
            marked: Vec::new(),
            opacities: BTreeSet::new(),
        };
        page.ops.iter().for_each(|op| writer.write(op));
        PageContent {
            bytes: writer.stream.finish().into_vec(),
            marked: writer.marked,
            opacities: writer.opacities,
        }
    }
}

struct ContentWriter<'a> {
    stream: Stream,
    fonts: &'a Fonts,
    marked: Vec<ElementId>,
    opacities: BTreeSet<u8>,
}

/// Converts a vertical position to PDF coordinates, which are measured from the lower edge.
fn up(y: f64) -> f32 {
    fine(PAGE_HEIGHT - y)
}

/// Rounds to a hundredth of a point, which is finer than any printer's resolution.
fn fine(value: f64) -> f32 {
    ((value * 100.0).round() / 100.0) as f32
}

fn rgb(color: u32) -> [f32; 3] {
    let [_, r, g, b] = color.to_be_bytes();
    [r, g, b].map(|part| (f32::from(part) / 255.0 * 1000.0).round() / 1000.0)
}

impl ContentWriter<'_> {
    fn write(&mut self, op: &DrawOp) {
        match op {
            DrawOp::Text { x, y, text, style } => self.text((*x, *y), text, *style),
            DrawOp::Path {
                points,
                color,
                width,
                opacity,
            } => self.path(points, *color, *width, *opacity),
            DrawOp::Rect {
                x,
                y,
                width,
                height,
                color,
                opacity,
            } => self.with_fill(*color, *opacity, |stream| {
                let (width, height) = (fine(*width), fine(*height));
                stream.rect(fine(*x), up(*y) - height, width, height);
                stream.fill_nonzero();
            }),
            DrawOp::Dot {
                center,
                radius,
                color,
                opacity,
            } => self.with_fill(*color, *opacity, |stream| disc(stream, *center, *radius)),
            DrawOp::Clip {
                x,
                y,
                width,
                height,
            } => {
                let (width, height) = (fine(*width), fine(*height));
                self.stream.save_state();
                self.stream.rect(fine(*x), up(*y) - height, width, height);
                self.stream.clip_nonzero();
                self.stream.end_path();
            }
            DrawOp::Unclip => {
                self.stream.restore_state();
            }
            DrawOp::Begin(element) => {
                let id = i32::try_from(self.marked.len()).unwrap_or(i32::MAX);
                self.marked.push(*element);
                let mut mark = self.stream.begin_marked_content_with_properties(Name(b"P"));
                mark.properties().identify(id);
            }
            DrawOp::Decoration => {
                self.stream.begin_marked_content(Name(b"Artifact"));
            }
            DrawOp::End => {
                self.stream.end_marked_content();
            }
        }
    }

    /// Draws in a color, then restores the state.
    fn with_fill(&mut self, color: u32, opacity: f64, draw: impl FnOnce(&mut Stream)) {
        let is_saved = self.opacity(opacity);
        let [r, g, b] = rgb(color);
        self.stream.set_fill_rgb(r, g, b);
        draw(&mut self.stream);
        if is_saved {
            self.stream.restore_state();
        }
    }

    /// Sets the opacity. Returns true if this saved the graphics state.
    fn opacity(&mut self, opacity: f64) -> bool {
        let percent = (opacity.clamp(0.0, 1.0) * 100.0).round() as u8;
        if percent == 100 {
            return false;
        }
        self.opacities.insert(percent);
        self.stream.save_state();
        let name = state_name(percent);
        self.stream.set_parameters(Name(name.as_bytes()));
        true
    }

    fn path(&mut self, points: &[(f64, f64)], color: u32, width: f64, opacity: f64) {
        let Some((first, others)) = points.split_first() else {
            return;
        };
        let is_saved = self.opacity(opacity);
        let [r, g, b] = rgb(color);
        let stream = &mut self.stream;
        stream.set_stroke_rgb(r, g, b);
        stream.set_line_width(fine(width));
        stream.set_line_cap(LineCapStyle::ButtCap);
        stream.set_line_join(LineJoinStyle::RoundJoin);
        stream.move_to(fine(first.0), up(first.1));
        for point in others {
            stream.line_to(fine(point.0), up(point.1));
        }
        stream.stroke();
        if is_saved {
            stream.restore_state();
        }
    }

    fn text(&mut self, (x, y): (f64, f64), text: &str, style: FontStyle) {
        let runs = self.fonts.runs(style.face, text);
        if runs.is_empty() {
            return;
        }
        let [r, g, b] = rgb(style.color);
        let stream = &mut self.stream;
        stream.begin_text();
        stream.set_fill_rgb(r, g, b);
        stream.set_text_matrix([1.0, 0.0, 0.0, 1.0, fine(x), up(y)]);
        for run in runs {
            let name = Fonts::name(run.face);
            stream.set_font(Name(name.as_bytes()), fine(style.size));
            match &run.stands_for {
                Some(original) => {
                    // The original text stays searchable although a replacement is shown.
                    let mut mark = stream.begin_marked_content_with_properties(Name(b"Span"));
                    mark.properties().actual_text(TextStr(original));
                    drop(mark);
                    stream.show(Str(&run.codes));
                    stream.end_marked_content();
                }
                None => {
                    stream.show(Str(&run.codes));
                }
            }
        }
        stream.end_text();
    }
}

/// Draws a disc as four curves.
fn disc(stream: &mut Stream, (x, y): (f64, f64), radius: f64) {
    // Relative distance of the control points that approximate a quarter circle.
    const QUARTER: f64 = 0.552_284_749_8;
    let reach = radius * QUARTER;
    stream.move_to(fine(x + radius), up(y));
    let quarters = [
        [(radius, reach), (reach, radius), (0.0, radius)],
        [(-reach, radius), (-radius, reach), (-radius, 0.0)],
        [(-radius, -reach), (-reach, -radius), (0.0, -radius)],
        [(reach, -radius), (radius, -reach), (radius, 0.0)],
    ];
    for points in quarters {
        let [a, b, c] = points.map(|(dx, dy)| (fine(x + dx), up(y - dy)));
        stream.cubic_to(a.0, a.1, b.0, b.1, c.0, c.1);
    }
    stream.fill_nonzero();
}
