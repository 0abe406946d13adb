//! Output files of `prony report`.

use std::fs;
use std::path::{Path, PathBuf};

use prony_report::data::DataTable;
use prony_report::{Document, html, markdown, svg};

use super::browser::Browsers;
use crate::arguments::ReportArgs;
use crate::ending::Failure;
use crate::output::load_results::HdrFormat;
use crate::output::replaced_file::replace;
use crate::output::{Output, check_distinct, report_lost, write_output};

/// The requested output files, open for writing.
pub(super) struct ReportOutputs {
    html: Option<Output>,
    pdf: Option<(Browsers, Output)>,
    markdown: Option<Output>,
    svg: Option<PathBuf>,
    data: DataOutputs,
}

/// The requested files in machine-readable formats.
pub(super) struct DataOutputs {
    pub(super) csv: Option<Output>,
    pub(super) json: Option<Output>,
    pub(super) openmetrics: Option<Output>,
    pub(super) hdr: Option<(Output, HdrFormat)>,
    pub(super) tables: Option<PathBuf>,
}

impl ReportOutputs {
    pub(super) fn open(arguments: &ReportArgs) -> Result<ReportOutputs, Failure> {
        let all: [(&str, Option<&Path>); 8] = [
            ("--html", arguments.html.as_deref()),
            ("--pdf", arguments.pdf.as_deref()),
            ("--csv", arguments.csv.as_deref()),
            ("--json", arguments.json.as_deref()),
            ("--markdown", arguments.markdown.as_deref()),
            ("--openmetrics", arguments.openmetrics.as_deref()),
            ("--hdr", arguments.hdr.as_deref()),
            ("--junit", arguments.gates.junit.as_deref()),
        ];
        check_distinct(&all)?;
        let [html, pdf, csv, json, markdown, openmetrics, hdr, _] = all;
        let pdf = match Output::open_file(pdf.0, pdf.1)? {
            Some(output) => Some((Browsers::find()?, output)),
            None => None,
        };
        Ok(ReportOutputs {
            html: Output::open_file(html.0, html.1)?,
            pdf,
            markdown: Output::open(markdown.0, markdown.1)?,
            svg: arguments.svg.clone(),
            data: DataOutputs {
                csv: Output::open(csv.0, csv.1)?,
                json: Output::open(json.0, json.1)?,
                openmetrics: Output::open(openmetrics.0, openmetrics.1)?,
                hdr: HdrFormat::open(hdr.0, hdr.1)?,
                tables: arguments.tables.clone(),
            },
        })
    }

    /// Returns true if no output file was requested. The report is then printed.
    pub(super) fn is_none(&self) -> bool {
        let pages = [&self.html, &self.markdown];
        let data = [&self.data.csv, &self.data.json, &self.data.openmetrics];
        pages.into_iter().chain(data).all(Option::is_none)
            && self.pdf.is_none()
            && self.svg.is_none()
            && self.data.hdr.is_none()
            && self.data.tables.is_none()
    }

    /// Returns true if data is written to standard output.
    pub(super) fn takes_standard_output(&self) -> bool {
        let data = &self.data;
        let files = [&data.csv, &data.json, &self.markdown, &data.openmetrics];
        let hdr = data.hdr.iter().map(|(output, _)| output);
        files
            .into_iter()
            .flatten()
            .chain(hdr)
            .any(Output::is_standard)
    }

    /// Writes the human-readable files. Returns the machine-readable files, which are not written
    /// yet.
    pub(super) fn write_document(self, report: &Document) -> Result<DataOutputs, Failure> {
        write_output(self.html, || html::render(report))?;
        if let Some((browsers, output)) = self.pdf {
            match browsers.print(&html::render(report)) {
                Ok(pdf) => output.write_bytes(&pdf)?,
                Err(error) => report_lost(format!("--pdf: {error}")),
            }
        }
        write_output(self.markdown, || markdown::render(report))?;
        if let Some(dir) = &self.svg {
            let charts = svg::render(report).into_iter();
            write_all("--svg", dir, charts.map(|chart| (chart.name, chart.svg)))?;
        }
        Ok(self.data)
    }
}

/// Writes each table as CSV and as JSON if that was requested.
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
