//! Chart of the rounds of interleaved blocks. The upper panel shows a variant and its baseline, and
//! the lower panel shows their ratio.

use super::canvas::{Axis, Canvas, Side, TextStyle, highest};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::{self, Color};
use crate::number;

/// A variant and its baseline over the rounds of all blocks.
#[derive(Debug, Clone)]
pub(crate) struct RoundLines {
    /// Heading above the values.
    pub(crate) unit: &'static str,
    /// Formats a value of the vertical axis.
    pub(crate) mark: fn(f64) -> String,
    pub(crate) variant: (String, Color),
    /// Name and color of the variant's baseline.
    pub(crate) against: (String, Color),
    /// Rounds of each block, in order.
    pub(crate) blocks: Vec<RoundBlock>,
    /// Interval of the ratio, computed from blocks.
    pub(crate) interval: Option<(f64, f64)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RoundBlock {
    pub(crate) number: u32,
    pub(crate) rounds: Vec<RoundPoint>,
}

/// Values of one round. A value is NaN if the slice has none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct RoundPoint {
    pub(crate) variant: f64,
    pub(crate) against: f64,
    /// The variant's value divided by the baseline's.
    pub(crate) ratio: f64,
}

/// Draws the values over an axis that starts at zero, and the ratio over an axis that fits nearly
/// all rounds.
pub(crate) fn rounds(label: String, lines: &RoundLines) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, lines))
}

const LEFT: f64 = 58.0;
const LEGEND: f64 = 20.0;
const VALUES: f64 = 150.0;
const RATIOS: f64 = 110.0;
/// Space between the two panels, including the heading of the lower one.
const BETWEEN: f64 = 46.0;
/// Gap between two blocks, as a multiple of the distance between two points.
const BLOCK_GAP: f64 = 2.0;
/// Fraction of the rounds that may be beyond each end of the ratio's axis.
const BEYOND_SHARE: f64 = 0.02;
/// Ratios above this are printed as factors, because a percentage would exceed 100%.
pub(super) const FACTOR_ABOVE: f64 = 2.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, lines: &RoundLines) -> f64 {
    let points_max = if size.is_narrow() { 150 } else { 360 };
    let blocks = merged(&lines.blocks, points_max);
    let right = size.width() - 10.0;
    let count: usize = blocks.iter().map(|block| block.rounds.len()).sum();
    let gaps = BLOCK_GAP * blocks.len().saturating_sub(1) as f64;
    let x = Axis::new(-0.5..count as f64 - 0.5 + gaps, LEFT..right);
    legend(canvas, size, lines);
    let top = LEGEND + 26.0;
    let bottom = top + VALUES;
    values(canvas, (&x, right), (top, bottom), lines, &blocks);
    let top = bottom + BETWEEN;
    let bottom = top + RATIOS;
    ratios(canvas, (&x, right), (top, bottom), lines, &blocks);
    names_of_blocks(canvas, &x, bottom + 13.0, &blocks);
    canvas.caption((LEFT + right) / 2.0, bottom, "rounds of each block")
}

/// Merges neighboring rounds of a block to reduce the chart to about `most` points.
fn merged(blocks: &[RoundBlock], most: usize) -> Vec<RoundBlock> {
    let count: usize = blocks.iter().map(|block| block.rounds.len()).sum();
    let each = count.div_ceil(most).max(1);
    let mean = |values: &mut dyn Iterator<Item = f64>| {
        let finite = values.filter(|value| value.is_finite());
        let (sum, count) =
            finite.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        // The mean is NaN if no value is finite.
        sum / count
    };
    let of_block = |block: &RoundBlock| {
        let points = block.rounds.chunks(each).map(|rounds| RoundPoint {
            variant: mean(&mut rounds.iter().map(|round| round.variant)),
            against: mean(&mut rounds.iter().map(|round| round.against)),
            ratio: mean(&mut rounds.iter().map(|round| round.ratio.ln())).exp(),
        });
        RoundBlock {
            number: block.number,
            rounds: points.collect(),
        }
    };
    blocks.iter().map(of_block).collect()
}

/// The horizontal position of each block's first point.
fn firsts(blocks: &[RoundBlock]) -> impl Iterator<Item = (f64, &RoundBlock)> {
    blocks.iter().scan(0.0, |next, block| {
        let first = *next;
        *next += block.rounds.len() as f64 + BLOCK_GAP;
        Some((first, block))
    })
}

