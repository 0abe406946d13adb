//! Reports on the comparison of two runs.

use prony_report::stored::Stored;
use prony_report::{Document, csv, data, text};

use super::outputs::{ReportOutputs, put_tables};
use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{GateSettings, JudgedRuns, print_text};
use crate::output::write_output;
use crate::terminal;

/// Compares two runs. If `old` is `None`, the old run is the one that `--against` names.
pub(super) fn report_two_runs(
    arguments: &ReportArgs,
    gating: GateSettings,
    old: Option<Stored>,
    new: Stored,
    labels: [&str; 2],
) -> Result<Ending, Failure> {
    if arguments.openmetrics.is_some() {
        let what = "--openmetrics describes one run (name a single run)";
        return Err(Failure::wrong(what));
    }
    if arguments.hdr.is_some() {
        return Err(Failure::wrong(
            "--hdr describes one load (name a single record)",
        ));
    }
    let Some(old) = old.or_else(|| gating.against().cloned()) else {
        return Err(Failure::wrong("there is no second run to compare with"));
    };
    if old.is_loads() != new.is_loads() {
        return Err(Failure::wrong(format!(
            "{} and {}: an experiment can't be compared with loads (name two experiments, or two loads)",
            old.source, new.source
        )));
    }
    let outputs = ReportOutputs::open(arguments)?;
    let document = gating.compare((&old, labels[0]), (&new, labels[1]));
    let mut verdicts = JudgedRuns {
        new: &new,
        old: Some((&old, labels[0])),
        runs: Some(document),
        is_between: true,
    };
    let gates = gating.judge(&mut verdicts);
    let is_text = !outputs.takes_standard_output() && !gating.takes_standard_output();
    let options = terminal::text_options(is_text);
    if let Some(document) = &verdicts.runs {
        let report = Document::of_runs(document);
        if outputs.is_none() {
            print_text(is_text, &text::render(&report, options))
        } else {
            print_text(is_text, &text::gates(&gates, options))
        }
        let outputs = outputs.write_document(&report)?;
        write_output(outputs.csv, || csv::runs(document))?;
        put_tables(outputs.tables.as_deref(), || data::runs(document))?;
        let json = serde_json::to_string_pretty(document).map_err(Failure::refused)?;
        write_output(outputs.json, || format!("{json}\n"))?;
    }
    gating.finish(Ending::Done, &verdicts, &gates)
}
