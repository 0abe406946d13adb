//! Two runs against one another.

use prony_report::stored::Stored;
use prony_report::{csv, data, html, pdf, runs_markdown, svg, text};

use super::outputs::{Outputs, put, put_bytes, put_charts, put_tables};
use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::gating::{Gating, Verdicts, say};
use crate::terminal;

/// `old` is none where the gating holds it.
pub(super) fn run(
    typed: &ReportArgs,
    gating: Gating,
    old: Option<Stored>,
    new: Stored,
    labels: [&str; 2],
) -> Result<Ending, Failure> {
    if typed.openmetrics.is_some() {
        let what = "--openmetrics is of one run: name it alone";
        return Err(Failure::wrong(what));
    }
    let Some(old) = old.or_else(|| gating.against().cloned()) else {
        return Err(Failure::wrong(
            "there is no other run to hold this one against",
        ));
    };
    if old.is_loads() != new.is_loads() {
        return Err(Failure::wrong(format!(
            "{} and {}: one is an experiment and the other is loads; two of a kind are needed",
            old.source, new.source
        )));
    }
    let outputs = Outputs::open(typed)?;
    let document = gating.compare((&old, labels[0]), (&new, labels[1]));
    let mut verdicts = Verdicts {
        new: &new,
        old: Some((&old, labels[0])),
        runs: Some(document),
        is_between: true,
    };
    let gates = gating.judge(&mut verdicts);
    let is_text = !outputs.takes_standard_output() && !gating.takes_standard_output();
    let look = terminal::look(is_text);
    if let Some(document) = &verdicts.runs {
        match outputs.is_none() {
            true => say(is_text, &text::runs(document, look)),
            false => say(is_text, &text::gates(&gates, look)),
        }
        put(outputs.html, || html::runs(document))?;
        put_bytes(outputs.pdf, || pdf::runs(document))?;
        put_charts(outputs.svg.as_deref(), || svg::runs(document))?;
        put(outputs.markdown, || runs_markdown::runs(document))?;
        put(outputs.csv, || csv::runs(document))?;
        put_tables(outputs.tables.as_deref(), || data::runs(document))?;
        let json = serde_json::to_string_pretty(document).map_err(Failure::refused)?;
        put(outputs.json, || format!("{json}\n"))?;
    }
    gating.finish(Ending::Done, &verdicts, &gates)
}
