//! An experiment as a document.

use prony_stats::{Metric, VerdictDocument, Why};

use super::block::Story;
use super::paragraph::Paragraph;
use super::style::{self, BOTTOM, Style, TOP, WIDTH};
use super::table::{Cell, Grid};
use super::{About, flow, write};
use crate::chart::palette;
use crate::table::Align;
use crate::verdict_view::{self as view, Standing, Trust};
use crate::{Experiment, figures, load_view, report_view};

/// So many sentences leave the first page room for what they rest on; more of them come below the
/// charts.
const FEW: usize = 6;

/// A whole experiment as a PDF: what its page holds, in nearly the same order. Findings come
/// directly after the results, since on paper nothing leads there.
pub fn report(experiment: &Experiment) -> Vec<u8> {
    let about = about(experiment);
    let story = story(experiment);
    let (pages, bookmarks) = flow::pages(&story, &about);
    write::file(&pages, &bookmarks, &story.elements, &about)
}

fn about(experiment: &Experiment) -> About {
    let verdict = &experiment.verdict;
    let first = experiment.trials.first();
    let version = first.map_or(env!("CARGO_PKG_VERSION"), |trial| &trial.record.version);
    About {
        title: format!("{}: {}", verdict.name, report_view::lead(verdict).0),
        running: format!("{} · an experiment with prony {version}", verdict.name),
        version: version.to_owned(),
    }
}

pub(super) fn story(experiment: &Experiment) -> Story {
    let verdict = &experiment.verdict;
    let mut story = Story::default();
    first_page(&mut story, verdict);
    for metric in view::family(verdict) {
        result(&mut story, verdict, metric);
    }
    story.section("Rate, response times and failures");
    story.sub("Means over the blocks.");
    story.grid(&Grid::plain(&view::variants_table(verdict)), 6.0);
    if view::lines(verdict).len() > FEW {
        story.section("In words");
        words(&mut story, verdict);
    }
    story.findings(&verdict.findings);
    why(&mut story, &view::whys(verdict));
    cpu(&mut story, verdict);
    scaling(&mut story, verdict);
    times(&mut story, experiment);
    story.section("All metrics");
    for table in view::metrics_tables(verdict, usize::MAX) {
        story.grid(&Grid::plain(&table), 6.0);
    }
    if let Some(outcomes) = view::outcomes_table(experiment) {
        story.section("How requests ended");
        story.sub("Counted in all trials together.");
        story.grid(&Grid::plain(&outcomes), 6.0);
    }
    measured(&mut story, experiment);
    appendices(&mut story, experiment);
    story
}

/// What someone reads who reads no further.
fn first_page(story: &mut Story, verdict: &VerdictDocument) {
    let (lead, detail) = report_view::lead(verdict);
    let eyebrow = (verdict.name.as_str(), "an experiment with prony");
    story.title(eyebrow, &verdict.question, &lead, detail.as_deref());
    let (trust, text) = view::trust(verdict);
    let (bar, ground) = match trust {
        Trust::Good => (style::GOOD, style::GOOD_TINT),
        Trust::Care => (style::CARE, style::CARE_TINT),
        Trust::Bad => (style::BAD, style::BAD_TINT),
    };
    let basis = view::basis(verdict);
    let lines = [
        ("Can you trust the result?", Style::BODY.bold()),
        (text.as_str(), Style::BODY),
        (basis.as_str(), Style::NOTE),
    ];
    story.card(&lines, bar, ground);
    if let Some(noise) = view::noise(verdict) {
        story.paragraph(&Paragraph::new(&noise, Style::BODY).before(12.0));
    }
    if view::lines(verdict).len() <= FEW {
        words(story, verdict);
    }
}

/// Every comparison's sentence beside its word, unless the lead has said the only one, and what
/// each factor does.
fn words(story: &mut Story, verdict: &VerdictDocument) {
    const INDENT: f64 = 78.0;
    if verdict.comparisons.len() > 1 {
        for (place, line) in view::lines(verdict).iter().enumerate() {
            let first = story.blocks.len();
            let word = format!("    {}", line.word);
            let label = Style::BODY.bold().color(style::of_tone(line.tone));
            let sentence = Paragraph::new(&line.text, Style::BODY);
            let sentence = sentence.before(if place == 0 { 14.0 } else { 5.0 });
            story.paragraph(&sentence.indent(INDENT).label(&word, label));
            if let Some(variant) = line.variant {
                story.dot(first, 3.0, palette::variant(variant).light);
            }
        }
    }
    let effects = view::effects(verdict);
    if !effects.is_empty() {
        let intro = "By factor, averaged over the others:";
        let style = Style::BODY.color(style::MUTED);
        story.paragraph(&Paragraph::new(intro, style).before(14.0).keep());
        for effect in effects {
            story.item(effect, Style::BODY);
        }
    }
}

