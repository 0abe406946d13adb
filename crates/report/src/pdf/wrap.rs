//! Breaking of text into lines.

use super::style::FontStyle;

/// Tolerance for comparisons of sums of widths, because the order of addition affects rounding.
const WIDTH_TOLERANCE: f64 = 1e-6;

/// Units that stay on the same line as their number.
const UNITS: [&str; 21] = [
    "µs", "ms", "s", "min", "h", "B", "KiB", "MiB", "GiB", "TiB", "req/s", "bit/s", "kbit/s",
    "Mbit/s", "Gbit/s", "×", "points", "block", "blocks", "trials", "requests",
];

/// Breaks text into lines of at most `width` points. Returns at least one line, which may be empty.
/// Lines break at spaces, and within a word only if it is wider than a line.
pub(super) fn wrap(text: &str, style: FontStyle, width: f64) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut reach = 0.0;
    let space = style.width_of(" ");
    for word in words(text) {
        let length = style.width_of(&word);
        if !line.is_empty() && reach + space + length <= width + WIDTH_TOLERANCE {
            line.push(' ');
            line += &word;
            reach += space + length;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut rest = word.as_str();
        while let Some(cut) = cut(rest, style, width) {
            lines.push(rest[..cut].to_owned());
            rest = &rest[cut..];
        }
        line = rest.to_owned();
        reach = style.width_of(rest);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

/// The width of the widest word, in points.
pub(super) fn least_width(text: &str, style: FontStyle) -> f64 {
    let widths = words(text).map(|word| style.width_of(&word));
    widths.fold(0.0, f64::max)
}

/// Splits text into words. A number with its unit counts as one word, and so does `1.04 to 1.09`.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let bare = word.trim_end_matches([',', '.', ';', ':', ')']);
        let goes_on = words.last().is_some_and(|last| {
            let is_figure = last.ends_with(|c: char| c.is_ascii_digit() || c == '%');
            let is_joined = last.ends_with(" to")
                && word.starts_with(|c: char| c.is_ascii_digit() || "+-−".contains(c));
            is_joined || is_figure && (bare == "to" || UNITS.contains(&bare))
        });
        match words.last_mut() {
            Some(last) if goes_on => {
                last.push(' ');
                last.push_str(word);
            }
            _ => words.push(word.to_owned()),
        }
    }
    words.into_iter()
}

/// The position at which to break a word that is wider than `width`: after a separator in the
/// second half of the part that fits, otherwise as late as possible. `None` if the whole word fits.
fn cut(word: &str, style: FontStyle, width: f64) -> Option<usize> {
    let mut reach = 0.0;
    let mut fits = 0;
    let mut separated = 0;
    for (place, c) in word.char_indices() {
        reach += style.width_of(c.encode_utf8(&mut [0; 4]));
        if reach > width + WIDTH_TOLERANCE && fits > 0 {
            return Some(if separated * 2 > fits {
                separated
            } else {
                fits
            });
        }
        fits = place + c.len_utf8();
        if matches!(
            c,
            '/' | '-' | '_' | '.' | ',' | ':' | ';' | '&' | '=' | '?' | '›' | '→' | ')' | ' '
        ) {
            separated = fits;
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_too_wide_and_no_character_lost() {
        let texts = [
            "a b c",
            "",
            "   ",
            "tcp is 22.9% slower than unix (95% interval 20.1% to 25.7%, 6 blocks)",
            "https://example.org/a/very/long/path/that/does/not/end/for/a/long/time?and=more&so=on",
            "漢字漢字漢字漢字漢字漢字漢字漢字漢字漢字 ����",
        ];
        for text in texts {
            for width in [0.0, 1.0, 40.0, 133.0, 1000.0] {
                let lines = wrap(text, FontStyle::BODY, width);
                assert!(!lines.is_empty());
                let bare = |text: &str| text.replace(' ', "");
                assert_eq!(bare(&lines.concat()), bare(text));
                for line in lines.iter().filter(|line| line.chars().count() > 1) {
                    assert!(
                        FontStyle::BODY.width_of(line) <= width + 1e-9,
                        "{line} in {width}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_number_keeps_its_unit_and_a_path_breaks_at_separators() {
        let style = FontStyle::BODY;
        let narrow = style.width_of("it was 769");
        assert_eq!(
            wrap("it was 769 req/s", style, narrow),
            ["it was", "769 req/s"]
        );
        let path = "/usr/local/sbin/nginx";
        let lines = wrap(path, style, style.width_of("/usr/local/sbi"));
        assert_eq!(lines, ["/usr/local/", "sbin/nginx"]);
    }
}
