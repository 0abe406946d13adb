//! Every chart of a report as an SVG file of its own, to put into an article or a slide.

use prony_record::Record;
use prony_stats::runs::RunsDocument;

use crate::Experiment;
use crate::figures::{self, Figure};

/// A chart as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SvgFile {
    /// Such as `response-times.svg`: small letters, digits and hyphens, whatever a plan's names
    /// hold. No two of one report are the same.
    pub name: String,
    /// Its content.
    pub svg: String,
}

/// The charts of an experiment, in the order of its page.
pub fn report(experiment: &Experiment) -> Vec<SvgFile> {
    files(&figures::all(experiment))
}

/// The charts of one load.
pub fn load(record: &Record) -> Vec<SvgFile> {
    files(&figures::all_of_load(record))
}

/// The charts of two runs against one another.
pub fn runs(document: &RunsDocument) -> Vec<SvgFile> {
    files(&figures::all_of_runs(document))
}

fn files(figures: &[Figure]) -> Vec<SvgFile> {
    let file = |figure: &Figure| SvgFile {
        name: format!("{}.svg", figure.name),
        svg: figure.chart.file(&figure.title),
    };
    figures.iter().map(file).collect()
}
