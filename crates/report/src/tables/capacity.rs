//! Tables of a server's capacity.

use prony_stats::capacity::{
    CapacityDocument, ProbePurpose, ProbeReport, SearchEnd, SearchOutcome, SearchReport,
};

use crate::number;
use crate::table::Table;

/// A row for each search with its result.
pub(crate) fn searches(capacity: &CapacityDocument) -> Table {
    Table::of((1_u32..).zip(&capacity.searches))
        .left("search", |(place, _)| place.to_string())
        .right("result", |(_, search)| result(search))
        .right("probes", |(_, search)| search.probes.len().to_string())
        .right("time", |(_, search)| number::span(search.took_s().round()))
        .build()
}

fn result(search: &SearchReport) -> String {
    let unit = search.rate_unit();
    match search.end {
        SearchEnd::Outcome { outcome } => match outcome {
            SearchOutcome::Capacity { per_s } => unit.rate(per_s),
            SearchOutcome::AtLeast { per_s, .. } => format!("≥ {}", unit.rate(per_s)),
            SearchOutcome::Below { per_s } | SearchOutcome::Unmet { per_s } => {
                format!("< {}", unit.rate(per_s))
            }
        },
        SearchEnd::NoSuccess => "no request succeeded".to_owned(),
        SearchEnd::Interrupted => "interrupted".to_owned(),
    }
}

/// A row for each probe of a search, by rate.
pub(crate) fn probes(search: &SearchReport) -> Table {
    let mut probes: Vec<&ProbeReport> = search.probes.iter().collect();
    probes.retain(|probe| probe.purpose != ProbePurpose::Explore);
    let rate = |probe: &ProbeReport| probe.rate_per_s.unwrap_or(probe.offered_per_s);
    probes.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    Table::of(probes)
        .right("offered/s", |it| number::rate_figure(rate(it)))
        .right("achieved/s", |it| number::rate_figure(it.achieved_per_s))
        .right("p50", |it| number::time(it.response_time_us.p50))
        .right("p90", |it| number::time(it.response_time_us.p90))
        .right("p99", |it| number::time(it.response_time_us.p99))
        .left("goals", |it| match (it.met, it.kept_up) {
            (true, _) => "met",
            (false, true) => "not met",
            (false, false) => "not met (overload)",
        })
        .left("", |it| if it.cut_short { "ended early" } else { "" })
        .build()
}
