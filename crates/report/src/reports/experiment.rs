//! The report of an experiment.

use prony_record::Severity;
use prony_stats::{FunctionRow, FunctionTable, Metric, TrialMode, VerdictDocument};
use prony_wording::VerdictLine;
use prony_wording::verdict::capitalized;
use prony_wording::{entries as entry_wording, load as load_wording, scaling, verdict, why};

use super::findings_section;
use super::load::ENTRIES_SHOWN_MAX;
use super::runs::conditions;
use crate::captions;
use crate::document::Audience::{Everyone, Files, Pages, Terminal};
use crate::document::{Block, Blocks, Callout, Document, Figure, Section};
use crate::environment::{environment_rank, flattened};
use crate::method as wording;
use crate::tables::entry_comparison::EntryComparison;
use crate::tables::{
    self, metrics_tables, outcomes_table, result_list, revisions_table, variants_table,
};
use crate::{Experiment, figures, number};

/// Maximum number of sentences in the header. If there are more, they follow the results.
const HEADER_SENTENCES_MAX: usize = 4;
/// Maximum number of variants with a column in the same table.
const TABLE_VARIANTS_MAX: usize = 6;
/// Maximum number of changes that a terminal lists for one difference.
const TERMINAL_CHANGES_MAX: usize = 5;
/// Maximum number of functions that a terminal lists if none differs.
const TERMINAL_FUNCTIONS_MAX: usize = 10;
/// Maximum number of comparisons whose rounds are drawn.
const ROUNDS_MAX: usize = 8;
/// Maximum number of comparisons whose distributions are drawn.
const DISTRIBUTIONS_MAX: usize = 8;
/// Maximum number of explained differences whose tables the page shows expanded.
const UNFOLDED_WHYS_MAX: usize = 3;

impl Document {
    /// Builds the report of an experiment. Without trials, the report has no charts over time.
    pub fn of_experiment(experiment: &Experiment) -> Document {
        let verdict = &experiment.verdict;
        let first = experiment.trials.first();
        let version = first.map_or(env!("CARGO_PKG_VERSION"), |trial| &trial.record.version);
        let lines = match verdict.comparisons.len() {
            0 | 1 => Vec::new(),
            _ => verdict::verdict_lines(verdict),
        };
        let few = lines.len() <= HEADER_SENTENCES_MAX;
        let mut document = Document {
            title: format!("{}: {}", verdict.name, verdict::headline(verdict).0),
            subject: verdict.name.clone(),
            kind: "an experiment with prony",
            question: verdict.question.clone(),
            version: version.to_owned(),
            header: header(verdict, if few { &lines } else { &[] }),
            sections: Vec::new(),
        };
        if !verdict.gates.is_empty() {
            // The command line prints the conditions itself.
            let lines = Block::Verdicts(conditions(&verdict.gates));
            document.push(Section::new("Conditions").with(Files, lines));
        }
        // Without a complete block, tables have no values.
        if verdict.blocks > 0 {
            results(&mut document, verdict);
            document.push(distributions(verdict));
        }
        if let Some(table) = revisions_table(verdict) {
            document.push(Section::new("Revisions").with(Everyone, Block::Table(table)));
        }
        if !few {
            let section = Section::new("All comparisons").untitled_on_terminal();
            document.push(section.with(Everyone, Block::Verdicts(lines)));
        }
        effects(&mut document, verdict);
        document.push(why_section(verdict));
        document.push(cpu(verdict));
        document.push(functions(experiment));
        document.push(cost_section(
            "Waiting by function",
            captions::WAITS,
            &verdict.waits,
        ));
        for (factor, metric, lines) in tables::scaling::groups(verdict) {
            let section = Section::new(&capitalized(&scaling::title(factor, metric)));
            let figure = figures::scaling(factor, metric, &lines);
            let table = tables::scaling::scaling_table(factor, metric, &lines);
            document.push(
                section
                    .intro(captions::SCALING)
                    .with(Files, Block::Chart(figure))
                    .with(Files, Block::Table(table))
                    .with(Files, Block::Note(captions::SCALING_COLUMNS.to_owned())),
            );
        }
        document.push(rounds(experiment));
        document.push(probes(experiment));
        // The record of a search covers only one probe, so it has no time series of the trial.
        if !experiment.is_search() {
            charts_over_time(&mut document, experiment);
        }
        let mut metrics = Section::new("All metrics");
        for table in metrics_tables(verdict, TABLE_VARIANTS_MAX) {
            metrics = metrics.with(Files, Block::Table(table));
        }
        document.push(metrics);
        if let Some(entries) = EntryComparison::of(verdict) {
            document.push(entries_section(&entries));
        }
        let outcomes = outcomes_table(experiment).filter(|_| !experiment.is_search());
        if let Some(table) = outcomes {
            let section = Section::new("How requests ended");
            let section = section.intro("Counted over all trials.");
            document.push(section.with(Files, Block::Table(table)));
        }
        document.push(findings_section(&verdict.findings, captions::NO_FINDINGS));
        document.push(method(experiment));
        appendices(&mut document, experiment);
        document
    }
}

