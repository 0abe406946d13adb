//! The page of an experiment.

use minijinja::context;
use prony_record::Severity;
use prony_stats::{Metric, VerdictDocument};
use serde::Serialize;

use super::{scaling, why};
use crate::chart::{Chart, palette};
use crate::verdict_view::{self as view, Standing};
use crate::{Experiment, figures, load_view, number, report_view};

/// So many sentences leave room for the trust on the first screen, and for the table soon after;
/// more of them come below the charts.
const FEW: usize = 4;

/// Variants next to one another in the table of all metrics; a wide screen shows so many.
const METRICS_COLUMNS_MAX: usize = 6;

/// A whole experiment as a page.
pub fn report(experiment: &Experiment) -> String {
    let verdict = &experiment.verdict;
    let (lead, lead_detail) = report_view::lead(verdict);
    let (kind, text) = view::trust(verdict);
    let mut findings = verdict.findings.clone();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let family = view::family(verdict);
    let verdicts = verdicts(verdict);
    let groups = figures::latency_groups(experiment);
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
        many => verdicts.len() > FEW,
        verdicts,
        noise => view::noise(verdict),
        variants_table => view::variants_table(verdict),
        trust => context! { kind, text, link => findings_link(verdict) },
        basis => view::basis(verdict),
        variants => variants(verdict),
        cross => view::cross(verdict),
        results => family.iter().map(|&metric| result(verdict, metric)).collect::<Vec<_>>(),
        effects => view::effects(verdict),
        scaling => scaling::of(verdict),
        scaling_note => view::scaling::EXPLAINED,
        until_done => figures::until_done(experiment),
        over_time => figures::over_time(experiment),
        latency => figures::latency(&groups),
        caveat => first.and_then(load_view::closed_loop_caveat),
        why => why::whys(verdict),
        why_caveat => view::CAVEAT,
        cpu => figures::cpu(verdict),
        cpu_table => view::cpu_table(verdict),
        metrics => view::metrics_tables(verdict, METRICS_COLUMNS_MAX),
        outcomes => view::outcomes_table(experiment),
        method => report_view::method(verdict),
        facts => report_view::facts(experiment),
        order => verdict.order,
        described => verdict.described.iter().map(|d| &d.text).collect::<Vec<_>>(),
        plan => experiment.plan,
        environment => report_view::flattened(&experiment.environment),
        said => said(verdict.softirq_included),
        lead,
        lead_detail,
        any_bound,
        findings,
    };
    super::render("experiment.html", context)
}

/// What stands below headings, which the document says, too.
fn said(softirq_included: Option<bool>) -> minijinja::Value {
    context! {
        result => report_view::RESULT,
        cpu => report_view::CPU,
        softirq => report_view::softirq(softirq_included),
        scaling => report_view::SCALING,
        until_done => report_view::UNTIL_DONE,
        over_time => report_view::OVER_TIME,
        described => report_view::DESCRIBED,
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

/// A line of verdicts next to its word, and the property that holds the variant's colour.
#[derive(Serialize)]
struct VerdictLine {
    #[serde(flatten)]
    line: view::Line,
    color: Option<String>,
}

/// Every comparison in words; none where the lead states the only one.
fn verdicts(verdict: &VerdictDocument) -> Vec<VerdictLine> {
    if verdict.comparisons.len() < 2 {
        return Vec::new();
    }
    let lines = view::lines(verdict).into_iter();
    lines
        .map(|line| VerdictLine {
            color: line.variant.map(palette::property),
            line,
        })
        .collect()
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
    caption: &'static str,
}

fn result(verdict: &VerdictDocument, metric: Metric) -> ResultView {
    let standings = view::standings(verdict, metric);
    ResultView {
        title: report_view::capitalised(metric.noun()),
        chart: figures::forest(verdict, metric, &standings),
        caption: report_view::FOREST_CAPTION,
        standings,
    }
}
