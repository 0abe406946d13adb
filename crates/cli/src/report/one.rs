//! One experiment, or one load.

use prony_record::Record;
use prony_report::stored::{Content, Stored};
use prony_report::{Experiment, csv, data, html, markdown, openmetrics, pdf, svg, text};
use prony_stats::gate::GateResult;

use super::outputs::{Outputs, put, put_bytes, put_charts, put_tables};
use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{Gating, Verdicts, say};
use crate::terminal;

pub(super) fn run(typed: &ReportArgs, gating: Gating, stored: Stored) -> Result<Ending, Failure> {
    if let Content::Loads(records) = &stored.content
        && records.len() > 1
    {
        return Err(Failure::wrong(format!(
            "{}: {} records; name another side to hold them against, or one of them",
            stored.source,
            records.len()
        )));
    }
    let outputs = Outputs::open(typed)?;
    let mut verdicts = Verdicts {
        new: &stored,
        old: None,
        runs: None,
        is_between: false,
    };
    let gates = gating.judge(&mut verdicts);
    let is_text = !outputs.takes_standard_output() && !gating.takes_standard_output();
    let is_printed = outputs.is_none() && is_text;
    let look = terminal::look(is_text);
    match &stored.content {
        Content::Experiment(experiment) => {
            if is_printed {
                terminal::print(&text::verdict(&experiment.verdict, None, look));
            }
            write_experiment(outputs, experiment, &gates)?;
        }
        Content::Loads(records) => {
            for record in records {
                if is_printed {
                    terminal::print(&text::load_summary(
                        record,
                        &prony_report::PERCENTILES,
                        look,
                    ));
                }
            }
            if let Some(record) = records.first() {
                write_load(outputs, record)?;
            }
        }
    }
    if !gates.is_empty() {
        say(is_text, &text::gates(&gates, look));
    }
    gating.finish(Ending::Done, &verdicts, &gates)
}

fn write_experiment(
    outputs: Outputs,
    experiment: &Experiment,
    gates: &[GateResult],
) -> Result<(), Failure> {
    let verdict = &experiment.verdict;
    put(outputs.html, || html::report(experiment))?;
    put_bytes(outputs.pdf, || pdf::report(experiment))?;
    put_charts(outputs.svg.as_deref(), || svg::report(experiment))?;
    put(outputs.csv, || csv::verdict(verdict))?;
    put(outputs.markdown, || markdown::report(experiment))?;
    put(outputs.openmetrics, || openmetrics::experiment(experiment))?;
    put_tables(outputs.tables.as_deref(), || {
        data::experiment(experiment, gates)
    })?;
    let json = serde_json::to_string_pretty(verdict).map_err(Failure::refused)?;
    put(outputs.json, || format!("{json}\n"))
}

fn write_load(outputs: Outputs, record: &Record) -> Result<(), Failure> {
    put(outputs.html, || html::load(record))?;
    put_bytes(outputs.pdf, || pdf::load(record))?;
    put_charts(outputs.svg.as_deref(), || svg::load(record))?;
    put(outputs.csv, || csv::series(record))?;
    put(outputs.markdown, || markdown::load(record))?;
    put(outputs.openmetrics, || openmetrics::load(record))?;
    put_tables(outputs.tables.as_deref(), || data::load(record))?;
    put(outputs.json, || record.to_json())
}
