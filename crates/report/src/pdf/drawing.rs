//! Charts as blocks: the shapes of the wide drawing, scaled to the page width.

use super::block::{DrawOp, PageBlock, Role, Story};
use super::face::Face;
use super::style::{BOTTOM, FontStyle, TOP, WIDTH};
use crate::chart::{Chart, Drawing, Shape, Side};

/// Maximum height of a drawing on one page, in points. It leaves space for the heading above the
/// chart.
const HEIGHT_MAX: f64 = BOTTOM - TOP - 90.0;

impl Story {
    /// Adds a chart. If the chart is too tall for one page, it is split between its rows.
    pub(super) fn chart(&mut self, chart: &Chart, before: f64, keep: bool) {
        let figure = self.element(Role::Figure(chart.label.clone()), None);
        let drawing = &chart.drawing;
        let scale = WIDTH / drawing.width;
        let parts = parts(drawing, HEIGHT_MAX / scale);
        let count = parts.len();
        for (place, (from, to)) in parts.into_iter().enumerate() {
            let height = (to - from) * scale;
            let mut ops = vec![DrawOp::Begin(figure)];
            if count > 1 {
                ops.push(DrawOp::Clip {
                    x: -20.0,
                    y: 0.0,
                    width: WIDTH + 40.0,
                    height,
                });
            }
            let shapes = drawing.shapes.iter().filter(|shape| {
                let (top, bottom) = extent(shape);
                bottom > from && top < to
            });
            ops.extend(shapes.map(|shape| op(shape, scale).moved(0.0, -from * scale)));
            if count > 1 {
                ops.push(DrawOp::Unclip);
            }
            ops.push(DrawOp::End);
            self.push(PageBlock {
                ops,
                height,
                before: if place == 0 { before } else { 0.0 },
                keep: keep && place + 1 == count,
                ..PageBlock::default()
            });
        }
    }
}

/// The vertical extent of a shape, in pixels.
fn extent(shape: &Shape) -> (f64, f64) {
    match shape {
        Shape::Text { at, style, .. } => (at.1 - style.size * 0.7, at.1 + style.size * 0.7),
        Shape::Path { points, width, .. } => {
            let ys = || points.iter().map(|point| point.1);
            let top = ys().fold(f64::INFINITY, f64::min);
            let bottom = ys().fold(f64::NEG_INFINITY, f64::max);
            (top - width, bottom + width)
        }
        Shape::Rect { from, to, .. } => (from.1.min(to.1), from.1.max(to.1)),
        Shape::Dot { center, radius, .. } => (center.1 - radius, center.1 + radius),
    }
}

/// Returns true if a shape stays readable when split: a line across all rows, or a band behind
/// them.
fn may_be_cut(shape: &Shape) -> bool {
    const ROWS_HEIGHT: f64 = 120.0;
    let (top, bottom) = extent(shape);
    match shape {
        Shape::Path { points, .. } => points.len() == 2 && bottom - top > ROWS_HEIGHT,
        Shape::Rect { .. } => bottom - top > ROWS_HEIGHT,
        _ => false,
    }
}

/// Splits a drawing between its shapes into parts that are at most `most` pixels high.
fn parts(drawing: &Drawing, most: f64) -> Vec<(f64, f64)> {
    let mut whole: Vec<(f64, f64)> = drawing
        .shapes
        .iter()
        .filter(|shape| !may_be_cut(shape))
        .map(extent)
        .collect();
    whole.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut parts = Vec::new();
    let mut from = 0.0;
    while drawing.height - from > most {
        let mut cut = from + most;
        // Shapes are sorted from the bottom up. If the cut would hit a shape, it moves above that
        // shape.
        for &(top, bottom) in &whole {
            if top < cut && cut < bottom {
                cut = top;
            }
        }
        if cut < from + most / 4.0 {
            cut = from + most;
        }
        parts.push((from, cut));
        from = cut;
    }
    parts.push((from, drawing.height));
    parts
}

fn op(shape: &Shape, scale: f64) -> DrawOp {
    let scaled = |(x, y): (f64, f64)| (x * scale, y * scale);
    match shape {
        Shape::Text { at, text, style } => {
            let size = style.size * scale;
            let face = if style.bold {
                Face::Bold
            } else {
                Face::Regular
            };
            let looks = FontStyle {
                face,
                size,
                leading: size * 1.3,
                color: style.color.light,
            };
            let (x, middle) = scaled(*at);
            let width = looks.width_of(text);
            DrawOp::Text {
                x: match style.side {
                    Side::Start => x,
                    Side::Middle => x - width / 2.0,
                    Side::End => x - width,
                },
                // The text is centered on the mean of half the height of lowercase letters and half
                // the height of capitals.
                y: middle + size * 0.32,
                text: text.clone(),
                style: looks,
            }
        }
        Shape::Path {
            points,
            color,
            width,
            opacity,
        } => DrawOp::Path {
            points: points.iter().map(|&point| scaled(point)).collect(),
            color: color.light,
            width: width * scale,
            opacity: *opacity,
        },
        Shape::Rect {
            from,
            to,
            color,
            opacity,
        } => {
            let (from, to) = (scaled(*from), scaled(*to));
            DrawOp::Rect {
                x: from.0.min(to.0),
                y: from.1.min(to.1),
                width: (to.0 - from.0).abs(),
                height: (to.1 - from.1).abs(),
                color: color.light,
                opacity: *opacity,
            }
        }
        Shape::Dot {
            center,
            radius,
            color,
            opacity,
        } => DrawOp::Dot {
            center: scaled(*center),
            radius: radius * scale,
            color: color.light,
            opacity: *opacity,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::{ForestRow, forest, palette};

    #[test]
    fn a_high_drawing_is_split_between_its_rows() {
        let row = |i: usize| ForestRow {
            name: format!("variant {i}"),
            color: palette::variant(i),
            ratio: Some(0.9 + i as f64 / 1000.0),
            interval: Some((0.85, 1.1)),
            change: "−10.0%".to_owned(),
            interval_text: String::new(),
            verdict: "slower".to_owned(),
        };
        let rows: Vec<ForestRow> = (0..200).map(row).collect();
        let chart = forest("many".to_owned(), &rows, 0.02);
        let mut story = Story::default();
        story.chart(&chart, 10.0, false);
        assert!(story.blocks.len() > 5, "{}", story.blocks.len());
        let height: f64 = story.blocks.iter().map(|block| block.height).sum();
        let whole = chart.drawing.height * WIDTH / chart.drawing.width;
        assert!((height - whole).abs() < 1e-6);
        let mut names = 0;
        for block in &story.blocks {
            assert!(block.height <= HEIGHT_MAX + 1e-6);
            for op in &block.ops {
                if let DrawOp::Text { y, style, text, .. } = op {
                    names += usize::from(text.starts_with("variant "));
                    assert!(
                        *y <= block.height && *y - style.size * 0.7 >= 0.0,
                        "{text} is cut off"
                    );
                }
            }
        }
        assert_eq!(names, 200, "each once");
    }
}
