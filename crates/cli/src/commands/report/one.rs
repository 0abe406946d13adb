//! Reports on one experiment or one load.

use prony_record::Record;
use prony_report::metrics::{self, openmetrics};
use prony_report::stored::{Stored, StoredContent};
use prony_report::{Document, Experiment, PERCENTILES, csv, data, text};
use prony_stats::gate::GateResult;

use super::outputs::{DataOutputs, ReportOutputs, put_tables};
use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{GateSettings, JudgedRuns, print_text};
use crate::output::load_results;
use crate::output::write_output;
use crate::terminal;

pub(super) fn report_one_run(
    arguments: &ReportArgs,
    gating: GateSettings,
    stored: Stored,
) -> Result<Ending, Failure> {
    if let StoredContent::Loads(records) = &stored.content
        && records.len() > 1
    {
        return Err(Failure::wrong(format!(
            "{}: {} records (name a single record, or a second run to compare them with)",
            stored.source,
            records.len()
        )));
    }
    if arguments.hdr.is_some() && matches!(stored.content, StoredContent::Experiment(_)) {
        let what = "--hdr describes one load (name the trial.json of a trial, or a record)";
        return Err(Failure::wrong(what));
    }
    let outputs = ReportOutputs::open(arguments)?;
    let mut verdicts = JudgedRuns {
        new: &stored,
        old: None,
        runs: None,
        is_between: false,
    };
    // Other conditions than those of the run have their own result.
    let (status, gates) = match &stored.content {
        StoredContent::Experiment(experiment) if !gating.is_gated() => {
            let verdict = &experiment.verdict;
            (verdict.exit_status, verdict.gates.clone())
        }
        _ => (None, gating.judge(&mut verdicts)),
    };
    let is_text = !outputs.takes_standard_output() && !gating.takes_standard_output();
    let is_printed = outputs.is_none() && is_text;
    let options = terminal::text_options(is_text);
    let ending = match &stored.content {
        StoredContent::Experiment(experiment) if experiment.aborted_trial().is_some() => {
            Ending::Aborted
        }
        // `finish` counts withheld verdicts as failures.
        StoredContent::Experiment(_) => status.map_or(Ending::Done, Ending::of_stored),
        StoredContent::Loads(records) => {
            // Other conditions than those of the load have their own result.
            let own = |record: &Record| record.exit_status.filter(|_| !gating.is_gated());
            match records.first().and_then(own) {
                Some(status) => Ending::of_stored(status),
                None if records.iter().any(load_results::has_failed) => Ending::Doubtful,
                None => Ending::Done,
            }
        }
    };
    let percentiles = match &arguments.percentiles[..] {
        [] => &PERCENTILES[..],
        requested => requested,
    };
    match &stored.content {
        StoredContent::Experiment(experiment) => {
            let report = Document::of_experiment(experiment);
            if is_printed {
                terminal::print(&text::render(&report, options));
            }
            let outputs = outputs.write_document(&report)?;
            write_experiment(outputs, experiment, &gates)?;
        }
        StoredContent::Loads(records) => {
            if let Some(record) = records.first() {
                let report = Document::of_load(record, percentiles);
                if is_printed {
                    terminal::print(&text::render(&report, options));
                    if !gating.is_gated() {
                        terminal::print(&text::conditions(&record.conditions, options));
                    }
                }
                write_load(outputs.write_document(&report)?, record)?;
            }
        }
    }
    if !gates.is_empty() {
        print_text(is_text, &text::gates(&gates, options));
    }
    gating.finish(ending, &verdicts, &gates)
}

fn write_experiment(
    outputs: DataOutputs,
    experiment: &Experiment,
    gates: &[GateResult],
) -> Result<(), Failure> {
    let verdict = &experiment.verdict;
    write_output(outputs.csv, || csv::verdict(verdict))?;
    write_output(outputs.openmetrics, || {
        openmetrics::text(&metrics::of_experiment(experiment))
    })?;
    put_tables(outputs.tables.as_deref(), || {
        data::experiment(experiment, gates)
    })?;
    let json = serde_json::to_string_pretty(verdict).map_err(Failure::refused)?;
    write_output(outputs.json, || format!("{json}\n"))
}

fn write_load(outputs: DataOutputs, record: &Record) -> Result<(), Failure> {
    write_output(outputs.csv, || csv::series(record))?;
    write_output(outputs.openmetrics, || {
        openmetrics::text(&metrics::of_load(record))
    })?;
    if let Some((output, format)) = outputs.hdr {
        output.write(&format.text(record))?;
    }
    put_tables(outputs.tables.as_deref(), || data::load(record))?;
    write_output(outputs.json, || record.to_json())
}
