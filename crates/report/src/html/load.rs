//! The page of one load.

use minijinja::context;
use prony_record::Record;

use crate::{figures, load_view};

/// One load as a page.
pub fn load(record: &Record) -> String {
    let (requests, failed) = load_view::requests(record);
    let mut findings = record.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let outcomes = load_view::outcomes(record);
    let headline = load_view::headline(record);
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
        over_time => figures::of_load(record),
    };
    super::render("load.html", context)
}
