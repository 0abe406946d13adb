//! Results over time for other programs: Bencher and Otava.

use std::collections::BTreeMap;

use prony_stats::history::{HistoryDocument, HistoryPoint, HistorySeries};
use serde_json::{Map, Value, json};

use crate::figures::file_name;

/// A file with its name.
pub type NamedFile = (String, String);

/// Returns the newest point of each series as Bencher Metric Format: benchmarks with measures.
/// Machines are part of a benchmark's name if there are several, because Bencher assigns a report
/// to one testbed.
pub fn bencher(histories: &HistoryDocument) -> Value {
    let first = histories.series.first();
    let is_mixed = histories
        .series
        .iter()
        .any(|it| Some(&it.machine) != first.map(|it| &it.machine));
    let mut benchmarks = Map::new();
    for series in &histories.series {
        let Some(point) = series.points.last() else {
            continue;
        };
        let mut name = format!("{}: {}", series.plan, series.variant);
        if is_mixed {
            name += &format!(" ({})", series.machine);
        }
        let mut measure = json!({"value": point.value});
        for (key, bound) in [("lower_value", point.low), ("upper_value", point.high)] {
            if let Some(bound) = bound {
                measure[key] = bound.into();
            }
        }
        let measures = benchmarks.entry(name).or_insert_with(|| json!({}));
        measures[series.metric.name()] = measure;
    }
    Value::Object(benchmarks)
}

/// Returns files for Otava: a CSV file for each plan, machine and variant, with a column for each
/// metric, and `otava.yaml`, which names them as tests.
pub fn otava(histories: &HistoryDocument) -> Vec<NamedFile> {
    let mut tests: BTreeMap<(&str, &str, &str), Vec<&HistorySeries>> = BTreeMap::new();
    for series in &histories.series {
        let key = (&*series.plan, &*series.machine, &*series.variant);
        tests.entry(key).or_default().push(series);
    }
    let mut files: Vec<NamedFile> = Vec::new();
    let mut configuration = "tests:\n".to_owned();
    for ((plan, machine, variant), series) in tests {
        let base = file_name(&format!("{plan}-{variant}"));
        let is_taken = |name: &str| files.iter().any(|file| file.0 == format!("{name}.csv"));
        let mut name = base.clone();
        for number in 2.. {
            if !is_taken(&name) {
                break;
            }
            name = format!("{base}-{number}");
        }
        configuration += &format!(
            "  # {machine}\n  {name}:\n    type: csv\n    file: {name}.csv\n    time_column: time\n    \
             attributes: [commit, run]\n    metrics:\n",
            machine = machine.replace('\n', " ")
        );
        for one in &series {
            let direction = match one.metric.direction() {
                prony_stats::Direction::Lower => -1,
                _ => 1,
            };
            let metric = one.metric.name();
            configuration += &format!(
                "      {metric}:\n        column: {metric}\n        direction: {direction}\n"
            );
        }
        files.push((format!("{name}.csv"), otava_csv(&series)));
    }
    files.push(("otava.yaml".to_owned(), configuration));
    files
}

/// One run in a file for Otava, with its value of each metric.
struct OtavaRow<'a> {
    point: &'a HistoryPoint,
    values: Vec<Option<f64>>,
}

/// Returns one row for each run, and a column for each series.
fn otava_csv(series: &[&HistorySeries]) -> String {
    let mut rows: BTreeMap<(&str, &str), OtavaRow<'_>> = BTreeMap::new();
    for (column, one) in series.iter().enumerate() {
        for point in &one.points {
            let row = rows.entry((&point.started_at, &point.run));
            let row = row.or_insert_with(|| OtavaRow {
                point,
                values: vec![None; series.len()],
            });
            row.values[column] = Some(point.value);
        }
    }
    let names = series.iter().map(|it| it.metric.name());
    let mut csv = ["time", "commit", "run"]
        .into_iter()
        .chain(names)
        .collect::<Vec<_>>()
        .join(",");
    csv.push('\n');
    for ((time, run), OtavaRow { point, values }) in rows {
        // Otava reads numeric offsets, but no "Z".
        let time = time
            .strip_suffix('Z')
            .map_or(time.to_owned(), |it| format!("{it}+00:00"));
        let commit = point.commit.clone().unwrap_or_default();
        let mut cells = vec![time, quoted(&commit), quoted(run)];
        cells.extend(
            values
                .iter()
                .map(|it| it.map(|it| it.to_string()).unwrap_or_default()),
        );
        csv += &cells.join(",");
        csv.push('\n');
    }
    csv
}

/// Quotes a cell of a CSV file if necessary.
fn quoted(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}
