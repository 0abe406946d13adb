//! Results as tables, for the terminal and the document. This module does no I/O.

use super::ratios::{self, Measure, Rotation, Run, Spread, figure, ratio};
use super::rotation::Outcome;
use super::rows::Row;
use super::tool::{PEERS, Tool};

/// Text of an empty cell.
const NONE: &str = "–";
/// Result of a target for which there are no runs.
const UNMEASURED: &str = "not measured";

/// Renders all results as Markdown.
pub(super) fn render(outcomes: &[Outcome]) -> String {
    let columns = columns(outcomes);
    let cost = table(outcomes, &columns, |o, t| {
        Some(ratios(&compare(o, Measure::Cost, t)?))
    });
    let rate = table(outcomes, &columns, |o, t| {
        Some(ratios(&compare(o, Measure::Rate, t)?))
    });
    let memory = table(outcomes, &columns, |o, t| {
        let memory = figure(&o.rotations, t, |run| Some(run.memory_mib))?;
        Some(format!("{:.0}", memory.median))
    });
    format!(
        "CPU time per request as a ratio to the row's reference (lower is better): median of the \
         rotations, with minimum and maximum.\n\n{cost}\nRequests per second as a ratio to the \
         row's reference (higher is better; open loops have a fixed rate).\n\n{rate}\nMedian of \
         the peak memory in MiB.\n\n{memory}\nprony's targets:\n\n{}{}",
        targets(outcomes),
        notes(outcomes)
    )
}

/// Compares two builds of prony: the later one's cost and rate, divided by the earlier one's.
pub(super) fn render_builds(outcomes: &[Outcome]) -> String {
    let mut text = "new ÷ old prony, with 95% intervals over the rotations:\n".to_string();
    for Outcome { row, rotations, .. } in outcomes {
        let change = |measure| {
            let each = ratios::ratios(rotations, measure, Tool::Prony, Tool::OldProny);
            ratios::interval(each).map_or(UNMEASURED.to_string(), |change| {
                format!(
                    "{:.3} ({:.3} to {:.3})",
                    change.median, change.min, change.max
                )
            })
        };
        let (cost, rate) = (change(Measure::Cost), change(Measure::Rate));
        text.push_str(&format!("  {:<14} cost {cost}  rate {rate}\n", row.id));
    }
    text
}

/// List of remarks and failures, possibly empty.
fn notes(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let title = outcome.row.title;
        for (tool, note) in &outcome.notes {
            text.push_str(&format!("- {title}: {} {note}\n", tool.name()));
        }
        let kept: Vec<String> = columns(std::slice::from_ref(outcome))
            .into_iter()
            .filter_map(|tool| {
                let kept = figure(&outcome.rotations, tool, |run| run.kept)?;
                let name = tool.name();
                Some(format!("{name} {:.2}%", kept.median * 100.0))
            })
            .collect();
        if !kept.is_empty() {
            let kept = kept.join(", ");
            text.push_str(&format!(
                "- {title}: fraction of the requested rate: {kept}\n"
            ));
        }
    }
    if !text.is_empty() {
        text.insert_str(0, "\nOmitted tools and deviations:\n\n");
    }
    text
}

/// Returns true if every target of every row is met.
pub(super) fn all_met(outcomes: &[Outcome]) -> bool {
    outcomes.iter().flat_map(judge).all(|result| result.met)
}

/// Reference of a row: the first of its reference tools with a successful run.
pub(super) fn reference(row: &Row, rotations: &[Rotation]) -> Option<Tool> {
    let ran = |tool: &&Tool| rotations.iter().any(|r| r.contains_key(tool));
    row.references.iter().find(ran).copied()
}

fn compare(outcome: &Outcome, measure: Measure, tool: Tool) -> Option<Spread> {
    let reference = reference(outcome.row, &outcome.rotations)?;
    ratio(&outcome.rotations, measure, tool, reference)
}

/// Tools with at least one run: the floor, prony, then the peers.
fn columns(outcomes: &[Outcome]) -> Vec<Tool> {
    let ran = |tool: &Tool| {
        let mut rotations = outcomes.iter().flat_map(|o| &o.rotations);
        rotations.any(|r| r.contains_key(tool))
    };
    let all = [Tool::Floor, Tool::Prony].into_iter();
    all.chain(PEERS.iter().copied()).filter(ran).collect()
}

