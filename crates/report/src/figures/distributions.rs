//! Charts of the differences between distributions of response times.

use prony_stats::{DistributionDifference, VerdictDocument};

use crate::chart::{self, palette};
use crate::document::Figure;

/// A variant's response times relative to its baseline's, by percentile.
pub(crate) fn distribution_difference(
    verdict: &VerdictDocument,
    difference: &DistributionDifference,
) -> Figure {
    let mut variants = verdict.variants.iter();
    let place = variants.position(|variant| variant.levels == difference.levels);
    let title = format!("{} against {}", difference.name, difference.against_name);
    let label = format!(
        "Ratio of the response times by percentile, with a 95% band. {}",
        difference.text
    );
    let heading = format!("{} / {}", difference.name, difference.against_name);
    let color = palette::variant(place.unwrap_or_default());
    Figure {
        name: format!("response times by percentile {title}"),
        title,
        caption: None,
        chart: chart::percentile_ratios(label, &heading, color, &difference.percentiles),
    }
}
