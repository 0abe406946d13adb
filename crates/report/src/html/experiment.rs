//! The page of an experiment.

use minijinja::context;
use prony_record::Severity;
use prony_stats::{Effect, Metric, Verdict, VerdictDocument};
use serde::Serialize;

use super::{completions, environment, load::rates, scaling, why};
use crate::chart::{self, Chart, ForestRow, Panel, Strip, StripGroup, palette};
use crate::verdict_view::{self as view, Standing};
use crate::{Experiment, load_view, number};

/// So many sentences leave room for the trust on the first screen, and for the table soon after;
/// more of them come below the charts.
const FEW: usize = 4;

/// A whole experiment as a page.
pub fn report(experiment: &Experiment) -> String {
    let verdict = &experiment.verdict;
    let (lead, lead_detail) = lead(verdict);
    let (kind, text) = view::trust(verdict);
    let mut findings = verdict.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let family = view::family(verdict);
    let groups = latency_groups(experiment);
    let any_bound = groups
        .iter()
        .flat_map(|group| &group.strips)
        .any(|strip| strip.values_us.iter().any(|(_, bound)| *bound));
    let first = experiment.trials.first().map(|trial| &trial.record);
    let context = context! {
        style => super::style(),
        version => first.map_or(env!("CARGO_PKG_VERSION"), |record| record.version.as_str()),
        name => verdict.name,
        question => verdict.question,
        verdicts => verdicts(verdict),
        many => verdict.comparisons.len() > FEW,
        trust => context! { kind, text, link => findings_link(verdict) },
        basis => view::basis(verdict),
        variants => variants(verdict),
        cross => view::cross(verdict),
        results => family.iter().map(|&metric| result(verdict, metric)).collect::<Vec<_>>(),
        effects => view::effects(verdict),
        scaling => scaling::of(verdict),
        scaling_note => view::scaling::EXPLAINED,
        until_done => completions::until_done(experiment),
        over_time => over_time(experiment),
        latency => latency_chart(&groups),
        caveat => first.and_then(load_view::closed_loop_caveat),
        why => why::whys(verdict),
        why_caveat => view::CAVEAT,
        cpu => why::cpu_chart(verdict),
        cpu_table => view::cpu_table(verdict),
        metrics => view::metrics_table(verdict),
        outcomes => view::outcomes_table(experiment),
        method => method(verdict),
        facts => facts(experiment),
        order => verdict.order,
        described => verdict.described.iter().map(|d| &d.text).collect::<Vec<_>>(),
        plan => experiment.plan,
        environment => environment::flattened(&experiment.environment),
        lead,
        lead_detail,
        any_bound,
        findings,
    };
    super::render("experiment.html", context)
}

/// The page's first sentence and what belongs below it in smaller type.
fn lead(verdict: &VerdictDocument) -> (String, Option<String>) {
    if let Some(lead) = view::lead(verdict) {
        return (lead, None);
    }
    let Some(comparison) = verdict.comparisons.first() else {
        return (
            "No complete block: nothing can be compared.".to_owned(),
            None,
        );
    };
    let text = || Some(comparison.text.clone());
    match comparison.verdict {
        Verdict::Withheld => (view::NO_VERDICT.to_owned(), text()),
        Verdict::Undecided => {
            let (name, against) = (&comparison.name, &comparison.against_name);
            (
                format!("{name} and {against} can't be told apart yet."),
                text(),
            )
        }
        // The interval reads better below the claim than within it.
        _ => match comparison.text.split_once(" (") {
            Some((claim, rest)) if rest.ends_with(')') && !rest.contains(" (") => (
                claim.to_owned(),
                Some(rest.trim_end_matches(')').to_owned()),
            ),
            _ => (comparison.text.clone(), None),
        },
    }
}

/// What leads from the first screen to the findings.
fn findings_link(verdict: &VerdictDocument) -> String {
    let notes = verdict
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Note)
        .count();
    if notes == verdict.findings.len() {
        number::plural(notes as u64, "note", "notes")
    } else {
        "What was found".to_owned()
    }
}

/// One comparison's sentence beside its word.
#[derive(Serialize)]
struct VerdictLine {
    word: &'static str,
    color: String,
    text: String,
}

