//! Metrics along factors whose levels are numbers, as tables and words.

use prony_stats::{Metric, Scaling, VerdictDocument, is_named_with_factor, level_name};

use super::standing::value;
use crate::number;
use crate::table::Table;

/// The lines of the document by factor and metric, in their order.
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

/// What the table's last columns mean.
pub(crate) const EXPLAINED: &str = "In step: the last figure's share of what the first one's would be, grown in \
     proportion. Each further: what one more adds, by the straight line through the points. Straight: the share of \
     the points' differences that this line explains. Means over the blocks, without intervals.";

/// Such as `request rate along cores`.
pub(crate) fn title(factor: &str, metric: Metric) -> String {
    format!("{} along {factor}", metric.noun())
}

/// A row for each line: its points, how much of what proportion would give the last one is, what
/// each further one adds and how straight it is.
pub(crate) fn table(factor: &str, metric: Metric, lines: &[&Scaling]) -> Table {
    let mut numbers: Vec<u32> = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|point| point.at))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut headings = vec![String::new()];
    headings.extend(numbers.iter().map(|number| format!("{factor} = {number}")));
    headings.extend(["in step", "each further", "straight"].map(str::to_owned));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&title(factor, metric), &headings);
    for line in lines {
        let mut row = vec![name(line)];
        row.extend(numbers.iter().map(|number| {
            let point = line.points.iter().find(|point| point.at == *number);
            point.map_or("–".to_owned(), |point| value(metric, point.level()))
        }));
        row.extend([in_step(line), each_further(line), straight(line)]);
        table.push(row);
    }
    table
}

/// One line in a sentence.
pub(crate) fn words(line: &Scaling) -> String {
    let (Some(first), Some(last)) = (line.points.first(), line.points.last()) else {
        return name(line);
    };
    let name = match name(line) {
        name if name.is_empty() => String::new(),
        name => format!("{name}: "),
    };
    format!(
        "{name}from {} at {} to {} at {}",
        value(line.metric, first.level()),
        first.at,
        value(line.metric, last.level()),
        last.at
    )
}

fn name(line: &Scaling) -> String {
    let levels = line.levels.iter().map(|(factor, level)| {
        let with_factor = is_named_with_factor([level.as_str()]);
        level_name(factor, level, with_factor)
    });
    levels.collect::<Vec<_>>().join(", ")
}

fn in_step(line: &Scaling) -> String {
    let last = line.points.last();
    last.map_or(String::new(), |last| percent(last.in_step))
}

fn each_further(line: &Scaling) -> String {
    let sign = if line.slope < 0.0 { "−" } else { "+" };
    format!("{sign}{}", value(line.metric, line.slope.abs()))
}

fn straight(line: &Scaling) -> String {
    // Every line through two points is straight.
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
        let table = table("cores", Metric::RatePerS, &[&long, &short]);
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
        assert!(
            words(&short).starts_with("body = 10K: from 100"),
            "{}",
            words(&short)
        );
    }
}