/// The first sentence, the statement about the reliability of the result, and the summarized
/// sentences if there are only a few.
fn header(verdict: &VerdictDocument, lines: &[VerdictLine]) -> Blocks {
    let mut header = Blocks::default();
    let (text, detail) = verdict::headline(verdict);
    if verdict.comparisons.len() == 1 {
        header.add(Terminal, Block::Verdicts(verdict::verdict_lines(verdict)));
        header.add(Files, Block::Lead { text, detail });
    } else {
        header.push(Block::Lead { text, detail });
    }
    if let Some(reason) = &verdict.ended_early {
        header.push(Block::Paragraph(wording::ended_early(reason)));
        if let Some((_, log)) = reason.split_once('\n') {
            header.push(Block::Code(log.to_owned()));
        }
    }
    if let Some(noise) = verdict::noise(verdict) {
        header.push(Block::Paragraph(noise));
    }
    let (tone, text) = verdict::trust(verdict);
    let findings = &verdict.findings;
    let notes = findings.iter().filter(|f| f.severity == Severity::Note);
    let findings_link = match (findings.len(), notes.count()) {
        (0, _) => None,
        (all, notes) if all == notes => Some(number::plural(notes as u64, "note", "notes")),
        _ => Some("Findings".to_owned()),
    };
    header.push(Block::Callout(Callout {
        tone,
        parts: vec![
            ("Can you trust the result?".to_owned(), true),
            (format!(" {text}"), false),
        ],
        detail: verdict::basis(verdict),
        findings_link,
    }));
    if !lines.is_empty() {
        header.push(Block::Verdicts(lines.to_vec()));
    }
    header
}

/// Adds a section for each metric that has verdicts, and a section that compares rate, times and
/// failures.
fn results(document: &mut Document, verdict: &VerdictDocument) {
    let family = verdict::family(verdict);
    for (place, &metric) in family.iter().enumerate() {
        document.push(result(verdict, metric));
        if place == 0 {
            document.push(overview(verdict));
        }
    }
    if family.is_empty() {
        document.push(overview(verdict));
    }
}

fn result(verdict: &VerdictDocument, metric: Metric) -> Section {
    let standings = tables::standings(verdict, metric);
    let figure = figures::forest(verdict, metric, &standings);
    Section::new(&capitalized(metric.noun()))
        .intro(captions::RESULT)
        .with(Terminal, Block::Table(result_list(verdict, metric)))
        .with(Files, Block::Table(tables::results(verdict, &standings)))
        .with(Pages, figure.map(Block::Chart))
}

