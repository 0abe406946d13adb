//! Tables of metrics against numeric factors.

use prony_stats::{Metric, Scaling, VerdictDocument};
use prony_wording::scaling::other_levels;

use super::value_text;
use crate::number;
use crate::table::Table;

/// The scaling lines of the document, grouped by factor and metric.
pub(crate) fn groups(verdict: &VerdictDocument) -> Vec<(&str, Metric, Vec<&Scaling>)> {
    let mut groups: Vec<(&str, Metric, Vec<&Scaling>)> = Vec::new();
    for line in &verdict.scaling {
        let of_line = |group: &&mut (&str, Metric, Vec<&Scaling>)| {
            (group.0, group.1) == (line.factor.as_str(), line.metric)
        };
        match groups.iter_mut().find(of_line) {
            Some(group) => group.2.push(line),
            None => groups.push((&line.factor, line.metric, vec![line])),
        }
    }
    groups
}

/// A row for each scaling line: its points, then the columns that
/// [`SCALING_COLUMNS`](crate::captions::SCALING_COLUMNS) explains.
pub(crate) fn scaling_table(factor: &str, metric: Metric, lines: &[&Scaling]) -> Table {
    let mut numbers: Vec<u32> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.at))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut table = Table::of(lines.iter().copied()).left("", other_levels);
    for number in numbers {
        table = table.right(&format!("{factor} = {number}"), |line| {
            let point = line.points.iter().find(|point| point.at == number);
            point.map_or("–".to_owned(), |point| value_text(metric, point.level()))
        });
    }
    table = table.right("efficiency", efficiency).right("slope", slope);
    if lines.iter().any(|line| line.straightness.is_some()) {
        table = table.right("R²", r_squared);
    }
    table.build()
}

fn efficiency(line: &Scaling) -> String {
    let last = line.points.last();
    last.map_or(String::new(), |last| percent(last.in_step))
}

fn slope(line: &Scaling) -> String {
    let sign = if line.slope < 0.0 { "−" } else { "+" };
    format!("{sign}{}", value_text(line.metric, line.slope.abs()))
}

fn r_squared(line: &Scaling) -> String {
    // With only two points, R² is always 1.
    line.straightness.map_or("–".to_owned(), percent)
}

fn percent(share: f64) -> String {
    format!("{}%", number::significant(share * 100.0, 3))
}

#[cfg(test)]
mod tests {
    use prony_stats::ScalingPoint;

    use super::*;

    #[test]
    fn a_row_has_every_number_that_any_line_has() {
        let line = |body: &str, rates: &[(u32, f64)], straightness| Scaling {
            factor: "cores".to_owned(),
            levels: [("body".to_owned(), body.to_owned())].into_iter().collect(),
            metric: Metric::RatePerS,
            points: rates
                .iter()
                .map(|&(at, median)| ScalingPoint {
                    at,
                    median,
                    low: None,
                    high: None,
                    in_step: 0.5,
                })
                .collect(),
            slope: -40.0,
            straightness,
        };
        let long = line("1K", &[(1, 100.0), (2, 180.0), (4, 200.0)], Some(0.7531));
        let short = line("10K", &[(1, 100.0), (4, 200.0)], None);
        let table = scaling_table("cores", Metric::RatePerS, &[&long, &short]);
        let text = table.to_text("");
        for part in [
            "cores = 1",
            "cores = 2",
            "cores = 4",
            "50.0%",
            "75.3%",
            "−40",
            "–",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let ends = prony_wording::scaling::ends(&short);
        assert!(ends.starts_with("body = 10K: from 100"), "{ends}");
    }
}