/// Every comparison's sentence; none where the lead has said the only one.
fn verdicts(verdict: &VerdictDocument) -> Vec<VerdictLine> {
    if verdict.comparisons.len() < 2 {
        return Vec::new();
    }
    let lines = verdict.comparisons.iter().map(|comparison| {
        let place = verdict
            .variants
            .iter()
            .position(|v| v.levels == comparison.levels);
        VerdictLine {
            word: view::word(comparison.verdict),
            color: palette::property(place.unwrap_or(0)),
            text: comparison.text.clone(),
        }
    });
    lines.collect()
}

/// A variant's name and the page's property that holds its colour.
#[derive(Serialize)]
struct VariantView {
    name: String,
    color: String,
}

fn variants(verdict: &VerdictDocument) -> Vec<VariantView> {
    let each = verdict.variants.iter().enumerate();
    each.map(|(place, variant)| VariantView {
        name: variant.name.clone(),
        color: palette::property(place),
    })
    .collect()
}

/// One metric of the family: table and chart.
#[derive(Serialize)]
struct ResultView {
    title: String,
    standings: Vec<Standing>,
    chart: Option<Chart>,
    caption: String,
}

fn result(verdict: &VerdictDocument, metric: Metric) -> ResultView {
    let standings = view::standings(verdict, metric);
    ResultView {
        title: capitalised(metric.noun()),
        chart: forest(verdict, metric, &standings),
        caption: "The band holds what the plan counts as no difference. An interval wholly inside \
                  it is equivalent; one that leaves out 100% may be faster or slower."
            .to_owned(),
        standings,
    }
}

fn forest(verdict: &VerdictDocument, metric: Metric, standings: &[Standing]) -> Option<Chart> {
    let ratios = |effect: &Effect| (effect.ratio, effect.ratio.and(effect.low.zip(effect.high)));
    // One reference is a landmark; many would only repeat that they are 100%.
    let references = standings.iter().filter(|s| s.is_reference).count();
    let rows: Vec<ForestRow> = standings
        .iter()
        .filter(|standing| references == 1 || !standing.is_reference)
        .map(|standing| {
            let compared = view::effect_of(verdict, standing.variant, metric);
            let (ratio, interval) = compared.map_or((None, None), |(effect, _)| ratios(effect));
            ForestRow {
                name: verdict.variants[standing.variant].name.clone(),
                color: palette::variant(standing.variant),
                ratio,
                interval,
                verdict: if standing.is_reference {
                    "the reference".to_owned()
                } else {
                    standing.verdict.to_owned()
                },
            }
        })
        .collect();
    // Shares that may be zero are compared by difference and have no place on this axis.
    rows.iter().any(|row| row.ratio.is_some()).then(|| {
        let spoken: Vec<String> = standings
            .iter()
            .map(|s| {
                let name = &verdict.variants[s.variant].name;
                format!("{name} {} {}", s.relative, s.interval)
                    .trim_end()
                    .to_owned()
            })
            .collect();
        let label = format!(
            "Ratios to the reference, {}, with 95% intervals: {}.",
            metric.noun(),
            spoken.join("; ")
        );
        chart::forest(label, &rows, verdict.margin)
    })
}

fn over_time(experiment: &Experiment) -> Option<Chart> {
    let verdict = &experiment.verdict;
    let panels: Vec<Panel> = verdict
        .variants
        .iter()
        .enumerate()
        .map(|(place, variant)| {
            let trials = experiment.trials_of(place);
            let lengths = trials.iter().map(|trial| trial.record.totals.elapsed_s);
            Panel {
                name: variant.name.clone(),
                color: palette::variant(place),
                length_s: lengths.fold(0.0, f64::max),
                lines: trials
                    .iter()
                    .map(|trial| rates(&trial.record.series))
                    .collect(),
            }
        })
        .collect();
    panels.iter().any(|panel| !panel.lines.is_empty()).then(|| {
        let spoken: Vec<String> = panels
            .iter()
            .map(|p| format!("{}: {} trials", p.name, p.lines.len()))
            .collect();
        let label = format!(
            "Line charts of successes a second over time, one for each variant: {}.",
            spoken.join("; ")
        );
        chart::over_time(label, &panels)
    })
}