fn overview(verdict: &VerdictDocument) -> Section {
    let section = Section::new("Rate, response times and failures");
    // Searches measure only the capacity.
    if !verdict.goals.is_empty() {
        return section;
    }
    let places = 0..verdict.variants.len();
    let failed = places.filter_map(|place| tables::level(verdict, place, Metric::FailedShare));
    let has_failures = failed.into_iter().any(|share| share > 0.0);
    let note = has_failures.then(|| Block::Note(captions::OK_RATE.to_owned()));
    section
        .intro(captions::MEANS)
        .with(Everyone, Block::Table(variants_table(verdict)))
        .with(Everyone, note)
}

/// The differences between the distributions of response times. A terminal shows only sentences,
/// and none if there are many.
fn distributions(verdict: &VerdictDocument) -> Section {
    let mut section = Section::new("Response times by percentile").untitled_on_terminal();
    let differences = &verdict.distribution_differences;
    if !differences.is_empty() {
        section = section.intro(captions::DISTRIBUTIONS);
    }
    let sentences = if differences.len() <= HEADER_SENTENCES_MAX {
        Everyone
    } else {
        Files
    };
    for (place, one) in differences.iter().enumerate() {
        section = section.with(sentences, Block::Note(one.text.clone()));
        if place < DISTRIBUTIONS_MAX {
            let figure = figures::distribution_difference(verdict, one);
            section = section.with(Pages, Block::Chart(figure));
        }
    }
    section
}

fn effects(document: &mut Document, verdict: &VerdictDocument) {
    let effects = verdict::effects(verdict);
    if !effects.is_empty() {
        let section = Section::new("By factor").intro(captions::EFFECTS);
        document.push(section.with(Everyone, Block::List(effects)));
    }
}

/// The section about changes that accompany each difference.
fn why_section(verdict: &VerdictDocument) -> Section {
    let mut section = Section::new("Why");
    let whys = tables::whys(verdict);
    if !whys.is_empty() {
        section = section.intro(captions::WHY);
    }
    for why in &whys {
        section = section
            .with(Everyone, Block::Subheading(why::heading(why)))
            .with(Everyone, Block::Paragraph(why.text.clone()));
        if !why.limits.is_empty() {
            let limits = why.limits.iter().map(|limit| limit.text.clone());
            section = section.with(Everyone, Block::List(limits.collect()));
        }
        let more = why.moved.len().saturating_sub(TERMINAL_CHANGES_MAX);
        let more = (more > 0).then(|| format!("{more} more are in the report"));
        let first = tables::moved_table(why, TERMINAL_CHANGES_MAX).map(Block::Table);
        let all = tables::moved_table(why, usize::MAX).map(Block::Table);
        let all = all.map(|table| {
            if whys.len() > UNFOLDED_WHYS_MAX {
                Block::Folded {
                    summary: "What changed".to_owned(),
                    blocks: vec![table],
                }
            } else {
                table
            }
        });
        let rest = why::other_metrics(why);
        let rest = (!rest.is_empty()).then(|| Block::Note(rest.join(" ")));
        section = section
            .with(Terminal, first)
            .with(Terminal, more.map(Block::Note))
            .with(Files, all)
            .with(Files, rest);
    }
    section
}

fn cpu(verdict: &VerdictDocument) -> Section {
    let section = Section::new("CPU of the services");
    let (figure, table) = (figures::cpu(verdict), tables::cpu_table(verdict));
    let softirq = captions::softirq(verdict.softirq_included);
    let section = match (&figure, &table) {
        (None, None) => return section,
        (_, Some(_)) => section.intro(&format!("{} {softirq}", captions::CPU)),
        (_, None) => section.intro(captions::CPU),
    };
    section
        .with(Pages, figure.map(Block::Chart))
        .with(Everyone, table.map(Block::Table))
}

