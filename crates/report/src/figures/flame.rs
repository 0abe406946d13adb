//! Flame graphs of the services of each variant, and of their differences.

use prony_stats::Levels;

use super::{file_name, titled};
use crate::Experiment;
use crate::call_tree::{CallTree, services};
use crate::chart::{self, FlameColors};
use crate::document::Figure;
use crate::number;

/// Maximum number of variants with a flame graph.
const VARIANTS_MAX: usize = 6;

/// Returns the flame graphs of all services: those that compare a variant with its baseline, then
/// those of the variants.
pub(crate) fn flames(experiment: &Experiment) -> (Vec<Figure>, Vec<Figure>) {
    let verdict = &experiment.verdict;
    let (mut compared, mut single) = (Vec::new(), Vec::new());
    let names = services(experiment);
    for service in &names {
        let of_service = if names.len() > 1 {
            format!(" of {service}")
        } else {
            String::new()
        };
        let places = 0..verdict.variants.len().min(VARIANTS_MAX);
        let trees = places.map(|place| CallTree::of_variant(experiment, service, place));
        let trees: Vec<Option<CallTree>> = trees.collect();
        for (variant, tree) in verdict.variants.iter().zip(&trees) {
            let Some(tree) = tree else { continue };
            let title = format!("CPU{of_service} by call chain: {}", variant.name);
            let label = format!("{title}, {} per request.", number::time(tree.us[0]));
            single.push(titled(
                &title,
                chart::flame(label, tree, FlameColors::Module),
            ));
        }
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for one in &verdict.comparisons {
            let index =
                |levels: &Levels| verdict.variants.iter().position(|it| it.levels == *levels);
            if let Some(pair) = index(&one.levels).zip(index(&one.against))
                && !pairs.contains(&pair)
            {
                pairs.push(pair);
            }
        }
        for (place, against) in pairs {
            let tree = |place: usize| trees.get(place).and_then(Option::as_ref);
            let Some((own, baseline)) = tree(place).zip(tree(against)) else {
                continue;
            };
            let names = [place, against].map(|place| verdict.variants[place].name.as_str());
            let title = format!(
                "CPU{of_service} by call chain: {} against {}",
                names[0], names[1]
            );
            let merged = own.against(baseline);
            let label = format!(
                "{title}, {} and {} per request.",
                number::time(merged.us[0]),
                number::time(merged.us[1])
            );
            compared.push(titled(
                &title,
                chart::flame(label, &merged, FlameColors::Difference),
            ));
        }
    }
    (compared, single)
}

/// Returns the collapsed stacks of each variant's services, as file names and contents.
#[must_use]
pub fn collapsed_stacks(experiment: &Experiment) -> Vec<(String, String)> {
    let variants = experiment.verdict.variants.iter().enumerate();
    let files = variants.flat_map(|(place, variant)| {
        services(experiment).into_iter().filter_map(move |service| {
            let tree = CallTree::of_variant(experiment, &service, place)?;
            let name = file_name(&format!("{} {service}", variant.name));
            Some((format!("{name}.collapsed.txt"), tree.collapsed()))
        })
    });
    files.collect()
}
