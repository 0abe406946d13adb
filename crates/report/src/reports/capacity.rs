//! The report of `prony capacity`.

use prony_stats::capacity::CapacityDocument;

use super::findings_section;
use crate::captions;
use crate::document::Audience::Everyone;
use crate::document::{Block, Blocks, Document, Section};
use crate::tables;

impl Document {
    /// The report on a server's capacity.
    pub fn of_capacity(capacity: &CapacityDocument) -> Document {
        let mut header = Blocks::default();
        header.push(Block::Lead {
            text: capacity.text.clone(),
            detail: None,
        });
        header.push(Block::Paragraph(capacity.url.clone()));
        let mut document = Document {
            title: format!("{} · {}", capacity.text, capacity.url),
            subject: capacity.url.clone(),
            kind: "capacity searches with prony",
            question: String::new(),
            version: capacity.version.clone(),
            header,
            sections: Vec::new(),
        };
        let mut probed = capacity.searches.iter().filter(|it| !it.probes.is_empty());
        if let Some(last) = probed.next_back() {
            let table = tables::capacity::searches(capacity);
            let mut searches = Section::new("Searches").with(Everyone, Block::Table(table));
            if capacity
                .searches
                .iter()
                .any(|it| it.capacity_per_s().is_some())
            {
                let note = Block::Note(captions::SEARCHES.to_owned());
                searches = searches.with(Everyone, note);
            }
            document.push(searches);
            let table = tables::capacity::probes(last);
            let probes = Section::new("Probes of the last search")
                .with(Everyone, Block::Table(table))
                .with(
                    Everyone,
                    Block::Note(captions::SUCCESSFUL_PERCENTILES.to_owned()),
                );
            document.push(probes);
        }
        document.push(findings_section(&capacity.findings, captions::NO_FINDINGS));
        document
    }
}
