//! The page of one load.

use minijinja::context;
use prony_record::{Record, Slice};

use crate::chart::{self, Panel, palette};
use crate::load_view;

/// One load as a page.
pub fn load(record: &Record) -> String {
    let (requests, failed) = load_view::requests(record);
    let mut findings = record.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let outcomes = load_view::outcomes(record);
    let headline = load_view::headline(record);
    let over_time = (!record.series.is_empty()).then(|| {
        let label = format!("Line chart of successes a second over time: {headline}.");
        let panel = Panel {
            name: "all connections".to_owned(),
            color: palette::variant(0),
            length_s: record.totals.elapsed_s,
            lines: vec![rates(&record.series)],
        };
        chart::over_time(label, &[panel])
    });
    let context = context! {
        style => super::style(),
        version => record.version,
        url => record.load.url,
        how => load_view::how(record),
        shortfall => load_view::shortfall(record),
        bounds => !record.response_time_us.at_least.is_empty(),
        latency => load_view::latency(record),
        caveat => load_view::closed_loop_caveat(record),
        outcomes => (outcomes.rows.len() > 1).then_some(outcomes),
        facts => load_view::facts(record),
        headline,
        requests,
        failed,
        findings,
        over_time,
    };
    super::render("load.html", context)
}

/// Successes a second in each slice, at the slice's middle. A last slice that is much shorter than
/// the others is left out: its few requests say nothing.
pub(super) fn rates(series: &[Slice]) -> Vec<(f64, f64)> {
    let mut previous_s = 0.0;
    let longest = series.first().map_or(0.0, |slice| slice.t_s);
    let mut points = Vec::with_capacity(series.len());
    for slice in series {
        let length_s = slice.t_s - previous_s;
        if length_s > longest / 2.0 {
            points.push((previous_s + length_s / 2.0, slice.ok as f64 / length_s));
        }
        previous_s = slice.t_s;
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_at_the_end_is_no_dip() {
        let slice = |t_s, ok| Slice {
            t_s,
            ok,
            failed: 0,
            bytes_in: 0,
            p50_us: 0.0,
            p99_us: 0.0,
        };
        let points = rates(&[slice(0.5, 100), slice(1.0, 110), slice(1.01, 1)]);
        assert_eq!(points, [(0.25, 200.0), (0.75, 220.0)]);
        assert!(rates(&[]).is_empty());
    }
}
