//! Results as tables, for the terminal and for docs/performance.md.

use std::collections::BTreeSet;
use std::path::Path;

use super::ceiling::LATE_P99_MAX_US;
use super::engine::Outcome;
use super::figures::{Lateness, LatenessCurve, Measure};
use super::judgement::{UNMEASURED, all_met, judge};
use super::rows::Section;
use super::tool::{PEERS, Tool};
use crate::table::Table;

/// Text of an empty cell.
const NONE: &str = "–";

/// End marker of the generated parts of the document.
const CLOSE: &str = "<!-- end of generated -->";

/// If the responder uses more than this percentage of its core at a rate that was missed, it may be
/// the bottleneck, and the tool might be faster than measured.
const BUSY_PERCENT: f64 = 90.0;

impl Section {
    /// Start marker of the section's tables in the document.
    fn open(self) -> &'static str {
        match self {
            Section::Tools => "<!-- generated: cargo xtask bench -->",
            Section::Fleet => "<!-- generated: cargo xtask bench, fleet -->",
            Section::Ceiling => "<!-- generated: cargo xtask bench, open-max -->",
            Section::Quic => "<!-- generated: cargo xtask bench, HTTP/3 -->",
            Section::Bypass => "<!-- generated: cargo xtask bench, AF_XDP -->",
        }
    }
}

/// Renders a section's results as Markdown for the document.
pub(super) fn render(section: Section, outcomes: &[Outcome]) -> String {
    let tables = match section {
        Section::Tools => format!(
            "CPU time per request as a ratio to the row's reference (lower is better): median of \
             the rotations, with minimum and maximum.\n\n{}\nRequests per second as a ratio to the \
             row's reference (higher is better; open loops have a fixed rate).\n\n{}\nMedian of \
             the peak memory in MiB.\n\n{}",
            tools_table(outcomes, Measure::Cost),
            tools_table(outcomes, Measure::Rate),
            tools_table(outcomes, Measure::PeakMemory),
        ),
        Section::Quic => quic_table(outcomes),
        Section::Ceiling => {
            let curves: String = outcomes.iter().map(curves_table).collect();
            ceiling_table(outcomes) + &curves
        }
        Section::Bypass | Section::Fleet => targets_table(outcomes),
    };
    tables + &notes(outcomes)
}

/// Renders the targets of a section whose tables in the document don't have them.
pub(super) fn render_targets(section: Section, outcomes: &[Outcome]) -> Option<String> {
    let is_apart = matches!(section, Section::Tools | Section::Quic | Section::Ceiling);
    is_apart.then(|| format!("prony's targets:\n\n{}", targets_table(outcomes)))
}

/// Compares two builds of prony: the later one's values, divided by the earlier one's.
pub(super) fn render_builds(outcomes: &[Outcome]) -> String {
    let mut text = "new ÷ old prony, with 95% intervals over the rotations:\n".to_string();
    for outcome in outcomes {
        let compared = [
            Measure::Cost,
            Measure::Rate,
            Measure::SkewP99,
            Measure::CoordinatorShare,
        ];
        let changes = compared.into_iter().filter_map(|measure| {
            let change = outcome.change(measure)?;
            let (median, min, max) = (change.median, change.min, change.max);
            Some(format!(
                "  {} {median:.3} ({min:.3} to {max:.3})",
                measure.name()
            ))
        });
        let mut changes: String = changes.collect();
        if changes.is_empty() {
            changes = format!("  {UNMEASURED}");
        }
        let name = outcome.named(outcome.row.id);
        text.push_str(&format!("  {name:<14}{changes}\n"));
    }
    text
}

/// List of remarks and failures, possibly empty.
fn notes(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let title = outcome.named(outcome.row.title);
        for (tool, note) in &outcome.notes {
            text.push_str(&format!("- {title}: {} {note}\n", tool.name()));
        }
        let kept = Measure::Kept;
        let shares = columns(std::slice::from_ref(outcome))
            .into_iter()
            .filter_map(|tool| {
                let share = outcome.spread(kept, tool)?;
                Some(format!("{} {}", tool.name(), kept.text(share.median)))
            });
        let shares: Vec<String> = shares.collect();
        if !shares.is_empty() {
            let shares = shares.join(", ");
            text.push_str(&format!("- {title}: {}: {shares}\n", kept.name()));
        }
    }
    if !text.is_empty() {
        text.insert_str(0, "\nOmitted tools and deviations:\n\n");
    }
    text
}

