//! Flame graphs: call trees with the outermost functions on top. The width of a function is its CPU
//! time with the functions that it calls.

use super::canvas::{Canvas, Shape, TextStyle};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use crate::call_tree::CallTree;
use crate::number;

/// Height of a row in pixels.
const ROW_HEIGHT: f64 = 17.0;
/// Gap between functions in pixels.
const GAP: f64 = 0.5;
/// Minimum width of a function in pixels. Narrower ones are omitted.
const WIDTH_MIN: f64 = 1.0;
/// Maximum number of rows. Deeper functions are omitted.
const ROWS_MAX: usize = 48;
/// Opacity of the most intense color, on which text is readable in both color schemes.
const OPACITY_MAX: f64 = 0.45;
/// Opacity of functions that did not change, in a comparison.
const OPACITY_MIN: f64 = 0.08;

/// Meaning of the colors of a flame graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlameColors {
    /// The program or library of a function.
    Module,
    /// The difference between a variant and its baseline.
    Difference,
}

/// Draws a flame graph. In a comparison, the width of a function is the mean of both sides.
pub(crate) fn flame(label: String, tree: &CallTree, colors: FlameColors) -> Chart {
    chart(label, |canvas, size| {
        let mut graph = FlameGraph {
            canvas,
            colors,
            us_per_pixel: width_us(tree, colors).max(f64::MIN_POSITIVE) / size.width(),
            whole: tree.us,
            rows: 0,
        };
        graph.calls(tree, 0.0, 0);
        let rows = graph.rows;
        let legend_y = rows as f64 * ROW_HEIGHT + 14.0;
        legend(canvas, size, colors, legend_y);
        legend_y + 12.0
    })
}

fn width_us(tree: &CallTree, colors: FlameColors) -> f64 {
    match colors {
        FlameColors::Module => tree.us[0],
        FlameColors::Difference => (tree.us[0] + tree.us[1]) / 2.0,
    }
}

struct FlameGraph<'a> {
    canvas: &'a mut Canvas,
    colors: FlameColors,
    us_per_pixel: f64,
    /// CPU time of the whole tree by side.
    whole: [f64; 2],
    rows: usize,
}

impl FlameGraph<'_> {
    /// Draws the functions that a function calls, starting at its left edge.
    fn calls(&mut self, tree: &CallTree, left: f64, row: usize) {
        if row >= ROWS_MAX {
            return;
        }
        let mut x = left;
        for (function, called) in &tree.calls {
            let width = width_us(called, self.colors) / self.us_per_pixel;
            if width >= WIDTH_MIN {
                self.rows = self.rows.max(row + 1);
                let y = row as f64 * ROW_HEIGHT;
                let (color, opacity) = self.color(&function.module, called.us);
                self.canvas.shapes.push(Shape::Frame {
                    from: (x, y),
                    to: (x + width - GAP, y + ROW_HEIGHT - GAP),
                    color,
                    opacity,
                    text: function.name.clone(),
                    title: format!("{function}: {}", self.figures(called.us)),
                    style: TextStyle::AXIS.color(palette::INK),
                });
                self.calls(called, x, row + 1);
            }
            x += width;
        }
    }

    fn color(&self, module: &str, [us, against]: [f64; 2]) -> (Color, f64) {
        match self.colors {
            FlameColors::Module => {
                // The same module has the same color in every graph.
                let sum = module.bytes().fold(7_usize, |sum, byte| {
                    sum.wrapping_mul(31).wrapping_add(usize::from(byte))
                });
                (palette::variant(sum), 0.3)
            }
            FlameColors::Difference => {
                let largest = (self.whole[0] - self.whole[1])
                    .abs()
                    .max(0.05 * self.whole[1]);
                let change = ((us - against) / largest.max(f64::MIN_POSITIVE)).clamp(-1.0, 1.0);
                let color = if change > 0.0 { MORE } else { LESS };
                (
                    color,
                    OPACITY_MIN + (OPACITY_MAX - OPACITY_MIN) * change.abs(),
                )
            }
        }
    }

    fn figures(&self, [us, against]: [f64; 2]) -> String {
        match self.colors {
            FlameColors::Module => {
                let share = us / self.whole[0].max(f64::MIN_POSITIVE);
                format!("{} per request, {}", number::time(us), number::share(share))
            }
            FlameColors::Difference => format!(
                "{} per request, {} in the baseline ({})",
                number::time(us),
                number::time(against),
                number::signed(us - against, number::time((us - against).abs()))
            ),
        }
    }
}

/// Color of functions that cost more than in the baseline, and of those that cost less.
const MORE: Color = palette::VARIANTS[1];
const LESS: Color = palette::VARIANTS[0];

fn legend(canvas: &mut Canvas, size: DrawingSize, colors: FlameColors, y: f64) {
    let style = TextStyle::AXIS;
    match colors {
        FlameColors::Module => {
            let text = match size {
                DrawingSize::Wide => "Width: CPU time per request. Color: program or library.",
                DrawingSize::Narrow => "Width: CPU time. Color: program or library.",
            };
            canvas.text((0.0, y), text, style);
        }
        FlameColors::Difference => {
            for (x, color, text) in [(0.0, MORE, "costs more"), (110.0, LESS, "costs less")] {
                canvas.shapes.push(Shape::Rect {
                    from: (x, y - 5.0),
                    to: (x + 12.0, y + 5.0),
                    color,
                    opacity: OPACITY_MAX,
                });
                canvas.text((x + 17.0, y), text, style);
            }
        }
    }
}
