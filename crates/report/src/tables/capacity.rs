//! Tables of a server's capacity.

use prony_stats::capacity::{
    CapacityDocument, ProbePurpose, ProbeReport, SearchEnd, SearchOutcome, SearchReport,
};

use crate::number;
use crate::table::{Align, Table};

/// A row for each search with its result.
pub(crate) fn searches(capacity: &CapacityDocument) -> Table {
    let mut table = Table::new(&["search", "result", "probes", "time"]);
    for (number, search) in (1..).zip(&capacity.searches) {
        table.push(vec![
            number.to_string(),
            result(search),
            search.probes.len().to_string(),
            number::span(search.took_s().round()),
        ]);
    }
    table
}

fn result(search: &SearchReport) -> String {
    match search.end {
        SearchEnd::Outcome { outcome } => match outcome {
            SearchOutcome::Capacity { per_s } => number::rate(per_s),
            SearchOutcome::AtLeast { per_s, .. } => format!("≥ {}", number::rate(per_s)),
            SearchOutcome::Below { per_s } | SearchOutcome::Unmet { per_s } => {
                format!("< {}", number::rate(per_s))
            }
        },
        SearchEnd::NoSuccess => "no request succeeded".to_owned(),
        SearchEnd::Interrupted => "interrupted".to_owned(),
    }
}

/// A row for each probe of a search, by rate.
pub(crate) fn probes(search: &SearchReport) -> Table {
    let headings = ["offered/s", "achieved/s", "p50", "p90", "p99", "goals", ""];
    let mut table = Table::new(&headings);
    for column in [5, 6] {
        table.columns[column].1 = Align::Left;
    }
    table.columns[0].1 = Align::Right;
    let mut probes: Vec<&ProbeReport> = search.probes.iter().collect();
    probes.retain(|probe| probe.purpose != ProbePurpose::Explore);
    let rate = |probe: &ProbeReport| probe.rate_per_s.unwrap_or(probe.offered_per_s);
    probes.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
    for probe in probes {
        let times = probe.response_time_us;
        let met = match (probe.met, probe.kept_up) {
            (true, _) => "met",
            (false, true) => "not met",
            (false, false) => "not met (overload)",
        };
        table.push(vec![
            number::rate_figure(rate(probe)),
            number::rate_figure(probe.achieved_per_s),
            number::time(times.p50),
            number::time(times.p90),
            number::time(times.p99),
            met.to_owned(),
            if probe.cut_short { "ended early" } else { "" }.to_owned(),
        ]);
    }
    table
}