/// Tools with at least one run: the floor, prony, then the peers.
fn columns(outcomes: &[Outcome]) -> Vec<Tool> {
    let ran = |tool: &Tool| outcomes.iter().any(|outcome| outcome.has(*tool));
    let all = [Tool::Floor, Tool::Prony].into_iter();
    all.chain(PEERS.iter().copied()).filter(ran).collect()
}

/// A tool's value as text and as a number, with which tools are compared.
fn cell(outcome: &Outcome, measure: Measure, tool: Tool) -> Option<(String, f64)> {
    let (spread, text) = match measure {
        Measure::PeakMemory => {
            let memory = outcome.spread(measure, tool)?;
            (memory, format!("{:.0}", memory.median))
        }
        _ => {
            let ratio = outcome.ratio(measure, tool, outcome.reference()?)?;
            (ratio, ratio.text(2))
        }
    };
    Some((text, spread.median))
}

/// Returns true if a peer's median is better than prony's. The rates of an open loop are given.
fn is_behind(outcome: &Outcome, measure: Measure) -> bool {
    let value = |tool| cell(outcome, measure, tool).map(|(_, value)| value);
    let Some(own) = value(Tool::Prony) else {
        return false;
    };
    let mut peers = PEERS.iter().filter_map(|&peer| value(peer));
    match measure {
        Measure::Rate => outcome.row.rate().is_none() && peers.any(|peer| peer > own),
        _ => peers.any(|peer| peer < own),
    }
}

/// Rows by tools. The titles of rows in which prony is behind are bold.
fn tools_table(outcomes: &[Outcome], measure: Measure) -> String {
    let columns = columns(outcomes);
    let names = columns.iter().map(|tool| tool.name());
    let head: Vec<&str> = ["row", "×"].into_iter().chain(names).collect();
    let mut table = Table::new(&head);
    for outcome in outcomes {
        let reference = match measure {
            Measure::PeakMemory => NONE,
            _ => outcome.reference().map_or(NONE, Tool::name),
        };
        let cells = columns.iter().map(|&tool| cell(outcome, measure, tool));
        let cells = cells.map(|cell| cell.map_or(NONE.to_owned(), |(text, _)| text));
        let title = outcome.row.title;
        let title = if is_behind(outcome, measure) {
            format!("**{title}**")
        } else {
            title.to_owned()
        };
        let first = [title, reference.to_owned()];
        table.add(first.into_iter().chain(cells));
    }
    table.markdown()
}

/// The targets of all rows, with measured values.
fn targets_table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&["row", "target", "prony", "met"]);
    for outcome in outcomes {
        for judgement in judge(outcome) {
            let target = judgement.target.as_deref().unwrap_or(NONE);
            let met = judgement.met.map_or("", yes_or_no);
            table.add([outcome.row.title, target, &judgement.measured, met]);
        }
    }
    table.markdown()
}

fn yes_or_no(met: bool) -> &'static str {
    if met { "yes" } else { "no" }
}

/// prony over HTTP/3 as a ratio to each other tool.
fn quic_table(outcomes: &[Outcome]) -> String {
    let columns = [
        ("prony ÷ floor", Measure::Cost, Tool::Floor),
        ("prony ÷ oha", Measure::Cost, Tool::Oha),
        ("prony ÷ shb", Measure::Cost, Tool::Shb),
        ("rate: prony ÷ shb", Measure::Rate, Tool::Shb),
        ("prony ÷ its own HTTP/2", Measure::Cost, Tool::PronyHttp2),
    ];
    let names = columns.iter().map(|(name, ..)| *name);
    let head: Vec<&str> = ["row", "server"].into_iter().chain(names).collect();
    let mut table = Table::new(&[&head[..], &["targets met"]].concat());
    for outcome in outcomes {
        let mut cells = vec![
            outcome.row.title.to_owned(),
            outcome.server.name().to_owned(),
        ];
        cells.extend(columns.iter().map(|&(_, measure, tool)| {
            let ratio = outcome.ratio(measure, Tool::Prony, tool);
            ratio.map_or(NONE.to_owned(), |ratio| ratio.text(2))
        }));
        cells.push(yes_or_no(all_met(outcome)).to_owned());
        table.add(cells);
    }
    table.markdown()
}

