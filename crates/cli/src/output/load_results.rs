//! The outcome of a load and its outputs.

use std::path::Path;

use prony_record::{ConditionRuling, Finding, FindingId, Record};
use prony_report::{Document, PERCENTILES, csv, hdr, html, text, timeline};
use prony_stats::gate::LoadCondition;

use crate::ending::{Ending, Failure};
use crate::output::{Output, check_distinct, write_output};
use crate::progress::Progress;
use crate::terminal;

/// Returns true if the stored facts about a load make the commands that run or print it exit with
/// status 1.
pub(crate) fn has_failed(record: &Record) -> bool {
    record.aborted.is_some() || missing_part(record).is_some() || !record.has_success()
}

/// Returns the finding that reports that part of a load is missing.
fn missing_part(record: &Record) -> Option<&Finding> {
    let mut findings = record.findings.iter();
    findings.find(|finding| finding.info().is_some_and(|info| info.incomplete_load))
}

fn ending(record: &Record, interrupted: bool, progress: &Progress) -> Ending {
    let mut ending = Ending::Done;
    for result in &record.conditions {
        if result.ruling == ConditionRuling::Failed {
            progress.warn(format_args!("{}: {}", result.condition, result.text));
            ending = Ending::Doubtful;
        }
    }
    if let Some(abort) = &record.aborted {
        progress.warn(abort.text());
    }
    if interrupted {
        progress.warn("interrupted; the results cover the time until the interrupt");
        return Ending::Interrupted;
    }
    if let Some(lost) = missing_part(record) {
        progress.warn(format_args!(
            "part of the load is missing ({}): {}",
            lost.id, lost.text
        ));
    }
    if !record.has_success() {
        let mut findings = record.findings.iter();
        let unreached = [FindingId::NothingListens, FindingId::TlsFailed];
        match findings.find(|finding| unreached.iter().any(|id| finding.id == *id)) {
            Some(finding) => progress.warn(&finding.text),
            None => progress.warn("no request succeeded"),
        }
    }
    if has_failed(record) {
        Ending::Doubtful
    } else {
        ending
    }
}

/// The conditions on a load's results and their destinations.
pub(crate) struct LoadResults {
    json: Option<Output>,
    csv: Option<Output>,
    html: Option<Output>,
    timeline: Option<Output>,
    hdr: Option<(Output, HdrFormat)>,
    /// Percentiles in the summary and the page.
    pub(crate) percentiles: Vec<f64>,
    /// Conditions that decide the outcome.
    pub(crate) conditions: Vec<LoadCondition>,
}

impl LoadResults {
    /// Opens the requested outputs: JSON, CSV, an HTML page, a timeline and an HdrHistogram file.
    /// `all` contains the option and the path of each output.
    pub(crate) fn open(all: [(&str, Option<&Path>); 5]) -> Result<LoadResults, Failure> {
        check_distinct(&all)?;
        let [json, csv, html, timeline, hdr] = all;
        Ok(LoadResults {
            json: Output::open(json.0, json.1)?,
            csv: Output::open(csv.0, csv.1)?,
            html: Output::open_file(html.0, html.1)?,
            timeline: Output::open_file(timeline.0, timeline.1)?,
            hdr: HdrFormat::open(hdr.0, hdr.1)?,
            percentiles: PERCENTILES.to_vec(),
            conditions: Vec::new(),
        })
    }

    /// Determines the outcome of a load, stores it in the record, prints the reason on standard
    /// error, and writes the outputs.
    pub(crate) fn conclude(
        self,
        record: &mut Record,
        interrupted: bool,
        progress: &Progress,
    ) -> Result<Ending, Failure> {
        record.conditions = self
            .conditions
            .iter()
            .map(|it| prony_wording::conditions::result(it, record))
            .collect();
        let ending = ending(record, interrupted, progress);
        record.exit_status = Some(ending.status());
        self.write(record)?;
        Ok(ending)
    }

    /// Returns true if standard output carries data instead of the summary.
    pub(crate) fn uses_stdout(&self) -> bool {
        let hdr = self.hdr.as_ref().map(|(output, _)| output);
        let outputs = [self.json.as_ref(), self.csv.as_ref(), hdr];
        outputs.into_iter().flatten().any(Output::is_standard)
    }

    /// Writes the outputs. Prints the summary unless standard output carries data.
    fn write(self, record: &Record) -> Result<(), Failure> {
        let is_data = self.uses_stdout();
        let report = Document::of_load(record, &self.percentiles);
        if !is_data {
            let options = terminal::text_options(true);
            terminal::print(&text::render(&report, options));
            terminal::print(&text::conditions(&record.conditions, options));
        }
        write_output(self.json, || record.to_json())?;
        write_output(self.csv, || csv::series(record))?;
        write_output(self.html, || html::render(&report))?;
        write_output(self.timeline, || timeline(record))?;
        self.hdr.map_or(Ok(()), |(output, format)| {
            output.write(&format.text(record))
        })
    }
}

/// Format of an HdrHistogram file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HdrFormat {
    /// Histograms of half seconds.
    Log,
    /// A percentile distribution.
    Percentiles,
}

impl HdrFormat {
    /// Opens the output of `--hdr`, whose format depends on the file's extension.
    pub(crate) fn open(
        option: &str,
        path: Option<&Path>,
    ) -> Result<Option<(Output, HdrFormat)>, Failure> {
        let is_percentiles =
            path.is_some_and(|path| path.extension().is_some_and(|it| it == "hgrm"));
        let format = if is_percentiles {
            HdrFormat::Percentiles
        } else {
            HdrFormat::Log
        };
        let output = Output::open(option, path)?;
        Ok(output.map(|output| (output, format)))
    }

    /// Formats the response times of a load.
    pub(crate) fn text(self, record: &Record) -> String {
        match self {
            HdrFormat::Log => hdr::log(record),
            HdrFormat::Percentiles => hdr::percentiles(record),
        }
    }
}