/// One metric of the family: table and chart.
fn result(story: &mut Story, verdict: &VerdictDocument, metric: Metric) {
    let standings = view::standings(verdict, metric);
    story.section(&report_view::capitalised(metric.noun()));
    story.sub(report_view::RESULT);
    story.grid(&standings_grid(verdict, &standings), 6.0);
    if let Some(chart) = figures::forest(verdict, metric, &standings) {
        story.chart(&chart, 16.0, true);
        let caption = Paragraph::new(report_view::FOREST_CAPTION, Style::NOTE);
        story.paragraph(&caption.before(6.0));
    }
}

/// The table that articles print: crossed for two factors, a list for others.
fn standings_grid(verdict: &VerdictDocument, standings: &[Standing]) -> Grid {
    let swatch = |standing: &Standing| palette::variant(standing.variant).light;
    let muted = Style::NOTE;
    let head = |text: &str| Cell::new(text, Style::CELL_HEAD);
    if let Some(cross) = view::cross(verdict) {
        let cell = |place: &Option<usize>| match place.and_then(|place| standings.get(place)) {
            None => Cell::new("–", Style::CELL),
            Some(standing) => Cell::new(&standing.figure, Style::BODY.bold().size(10.5))
                .line(&standing.change, Style::CELL.bold())
                .line(
                    match standing.is_reference {
                        true => "the reference",
                        false => &standing.interval,
                    },
                    muted,
                )
                .swatch(swatch(standing)),
        };
        let row = |(level, cells): &(String, Vec<Option<usize>>)| {
            let first = Cell::new(level, Style::CELL.bold());
            std::iter::once(first)
                .chain(cells.iter().map(cell))
                .collect()
        };
        let columns = cross.columns.len();
        return Grid {
            head: std::iter::once(head(&cross.corner))
                .chain(cross.columns.iter().map(|column| head(column)))
                .collect(),
            align: std::iter::once(Align::Left)
                .chain(std::iter::repeat_n(Align::Right, columns))
                .collect(),
            rows: cross.rows.iter().map(row).collect(),
        };
    }
    let row = |standing: &Standing| {
        let name = &verdict.variants[standing.variant].name;
        let word = match standing.is_reference {
            true => "the reference",
            false => standing.verdict,
        };
        vec![
            Cell::new(name, Style::CELL.bold()).swatch(swatch(standing)),
            Cell::new(&standing.figure, Style::CELL.bold()),
            Cell::new(&standing.change, Style::CELL.bold()),
            Cell::new(&standing.interval, Style::CELL.color(style::MUTED)),
            Cell::new(word, Style::CELL),
        ]
    };
    let headings = ["", "mean", "change", "95% interval", "verdict"];
    let mut align = [Align::Right; 5];
    (align[0], align[4]) = (Align::Left, Align::Left);
    Grid {
        head: headings.map(head).into(),
        align: align.into(),
        rows: standings.iter().map(row).collect(),
    }
}

/// What moved with each difference.
fn why(story: &mut Story, whys: &[&Why]) {
    if whys.is_empty() {
        return;
    }
    story.section("Why");
    story.sub(view::CAVEAT);
    for why in whys {
        story.subsection(&view::heading(why));
        story.paragraph(&Paragraph::new(&why.text, Style::BODY).before(2.0));
        for limit in &why.limits {
            story.item(&limit.text, Style::BODY);
        }
        if let Some(table) = view::moved_table(why, usize::MAX) {
            story.keep_last();
            story.grid(&Grid::plain(&table), 6.0);
        }
        let rest = view::rest(why);
        if !rest.is_empty() {
            let note = rest.join(" ");
            story.paragraph(&Paragraph::new(&note, Style::NOTE).before(7.0));
        }
    }
}

fn cpu(story: &mut Story, verdict: &VerdictDocument) {
    let Some(chart) = figures::cpu(verdict) else {
        return;
    };
    let table = view::cpu_table(verdict);
    story.section("CPU of the services");
    story.sub(report_view::CPU);
    if table.is_some() {
        story.sub(report_view::softirq(verdict.softirq_included));
    }
    story.chart(&chart, 10.0, table.is_some());
    if let Some(table) = table {
        story.grid(&Grid::plain(&table), 8.0);
    }
}

/// Metrics along factors whose levels are numbers.
fn scaling(story: &mut Story, verdict: &VerdictDocument) {
    for (factor, metric, lines) in view::scaling::groups(verdict) {
        story.section(&report_view::capitalised(&view::scaling::title(
            factor, metric,
        )));
        story.sub(report_view::SCALING);
        story.chart(&figures::scaling(factor, metric, &lines), 10.0, false);
        let table = view::scaling::table(factor, metric, &lines);
        story.grid(&Grid::plain(&table), 8.0);
        let note = Paragraph::new(view::scaling::EXPLAINED, Style::NOTE);
        story.paragraph(&note.before(7.0));
    }
}