/// Draws a separate line for each block.
fn draw_block_line(
    canvas: &mut Canvas,
    blocks: &[RoundBlock],
    at: impl Fn(f64, &RoundPoint) -> (f64, f64),
    (color, width): (Color, f64),
) {
    for (first, block) in firsts(blocks) {
        let points = block.rounds.iter().enumerate();
        let points = points.map(|(place, point)| at(first + place as f64, point));
        let finite: Vec<(f64, f64)> = points.filter(|point| point.1.is_finite()).collect();
        canvas.path(&finite, color, width, 0.9);
        if let [only] = finite[..] {
            canvas.dot(only, 2.5, color, 0.9);
        }
    }
}

fn values(
    canvas: &mut Canvas,
    (x, right): (&Axis, f64),
    (top, bottom): (f64, f64),
    lines: &RoundLines,
    blocks: &[RoundBlock],
) {
    let points = blocks.iter().flat_map(|block| &block.rounds);
    let highest = highest(points.flat_map(|point| [point.variant, point.against]));
    let y = Axis::new(0.0..(highest * 1.06).max(1e-9), bottom..top);
    canvas.text((0.0, top - 14.0), lines.unit, TextStyle::AXIS);
    canvas.grid(&y, (LEFT, right), (5, 0.0), lines.mark);
    let against = |place: f64, point: &RoundPoint| (x.at(place), y.at(point.against));
    draw_block_line(canvas, blocks, against, (lines.against.1, 1.4));
    let variant = |place: f64, point: &RoundPoint| (x.at(place), y.at(point.variant));
    draw_block_line(canvas, blocks, variant, (lines.variant.1, 1.4));
}

fn ratios(
    canvas: &mut Canvas,
    (x, right): (&Axis, f64),
    (top, bottom): (f64, f64),
    lines: &RoundLines,
    blocks: &[RoundBlock],
) {
    let (low, high) = extent(lines.interval, blocks);
    let y = Axis::new(low..high, bottom..top);
    let heading = format!("{} / {}", lines.variant.0, lines.against.0);
    let heading = TextStyle::AXIS.fit(&heading, right);
    canvas.text((0.0, top - 14.0), &heading, TextStyle::AXIS);
    if let Some((from, to)) = lines.interval {
        let (from, to) = (y.at(from.clamp(low, high)), y.at(to.clamp(low, high)));
        // Keeps an interval of zero width visible.
        let to = to.min(from - 1.0);
        canvas.rect((LEFT, to), (right, from), lines.variant.1, 0.25);
    }
    canvas.grid(&y, (LEFT, right), (5, 1.0), |value| {
        change(value, high > FACTOR_ABOVE)
    });
    let ratio = |place: f64, point: &RoundPoint| {
        let ratio = point.ratio.clamp(low, high);
        (x.at(place), y.at(ratio))
    };
    draw_block_line(canvas, blocks, ratio, (palette::INK, 1.2));
}

/// Range of the ratio's axis. It includes nearly all rounds, the interval, and "no change".
fn extent(interval: Option<(f64, f64)>, blocks: &[RoundBlock]) -> (f64, f64) {
    let points = blocks.iter().flat_map(|block| &block.rounds);
    let ratios = points.map(|point| point.ratio);
    let mut ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite()).collect();
    ratios.sort_by(f64::total_cmp);
    let beyond = (ratios.len() as f64 * BEYOND_SHARE) as usize;
    let last = ratios.len().saturating_sub(1);
    let ends = [
        ratios.get(beyond).copied(),
        ratios.get(last.saturating_sub(beyond)).copied(),
        interval.map(|(low, _)| low),
        interval.map(|(_, high)| high),
    ];
    let ends = ends.into_iter().flatten().filter(|end| end.is_finite());
    let (low, high) = ends.fold((1.0_f64, 1.0_f64), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    let margin = ((high - low) * 0.08).max(0.005);
    (low - margin, high + margin)
}

/// Formats a ratio for the axis: `+10%`, or `2.5 ×`.
pub(super) fn change(ratio: f64, is_factor: bool) -> String {
    let rounded = |value: f64| (value * 1e3).round() / 1e3;
    if is_factor {
        return format!("{} ×", rounded(ratio));
    }
    let percent = rounded(100.0 * (ratio - 1.0));
    match percent {
        p if p < 0.0 => format!("−{}%", -p),
        p if p > 0.0 => format!("+{p}%"),
        _ => "0%".to_owned(),
    }
}

