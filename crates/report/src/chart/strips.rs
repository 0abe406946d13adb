//! Dot strips, with one panel for each percentile, one row for each variant, and one dot for each
//! trial.

use super::canvas::{Axis, Canvas, Side, TextStyle, decimal, highest};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use crate::number;

/// One variant's values of one percentile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Strip {
    /// The variant's name.
    pub(crate) name: String,
    /// The variant's color.
    pub(crate) color: Color,
    /// Value of each trial in microseconds, and whether it is only a lower bound.
    pub(crate) values_us: Vec<(f64, bool)>,
}

/// Panel of one percentile.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StripGroup {
    /// Name of the percentile, such as `p99`.
    pub(crate) title: String,
    /// Values of each variant, in the same order in every group.
    pub(crate) strips: Vec<Strip>,
}

/// Draws the groups side by side or, on a phone, below each other. Each group has its own axis,
/// which starts at zero.
pub(crate) fn strips(label: String, groups: &[StripGroup]) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, groups))
}

const ROW: f64 = 26.0;
const HEAD: f64 = 24.0;
const FOOT: f64 = 26.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, groups: &[StripGroup]) -> f64 {
    let name = TextStyle::LABEL.bold();
    let names = groups.first().map_or(&[][..], |group| &group.strips);
    let longest = names.iter().map(|strip| name.width_of(&strip.name));
    let (least, most) = if size.is_narrow() {
        (70.0, 116.0)
    } else {
        (80.0, 170.0)
    };
    let left = longest.fold(least, f64::max).min(most) + 14.0;
    let gap = 36.0;
    let columns = if size.is_narrow() {
        1
    } else {
        groups.len().max(1)
    };
    let width = (size.width() - left - 12.0 - gap * (columns - 1) as f64) / columns as f64;
    let height = HEAD + ROW * names.len() as f64 + FOOT;
    let mut bottom: f64 = 0.0;
    for (i, group) in groups.iter().enumerate() {
        let x = left + (width + gap) * (i % columns) as f64;
        let top = (height + 6.0) * (i / columns) as f64;
        bottom = bottom.max(top + height);
        draw_group(canvas, group, (x, x + width), top);
        if i.is_multiple_of(columns) {
            for (row, strip) in group.strips.iter().enumerate() {
                let y = top + HEAD + ROW * (row as f64 + 0.5);
                let style = name.color(strip.color);
                canvas.name((0.0, y), &strip.name, left - 14.0, style);
            }
        }
    }
    bottom + 4.0
}

fn draw_group(canvas: &mut Canvas, group: &StripGroup, (left, right): (f64, f64), top: f64) {
    let all = group.strips.iter().flat_map(|strip| &strip.values_us);
    let highest = highest(all.map(|(us, _)| *us));
    let (unit, scale) = unit_for(highest);
    let axis = Axis::new(0.0..(highest * scale * 1.08).max(1e-9), left..right);
    let bottom = top + HEAD + ROW * group.strips.len() as f64;
    canvas.text((left, top + 11.0), &group.title, TextStyle::LABEL.bold());
    for value in axis.marks(4) {
        let x = axis.at(value);
        canvas.line((x, top + HEAD), (x, bottom), palette::GRID, 1.0);
        let text = if value == 0.0 {
            format!("0 {unit}")
        } else {
            decimal(value)
        };
        let style = TextStyle::AXIS.side(Side::Middle);
        canvas.text((x, bottom + 13.0), &text, style);
    }
    for (row, strip) in group.strips.iter().enumerate() {
        let y = top + HEAD + ROW * (row as f64 + 0.5);
        canvas.line((left, y), (right, y), palette::GRID, 1.0);
        for &(us, at_least) in strip.values_us.iter().filter(|(us, _)| us.is_finite()) {
            let x = axis.at(us * scale);
            canvas.dot((x, y), 4.0, strip.color, 0.65);
            if at_least {
                // The arrow shows that the true value is at this point or higher.
                canvas.path(
                    &[(x + 5.0, y - 4.0), (x + 10.0, y), (x + 5.0, y + 4.0)],
                    strip.color,
                    1.6,
                    1.0,
                );
            }
        }
    }
}

/// The best unit for the longest time, and its conversion factor from microseconds.
fn unit_for(highest_us: f64) -> (&'static str, f64) {
    if highest_us >= 1e6 {
        ("s", 1e-6)
    } else if highest_us >= 1e3 {
        ("ms", 1e-3)
    } else {
        ("µs", 1.0)
    }
}

/// The range of a strip's values in words, for the chart's label.
pub(crate) fn range_in_words(strip: &Strip) -> String {
    let values = || strip.values_us.iter().map(|(us, _)| *us);
    let finite = values().filter(|us| us.is_finite());
    let low = finite.fold(f64::INFINITY, f64::min);
    let high = highest(values());
    if low > high {
        return format!("{}: none", strip.name);
    }
    let (low, high) = (number::time(low), number::time(high));
    format!("{}: {low} to {high}", strip.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lower_bounds_are_marked_and_empty_strips_drawn() {
        let strip = |values_us| Strip {
            name: "tcp".to_owned(),
            color: palette::variant(1),
            values_us,
        };
        let group = |values| StripGroup {
            title: "p99".to_owned(),
            strips: vec![strip(values)],
        };
        let plain = strips(String::new(), &[group(vec![(1500.0, false)])]);
        let bound = strips(String::new(), &[group(vec![(1500.0, true)])]);
        assert!(bound.wide.len() > plain.wide.len());
        let empty = strips(String::new(), &[group(vec![])]);
        assert!(!empty.wide.contains("NaN"));
        assert_eq!(range_in_words(&strip(vec![])), "tcp: none");
    }
}
