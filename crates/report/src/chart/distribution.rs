//! The distribution of one load's response times: bars over a logarithmic axis.

use super::canvas::{Axis, Canvas, Side, TextStyle};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette;
use crate::number;

/// A bin of a histogram. It counts the response times above the previous bin's limit, up to and
/// including its own limit.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bin {
    /// The upper limit, inclusive.
    pub(crate) up_to_us: f64,
    pub(crate) count: u64,
}

/// Draws the bins as bars, with a line at each marked time, such as a percentile.
pub(crate) fn distribution(label: String, bins: &[Bin], marked: &[(String, f64)]) -> Chart {
    chart(label, |canvas, size| draw(canvas, size, bins, marked))
}

const LEFT: f64 = 52.0;
const HEIGHT: f64 = 170.0;
const TOP: f64 = 44.0;
/// Minimum distance between the labels of two marks, in pixels.
const MARK_DISTANCE_MIN: f64 = 58.0;

fn draw(canvas: &mut Canvas, size: DrawingSize, bins: &[Bin], marked: &[(String, f64)]) -> f64 {
    let right = size.width() - 10.0;
    let bottom = TOP + HEIGHT;
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let share = |count: u64| count as f64 / all.max(1) as f64;
    let highest = bins.iter().map(|bin| share(bin.count)).fold(0.0, f64::max);
    let (Some(first), Some(last)) = (bins.first(), bins.last()) else {
        return bottom;
    };
    let step = match bins.get(1) {
        Some(second) => (second.up_to_us / first.up_to_us).ln(),
        None => 0.1,
    };
    let log = |us: f64| us.max(1e-3).ln();
    let x = Axis::new(log(first.up_to_us) - step..log(last.up_to_us), LEFT..right);
    let y = Axis::new(0.0..(highest * 1.06).max(1e-9), bottom..TOP);
    canvas.text((0.0, TOP - 34.0), "share of requests", TextStyle::AXIS);
    canvas.grid(&y, (LEFT, right), (6, 0.0), number::share);
    let mut from = log(first.up_to_us) - step;
    for bin in bins {
        let to = log(bin.up_to_us);
        if bin.count > 0 {
            let (left, right) = (x.at(from) + 0.5, x.at(to) - 0.5);
            let top = y.at(share(bin.count)).min(bottom - 1.0);
            canvas.rect(
                (left, top),
                (right.max(left + 1.0), bottom),
                palette::variant(0),
                0.85,
            );
        }
        from = to;
    }
    let mut free_from = f64::MIN;
    for (at, text) in times_of_axis(first.up_to_us * (-step).exp(), last.up_to_us) {
        let at = x.at(log(at));
        if at - free_from >= MARK_DISTANCE_MIN && at < right - 12.0 {
            let style = TextStyle::AXIS.side(Side::Middle);
            canvas.text((at, bottom + 13.0), &text, style);
            free_from = at;
        }
    }
    let mut free_from = f64::MIN;
    for (name, us) in marked.iter().filter(|(_, us)| us.is_finite()) {
        let at = x.at(log(*us)).clamp(LEFT, right);
        canvas.line((at, TOP - 6.0), (at, bottom), palette::REFERENCE, 1.0);
        if at - free_from > 34.0 {
            canvas.text((at, TOP - 14.0), name, TextStyle::AXIS.side(Side::Middle));
            free_from = at;
        }
    }
    let caption = "response time, logarithmic";
    canvas.caption(size.width() / 2.0, bottom, caption)
}

/// Returns round times between two limits in microseconds, with their labels.
pub(super) fn times_of_axis(from: f64, to: f64) -> Vec<(f64, String)> {
    let decades = (from.max(1e-3).log10().floor() as i32)..=(to.max(1e-3).log10().ceil() as i32);
    let steps: &[f64] = match to / from.max(1e-3) {
        ratio if ratio > 3.0 => &[1.0, 2.0, 5.0],
        _ => &[
            1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0,
        ],
    };
    let all = decades.flat_map(|decade| steps.iter().map(move |step| step * 10f64.powi(decade)));
    let inside = all.filter(|at| (from..=to).contains(at));
    inside.map(|at| (at, number::span(at / 1e6))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bin_with_requests_has_a_bar() {
        let bin = |up_to_us, count| Bin { up_to_us, count };
        let bins = [bin(100.0, 5), bin(200.0, 0), bin(400.0, 90), bin(9e6, 1)];
        let marked = [("p50".to_owned(), 300.0), ("p99".to_owned(), f64::NAN)];
        let made = distribution(String::new(), &bins, &marked);
        for drawing in [&made.wide, &made.narrow] {
            assert_eq!(drawing.matches("<rect").count(), 3, "{drawing}");
            assert!(drawing.contains(">p50<") && !drawing.contains("NaN"));
            assert!(drawing.contains(" ms<"), "{drawing}");
        }
        let one = distribution(String::new(), &[bin(500.0, 7)], &[]);
        assert_eq!(one.wide.matches("<rect").count(), 1);
        assert!(!distribution(String::new(), &[], &[]).wide.contains("NaN"));
    }
}
