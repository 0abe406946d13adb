//! Charts as blocks: the shapes of the page's wider drawing, scaled to the width of the paper.

use super::block::{Block, Op, Role, Story};
use super::face::Face;
use super::style::{BOTTOM, Style, TOP, WIDTH};
use crate::chart::{Chart, Drawing, Shape, Side};

/// The highest part of a drawing that is put onto one page, in points: a page less what stands
/// above a chart.
const MOST: f64 = BOTTOM - TOP - 90.0;

impl Story {
    /// Adds a chart; one that no page can hold is parted between its rows.
    pub(super) fn chart(&mut self, chart: &Chart, before: f64, keep: bool) {
        let figure = self.element(Role::Figure(chart.label.clone()), None);
        let drawing = &chart.drawing;
        let scale = WIDTH / drawing.width;
        let parts = parts(drawing, MOST / scale);
        let count = parts.len();
        for (place, (from, to)) in parts.into_iter().enumerate() {
            let height = (to - from) * scale;
            let mut ops = vec![Op::Begin(figure)];
            if count > 1 {
                ops.push(Op::Clip {
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
                ops.push(Op::Unclip);
            }
            ops.push(Op::End);
            self.push(Block {
                ops,
                height,
                before: if place == 0 { before } else { 0.0 },
                keep: keep && place + 1 == count,
                ..Block::default()
            });
        }
    }
}

/// From where to where a shape reaches downwards, in pixels.
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

/// Whether a cut through the shape leaves it readable: a line across all rows, or a band behind
/// them.
fn may_be_cut(shape: &Shape) -> bool {
    const ROWS: f64 = 120.0;
    let (top, bottom) = extent(shape);
    match shape {
        Shape::Path { points, .. } => points.len() == 2 && bottom - top > ROWS,
        Shape::Rect { .. } => bottom - top > ROWS,
        _ => false,
    }
}

/// The parts of a drawing, none of them higher than `most` pixels, parted where nothing stands.
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
        // From below upwards: whatever the cut would hit moves it above itself.
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

fn op(shape: &Shape, scale: f64) -> Op {
    let scaled = |(x, y): (f64, f64)| (x * scale, y * scale);
    match shape {
        Shape::Text { at, text, style } => {
            let size = style.size * scale;
            let face = if style.bold {
                Face::Bold
            } else {
                Face::Regular
            };
            let looks = Style {
                face,
                size,
                leading: size * 1.3,
                color: style.color.light,
            };
            let (x, middle) = scaled(*at);
            let width = looks.width_of(text);
            Op::Text {
                x: match style.side {
                    Side::Start => x,
                    Side::Middle => x - width / 2.0,
                    Side::End => x - width,
                },
                // Half of what lies between small letters and capitals in height.
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
        } => Op::Path {
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
            Op::Rect {
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
        } => Op::Dot {
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
    fn a_high_drawing_is_parted_between_its_rows() {
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
            assert!(block.height <= MOST + 1e-6);
            for op in &block.ops {
                if let Op::Text { y, style, text, .. } = op {
                    names += usize::from(text.starts_with("variant "));
                    assert!(
                        *y <= block.height && *y - style.size * 0.7 >= 0.0,
                        "{text} is cut"
                    );
                }
            }
        }
        assert_eq!(names, 200, "each once");
    }
}
