//! Where a report goes.

use std::fs;
use std::path::{Path, PathBuf};

use prony_report::data::DataTable;
use prony_report::svg::SvgFile;

use crate::arguments::ReportArgs;
use crate::ending::Failure;
use crate::output::{Output, check_distinct};
use crate::replaced_file::replace;

/// What was asked for, open.
pub(super) struct Outputs {
    pub(super) html: Option<Output>,
    pub(super) pdf: Option<Output>,
    pub(super) csv: Option<Output>,
    pub(super) json: Option<Output>,
    pub(super) markdown: Option<Output>,
    pub(super) openmetrics: Option<Output>,
    pub(super) svg: Option<PathBuf>,
    pub(super) tables: Option<PathBuf>,
}

impl Outputs {
    pub(super) fn open(typed: &ReportArgs) -> Result<Outputs, Failure> {
        let all: [(&str, Option<&Path>); 7] = [
            ("--html", typed.html.as_deref()),
            ("--pdf", typed.pdf.as_deref()),
            ("--csv", typed.csv.as_deref()),
            ("--json", typed.json.as_deref()),
            ("--markdown", typed.markdown.as_deref()),
            ("--openmetrics", typed.openmetrics.as_deref()),
            ("--junit", typed.gates.junit.as_deref()),
        ];
        check_distinct(&all)?;
        let [html, pdf, csv, json, markdown, openmetrics, _] = all;
        Ok(Outputs {
            html: Output::open_file(html.0, html.1)?,
            pdf: Output::open_file(pdf.0, pdf.1)?,
            csv: Output::open(csv.0, csv.1)?,
            json: Output::open(json.0, json.1)?,
            markdown: Output::open(markdown.0, markdown.1)?,
            openmetrics: Output::open(openmetrics.0, openmetrics.1)?,
            svg: typed.svg.clone(),
            tables: typed.tables.clone(),
        })
    }

    /// Whether no file was asked for at all, so that the report is printed.
    pub(super) fn is_none(&self) -> bool {
        let pages = [&self.html, &self.pdf, &self.markdown];
        let data = [&self.csv, &self.json, &self.openmetrics];
        pages.into_iter().chain(data).all(Option::is_none)
            && self.svg.is_none()
            && self.tables.is_none()
    }

    /// Whether standard output carries data.
    pub(super) fn takes_standard_output(&self) -> bool {
        let files = [&self.csv, &self.json, &self.markdown, &self.openmetrics];
        files.into_iter().flatten().any(Output::is_standard)
    }
}

/// Writes a text, if that was asked for.
pub(super) fn put(output: Option<Output>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    output.map_or(Ok(()), |output| output.write(&text()))
}

/// Writes bytes, if that was asked for.
pub(super) fn put_bytes(
    output: Option<Output>,
    bytes: impl FnOnce() -> Vec<u8>,
) -> Result<(), Failure> {
    output.map_or(Ok(()), |output| output.write_bytes(&bytes()))
}

/// Writes charts into a folder, which is made if it isn't there.
pub(super) fn put_charts(
    dir: Option<&Path>,
    charts: impl FnOnce() -> Vec<SvgFile>,
) -> Result<(), Failure> {
    let files = dir.map(|dir| (dir, charts()));
    let Some((dir, charts)) = files else {
        return Ok(());
    };
    let files = charts
        .into_iter()
        .map(|chart| (chart.name.to_string(), chart.svg));
    write_all("--svg", dir, files)
}

/// Writes each table as CSV and as JSON.
pub(super) fn put_tables(
    dir: Option<&Path>,
    tables: impl FnOnce() -> Vec<DataTable>,
) -> Result<(), Failure> {
    let Some(dir) = dir else {
        return Ok(());
    };
    let files = tables().into_iter().flat_map(|table| {
        [
            (format!("{}.csv", table.name), table.to_csv()),
            (format!("{}.json", table.name), table.to_json()),
        ]
    });
    write_all("--tables", dir, files)
}

fn write_all(
    option: &str,
    dir: &Path,
    files: impl Iterator<Item = (String, String)>,
) -> Result<(), Failure> {
    let failed = |path: &Path, error| Failure::file(format!("{option} {}", path.display()), &error);
    fs::create_dir_all(dir).map_err(|error| failed(dir, error))?;
    for (name, text) in files {
        let path = dir.join(name);
        replace(&path, text.as_bytes()).map_err(|error| failed(&path, error))?;
    }
    Ok(())
}