/// CPU time by program and library, and by function with flame graphs.
fn functions(experiment: &Experiment) -> Section {
    let verdict = &experiment.verdict;
    let mut section = cost_section("CPU by function", captions::FUNCTIONS, &verdict.functions);
    for table in &verdict.modules {
        let rows: Vec<&FunctionRow> = table.functions.iter().collect();
        let folded = Block::Folded {
            summary: format!("CPU of {} by program and library", table.service),
            blocks: vec![Block::Table(tables::functions::function_table(
                table, &rows,
            ))],
        };
        section = section.with(Files, folded);
    }
    let (compared, single) = figures::flames(experiment);
    let drawn = |figure: &Figure| {
        [
            Block::Subheading(figure.title.clone()),
            Block::Chart(figure.clone()),
        ]
    };
    for block in compared.iter().flat_map(drawn) {
        section = section.with(Pages, block);
    }
    if !single.is_empty() {
        let folded = Block::Folded {
            summary: "Flame graph of each variant".to_owned(),
            blocks: single.iter().flat_map(drawn).collect(),
        };
        section = section.with(Pages, folded);
    }
    section
}

/// Costs by function: the rows that certainly differ, then all others, collapsed.
fn cost_section(title: &str, caption: &str, tables: &[FunctionTable]) -> Section {
    let mut section = Section::new(title);
    if !tables.is_empty() {
        section = section.intro(caption);
    }
    for table in tables {
        if tables.len() > 1 {
            section = section.with(Everyone, Block::Subheading(table.service.clone()));
        }
        let (differing, others) = tables::functions::divided(table);
        let is_same = differing.is_empty();
        let differing =
            (!is_same).then(|| Block::Table(tables::functions::function_table(table, &differing)));
        let none = is_same
            .then(|| Block::Note("No function certainly differs between the variants.".to_owned()));
        let count = others.len() as u64;
        let folded = Block::Folded {
            summary: number::plural(
                count,
                "row without a certain difference",
                "rows without a certain difference",
            ),
            blocks: vec![Block::Table(tables::functions::function_table(
                table, &others,
            ))],
        };
        let largest = &others[..others.len().min(TERMINAL_FUNCTIONS_MAX)];
        let largest =
            is_same.then(|| Block::Table(tables::functions::function_table(table, largest)));
        section = section
            .with(Everyone, differing)
            .with(Everyone, none)
            .with(Terminal, largest)
            .with(Files, (count > 0).then_some(folded));
    }
    section
}

/// The probes of capacity searches.
fn probes(experiment: &Experiment) -> Section {
    let mut section = Section::new("Probes of the searches");
    let figures = figures::probes(experiment);
    if figures.is_empty() {
        return section;
    }
    section = section.with(Pages, Block::Intro(captions::PROBES.to_owned()));
    let several = figures.len() > 1;
    for figure in figures {
        if several {
            section = section.with(Pages, Block::Subheading(figure.title.clone()));
        }
        section = section.with(Pages, Block::Chart(figure));
    }
    section
}

/// The rounds of interleaved blocks. A terminal shows one paragraph.
fn rounds(experiment: &Experiment) -> Section {
    let mut section = Section::new("Rounds").untitled_on_terminal();
    let rounds = &experiment.verdict.rounds;
    match &rounds[..] {
        [] => return section,
        [one] => section = section.with(Terminal, Block::Note(one.text.clone())),
        several => {
            let text = wording::rounds_in_report(several.len());
            section = section.with(Terminal, Block::Note(text));
        }
    }
    section = section.intro(captions::ROUNDS);
    for (place, one) in rounds.iter().enumerate() {
        if let Some(figure) = figures::rounds(experiment, one).filter(|_| place < ROUNDS_MAX) {
            if rounds.len() > 1 {
                let heading = Block::Subheading(figure.title.clone());
                section = section.with(Pages, heading);
            }
            section = section.with(Pages, Block::Chart(figure));
        }
        section = section.with(Files, Block::Note(one.text.clone()));
    }
    section
}