fn table(
    outcomes: &[Outcome],
    columns: &[Tool],
    cell: impl Fn(&Outcome, Tool) -> Option<String>,
) -> String {
    let names: Vec<&str> = columns.iter().map(|t| t.name()).collect();
    let mut text = format!("| row | × | {} |\n", names.join(" | "));
    text.push_str(&format!("|---|---|{}\n", "---|".repeat(columns.len())));
    for outcome in outcomes {
        let reference = reference(outcome.row, &outcome.rotations);
        let cells: Vec<String> = columns
            .iter()
            .map(|&tool| cell(outcome, tool).unwrap_or_else(|| NONE.to_string()))
            .collect();
        let reference = reference.map_or(NONE, Tool::name);
        let title = outcome.row.title;
        text.push_str(&format!(
            "| {title} | {reference} | {} |\n",
            cells.join(" | ")
        ));
    }
    text
}

/// Formats a ratio with its range: `1.14 (1.10–1.19)`. A constant has no range.
fn ratios(spread: &Spread) -> String {
    let Spread { median, min, max } = *spread;
    if min == max {
        return format!("{median:.2}");
    }
    format!("{median:.2} ({min:.2}–{max:.2})")
}

/// A target of a row, the measured value, and whether it meets the target.
#[derive(Debug, PartialEq)]
struct TargetResult {
    target: String,
    measured: String,
    met: bool,
}

fn targets(outcomes: &[Outcome]) -> String {
    let mut text = "| row | target | prony | met |\n|---|---|---|---|\n".to_string();
    for outcome in outcomes {
        for result in judge(outcome) {
            let met = if result.met { "yes" } else { "no" };
            let TargetResult {
                target, measured, ..
            } = result;
            let title = outcome.row.title;
            text.push_str(&format!("| {title} | {target} | {measured} | {met} |\n"));
        }
    }
    text
}

/// Judges every target of a row. A target without measurements is not met.
fn judge(outcome: &Outcome) -> Vec<TargetResult> {
    let rotations = &outcome.rotations;
    let targets = outcome.row.target;
    let mut results = Vec::new();
    // The target applies to the preferred reference, not to a substitute.
    let reference = outcome.row.references[0];
    let cost = ratio(rotations, Measure::Cost, Tool::Prony, reference);
    results.push(TargetResult {
        target: format!("cost ≤ {:.2} × {}", targets.cost, reference.name()),
        measured: cost.as_ref().map_or(UNMEASURED.to_owned(), ratios),
        met: cost.is_some_and(|cost| cost.median <= targets.cost),
    });
    if targets.ahead {
        results.push(ahead(outcome));
    }
    if let Some(target) = targets.rate {
        results.push(as_fast(outcome, target));
    }
    let prony = |of: fn(&Run) -> Option<f64>| figure(rotations, Tool::Prony, of);
    let limits = [
        (
            targets.memory_mib,
            "memory",
            "MiB",
            prony(|r| Some(r.memory_mib)),
        ),
        (
            targets.late_p99_us,
            "p99 lateness",
            "µs",
            prony(|r| r.late_p99_us),
        ),
    ];
    for (limit, what, unit, measured) in limits {
        let Some(limit) = limit else {
            continue;
        };
        let text = |Spread { median, min, max }: &Spread| {
            format!("{median:.0} ({min:.0}–{max:.0}) {unit}")
        };
        results.push(TargetResult {
            target: format!("{what} ≤ {limit:.0} {unit}"),
            measured: measured.as_ref().map_or(UNMEASURED.to_owned(), text),
            met: measured.is_some_and(|measured| measured.median <= limit),
        });
    }
    results
}

/// Compares prony's cost with the cheapest peer's.
fn ahead(outcome: &Outcome) -> TargetResult {
    let mut peers = to_peers(outcome, Measure::Cost);
    let nearest = peers.pop();
    TargetResult {
        target: "below every peer's cost".to_string(),
        measured: against(nearest.as_ref()),
        met: nearest.is_some_and(|(_, nearest)| nearest.median < 1.0),
    }
}

/// Compares prony's rate with the fastest peer's.
fn as_fast(outcome: &Outcome, target: f64) -> TargetResult {
    let peers = to_peers(outcome, Measure::Rate);
    TargetResult {
        target: format!("rate ≥ {target:.2} × every peer's"),
        measured: against(peers.first()),
        met: peers.first().is_some_and(|(_, it)| it.median >= target),
    }
}

/// Ratios of prony to each peer, from the smallest to the largest.
fn to_peers(outcome: &Outcome, measure: Measure) -> Vec<(Tool, Spread)> {
    let to_peer = |peer: &Tool| {
        let spread = ratio(&outcome.rotations, measure, Tool::Prony, *peer)?;
        Some((*peer, spread))
    };
    let mut peers: Vec<(Tool, Spread)> = PEERS.iter().filter_map(to_peer).collect();
    peers.sort_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    peers
}