/// Draws the number of each block below its points, if there is space.
fn names_of_blocks(canvas: &mut Canvas, x: &Axis, y: f64, blocks: &[RoundBlock]) {
    let style = TextStyle::AXIS.side(Side::Middle);
    let text = |block: &RoundBlock| format!("block {}", number::count(block.number.into()));
    let mut free_from = f64::NEG_INFINITY;
    for (first, block) in firsts(blocks) {
        let middle = x.at(first + (block.rounds.len() as f64 - 1.0) / 2.0);
        let half = style.width_of(&text(block)) / 2.0;
        if middle - half >= free_from {
            canvas.text((middle, y), &text(block), style);
            free_from = middle + half + 8.0;
        }
    }
}

/// Draws the names of the variant and of its baseline in their colors.
fn legend(canvas: &mut Canvas, size: DrawingSize, lines: &RoundLines) {
    let style = TextStyle::LABEL.bold();
    let (width_max, y) = (size.width() / 2.0 - 42.0, LEGEND / 2.0);
    let mut x = 0.0;
    for (name, color) in [&lines.variant, &lines.against] {
        canvas.line((x, y), (x + 16.0, y), *color, 3.0);
        canvas.name((x + 24.0, y), name, width_max, style.color(*color));
        x += 24.0 + style.width_of(name).min(width_max) + 18.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(blocks: Vec<RoundBlock>) -> RoundLines {
        RoundLines {
            unit: "successes per second",
            mark: |value| format!("{value} u"),
            variant: ("new".to_owned(), palette::variant(0)),
            against: ("old".to_owned(), palette::variant(1)),
            blocks,
            interval: Some((0.9, 0.95)),
        }
    }

    fn block(number: u32, ratios: &[f64]) -> RoundBlock {
        let rounds = ratios.iter().map(|&ratio| RoundPoint {
            variant: 100.0 * ratio,
            against: 100.0,
            ratio,
        });
        RoundBlock {
            number,
            rounds: rounds.collect(),
        }
    }

    #[test]
    fn each_block_has_lines_of_its_own_and_a_name() {
        let blocks = vec![block(1, &[0.9, 1.1, 0.95]), block(2, &[0.9])];
        let made = rounds(String::new(), &lines(blocks));
        for drawing in [&made.wide, &made.narrow] {
            assert!(drawing.contains(">block 1<") && drawing.contains(">block 2<"));
            assert!(drawing.contains(">new<") && drawing.contains(">new / old<"));
            // A block with one round is drawn as three dots.
            assert_eq!(drawing.matches("<circle").count(), 3);
            assert!(drawing.contains(">−10%<") || drawing.contains(">−5%<"));
        }
    }

    #[test]
    fn rounds_without_values_are_drawn() {
        for blocks in [
            Vec::new(),
            vec![block(1, &[])],
            vec![block(1, &[f64::NAN, f64::INFINITY, 0.0])],
        ] {
            let made = rounds(String::new(), &lines(blocks));
            assert!(!made.wide.contains("NaN") && !made.wide.contains("inf"));
        }
    }

    #[test]
    fn many_rounds_are_merged_within_their_blocks() {
        let blocks = [block(1, &[0.5; 500]), block(2, &[2.0; 300])];
        let merged = merged(&blocks, 100);
        let counts: Vec<usize> = merged.iter().map(|block| block.rounds.len()).collect();
        assert_eq!(counts, [63, 38]);
        assert!((merged[1].rounds[0].ratio - 2.0).abs() < 1e-9);
        assert!((merged[1].rounds[0].variant - 200.0).abs() < 1e-9);
    }

    #[test]
    fn a_few_extreme_rounds_do_not_stretch_the_axis() {
        let mut ratios = vec![0.92; 98];
        ratios.extend([9.0, 0.1]);
        let (low, high) = extent(Some((0.91, 0.93)), &[block(1, &ratios)]);
        assert!(low > 0.85 && high < 1.05, "{low} {high}");
    }

    #[test]
    fn marks_are_percentages_or_factors() {
        for (ratio, is_factor, text) in [
            (0.95, false, "−5%"),
            (1.0, false, "0%"),
            (1.1, false, "+10%"),
            (2.5, true, "2.5 ×"),
        ] {
            assert_eq!(change(ratio, is_factor), text);
        }
    }
}
