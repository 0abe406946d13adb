//! The page of one load.

use minijinja::context;
use prony_record::Record;

use crate::load_times::{self, PERCENTILES};
use crate::load_view::Tone;
use crate::{figures, load_view};

/// One load as a page.
pub fn load(record: &Record) -> String {
    let (requests, failed) = load_view::requests(record);
    let mut findings = record.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let outcomes = load_view::outcomes(record);
    let headline = load_view::headline(record);
    let agents = load_view::agents_table(record);
    let context = context! {
        style => super::style(),
        version => record.version,
        url => record.load.url,
        how => load_view::how(record),
        shortfall => load_view::shortfall(record),
        bounds => !record.response_time_us.at_least.is_empty(),
        times => load_times::table(record, &PERCENTILES),
        caveat => load_view::closed_loop_caveat(record),
        outcomes => (outcomes.rows.len() > 1).then_some(outcomes),
        agents => (!agents.rows.is_empty()).then_some(agents),
        facts => [load_view::provenance(record), load_view::facts(record)].concat(),
        headline,
        requests,
        failed,
        in_flight => load_view::in_flight(record),
        gravest => load_view::gravest(record),
        tone => match load_view::tone(record) {
            Tone::Good => "good",
            Tone::Care => "care",
            Tone::Bad => "bad",
        },
        bounds_legend => load_view::BOUNDS,
        findings,
        drawings => figures::load_figures(record),

    };
    super::render("load.html", context)
}
