//! `prony report`: an experiment rendered again from what it stored.

use std::fs;
use std::path::Path;

use prony_report::svg::SvgFile;
use prony_report::{csv, folder, html, pdf, svg, text};

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
    let paper = typed.pdf.as_deref();
    check_distinct(&[
        ("--html", page),
        ("--pdf", paper),
        ("--csv", table),
        ("--json", json),
    ])?;
    let page = Output::open_file("--html", page)?;
    let paper = Output::open_file("--pdf", paper)?;
    let table = Output::open("--csv", table)?;
    let json = Output::open("--json", json)?;
    let nothing = [&page, &paper, &table, &json].iter().all(|o| o.is_none());
    if nothing && typed.svg.is_none() {
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
    if let Some(paper) = paper {
        paper.write_bytes(&pdf::report(&experiment))?;
    }
    if let Some(dir) = &typed.svg {
        write_charts(dir, &svg::report(&experiment))?;
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

/// Writes charts into a folder, which is made if it isn't there.
fn write_charts(dir: &Path, charts: &[SvgFile]) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::file(format!("--svg {}", path.display()), &error);
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for chart in charts {
        let path = dir.join(&chart.name);
        fs::write(&path, &chart.svg).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