/// The highest rate of each tool, and prony's as a ratio to it.
fn ceiling_table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new(&["row", "tool", "highest rate", "prony ÷ tool"]);
    for outcome in outcomes {
        for &tool in &outcome.tools {
            let highest = match outcome.spread(Measure::Rate, tool) {
                Some(rate) => format!("{}{:.0}/s", limit_sign(outcome, tool), rate.median),
                None => missed_text(outcome.curves.get(&tool)),
            };
            let ratio = match tool {
                Tool::Prony => None,
                _ => outcome.ratio(Measure::Rate, Tool::Prony, tool),
            };
            let sign = limit_sign(outcome, Tool::Prony);
            let ratio = ratio.map(|ratio| format!("{sign}{}", ratio.text(2)));
            let ratio = ratio.unwrap_or_else(|| NONE.to_owned());
            table.add([outcome.row.title, tool.name(), &highest, &ratio]);
        }
    }
    table.markdown()
}

/// "≥" if the server may have limited the tool's rate.
fn limit_sign(outcome: &Outcome, tool: Tool) -> &'static str {
    let busy = outcome.spread(Measure::ServerShare, tool);
    let is_limited = busy.is_some_and(|busy| busy.max >= BUSY_PERCENT);
    if is_limited { "≥ " } else { "" }
}

/// The result of a tool whose p99 lateness was too high at every rate.
fn missed_text(curve: Option<&LatenessCurve>) -> String {
    let points = curve.into_iter().flatten();
    let Some((rate, late)) = points.min_by(|a, b| a.1.p99.total_cmp(&b.1.p99)) else {
        return "no rate within 0.5%".to_owned();
    };
    let (p99, limit) = (late.p99 / 1e3, LATE_P99_MAX_US / 1e3);
    format!("none: lowest p99 {p99:.1} ms, at {rate}/s (limit {limit:.0} ms)")
}

/// The lateness of each tool at the rates of the search's first part, in which all tools run at the
/// same rates.
fn curves_table(outcome: &Outcome) -> String {
    let is_shared = |rate: &u32| rate.is_multiple_of(250) && (rate / 250).is_power_of_two();
    let rates = outcome.curves.values().flat_map(LatenessCurve::keys);
    let rates: BTreeSet<u32> = rates.copied().filter(is_shared).collect();
    let names = outcome.curves.keys().map(|tool| tool.name());
    let head: Vec<&str> = ["requests/s"].into_iter().chain(names).collect();
    let mut table = Table::new(&head);
    for rate in rates {
        let cell = |curve: &LatenessCurve| match curve.get(&rate) {
            Some(Lateness { p50, p99, p999 }) => format!("{p50:.0} / {p99:.0} / {p999:.0}"),
            None => NONE.to_owned(),
        };
        let cells = outcome.curves.values().map(cell);
        table.add([rate.to_string()].into_iter().chain(cells));
    }
    let title = outcome.row.title;
    format!(
        "\nLateness in µs, p50 / p99 / p99.9 ({title}):\n\n{}",
        table.markdown()
    )
}

/// Replaces the tables of a section in the document at `path`.
pub(super) fn write(path: &Path, section: Section, tables: &str) -> Result<(), String> {
    let place = |e: std::io::Error| format!("{}: {e}", path.display());
    let old = std::fs::read_to_string(path).map_err(place)?;
    let new = replace(&old, section.open(), tables);
    let new = new.map_err(|e| format!("{}: {e}", path.display()))?;
    std::fs::write(path, new).map_err(place)
}

/// Returns the text with the part between the markers replaced by `tables`.
fn replace(text: &str, open: &str, tables: &str) -> Result<String, String> {
    let (before, rest) = text
        .split_once(open)
        .ok_or_else(|| format!("no line `{open}`"))?;
    let (_, after) = rest
        .split_once(CLOSE)
        .ok_or_else(|| format!("`{CLOSE}` is missing after `{open}`"))?;
    let tables = tables.trim_end();
    Ok(format!("{before}{open}\n{tables}\n{CLOSE}{after}"))
}

#[cfg(test)]
mod tests {
    use super::super::engine::tests::{costs, outcome, rotation};
    use super::super::figures::Values;
    use super::super::rows::ServerKind;
    use super::*;

