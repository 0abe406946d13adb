//! The report of one load.

use prony_record::sampling::ServerProfile;
use prony_record::{EntryGrouping, EntryResults, Record};
use prony_wording::Tone;
use prony_wording::{entries as entry_wording, load as wording, run_intervals as intervals};

use super::findings_section;
use crate::captions;
use crate::document::Audience::{Everyone, Files, Pages, Terminal};
use crate::document::{Block, Blocks, Callout, Document, Section};
use crate::figures;
use crate::number;
use crate::tables::{self, times};

/// Maximum number of agents that a terminal lists.
const TERMINAL_AGENTS_MAX: usize = 16;
/// Maximum number of entries that a report shows expanded.
pub(super) const ENTRIES_SHOWN_MAX: usize = 5;
/// Maximum number of functions of a sampled server that a terminal lists.
const TERMINAL_FUNCTIONS_MAX: usize = 15;
/// Number of rows of a terminal's histogram.
const HISTOGRAM_ROWS: u32 = 10;

impl Document {
    /// Builds the report of one load. `percentiles` determines the rows of the table of times.
    pub fn of_load(record: &Record, percentiles: &[f64]) -> Document {
        let url = &record.load.url;
        let mut document = Document {
            title: format!("{} · {url}", wording::headline(record)),
            subject: url.clone(),
            kind: "one load with prony",
            question: String::new(),
            version: record.version.clone(),
            header: header(record),
            sections: Vec::new(),
        };
        if record.outcomes.keys().any(|it| it.is_failure()) || record.totals.unstarted > 0 {
            let section = Section::new("How requests ended");
            let table = tables::load::outcomes(record);
            document.push(section.with(Everyone, Block::Table(table)));
        }
        if record.events.is_some() {
            document.push(events_section(record, percentiles));
        }
        document.push(times_section(record, percentiles));
        document.push(intervals_section(record));
        let rates = tables::load::by_offered_rate(record);
        if !rates.is_empty() {
            let section = Section::new("By offered rate").intro(captions::BY_RATE);
            document.push(section.with(Everyone, Block::Table(rates)));
        }
        if let Some(entries) = &record.entries {
            document.push(match entries.grouping {
                EntryGrouping::Step => steps_section(record, entries),
                EntryGrouping::Url | EntryGrouping::Path => entries_section(entries),
            });
        }
        let agents = tables::load::agents(record);
        if !agents.rows.is_empty() {
            let audience = match agents.rows.len() {
                0..=TERMINAL_AGENTS_MAX => Everyone,
                _ => Files,
            };
            let section = Section::new("Agents").untitled_on_terminal();
            let section = section.intro(captions::AGENTS);
            document.push(section.with(audience, Block::Table(agents)));
        }
        for profile in &record.profiles {
            profile_sections(&mut document, record, profile);
        }
        for (figure, intro) in figures::of_load(record) {
            let section = Section::new(&figure.title);
            let section = section.with(Pages, Block::Intro(intro.to_owned()));
            document.push(section.with(Pages, Block::Chart(figure)));
        }
        let facts = wording::load_facts(record);
        let all = [wording::provenance(record), facts.clone()].concat();
        document.push(
            Section::new("How it was measured")
                .untitled_on_terminal()
                .with(Terminal, Block::Facts(facts))
                .with(Files, Block::Facts(all)),
        );
        document.push(findings_section(&record.findings, captions::NO_FINDINGS));
        document
    }
}

/// The functions of a server that used CPU time, and those that waited.
fn profile_sections(document: &mut Document, record: &Record, profile: &ServerProfile) {
    let us = tables::profile::us_per_request(record);
    let table = |rows_max| Block::Table(tables::profile::functions(profile, us, rows_max));
    let modules = Block::Table(tables::profile::modules(profile));
    let samples = number::plural(profile.samples, "sample", "samples");
    let mut section = Section::new(&format!("CPU of the server by function, {samples}"))
        .intro(captions::SERVER_FUNCTIONS)
        .with(Terminal, table(TERMINAL_FUNCTIONS_MAX))
        .with(Files, table(ServerProfile::FUNCTIONS_MAX))
        .with(Files, modules);
    for note in &profile.notes {
        section = section.with(Everyone, Block::Note(note.clone()));
    }
    document.push(section);
    let waits = |rows_max| Block::Table(tables::profile::waits(profile, us, rows_max));
    if !profile.waits.is_empty() {
        let section = Section::new("Waiting of the server by function").intro(captions::WAITS);
        let section = section.with(Terminal, waits(TERMINAL_FUNCTIONS_MAX));
        document.push(section.with(Files, waits(ServerProfile::FUNCTIONS_MAX)));
    }
}

