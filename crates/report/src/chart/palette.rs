//! The colors of charts in both schemes.
//!
//! Variants' colors differ in lightness as well as hue, so that readers with color blindness can
//! distinguish neighbors. Their contrast with the page is at least 3:1 in either scheme. No chart
//! relies on color alone: everything is labeled where it is drawn. Green, amber and red are
//! reserved for verdicts and findings; the page's style sheet defines them.

/// A color in the light and in the dark scheme, as `RRGGBB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Color {
    pub(crate) light: u32,
    pub(crate) dark: u32,
}

const fn color(light: u32, dark: u32) -> Color {
    Color { light, dark }
}

/// Color of prominent text.
pub(crate) const INK: Color = color(0x1B1F27, 0xECEEF2);
/// Text of axes and notes.
pub(crate) const MUTED: Color = color(0x5C6370, 0xA3AAB8);
/// Color of grid lines.
pub(crate) const GRID: Color = color(0xE3E5EA, 0x333945);
/// The line of the reference.
pub(crate) const REFERENCE: Color = color(0x8A909C, 0x7C8494);
/// Color of the band that marks the margin in forest charts.
pub(crate) const BAND: Color = color(0xEDEFF3, 0x262C37);
/// The page's background, for gaps between shapes.
pub(crate) const PAPER: Color = color(0xFFFFFF, 0x14171D);

/// The colors of variants. They repeat from the ninth variant on.
pub(crate) const VARIANTS: [Color; 8] = [
    color(0x0B66A8, 0x5DB2F2),
    color(0xC2369B, 0xF7B3E6),
    color(0x0E7C8A, 0x52CBDD),
    color(0x6E3FC4, 0xB79BF5),
    color(0x5F6B7D, 0xC3CBD8),
    color(0x1D3F72, 0x8FA9E0),
    color(0x9C3F7C, 0xE48FC4),
    color(0x7A4F6D, 0xC9A3BF),
];

/// The color of the variant with this index.
pub(crate) fn variant(place: usize) -> Color {
    VARIANTS[place % VARIANTS.len()]
}

/// All colors that charts may use.
fn all_colors() -> impl Iterator<Item = Color> {
    [INK, MUTED, GRID, REFERENCE, BAND, PAPER]
        .into_iter()
        .chain(VARIANTS)
}

/// CSS rules that map the charts' light colors to the colors of the dark scheme.
pub(crate) fn dark_rules() -> String {
    all_colors()
        .map(|c| {
            format!(
                "svg [fill=\"#{light:06X}\"]{{fill:#{dark:06X}}}\
                 svg [stroke=\"#{light:06X}\"]{{stroke:#{dark:06X}}}\n",
                light = c.light,
                dark = c.dark
            )
        })
        .collect()
}

/// CSS rules that give lines a dash pattern by their color, because the colors look alike in gray.
/// Lengths are in units of a drawing.
pub(crate) fn print_rules() -> String {
    let patterns = ["none", "60 30", "20 25", "100 25 20 25"].iter().cycle();
    let variants = VARIANTS.iter().zip(patterns);
    // The offered rate has this color.
    let lines = variants.chain([(&MUTED, &"60 30")]);
    let rules = lines.map(|(color, pattern)| {
        format!(
            "svg [stroke=\"#{:06X}\"]{{stroke-dasharray:{pattern}}}\n",
            color.light
        )
    });
    rules.collect()
}

/// CSS custom properties `--v0` to `--v7`, with the colors of the scheme that `pick` selects.
pub(crate) fn properties(pick: impl Fn(Color) -> u32) -> String {
    let each = VARIANTS.iter().enumerate();
    each.map(|(i, &c)| format!("--v{i}:#{:06X};", pick(c)))
        .collect()
}

/// Name of the custom property for a variant's color.
pub(crate) fn property(place: usize) -> String {
    format!("--v{}", place % VARIANTS.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as defined by WCAG 2.
    fn luminance(rgb: u32) -> f64 {
        let channel = |shift: u32| {
            let value = f64::from(rgb >> shift & 0xFF) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0)
    }

    fn contrast(a: u32, b: u32) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    #[test]
    fn marks_and_texts_stand_out_from_the_page_in_both_schemes() {
        for c in VARIANTS {
            assert!(contrast(c.light, PAPER.light) >= 4.5, "{:06X}", c.light);
            assert!(contrast(c.dark, PAPER.dark) >= 4.5, "{:06X}", c.dark);
        }
        for c in [INK, MUTED] {
            assert!(contrast(c.light, BAND.light) >= 4.5);
            assert!(contrast(c.dark, BAND.dark) >= 4.5);
        }
        assert!(contrast(REFERENCE.light, PAPER.light) >= 3.0);
        assert!(contrast(REFERENCE.dark, PAPER.dark) >= 3.0);
    }

    /// Converts a color to CIE L*a*b* under D65.
    fn lab(rgb: u32) -> [f64; 3] {
        let channel = |shift: u32| {
            let value = f64::from(rgb >> shift & 0xFF) / 255.0;
            if value <= 0.04045 {
                value / 12.92
            } else {
                ((value + 0.055) / 1.055).powf(2.4)
            }
        };
        let (r, g, b) = (channel(16), channel(8), channel(0));
        let part = |t: f64| {
            if t > 0.008856 {
                t.cbrt()
            } else {
                7.787 * t + 16.0 / 116.0
            }
        };
        let x = part((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
        let y = part(0.2126 * r + 0.7152 * g + 0.0722 * b);
        let z = part((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.089);
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    #[test]
    fn no_series_has_the_color_of_a_verdict() {
        const DISTANCE_MIN: f64 = 25.0;
        let verdicts = [
            color(0x0F7A55, 0x5FD0A5),
            color(0x8A5A00, 0xE5B95C),
            color(0xB3261E, 0xFF8F85),
        ];
        let style = include_str!("../html/style.css");
        let distance = |a: u32, b: u32| {
            let squares = lab(a).into_iter().zip(lab(b)).map(|(a, b)| (a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        for tone in verdicts {
            for rgb in [tone.light, tone.dark] {
                assert!(
                    style.contains(&format!("#{rgb:06X}")),
                    "{rgb:06X} is not in the page's style sheet"
                );
            }
            for series in VARIANTS {
                let light = distance(series.light, tone.light);
                let dark = distance(series.dark, tone.dark);
                assert!(
                    light.min(dark) > DISTANCE_MIN,
                    "{series:?} {tone:?}: {light} {dark}"
                );
            }
        }
    }

    #[test]
    fn no_two_colors_are_equal_in_the_light_scheme() {
        let mut seen: Vec<u32> = all_colors().map(|c| c.light).collect();
        seen.sort_unstable();
        let before = seen.len();
        seen.dedup();
        assert_eq!(
            seen.len(),
            before,
            "the rules for the dark scheme could not distinguish them"
        );
    }
}
