//! The document model: a report is built once, and each output format renders it.
//!
//! A [`Document`] contains headings, paragraphs, tables, charts, findings and collapsible parts, in
//! reading order. [`crate::reports`] decides what a report contains; [`crate::text`],
//! [`crate::markdown`], [`crate::html`] and [`crate::svg`] only lay it out.

use prony_record::Finding;
use prony_wording::{Tone, VerdictLine};

use crate::chart::{Bin, Chart};
use crate::table::Table;

/// A report, ready to be rendered in any format.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Title of the window.
    pub(crate) title: String,
    /// The report's subject, such as an experiment's name or a URL.
    pub(crate) subject: String,
    /// Phrase that follows the subject, such as `an experiment with prony`.
    pub(crate) kind: &'static str,
    /// The experiment's question; empty if there is none.
    pub(crate) question: String,
    /// The version of prony that made the measurement.
    pub(crate) version: String,
    /// Blocks that precede the first section.
    pub(crate) header: Blocks,
    pub(crate) sections: Vec<Section>,
}

/// A section of a report, with a heading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    pub(crate) title: String,
    pub(crate) terminal: TerminalHeading,
    /// True if the HTML page shows the section collapsed.
    pub(crate) folded: bool,
    pub(crate) blocks: Blocks,
}

/// Controls whether a terminal shows a section's heading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TerminalHeading {
    Shown,
    Hidden,
}

/// The set of output formats that show a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// All formats.
    Everyone,
    /// Text on a terminal.
    Terminal,
    /// HTML and Markdown.
    Files,
    /// HTML.
    Pages,
}

/// A group of output formats that show the same blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Medium {
    Terminal,
    Markdown,
    Page,
}

impl Audience {
    fn includes(self, medium: Medium) -> bool {
        match self {
            Audience::Everyone => true,
            Audience::Terminal => medium == Medium::Terminal,
            Audience::Files => medium != Medium::Terminal,
            Audience::Pages => medium == Medium::Page,
        }
    }
}

/// Blocks in reading order, each with its audience.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Blocks(Vec<(Audience, Block)>);

impl Blocks {
    pub(crate) fn add(&mut self, audience: Audience, block: Block) {
        self.0.push((audience, block));
    }

    /// Adds a block that all formats show.
    pub(crate) fn push(&mut self, block: Block) {
        self.add(Audience::Everyone, block);
    }

    /// Returns the blocks that a medium shows.
    pub(crate) fn shown(&self, medium: Medium) -> impl Iterator<Item = &Block> {
        let shown = self.0.iter().filter(move |(to, _)| to.includes(medium));
        shown.map(|(_, block)| block)
    }
}

/// An element of a report.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// The report's first sentence, with an explanation below it.
    Lead {
        text: String,
        detail: Option<String>,
    },
    /// A highlighted statement about the result as a whole.
    Callout(Callout),
    /// A heading within a section.
    Subheading(String),
    /// A short text below a heading that describes what the section shows.
    Intro(String),
    Paragraph(String),
    /// A note in small type.
    Note(String),
    /// Sentences, each next to its verdict or result.
    Verdicts(Vec<VerdictLine>),
    List(Vec<String>),
    /// A list of names with their values.
    Facts(Vec<(String, String)>),
    Table(Table),
    Chart(Figure),
    /// The distribution of response times as bars of text.
    Histogram(Vec<Bin>),
    /// Findings, the most severe first, or the given text if there are none.
    Findings(Vec<Finding>, &'static str),
    /// The experiment's plan, line by line.
    Code(String),
    /// Paths and values of the environment, the machine first.
    Environment(Vec<(String, String)>),
    /// Details below a summary, which the HTML page shows collapsed.
    Folded {
        summary: String,
        blocks: Vec<Block>,
    },
}

/// A highlighted statement.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Callout {
    pub(crate) tone: Tone,
    /// The parts of the sentence, with `true` for emphasized parts.
    pub(crate) parts: Vec<(String, bool)>,
    /// A line in small type below the sentence; empty if there is none.
    pub(crate) detail: String,
    /// The text of a link to the findings.
    pub(crate) findings_link: Option<String>,
}

/// A chart with its name and caption.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Figure {
    /// Text from which the file name of the chart's SVG file is derived.
    pub(crate) name: String,
    /// The heading above the chart.
    pub(crate) title: String,
    pub(crate) caption: Option<&'static str>,
    pub(crate) chart: Chart,
}

impl Section {
    /// Creates a section whose heading is shown on a terminal.
    pub(crate) fn new(title: &str) -> Section {
        Section {
            title: title.to_owned(),
            terminal: TerminalHeading::Shown,
            folded: false,
            blocks: Blocks::default(),
        }
    }

    /// Hides the section's heading on a terminal.
    pub(crate) fn untitled_on_terminal(self) -> Section {
        Section {
            terminal: TerminalHeading::Hidden,
            ..self
        }
    }

    pub(crate) fn folded(self) -> Section {
        Section {
            folded: true,
            ..self
        }
    }

    /// Adds a block, unless it is `None`.
    pub(crate) fn with(mut self, audience: Audience, block: impl Into<Option<Block>>) -> Section {
        if let Some(block) = block.into() {
            self.blocks.add(audience, block);
        }
        self
    }

    /// Adds an introduction below the heading. Only files show it.
    pub(crate) fn intro(self, text: &str) -> Section {
        self.with(Audience::Files, Block::Intro(text.to_owned()))
    }
}

impl Document {
    /// Returns the sections in which a medium shows at least one block, with the blocks that it
    /// shows.
    pub(crate) fn sections_for(
        &self,
        medium: Medium,
    ) -> impl Iterator<Item = (&Section, Vec<&Block>)> {
        self.sections.iter().filter_map(move |section| {
            let blocks: Vec<&Block> = section.blocks.shown(medium).collect();
            (!blocks.is_empty()).then_some((section, blocks))
        })
    }

    /// Adds a section, unless it has no blocks.
    pub(crate) fn push(&mut self, section: Section) {
        if !section.blocks.0.is_empty() {
            self.sections.push(section);
        }
    }

    /// The subject to show above the first sentence; `None` if the sentence already contains it.
    pub(crate) fn subject_above(&self) -> Option<&str> {
        let mut leads = self
            .header
            .shown(Medium::Page)
            .filter_map(|block| match block {
                Block::Lead { text, .. } => Some(text),
                _ => None,
            });
        let is_repeated = leads.next() == Some(&self.subject);
        (!is_repeated).then_some(self.subject.as_str())
    }

    /// All charts in reading order.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        let sections = self.sections_for(Medium::Page);
        let blocks = sections.flat_map(|(_, blocks)| blocks);
        blocks.filter_map(|block| match block {
            Block::Chart(figure) => Some(figure),
            _ => None,
        })
    }
}