fn header(record: &Record) -> Blocks {
    let mut header = Blocks::default();
    let (headline, how) = (wording::headline(record), wording::how(record));
    let lead = |detail| Block::Lead {
        text: headline.clone(),
        detail,
    };
    header.add(Files, lead(Some(how.clone())));
    header.add(Terminal, lead(None));
    header.add(Terminal, Block::Paragraph(record.load.url.clone()));
    header.add(Terminal, Block::Paragraph(how));
    if let Some(shortfall) = wording::shortfall(record) {
        header.push(Block::Callout(Callout {
            tone: Tone::Care,
            parts: vec![(shortfall, true)],
            detail: String::new(),
            findings_link: None,
        }));
    }
    let (requests, failed) = wording::requests(record);
    let mut parts = vec![(requests, false)];
    if let Some(failed) = failed {
        parts.extend([(", ".to_owned(), false), (failed, true)]);
    }
    if let Some(in_flight) = wording::in_flight(record) {
        parts.push((format!(", {in_flight}"), false));
    }
    header.push(Block::Callout(Callout {
        tone: wording::tone(record),
        parts,
        detail: wording::most_severe(record).unwrap_or_default(),
        findings_link: (!record.findings.is_empty()).then(|| "Findings".to_owned()),
    }));
    header
}

/// The steps of the journey, with what became of the journeys.
fn steps_section(record: &Record, steps: &EntryResults) -> Section {
    let journeys = record.journeys.as_ref().map(wording::journeys);
    Section::new("Steps of the journey")
        .with(Everyone, Block::Table(tables::entries::steps_table(steps)))
        .with(Everyone, journeys.map(Block::Note))
}

/// The entries of the list. If there are many, only the worst are shown, with the whole table
/// collapsed below.
fn entries_section(entries: &EntryResults) -> Section {
    let all = tables::entries::entries_table(entries.rows());
    let count = all.len();
    if count <= ENTRIES_SHOWN_MAX {
        return Section::new("Entries")
            .with(Everyone, Block::Table(all))
            .with(Everyone, entry_wording::rows_note(entries).map(Block::Note));
    }
    let worst = tables::entries::worst_entries(entries, ENTRIES_SHOWN_MAX);
    let folded = Block::Folded {
        summary: entry_wording::table_summary(entries),
        blocks: vec![Block::Table(all)],
    };
    let order = entry_wording::worst(entries, worst.len());
    Section::new("Worst entries")
        .intro(&order)
        .with(
            Everyone,
            Block::Table(tables::entries::entries_table(worst)),
        )
        .with(Terminal, Block::Note(order))
        .with(Terminal, entry_wording::grouping(entries).map(Block::Note))
        .with(Files, entry_wording::rows_note(entries).map(Block::Note))
        .with(Files, folded)
}

/// The intervals within the load.
fn intervals_section(record: &Record) -> Section {
    let section = Section::new("Precision within this load");
    if record.intervals.is_empty() {
        return section;
    }
    let table = tables::load::intervals(record);
    let warm_up = intervals::warm_up(&record.intervals).into_iter();
    let note = warm_up.chain([intervals::SCOPE.to_owned()]);
    section
        .with(Everyone, Block::Table(table))
        .with(
            Everyone,
            intervals::shortfall(&record.intervals).map(Block::Note),
        )
        .with(Everyone, Block::Note(Vec::from_iter(note).join(" ")))
}

/// The events of streamed responses.
fn events_section(record: &Record, percentiles: &[f64]) -> Section {
    let table = times::event_times_table(record, percentiles);
    let bounds = record.events.iter().any(|events| {
        let times = [&events.first_event_us, &events.event_gap_us];
        times.iter().any(|times| !times.at_least.is_empty())
    });
    let bounds = bounds.then(|| Block::Note(captions::EVENT_BOUNDS.to_owned()));
    Section::new("Events")
        .with(Everyone, wording::events(record).map(Block::Paragraph))
        .with(Everyone, (!table.is_empty()).then_some(Block::Table(table)))
        .with(Everyone, bounds)
}

/// The section of percentiles, with a caveat about them and, on a terminal, the distribution.
fn times_section(record: &Record, percentiles: &[f64]) -> Section {
    let section = Section::new("Times").untitled_on_terminal();
    let table = times::times_table(record, percentiles);
    if table.is_empty() {
        return section;
    }
    let has_bounds = !record.response_time_us.at_least.is_empty();
    let notes = [
        has_bounds.then_some(captions::LOWER_BOUNDS),
        wording::closed_loop_caveat(record),
    ];
    let [bounds, caveat] = notes.map(|note| note.map(|text| Block::Note(text.to_owned())));
    let bins = times::bins(record, HISTOGRAM_ROWS);
    section
        .with(Everyone, Block::Table(table))
        .with(Everyone, bounds)
        .with(Everyone, caveat)
        .with(
            Terminal,
            (!bins.is_empty()).then_some(Block::Histogram(bins)),
        )
}
