//! Chart of the ratio of two distributions by percentile, with the band of all percentiles.

use prony_stats::PercentileRatio;

use super::canvas::{Axis, Canvas, Side, TextStyle};
use super::drawing::{Chart, DrawingSize, chart};
use super::palette::Color;
use super::rounds::{FACTOR_ABOVE, change};

/// Draws a column for each percentile: the band as a bar and the ratio as a dot.
pub(crate) fn percentile_ratios(
    label: String,
    heading: &str,
    color: Color,
    ratios: &[PercentileRatio],
) -> Chart {
    chart(label, |canvas, size| {
        draw(canvas, size, heading, color, ratios)
    })
}

const LEFT: f64 = 58.0;
const TOP: f64 = 30.0;
const HEIGHT: f64 = 170.0;
/// Opacity of the band where it excludes "no change", and where it contains it.
const OPACITIES: [f64; 2] = [0.45, 0.2];

fn draw(
    canvas: &mut Canvas,
    size: DrawingSize,
    heading: &str,
    color: Color,
    ratios: &[PercentileRatio],
) -> f64 {
    let (right, bottom) = (size.width() - 10.0, TOP + HEIGHT);
    let ends = ratios.iter().flat_map(|it| [it.low, it.high]);
    let (low, high) = ends.fold((1.0_f64, 1.0_f64), |(low, high), end| {
        (low.min(end), high.max(end))
    });
    let margin = ((high - low) * 0.08).max(0.005);
    let x = Axis::new(0.0..ratios.len() as f64, LEFT..right);
    let y = Axis::new(low - margin..high + margin, bottom..TOP);
    let heading = TextStyle::AXIS.fit(heading, right);
    canvas.text((0.0, TOP - 18.0), &heading, TextStyle::AXIS);
    for (place, ratio) in ratios.iter().enumerate() {
        let (from, to) = (x.at(place as f64) + 1.0, x.at(place as f64 + 1.0) - 1.0);
        let [differs, same] = OPACITIES;
        let opacity = ratio.direction().map_or(same, |_| differs);
        // Keeps a narrow band visible.
        let upper = y.at(ratio.high).min(y.at(ratio.low) - 1.0);
        canvas.rect((from, upper), (to, y.at(ratio.low)), color, opacity);
    }
    canvas.grid(&y, (LEFT, right), (5, 1.0), |value| {
        change(value, high > FACTOR_ABOVE)
    });
    let middle = |place: usize| x.at(place as f64 + 0.5);
    let points = ratios.iter().enumerate();
    let points: Vec<(f64, f64)> = points
        .map(|(place, it)| (middle(place), y.at(it.ratio)))
        .collect();
    canvas.path(&points, color, 1.4, 0.9);
    let style = TextStyle::AXIS.side(Side::Middle);
    let mut free_to = f64::INFINITY;
    // From the right, because the tail matters most if there is no space for all names.
    for (place, ratio) in ratios.iter().enumerate().rev() {
        canvas.dot(points[place], 3.0, color, 0.9);
        let name = format!("p{}", ratio.percentile);
        let half = style.width_of(&name) / 2.0;
        if middle(place) + half <= free_to {
            canvas.text((middle(place), bottom + 13.0), &name, style);
            free_to = middle(place) - half - 4.0;
        }
    }
    canvas.caption(
        size.width() / 2.0,
        bottom,
        "percentile of the response time",
    )
}

#[cfg(test)]
mod tests {
    use super::super::palette;
    use super::*;

    #[test]
    fn every_percentile_has_its_band_and_the_tail_its_names() {
        let ratio = |percentile, ratio: f64| PercentileRatio {
            percentile,
            ratio,
            low: ratio - 0.05,
            high: ratio + 0.05,
        };
        let ratios: Vec<PercentileRatio> = prony_stats::PERCENTILES
            .iter()
            .map(|&percentile| ratio(percentile, if percentile > 90.0 { 1.2 } else { 1.0 }))
            .collect();
        let made = percentile_ratios(String::new(), "new / old", palette::variant(1), &ratios);
        for drawing in [&made.wide, &made.narrow] {
            assert_eq!(drawing.matches("<rect").count(), 14, "{drawing}");
            assert_eq!(drawing.matches("<circle").count(), 14);
            assert!(drawing.contains(">p99.9<") && drawing.contains(">+20%<"));
        }
        assert!(made.wide.contains(">p1<") && made.wide.contains(">p90<"));
        let none = percentile_ratios(String::new(), "", palette::variant(0), &[]);
        assert!(!none.wide.contains("NaN") && !none.wide.contains("inf"));
    }
}
