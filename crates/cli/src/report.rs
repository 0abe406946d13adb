//! `prony report`: an experiment rendered again from what it stored.

use prony_report::{csv, folder, html, text};

use crate::arguments::ReportArgs;
use crate::ending::{Ending, Failure};
use crate::output::{Output, check_distinct};
use crate::terminal;

/// Renders a folder; nothing in it is changed.
pub(crate) fn run(typed: &ReportArgs) -> Result<Ending, Failure> {
    let experiment = folder::read(&typed.dir).map_err(Failure::wrong)?;
    let (page, table, json) = (
        typed.html.as_deref(),
        typed.csv.as_deref(),
        typed.json.as_deref(),
    );
    check_distinct(&[("--html", page), ("--csv", table), ("--json", json)])?;
    let page = Output::open_file("--html", page)?;
    let table = Output::open("--csv", table)?;
    let json = Output::open("--json", json)?;
    if page.is_none() && table.is_none() && json.is_none() {
        terminal::print(&text::verdict(
            &experiment.verdict,
            None,
            terminal::colours(),
        ));
        return Ok(Ending::Done);
    }
    if let Some(page) = page {
        page.write(&html::report(&experiment))?;
    }
    if let Some(table) = table {
        table.write(&csv::verdict(&experiment.verdict))?;
    }
    if let Some(json) = json {
        let text = serde_json::to_string_pretty(&experiment.verdict).map_err(Failure::refused)?;
        json.write(&format!("{text}\n"))?;
    }
    Ok(Ending::Done)
}