fn latency_groups(experiment: &Experiment) -> Vec<StripGroup> {
    let variants = &experiment.verdict.variants;
    type Pick = fn(&prony_record::Summary) -> f64;
    let percentiles: [(&str, &str, Pick); 4] = [
        ("p50", "p50", |s| s.p50),
        ("p90", "p90", |s| s.p90),
        ("p99", "p99", |s| s.p99),
        ("p99.9", "p99_9", |s| s.p99_9),
    ];
    let strip = |place: usize, key: &str, pick: Pick| Strip {
        name: variants[place].name.clone(),
        color: palette::variant(place),
        values_us: experiment
            .trials_of(place)
            .iter()
            .map(|trial| {
                let times = &trial.record.response_time_us;
                (pick(times), times.at_least.iter().any(|name| name == key))
            })
            .collect(),
    };
    percentiles
        .into_iter()
        .map(|(title, key, pick)| StripGroup {
            title: title.to_owned(),
            strips: (0..variants.len())
                .map(|place| strip(place, key, pick))
                .collect(),
        })
        .collect()
}

fn latency_chart(groups: &[StripGroup]) -> Option<Chart> {
    let strips = || groups.iter().flat_map(|group| &group.strips);
    strips().any(|strip| !strip.values_us.is_empty()).then(|| {
        let spoken: Vec<String> = groups
            .iter()
            .map(|group| {
                let ranges = group.strips.iter().map(chart::range_in_words);
                format!("{} {}", group.title, ranges.collect::<Vec<_>>().join(", "))
            })
            .collect();
        let label = format!(
            "Response times, a dot for each trial: {}.",
            spoken.join("; ")
        );
        chart::strips(label, groups)
    })
}

/// The method in a few sentences.
fn method(verdict: &VerdictDocument) -> String {
    format!(
        "Every variant ran once in each block, in an order shuffled anew for each block by the \
         seed. Services that the plan starts were started fresh for every trial, warmed up, measured \
         and stopped. A variant is compared with its baseline within the block; estimates and intervals come from \
         the {}, never from the requests inside one trial.",
        number::plural(verdict.blocks.into(), "block", "blocks")
    )
}

/// What was fixed beforehand, as names and texts.
fn facts(experiment: &Experiment) -> Vec<(&'static str, String)> {
    let verdict = &experiment.verdict;
    let baseline = verdict.baseline.iter().map(|(f, l)| format!("{f} = {l}"));
    let judged = view::family(verdict).into_iter().map(Metric::noun);
    let looks = verdict.looks.iter().map(|look| look.blocks.to_string());
    let mut facts = vec![
        ("Baseline", baseline.collect::<Vec<_>>().join(", ")),
        (
            "Margin",
            format!("{} counts as no difference", number::margin(verdict.margin)),
        ),
        ("Judged on", judged.collect::<Vec<_>>().join(", ")),
        ("Blocks", number::count(verdict.blocks.into())),
        ("Seed", verdict.seed.to_string()),
    ];
    if !verdict.looks.is_empty() {
        let text = format!("after block {}", looks.collect::<Vec<_>>().join(", "));
        facts.push(("Verdicts sought", text));
    }
    if let Some(trial) = experiment.trials.first() {
        let load = &trial.record.load;
        let length = match (load.requests, load.duration_s) {
            (Some(requests), _) => number::plural(requests, "request", "requests"),
            (None, Some(duration_s)) => number::span(duration_s),
            (None, None) => number::span(trial.record.totals.elapsed_s),
        };
        let loads = load_view::all_loads(&experiment.trials);
        facts.extend(loads.into_iter().map(|load| ("Load", load)));
        facts.push((
            "Each trial",
            format!("{length}, after {} of warm-up", number::span(load.warmup_s)),
        ));
        facts.push(("Begun", trial.record.started_at.clone()));
    }
    facts
}

/// A noun as a heading. `p99` stays as it is.
fn capitalised(text: &str) -> String {
    let mut chars = text.chars();
    match (chars.next(), chars.clone().next()) {
        (Some(first), Some(second)) if second.is_alphabetic() => {
            first.to_uppercase().collect::<String>() + chars.as_str()
        }
        _ => text.to_owned(),
    }
}