/// Completions and response times of all trials.
fn times(story: &mut Story, experiment: &Experiment) {
    if let Some(chart) = figures::until_done(experiment) {
        story.section("Until all requests were done");
        story.sub(report_view::UNTIL_DONE);
        story.chart(&chart, 10.0, false);
    }
    if let Some(chart) = figures::over_time(experiment) {
        story.section("Completions over time");
        story.sub(report_view::OVER_TIME);
        story.chart(&chart, 10.0, false);
    }
    let groups = figures::latency_groups(experiment);
    if let Some(chart) = figures::latency(&groups) {
        let mut strips = groups.iter().flat_map(|group| &group.strips);
        let any_bound = strips.any(|strip| strip.values_us.iter().any(|(_, bound)| *bound));
        story.section("Response times");
        story.sub(match any_bound {
            true => "One dot for each trial, from zero. An arrow means at least so long.",
            false => "One dot for each trial, from zero.",
        });
        let first = experiment.trials.first();
        let caveat = first.and_then(|trial| load_view::closed_loop_caveat(&trial.record));
        story.chart(&chart, 10.0, caveat.is_some());
        if let Some(caveat) = caveat {
            story.paragraph(&Paragraph::new(caveat, Style::NOTE).before(6.0));
        }
    }
}

fn measured(story: &mut Story, experiment: &Experiment) {
    let verdict = &experiment.verdict;
    story.section("How it was measured");
    let method = report_view::method(verdict);
    story.paragraph(&Paragraph::new(&method, Style::BODY).before(4.0));
    for (name, text) in report_view::facts(experiment) {
        story.fact(name, &text);
    }
    if !verdict.order.is_empty() {
        story.subsection("Order of the trials");
        for (place, block) in verdict.order.iter().enumerate() {
            let number = format!("{}.", place + 1);
            let label = Style::CELL.color(style::MUTED);
            let order = block.join(" → ");
            let line = Paragraph::new(&order, Style::CELL).before(2.0).indent(24.0);
            story.paragraph(&line.label(&number, label));
        }
    }
}

/// What only few look up.
fn appendices(story: &mut Story, experiment: &Experiment) {
    let described = &experiment.verdict.described;
    if !described.is_empty() {
        story.section("Other metrics, compared without a verdict");
        story.sub(report_view::DESCRIBED);
        for description in described {
            story.item(&description.text, Style::CELL);
        }
    }
    if !experiment.plan.trim().is_empty() {
        story.section("The plan, as run");
        story.code(&experiment.plan);
    }
    environment(story, experiment);
}

/// The environment, on one page.
fn environment(story: &mut Story, experiment: &Experiment) {
    /// A value of more lines or letters is cut.
    const LINES_MAX: usize = 2;
    const LETTERS_MAX: usize = 140;
    const SIZE: f64 = 7.2;
    let mut facts = report_view::flattened(&experiment.environment);
    if facts.is_empty() {
        return;
    }
    // The machine, then what ran; lists of processes and libraries are the longest and matter least.
    facts.sort_by_key(|(path, _)| report_view::environment_rank(path));
    let cell = |text: &str, color| Cell::new(text, Style::CELL.size(SIZE).color(color));
    let row = |(path, text): &(String, String)| {
        let mut value = Cell::default();
        for line in text.lines().take(LINES_MAX) {
            let mut short: String = line.chars().take(LETTERS_MAX).collect();
            if short.len() < line.len() {
                short.push('…');
            }
            value = value.line(&short, Style::CELL.size(SIZE));
        }
        vec![cell(path, style::MUTED), value]
    };
    let made = |shown: usize| {
        let mut part = Story::default();
        part.section("The environment");
        let rest = facts.len() - shown;
        if rest > 0 {
            part.sub(&format!("{rest} further entries are in environment.json."));
        }
        let grid = Grid {
            head: Vec::new(),
            align: vec![Align::Left, Align::Left],
            rows: facts[..shown].iter().map(row).collect(),
        };
        part.columns(&grid, &[WIDTH * 0.42, WIDTH * 0.58 - 12.0], 4.0);
        part
    };
    let height = |part: &Story| {
        let blocks = part.blocks.iter();
        blocks.map(|block| block.before + block.height).sum::<f64>()
    };
    let mut shown = facts.len();
    while shown > 1 && height(&made(shown)) > BOTTOM - TOP {
        shown = shown * 9 / 10;
    }
    // Kept together, it starts a page of its own where the rest of one is too short.
    let first = story.blocks.len();
    story.append(made(shown));
    let count = story.blocks.len();
    for block in &mut story.blocks[first..count - 1] {
        block.keep = true;
    }
}