    #[test]
    fn rows_by_tools_with_the_spread() {
        let outcomes = [
            outcome(
                "ka-1k",
                vec![
                    rotation(&[(Tool::Floor, 10.0), (Tool::Prony, 10.5), (Tool::Wrk, 12.0)]),
                    rotation(&[(Tool::Floor, 20.0), (Tool::Prony, 22.0), (Tool::Wrk, 23.0)]),
                    rotation(&[(Tool::Floor, 10.0), (Tool::Prony, 10.7), (Tool::Wrk, 11.0)]),
                ],
            ),
            costs("tls-1k", &[(Tool::Wrk, 20.0), (Tool::Prony, 19.0)]),
        ];
        let text = render(Section::Tools, &outcomes);
        for line in [
            "| row | × | floor | prony | wrk |\n|---|---|---|---|---|\n",
            "| keep-alive, 64, 1K | floor | 1.00 | 1.07 (1.05–1.10) | 1.15 (1.10–1.20) |\n",
            "| TLS keep-alive, 64, 1K | wrk | – | 0.95 | 1.00 |\n",
            "| keep-alive, 64, 1K | – | 8 | 8 | 8 |\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let targets = render_targets(Section::Tools, &outcomes).unwrap();
        let line = "| keep-alive, 64, 1K | cost ≤ 1.08 × floor | 1.07 (1.05–1.10) | yes |\n";
        assert!(targets.contains(line), "{targets}");
        assert_eq!(render_targets(Section::Fleet, &outcomes), None);
    }

    #[test]
    fn rows_in_which_prony_is_behind_are_bold() {
        let behind = costs(
            "ka-1k",
            &[(Tool::Floor, 10.0), (Tool::Prony, 11.0), (Tool::Wrk, 10.8)],
        );
        // The floor isn't a peer, and the rate of an open loop is given.
        let ahead = costs("ka-13", &[(Tool::Floor, 9.0), (Tool::Prony, 11.0)]);
        let open = costs("open-1k", &[(Tool::H2load, 9.0), (Tool::Prony, 11.0)]);
        let text = render(Section::Tools, &[behind, ahead, open]);
        for line in [
            "| **keep-alive, 64, 1K** | floor | 1.00 | 1.10 | 1.08 | – |\n",
            "| **keep-alive, 64, 1K** | floor | 1.00 | 0.91 | 0.93 | – |\n",
            "| keep-alive, 64, 13 bytes | floor | 1.00 | 1.22 | – | – |\n",
            "| **open loop, 20,000/s, 64, 1K** | h2load | – | 1.22 | – | 1.00 |\n",
            "| open loop, 20,000/s, 64, 1K | h2load | – | 0.82 | – | 1.00 |\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn notes_and_kept_rates_stand_below_the_tables() {
        let mut row = costs("tls-resumed", &[(Tool::Oha, 100.0)]);
        row.rotations[0]
            .get_mut(&Tool::Oha)
            .unwrap()
            .insert(Measure::Kept, 99.8);
        let text = render(Section::Tools, std::slice::from_ref(&row));
        assert!(text.ends_with("requested rate: oha 99.80%\n"), "{text}");
        row.rotations.clear();
        assert!(!render(Section::Tools, std::slice::from_ref(&row)).contains("requested rate"));
        row.notes.push((Tool::Ab, "is omitted: x".to_string()));
        let text = render(Section::Tools, &[row]);
        let note = "- TLS handshake per request, 64, resumed: ab is omitted: x\n";
        assert!(text.ends_with(note), "{text}");
    }

    #[test]
    fn a_substitute_is_a_reference() {
        let row = costs("tls-resumed", &[(Tool::Wrk, 100.0), (Tool::Prony, 80.0)]);
        let line = "| TLS handshake per request, 64, resumed | wrk | 0.80 | 1.00 |\n";
        assert!(render(Section::Tools, &[row]).contains(line));
    }

    #[test]
    fn http_3_is_compared_with_each_other_tool_on_each_server() {
        let mut found = costs(
            "h3-16x32",
            &[
                (Tool::Prony, 6.0),
                (Tool::PronyHttp2, 5.0),
                (Tool::Oha, 15.0),
                (Tool::Shb, 12.0),
            ],
        );
        found.server = ServerKind::Caddy;
        found
            .notes
            .push((Tool::Floor, "failed in rotation 1: x".to_owned()));
        let text = render(Section::Quic, &[found]);
        for line in [
            "| HTTP/3, 16 × 32, 13 bytes | Caddy | – | 0.40 | 0.50 | 2.00 | 1.20 | yes |\n",
            "- HTTP/3, 16 × 32, 13 bytes, Caddy: floor failed in rotation 1: x\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn a_limit_of_the_server_makes_the_lead_a_lower_bound() {
        let rates = |busy: f64, rates: &[(Tool, f64)]| {
            let values = |&(tool, rate): &(Tool, f64)| {
                let values = [(Measure::Rate, rate), (Measure::ServerShare, busy)];
                (tool, Values::from(values))
            };
            let mut found = outcome("open-max", vec![rates.iter().map(values).collect()]);
            found.tools.insert(Tool::Vegeta);
            found.tools.insert(Tool::Fortio);
            let late = |p99| Lateness {
                p50: 10.0,
                p99,
                p999: 9_000.0,
            };
            let curve = [(250, late(4_000.0)), (8_000, late(2_500.0))];
            found.curves.insert(Tool::Vegeta, curve.into());
            // The search's second part tries rates that no other tool runs at.
            let curve = [(8_000, late(30.0)), (11_314, late(40.0))];
            found.curves.insert(Tool::Prony, curve.into());
            render(Section::Ceiling, &[found])
        };
        let text = rates(95.0, &[(Tool::Prony, 100e3), (Tool::Oha, 40e3)]);
        for line in [
            "| highest rate, 64 | prony | ≥ 100000/s | – |\n",
            "| highest rate, 64 | oha | ≥ 40000/s | ≥ 2.50 |\n",
            "| highest rate, 64 | vegeta | none: lowest p99 2.5 ms, at 8000/s (limit 1 ms) | – |\n",
            "| highest rate, 64 | fortio | no rate within 0.5% | – |\n",
            "| requests/s | prony | vegeta |\n",
            "| 250 | – | 10 / 4000 / 9000 |\n| 8000 | 10 / 30 / 9000 | 10 / 2500 / 9000 |\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("11314"), "{text}");
        let text = rates(50.0, &[(Tool::Prony, 40e3), (Tool::Oha, 50e3)]);
        assert!(text.contains("| oha | 50000/s | 0.80 |"), "{text}");
    }

    #[test]
    fn a_fleets_values_are_judged_or_only_shown() {
        let values = Values::from([
            (Measure::CoordinatorShare, 0.47),
            (Measure::Unstarted, 12.0),
            (Measure::PeakMemory, 32.0),
        ]);
        let text = render(
            Section::Fleet,
            &[outcome("fleet-cost", vec![[(Tool::Prony, values)].into()])],
        );
        for line in [
            "| coordinator ≤ 1.00% of a core | 0.47% of a core | yes |\n",
            "| no scheduled requests that did not start | 12 | no |\n",
            "| – | memory: 32 MiB |  |\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        let text = render(
            Section::Fleet,
            &[outcome("fleet-skew", vec![Default::default()])],
        );
        assert!(text.contains("≤ 2.00 ms | not measured | no |\n"), "{text}");
    }

    #[test]
    fn builds_of_prony_are_compared_in_every_section() {
        let pairs = |id: &str| {
            let pair = |old: f64| rotation(&[(Tool::OldProny, old), (Tool::Prony, old * 1.1)]);
            outcome(id, vec![pair(10.0), pair(14.0)])
        };
        let coordinators = |old: f64| {
            let values = |share: f64| Values::from([(Measure::CoordinatorShare, share)]);
            [
                (Tool::OldProny, values(old)),
                (Tool::Prony, values(old / 2.0)),
            ]
            .into()
        };
        let text = render_builds(&[
            pairs("ka-1k"),
            pairs("h3-16x32"),
            outcome("fleet-cost", vec![coordinators(0.4), coordinators(0.8)]),
            outcome("fleet-skew", vec![Default::default()]),
        ]);
        for line in [
            "  ka-1k           cost 1.100 (1.100 to 1.100)  rate 0.909 (0.909 to 0.909)\n",
            "  h3-16x32, origin  cost 1.100",
            "  fleet-cost      coordinator 0.500 (0.500 to 0.500)\n",
            "  fleet-skew      not measured\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[test]
    fn only_text_between_the_marks_changes() {
        let open = Section::Tools.open();
        let old = format!("# a\n\n{open}\nold\n{CLOSE}\n\nb\n");
        let new = replace(&old, open, "| t |\n").unwrap();
        assert_eq!(new, format!("# a\n\n{open}\n| t |\n{CLOSE}\n\nb\n"));
        assert_eq!(replace(&new, open, "| t |").unwrap(), new);
        assert!(replace("# a\n", open, "t").is_err());
        assert!(replace(open, open, "t").is_err());
    }
}
