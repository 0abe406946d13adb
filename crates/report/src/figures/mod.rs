//! The content of the charts in reports. [`crate::chart`] draws them.

mod completions;
mod cpu;
mod distributions;
mod flame;
mod forest;
mod history;
mod load;
mod probes;
mod rounds;
mod runs;
mod scaling;
mod times;

pub(crate) use completions::until_done;
pub(crate) use cpu::cpu;
pub(crate) use distributions::distribution_difference;
pub use flame::collapsed_stacks;
pub(crate) use flame::flames;
pub(crate) use forest::forest;
pub(crate) use history::history;
pub(crate) use load::of_load;
pub(crate) use probes::probes;
pub(crate) use rounds::rounds;
pub(crate) use runs::of_runs;
pub(crate) use scaling::scaling;
pub(crate) use times::{latency, latency_groups, over_time};

use crate::chart::Chart;
use crate::document::Figure;

/// A figure without a caption, named after its title.
fn titled(title: &str, chart: Chart) -> Figure {
    Figure {
        name: title.to_owned(),
        title: title.to_owned(),
        caption: None,
        chart,
    }
}

/// Converts text to a file name for any system: lowercase letters and digits, separated by hyphens.
pub(crate) fn file_name(text: &str) -> String {
    let letter = |c: char| match c.to_ascii_lowercase() {
        c if c.is_ascii_alphanumeric() => c,
        _ => '-',
    };
    let dashed: String = text.chars().map(letter).collect();
    let parts = dashed.split('-').filter(|part| !part.is_empty());
    let name: String = parts.collect::<Vec<_>>().join("-");
    let short: String = name.chars().take(100).collect();
    if short.is_empty() {
        "chart".to_owned()
    } else {
        short
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_names_are_plain() {
        assert_eq!(
            file_name("request rate along ../Köln/é"),
            "request-rate-along-k-ln"
        );
        assert_eq!(file_name("漢字"), "chart");
    }
}
