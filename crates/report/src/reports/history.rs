//! The report of results over time.

use prony_stats::history::{HistoryDocument, HistorySeries};
use prony_wording::history;
use prony_wording::verdict::capitalized;

use crate::document::Audience::{Everyone, Files, Pages};
use crate::document::{Block, Blocks, Document, Section};
use crate::{captions, figures, number, tables};

impl Document {
    /// Builds the report of results over time.
    pub fn of_history(histories: &HistoryDocument) -> Document {
        let changes: Vec<String> = histories
            .series
            .iter()
            .flat_map(|series| series.changes.iter().map(|it| history::change(series, it)))
            .collect();
        let text = match changes.len() as u64 {
            0 => "no change was found".to_owned(),
            count => format!("{} found", number::plural(count, "change", "changes")),
        };
        let mut header = Blocks::default();
        header.push(Block::Lead {
            text: capitalized(&text),
            detail: None,
        });
        let mut document = Document {
            title: format!("History: {text}"),
            subject: "History".to_owned(),
            kind: "results over time, from prony",
            question: String::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            header,
            sections: Vec::new(),
        };
        if !changes.is_empty() {
            let section = Section::new("Changes").intro(captions::CHANGE_POINTS);
            document.push(section.with(Everyone, Block::List(changes)));
        }
        let mut groups: Vec<Vec<&HistorySeries>> = Vec::new();
        for series in &histories.series {
            match groups.last_mut() {
                Some(group) if is_together(group[0], series) => group.push(series),
                _ => groups.push(vec![series]),
            }
        }
        for group in groups {
            let title = format!("Plan {} on {}", group[0].plan, group[0].machine);
            let section = Section::new(&title);
            document.push(section.with(Everyone, Block::Table(tables::history::overview(&group))));
            for series in group {
                let figure = figures::history(series);
                let folded = Block::Folded {
                    summary: number::plural(series.points.len() as u64, "run", "runs"),
                    blocks: vec![Block::Table(tables::history::points(series))],
                };
                let section = Section::new(&figure.title);
                let section = section.with(Pages, Block::Chart(figure));
                document.push(section.with(Files, folded));
            }
        }
        document
    }
}

fn is_together(one: &HistorySeries, other: &HistorySeries) -> bool {
    (&one.plan, &one.machine) == (&other.plan, &other.machine)
}
