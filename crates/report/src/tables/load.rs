//! Tables of one load.

use prony_record::{Outcome, Record};

use crate::number;
use crate::table::{Align, Table};
use crate::wording::load::meaning;

/// Requests by outcome, with an explanation of each outcome. Requests that were in flight at the end
/// have no outcome and are left out.
pub(crate) fn outcomes(record: &Record) -> Table {
    let mut table = Table::new(&["outcome", "requests", "share", "meaning"]);
    table.columns[3].1 = Align::Left;
    let totals = &record.totals;
    let all = totals.ok + totals.failed + totals.unstarted;
    let known = record.outcomes.iter();
    for (&outcome, &n) in known.filter(|(outcome, _)| **outcome != Outcome::Unfinished) {
        table.push(vec![
            outcome.name().to_owned(),
            number::count(n),
            number::share(n as f64 / all.max(1) as f64),
            meaning(outcome).to_owned(),
        ]);
    }
    table
}

/// Each agent's part of a load; without rows if one machine sent the load alone.
pub(crate) fn agents(record: &Record) -> Table {
    let headings = [
        "agent",
        "ok/s",
        "p99",
        "failed",
        "CPU",
        "start skew",
        "ended",
    ];
    let mut table = Table::new(&headings);
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| "–".to_owned());
    for agent in record.fleet.iter().flat_map(|fleet| &fleet.agents) {
        let at_least = if agent.p99_at_least { "≥ " } else { "" };
        table.push(vec![
            agent.name.clone(),
            or_none(
                agent
                    .ok_per_s
                    .map(|rate| number::count(rate.round() as u64)),
            ),
            or_none(
                agent
                    .p99_us
                    .map(|us| format!("{at_least}{}", number::time(us))),
            ),
            number::count(agent.failed),
            or_none(agent.cpu_percent.map(|percent| format!("{percent:.0}%"))),
            or_none(agent.start_skew_us.map(number::time)),
            agent.ended_because.clone(),
        ]);
    }
    table
}
