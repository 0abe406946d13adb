//! An experiment as Markdown: what `report.md` holds, for issues, wikis and diffs.

use prony_record::{Finding, Record};
use prony_stats::VerdictDocument;

use crate::load_times::{self, PERCENTILES};
use crate::table::{Table, markdown as escaped};
use crate::verdict_view as view;
use crate::{Experiment, load_view, number, text};

/// An experiment as GitHub's Markdown. The same order as the page: question, verdict, trust, table,
/// effects, why, CPU, findings, how it was measured.
pub fn report(experiment: &Experiment) -> String {
    let verdict = &experiment.verdict;
    let title = if verdict.question.is_empty() {
        &verdict.name
    } else {
        &verdict.question
    };
    let mut out = format!("# {}\n\n", escaped(title));
    if let Some(lead) = view::lead(verdict) {
        out += &format!("**{}**\n\n", escaped(&lead));
    }
    let is_one = verdict.comparisons.len() == 1;
    if is_one {
        out += &words(verdict);
    }
    if verdict.comparisons.is_empty() {
        out += "No complete block: nothing can be compared.\n";
    }
    if let Some(noise) = view::noise(verdict) {
        out += &format!("{}{}\n", if is_one { "\n" } else { "" }, escaped(&noise));
    }
    let (_, trust) = view::trust(verdict);
    out += &format!(
        "\nCan you trust the result? {} {}.\n",
        escaped(&trust),
        view::basis(verdict)
    );
    for metric in view::family(verdict) {
        out += &section(&view::result_table(verdict, metric));
    }
    out += &section(&view::variants_table(verdict));
    if !is_one && !verdict.comparisons.is_empty() {
        out += &format!("\n## In words\n\n{}", words(verdict));
    }
    for (factor, metric, lines) in view::scaling::groups(verdict) {
        out += &section(&view::scaling::table(factor, metric, &lines));
        out += &format!("\n{}\n", view::scaling::EXPLAINED);
    }
    let effects = view::effects(verdict);
    if !effects.is_empty() {
        out += "\n## By factor\n\nAveraged over the others, with 95% intervals.\n\n";
        for effect in effects {
            out += &format!("- {}\n", escaped(effect));
        }
    }
    out += &why(verdict);
    if let Some(table) = view::cpu_table(verdict) {
        out += &section(&table);
    }
    out += &findings(experiment);
    for table in view::metrics_tables(verdict, usize::MAX) {
        out += &section(&table);
    }
    if let Some(table) = view::outcomes_table(experiment) {
        out += &section(&table);
    }
    out += &measured(experiment);
    out
}

/// One load as GitHub's Markdown.
pub fn load(record: &Record) -> String {
    let (requests, failed) = load_view::requests(record);
    let mut out = format!("# {}\n\n", escaped(&load_view::headline(record)));
    out += &format!(
        "{}\n\n{}\n",
        escaped(&record.load.url),
        escaped(&load_view::how(record))
    );
    if let Some(text) = load_view::shortfall(record) {
        out += &format!("\n**{}**\n", escaped(&text));
    }
    let failed = failed.map_or(String::new(), |failed| {
        format!(", **{}**", escaped(&failed))
    });
    let in_flight = load_view::in_flight(record);
    let in_flight = in_flight.map_or(String::new(), |text| format!(", {}", escaped(&text)));
    out += &format!("\n{}{failed}{in_flight}\n", escaped(&requests));
    let tables = [
        load_times::table(record, &PERCENTILES),
        load_view::outcomes(record),
        load_view::agents_table(record),
    ];
    for table in tables {
        if !table.rows.is_empty() {
            out += &format!("\n{}", table.to_markdown());
        }
    }
    out.push('\n');
    let facts = load_view::facts(record).into_iter();
    for (name, text) in load_view::provenance(record).into_iter().chain(facts) {
        out += &format!("- {}: {}\n", escaped(name), escaped(&text));
    }
    out + &findings_of(&record.findings)
}

/// A table below its title.
fn section(table: &Table) -> String {
    format!("\n## {}\n\n{}", escaped(&table.title), table.to_markdown())
}

/// The comparisons in words; those that a line stands for are folded below it.
fn words(verdict: &VerdictDocument) -> String {
    let mut out = String::new();
    for line in view::lines(verdict) {
        out += &format!("- **{}**: {}\n", line.word, escaped(&line.text));
        if !line.folded.is_empty() {
            let all = line
                .folded
                .iter()
                .map(|text| format!("  - {}\n", escaped(text)));
            let all: String = all.collect();
            out += &format!("  <details><summary>all of them</summary>\n\n{all}\n  </details>\n");
        }
    }
    out
}

/// What changed along with each difference.
fn why(verdict: &VerdictDocument) -> String {
    let whys = view::whys(verdict);
    if whys.is_empty() {
        return String::new();
    }
    let mut out = format!("\n## Why\n\n{}\n", escaped(view::CAVEAT));
    for why in whys {
        out += &format!(
            "\n### {}\n\n{}\n",
            escaped(&view::heading(why)),
            escaped(&why.text)
        );
        if !why.limits.is_empty() {
            out.push('\n');
        }
        for limit in &why.limits {
            out += &format!("- {}\n", escaped(&limit.text));
        }
        if let Some(table) = view::moved_table(why, usize::MAX) {
            out += &format!("\n{}", table.to_markdown());
        }
        let rest = view::rest(why);
        if !rest.is_empty() {
            out += &format!("\n{}\n", escaped(&rest.join(" ")));
        }
    }
    out
}

fn findings(experiment: &Experiment) -> String {
    findings_of(&experiment.verdict.findings)
}

fn findings_of(all: &[Finding]) -> String {
    let mut findings: Vec<_> = all.iter().collect();
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    let mut out = "\n## Findings\n\n".to_owned();
    if findings.is_empty() {
        out += "None.\n";
    }
    for finding in findings {
        out += &format!(
            "- **{} ({})**: {}\n",
            escaped(finding.id.as_str()),
            text::severity_name(finding.severity),
            escaped(&finding.text)
        );
    }
    out
}

fn measured(experiment: &Experiment) -> String {
    let verdict = &experiment.verdict;
    let mut out = "\n## How it was measured\n\n".to_owned();
    let baseline: Vec<String> = verdict
        .baseline
        .iter()
        .map(|(factor, level)| format!("{factor} = {level}"))
        .collect();
    let mut fact = |name: &str, text: &str| out += &format!("- {name}: {}\n", escaped(text));
    fact("baseline", &baseline.join(", "));
    fact("margin", &number::margin(verdict.margin));
    fact("seed", &verdict.seed.to_string());
    if let Some(trial) = experiment.trials.first() {
        for load in load_view::all_loads(&experiment.trials) {
            fact("load", &load);
        }
        fact("begun", &trial.record.started_at);
        fact("prony", &trial.record.version);
    }
    for (place, block) in verdict.order.iter().enumerate() {
        fact(&format!("block {}", place + 1), &block.join(" → "));
    }
    out
}
