//! The charts of a report as SVG files, for articles and slides.

use crate::document::{Document, Figure};
use crate::figures::file_name;

/// A chart as a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SvgFile {
    /// The file's name, such as `response-times.svg`. The name consists of lowercase letters,
    /// digits and hyphens, and is unique within a report.
    pub name: String,
    /// The file's content.
    pub svg: String,
}

/// Renders the charts of a report, in the report's order.
pub fn render(document: &Document) -> Vec<SvgFile> {
    let mut files: Vec<SvgFile> = Vec::new();
    for figure in document.figures() {
        files.push(SvgFile {
            name: unused_name(&files, figure),
            svg: figure
                .chart
                .file(&format!("{}: {}", document.subject, figure.title)),
        });
    }
    files
}

/// Returns a file name that none of `files` has.
fn unused_name(files: &[SvgFile], figure: &Figure) -> String {
    let plain = file_name(&figure.name);
    let mut name = format!("{plain}.svg");
    let mut number = 1;
    while files.iter().any(|file| file.name == name) {
        number += 1;
        name = format!("{plain}-{number}.svg");
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_files_have_one_name() {
        let figure = Figure {
            name: "A b".to_owned(),
            title: String::new(),
            caption: None,
            chart: crate::chart::over_time(String::new(), &[]),
        };
        let mut files = Vec::new();
        for expected in ["a-b.svg", "a-b-2.svg", "a-b-3.svg"] {
            let name = unused_name(&files, &figure);
            assert_eq!(name, expected);
            files.push(SvgFile {
                name,
                svg: String::new(),
            });
        }
    }
}