/// The entries of the list. If there are many, only the worst are shown, with the whole table
/// collapsed below.
fn entries_section(entries: &EntryComparison<'_>) -> Section {
    let count = entries.len();
    let caption = captions::ENTRIES_POOLED;
    let rows = entry_wording::compared_rows_note(entries.is_grouped, entries.summed_up);
    let rows = rows.map(Block::Note);
    if entries.are_steps || count <= ENTRIES_SHOWN_MAX {
        let title = if entries.are_steps {
            "Steps of the journey"
        } else {
            "Entries"
        };
        return Section::new(title)
            .intro(caption)
            .with(Everyone, Block::Table(entries.table()))
            .with(Terminal, Block::Note(caption.to_owned()))
            .with(Everyone, rows);
    }
    let order = entry_wording::worst_compared(count as u64 + entries.summed_up, ENTRIES_SHOWN_MAX);
    let folded = Block::Folded {
        summary: entry_wording::compared_table_summary(count, entries.summed_up),
        blocks: vec![Block::Table(entries.table())],
    };
    Section::new("Worst entries")
        .intro(&format!("{order} {caption}"))
        .with(Everyone, Block::Table(entries.worst(ENTRIES_SHOWN_MAX)))
        .with(Terminal, Block::Note(format!("{order} {caption}")))
        .with(Files, rows)
        .with(Files, folded)
}

/// Completions and response times of all trials.
fn charts_over_time(document: &mut Document, experiment: &Experiment) {
    let groups = figures::latency_groups(experiment);
    let strips = groups.iter().flat_map(|group| &group.strips);
    let mut values = strips.flat_map(|strip| &strip.values_us);
    let dots = if values.any(|(_, is_bound)| *is_bound) {
        captions::TRIAL_DOTS_BOUNDS
    } else {
        captions::TRIAL_DOTS
    };
    let first = experiment.trials.first().map(|trial| &trial.record);
    let latency = figures::latency(&groups).map(|figure| Figure {
        caption: first.and_then(load_wording::closed_loop_caveat),
        ..figure
    });
    let charts = [
        (figures::until_done(experiment), captions::UNTIL_DONE),
        (figures::over_time(experiment), captions::OVER_TIME),
        (latency, dots),
    ];
    for (figure, intro) in charts {
        let Some(figure) = figure else { continue };
        let section = Section::new(&figure.title);
        let section = section.with(Pages, Block::Intro(intro.to_owned()));
        document.push(section.with(Pages, Block::Chart(figure)));
    }
}

fn method(experiment: &Experiment) -> Section {
    let verdict = &experiment.verdict;
    let facts = wording::experiment_facts(experiment);
    let mut section = Section::new("How it was measured")
        .with(Files, Block::Paragraph(wording::method(experiment)))
        .with(Files, Block::Facts(facts));
    if let Some(mode @ TrialMode::Sequential { .. }) = &verdict.trial_mode {
        section = section.with(Files, Block::Paragraph(mode.to_string()));
    }
    // In an interleaved block, the order changes with each round.
    if !verdict.order.is_empty() && !experiment.is_interleaved() {
        let order = (1..).zip(&verdict.order);
        let order = order.map(|(block, names)| format!("block {block}: {}", names.join(" → ")));
        let folded = Block::Folded {
            summary: "Order of the trials".to_owned(),
            blocks: vec![Block::List(order.collect())],
        };
        section = section.with(Files, folded);
    }
    section
}

/// Adds the sections with details that few readers need.
fn appendices(document: &mut Document, experiment: &Experiment) {
    let described = &experiment.verdict.described;
    if !described.is_empty() {
        let texts = described.iter().map(|one| one.text.clone()).collect();
        document.push(
            Section::new("Other metrics, compared without a verdict")
                .folded()
                .with(Pages, Block::Intro(captions::DESCRIBED.to_owned()))
                .with(Pages, Block::List(texts)),
        );
    }
    if !experiment.plan.trim().is_empty() {
        let section = Section::new("The plan, as run").folded();
        document.push(section.with(Pages, Block::Code(experiment.plan.clone())));
    }
    let mut facts = flattened(&experiment.environment);
    facts.sort_by_key(|(path, _)| environment_rank(path));
    if !facts.is_empty() {
        let section = Section::new("The environment").folded();
        document.push(section.with(Pages, Block::Environment(facts)));
    }
}