fn against(peer: Option<&(Tool, Spread)>) -> String {
    match peer {
        Some((peer, spread)) => format!("{} × {}", ratios(spread), peer.name()),
        None => UNMEASURED.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn run(cpu_us: f64) -> Run {
        Run {
            cpu_us,
            rate_per_s: 1e6 / cpu_us,
            memory_mib: 8.4,
            late_p99_us: Some(90.0),
            kept: Some(0.998),
        }
    }

    fn outcome(id: &str, costs: &[&[(Tool, f64)]]) -> Outcome {
        Outcome {
            row: ROWS.iter().find(|r| r.id == id).unwrap(),
            rotations: costs
                .iter()
                .map(|r| r.iter().map(|&(tool, cpu)| (tool, run(cpu))).collect())
                .collect(),
            notes: Vec::new(),
        }
    }

    #[test]
    fn rows_by_tools_with_the_spread() {
        let outcomes = [
            outcome(
                "ka-1k",
                &[
                    &[(Tool::Floor, 10.0), (Tool::Prony, 10.5), (Tool::Wrk, 12.0)],
                    &[(Tool::Floor, 20.0), (Tool::Prony, 22.0), (Tool::Wrk, 23.0)],
                    &[(Tool::Floor, 10.0), (Tool::Prony, 10.7), (Tool::Wrk, 11.0)],
                ],
            ),
            outcome("tls-1k", &[&[(Tool::Wrk, 20.0), (Tool::Prony, 19.0)]]),
        ];
        let text = render(&outcomes);
        let row = "| keep-alive, 64, 1K | floor | 1.00 | 1.07 (1.05–1.10) | 1.15 (1.10–1.20) |\n";
        assert!(text.contains("| row | × | floor | prony | wrk |\n|---|---|---|---|---|\n"));
        assert!(text.contains(row), "{text}");
        assert!(text.contains("| TLS keep-alive, 64, 1K | wrk | – | 0.95 | 1.00 |\n"));
        assert!(text.contains("| keep-alive, 64, 1K | floor | 8 | 8 | 8 |\n"));
    }

    #[test]
    fn targets_are_judged_by_the_median_and_against_every_peer() {
        let good = outcome(
            "ka-1k",
            &[&[(Tool::Floor, 10.0), (Tool::Prony, 10.5), (Tool::Ab, 11.0)]],
        );
        assert!(all_met(&[good]));
        let behind = outcome(
            "ka-1k",
            &[&[
                (Tool::Floor, 10.0),
                (Tool::Prony, 10.5),
                (Tool::Ab, 10.4),
                (Tool::Wrk, 12.0),
            ]],
        );
        let results = judge(&behind);
        assert!(results[0].met && !results[1].met);
        assert_eq!(results[1].measured, "1.01 × ab");
        // The runs' rates are inverse to their costs.
        assert_eq!(results[2].measured, "0.99 × ab");
        assert_eq!(results[2].target, "rate ≥ 0.97 × every peer's");
        assert!(results[2].met);
        let dear = outcome("ka-1k", &[&[(Tool::Floor, 10.0), (Tool::Prony, 10.9)]]);
        assert_eq!(judge(&dear)[0].target, "cost ≤ 1.08 × floor");
        assert!(!all_met(&[dear]));
    }

    #[test]
    fn memory_and_lateness_have_limits_of_their_own() {
        let many = outcome("many-1k", &[&[(Tool::Floor, 10.0), (Tool::Prony, 10.9)]]);
        let measured: Vec<String> = judge(&many).into_iter().map(|j| j.measured).collect();
        assert_eq!(measured, ["1.09", "not measured", "8 (8–8) MiB"]);
        let open = outcome("open-1k", &[&[(Tool::H2load, 10.0), (Tool::Prony, 9.0)]]);
        assert_eq!(judge(&open)[1].target, "p99 lateness ≤ 200 µs");
    }

    #[test]
    fn notes_stand_below_the_tables() {
        let mut row = outcome("tls-resumed", &[&[(Tool::Oha, 100.0)]]);
        let text = render(std::slice::from_ref(&row));
        assert!(text.ends_with("requested rate: oha 99.80%\n"), "{text}");
        row.rotations.clear();
        assert!(!render(std::slice::from_ref(&row)).contains("requested rate"));
        row.notes.push((Tool::Ab, "is omitted: x".to_string()));
        let text = render(&[row]);
        let note = "- TLS handshake per request, 64, resumed: ab is omitted: x\n";
        assert!(text.ends_with(note), "{text}");
    }

    #[test]
    fn a_substitute_is_a_reference_and_not_judged() {
        let row = outcome("tls-resumed", &[&[(Tool::Wrk, 100.0), (Tool::Prony, 80.0)]]);
        assert_eq!(reference(row.row, &row.rotations), Some(Tool::Wrk));
        assert_eq!(judge(&row)[0].measured, "not measured");
        assert!(!all_met(&[row]));
    }
}
